"""The drift test, the stability index, and what is decided, against definitions written as loops."""

from dataclasses import replace
from itertools import pairwise
from math import log
from statistics import NormalDist

import numpy as np
import pytest

from informer.service.drift import (
    ALPHA,
    BURN_IN,
    LAG,
    WINDOWS,
    Alarm,
    Findings,
    Moved,
    Verdict,
    conformal_ranks,
    find_drift,
    log_p_of_windows,
    simple_jumper,
    stability_index,
    whitened,
)

ROWS, BREAK = 400, 250


def noise(seed: int, phi: float = 0.0, n: int = ROWS) -> np.ndarray:
    """An autoregressive process of order one with deviation one."""
    steps, errors = np.random.default_rng(seed).normal(size=n) * (1 - phi**2) ** 0.5, np.zeros(n)
    for t in range(n):
        errors[t] = steps[t] + (phi * errors[t - 1] if t else 0.0)
    return errors


def test_fewer_than_five_percent_false_alarms() -> None:
    """Red if the bet raises alarms on stationary errors, with autocorrelation or without."""
    alarms = [find_drift(noise(seed, phi=0.4 * (seed % 2))).alarm for seed in range(200)]
    assert sum(alarm is not None for alarm in alarms) < 10


def test_a_shift_is_found_in_autocorrelated_errors() -> None:
    """Red if errors at the new level count towards the mean and autocorrelation that are taken out of them."""
    n_alarms = 0
    for seed in range(40):
        errors = noise(seed, phi=0.7)
        errors[BREAK:] += 2
        alarm = find_drift(errors, seed=seed).alarm
        n_alarms += alarm is not None and BREAK <= alarm < BREAK + 100
    assert n_alarms >= 36


@pytest.mark.parametrize("change", ["up", "down", "wider"])
def test_a_break_is_found_within_a_hundred_rows(change: str) -> None:
    """Red if a shift of two standard deviations, or errors three times as large, are found late or not."""
    for seed in range(20):
        errors = noise(seed)
        errors[BREAK:] = {"up": errors[BREAK:] + 2, "down": errors[BREAK:] - 2, "wider": 3 * errors[BREAK:]}[change]
        alarm = find_drift(errors, seed=seed).alarm
        assert alarm is not None
        assert BREAK <= alarm < BREAK + 100


def test_errors_of_overlapping_horizons_are_taken_apart() -> None:
    """Red if autocorrelation stays in the errors, or the estimate reads later ones."""
    errors = noise(3, phi=0.8, n=3000)
    plain = whitened(errors)
    assert abs(np.corrcoef(plain[:-1], plain[1:])[0, 1]) < 0.1
    changed = errors.copy()
    changed[2000:] += 5
    np.testing.assert_array_equal(whitened(changed)[:2000], plain[:2000])
    for t in (500, 2999):
        x, y = errors[: t - 1 - LAG], errors[1 : t - LAG]
        phi = ((x * y).mean() - x.mean() * y.mean()) / x.var()
        assert plain[t] == pytest.approx(errors[t] - y.mean() - phi * (errors[t - 1] - x.mean()))


def test_ranks_and_capital_are_those_of_the_definition() -> None:
    values = np.round(np.random.default_rng(0).normal(size=60), 1)  # with ties
    ranks = conformal_ranks(values, np.random.default_rng(5))
    shares = np.random.default_rng(5).random(60)
    for t, value in enumerate(values):
        smaller = sum(other < value for other in values[: t + 1])
        equal = sum(other == value for other in values[: t + 1])
        assert ranks[t] == pytest.approx((smaller + shares[t] * equal) / (t + 1))
    bets = {
        "small": lambda rank: 1.5 - rank, "none": lambda rank: 1.0, "large": lambda rank: 0.5 + rank,
        "largest": lambda rank: 1 / (2 * (1 - rank) ** 0.5),
    }  # fmt: skip
    capital, evidence = dict.fromkeys(bets, 1 / 4), simple_jumper(ranks)
    for t, rank in enumerate(ranks):
        total = sum(capital.values())
        capital = {one: (0.99 * own + 0.01 * total / 4) * bets[one](rank) for one, own in capital.items()}
        assert evidence[t] == pytest.approx(log(sum(capital.values())))


