"""The test of a level, against definitions written as loops, and its alarms on series with and without a shift."""

from itertools import pairwise
from math import erfc, log
from statistics import fmean, pvariance, variance

import numpy as np
import pytest

from informer.service.drift import Drift, find_drift, long_run_variance

BEFORE, AFTER, BREAK = 1000, 300, 100
NOTHING = Drift(None, 0.0, log(1 / 0.01), 0.0)


def noise(seed: int, phi: float = 0.0, n: int = 400) -> np.ndarray:
    """An autoregressive process of order one with deviation one."""
    steps, errors = np.random.default_rng(seed).normal(size=n) * (1 - phi**2) ** 0.5, np.zeros(n)
    for t in range(n):
        errors[t] = steps[t] + (phi * errors[t - 1] if t else 0.0)
    return errors


def parts(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return values[:BEFORE], values[BEFORE:]


def bartlett(values: list[float]) -> float:
    """The variance written as sums over single rows."""
    mean = fmean(values)
    x = [one - mean for one in values]
    phi = sum(a * b for a, b in pairwise(x)) / sum(a * a for a in x[:-1])
    phi = min(max(phi, -0.97), 0.97)
    e = [x[i] - phi * x[i - 1] for i in range(1, len(x))]
    lags, total = int(4 * (len(e) / 100) ** (2 / 9)), 0.0
    for i in range(len(e)):
        for j in range(max(0, i - lags), min(len(e), i + lags + 1)):
            total += (1 - abs(i - j) / (lags + 1)) * e[i] * e[j]
    return total / len(e) / (1 - phi) ** 2


@pytest.mark.parametrize("phi", [0.0, 0.7, 1.0])
def test_the_long_run_variance_is_a_weighted_sum_of_products(phi: float) -> None:
    """Red if a lag, a weight or the factor of the prewhitening is missing; at 1 if its autocorrelation has no limit."""
    values = np.cumsum(noise(4)) if phi == 1 else noise(4, phi)
    assert long_run_variance(values) == pytest.approx(bartlett(values.tolist()))


def test_the_long_run_variance_is_that_of_an_autoregression() -> None:
    """Red if the variance is that of independent rows: (1 + phi) / (1 - phi) for an AR(1) with variance 1."""
    estimates = [long_run_variance(noise(seed, phi=0.7, n=4000)) for seed in range(20)]
    assert np.mean(estimates) == pytest.approx(1.7 / 0.3, rel=0.1)


def test_the_evidence_is_that_of_a_loop() -> None:
    """Red if a window is not whole seasons, its profile is of another phase, or windows are not counted."""
    season, rng = 5, np.random.default_rng(1)
    values = noise(1, phi=0.5, n=BEFORE + 120) + 3 * rng.normal(size=season)[np.arange(BEFORE + 120) % season]
    values[BEFORE + 60 :] += 2
    before, after = parts(values)
    profile = [fmean(before[phase::season]) for phase in range(season)]
    rest = [value - profile[i % season] for i, value in enumerate(values.tolist())]
    spread = pvariance(rest[:BEFORE]) ** 0.5
    old, new = (
        [min(max(one, -3 * spread), 3 * spread) for one in part] for part in (rest[:BEFORE], rest[BEFORE:])
    )  # fmt: skip
    most, first, own = 0.0, [], bartlett(old)
    windows = [25, 50]  # 24 and 48 rounded up; 16 windows of 100 rows do not fit into the rows before
    for end in range(24, len(new)):
        here, change = -np.inf, 0.0
        for rows in (rows for rows in windows if rows <= end + 1):
            blocks = [fmean(old[i : i + rows]) for i in range(0, BEFORE, rows)]
            noise_of_mean = max(own, rows * variance(blocks)) * (1 / rows + 1 / BEFORE)
            moved = fmean(new[end + 1 - rows : end + 1]) - fmean(old)
            p = erfc(abs(moved) / (2 * noise_of_mean) ** 0.5)
            if -log(p * len(windows) * len(new)) > here:
                here, change = -log(p * len(windows) * len(new)), moved / spread
        most = max(most, here)
        first = first or ([end, change] if here > log(3 / 0.01) else [])
    shift = find_drift(before, after, season=season, n_tests=3)
    assert shift.alarm == first[0]
    assert shift.change == pytest.approx(first[1])
    assert shift.evidence == pytest.approx(most)
    assert shift.bound == pytest.approx(log(3 / 0.01))


@pytest.mark.parametrize("kind", ["noise", "autoregression", "season", "heavy tails", "walk", "trend"])
def test_few_false_alarms(kind: str) -> None:
    """Red if rows count as independent, a season as a change, or an outlier, a walk or a trend as a new level."""
    alarms, n = 0, BEFORE + AFTER
    for seed in range(100):
        values = {
            "noise": noise(seed, n=n),
            "autoregression": noise(seed, phi=0.7, n=n),
            "season": noise(seed, phi=0.4, n=n) + 5 * np.sin(2 * np.pi * np.arange(n) / 24),
            "heavy tails": np.random.default_rng(seed).standard_t(2, size=n),
            "walk": np.cumsum(noise(seed, n=n)),
            "trend": noise(seed, n=n) + 5 * np.arange(n) / BEFORE,
        }[kind]
        alarms += find_drift(*parts(values), season=24).alarm is not None
    assert alarms <= 2


@pytest.mark.parametrize(("phi", "shift"), [(0.0, 2), (0.4, -2), (0.7, 2), (0.7, -2)])
def test_a_shift_is_found_within_a_hundred_rows(phi: float, shift: float) -> None:
    """Red if windows are too short for autocorrelated rows, or only a rise is found."""
    alarms = []
    for seed in range(40):
        values = noise(seed, phi, n=BEFORE + AFTER)
        values[BEFORE + BREAK :] += shift
        level = find_drift(*parts(values), season=24)
        if level.alarm is not None and BREAK <= level.alarm < BREAK + 100:
            assert level.change * shift > 0
            alarms.append(level.alarm)
    assert len(alarms) >= 38


def test_what_cannot_be_tested_raises_no_alarm() -> None:
    """Red if a short series is compared by few blocks, or a constant with noise of zero."""
    values = noise(0)
    assert find_drift(values[:383], 10 + values[:17]) == NOTHING
    assert find_drift(values[:383], 10 + values) == NOTHING
    assert find_drift(np.full(500, 0.1), np.full(100, 5.0)) == NOTHING
    assert find_drift(values, values[:0]) == NOTHING