def test_the_least_likely_window_is_that_of_a_loop() -> None:
    """Red if a window reads later ranks, or the number of windows is not counted."""
    ranks = np.random.default_rng(2).random(150)
    ranks[120:] = 0.5 + ranks[120:] / 2
    normal, log_p = NormalDist(), log_p_of_windows(ranks)
    scores = [normal.inv_cdf(rank) for rank in ranks]
    for end in (4, 60, 129, 149):
        likely = 0.0
        for rows in (rows for rows in WINDOWS if rows <= end + 1):
            known = max(end + 1 - LAG, BURN_IN)
            mean = abs(sum(scores[end + 1 - rows : end + 1])) / (rows * (1 + rows / known)) ** 0.5
            likely = min(likely, log(2 * normal.cdf(-mean) * len(WINDOWS) * len(ranks)))
        assert log_p[end] == pytest.approx(likely)


def test_intervals_of_few_horizons_decide_little() -> None:
    """Red if the standard deviation of a few similar horizons is used without a minimum."""
    for inside, verdict in ((np.full(8, 0.9), Verdict.ok), (np.full(100, 0.9), Verdict.recalibrate)):
        assert replace(findings(), coverage=inside).decide()[0] is verdict


def test_several_tests_share_the_false_alarms() -> None:
    assert find_drift(noise(0), n_tests=7).bound == pytest.approx(log(2 * 7 / ALPHA)), (
        "half of it for the bet, half for windows"
    )
    assert find_drift(np.zeros(1)).alarm is None
    assert find_drift(np.zeros(300)).alarm is None


def test_the_stability_index_is_its_definition() -> None:
    rng = np.random.default_rng(0)
    before, now = rng.normal(size=1000), rng.normal(1, 1, size=500)
    edges = [-np.inf, *np.quantile(before, np.arange(1, 10) / 10), np.inf]
    index = 0.0
    for low, high in pairwise(edges):
        p, q = (max(((part >= low) & (part < high)).mean(), 1e-4) for part in (before, now))
        index += (q - p) * np.log(q / p)
    assert stability_index(before, now) == pytest.approx(index)
    assert stability_index(np.ones(100), np.ones(100)) == 0


def findings(own: float = 0.5, *, alarm: int = 0, inside: float = 0.8) -> Findings:
    rng = np.random.default_rng(0)
    errors = {name: size * rng.chisquare(10, 600) / 10 for name, size in (("linear", own), ("naive", 1.0))}
    alarms = [Alarm(series="", column="y", at="now" if alarm else "", after=alarm, evidence=0.0, bound=5.0)]
    coverage = np.clip(inside + 0.1 * rng.normal(size=100), 0, 1)
    inputs = [Moved(column="x", stability_index=0.3)]
    return Findings(
        model="linear", errors=errors, coverage=coverage, level=80, horizon=6, alarms=alarms, inputs=inputs
    )  # fmt: skip


def test_the_verdict_is_the_gravest() -> None:
    """Red if a better baseline is not noticed, or intervals are blamed where the errors changed."""
    assert findings().decide() == (Verdict.ok, "errors and coverage are as expected; inputs moved: x")
    assert findings(inside=0.6).decide()[0] is Verdict.recalibrate
    assert findings(inside=0.77).decide()[0] is Verdict.ok
    assert findings(inside=0.6, alarm=30).decide()[0] is Verdict.update
    assert "after 30 forecasts" in findings(alarm=30).decide()[1]
    assert findings(own=1.5, alarm=30, inside=0.6).decide()[0] is Verdict.retrain
    assert findings(own=1.5).skill == pytest.approx(-0.5, abs=0.1)
