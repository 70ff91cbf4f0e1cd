"""`informer watch` on series with and without a break; its test of a level against definitions written as loops."""

import json
from dataclasses import replace
from itertools import pairwise
from math import erfc, log
from pathlib import Path
from statistics import fmean, pvariance, variance

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, call, done, refusal

from informer.service.drift import Drift, find_drift, long_run_variance
from informer.service.watch import Findings, Verdict

SPLIT = [
    f"dataset.split.{name}={rows}" for name, rows in (("kind", "rows"), ("train", 500), ("val", 200), ("test", 100))
]
RUN = [
    "dataset=csv", "dataset.path=all.csv", "model=linear", *SMALL[1:4], *SPLIT, "target=y", "features=S", "run_dir=run",
    "trainer.refit=true",
]  # fmt: skip
OLD, BREAK, ALL = 800, 950, 1070


def series(shift: float) -> pd.DataFrame:
    """A daily season and noise of deviation one; from BREAK on higher by `shift`."""
    hours, rng = np.arange(ALL), np.random.default_rng(1)
    values = 3 * np.sin(2 * np.pi * hours / 24) + rng.normal(size=ALL) + shift * (hours >= BREAK)
    return pd.DataFrame({"date": pd.date_range("2024-01-01", periods=ALL, freq="h"), "y": values.round(6)})


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, Verdict.ok), (2 * 2.35, Verdict.update)])
def test_a_level_shift_is_found_and_nothing_else(folder: Path, shift: float, verdict: Verdict) -> None:
    """Red if a shift of two standard deviations of the series is found later than 100 rows after it, or at none."""
    table = series(shift)
    table.head(OLD).to_csv("all.csv", index=False)
    done("train", *RUN)
    table.iloc[OLD:].to_csv("new.csv", index=False)
    outcome = call("watch", "checkpoint=run", "input=new.csv", checked=True)
    assert outcome.status == verdict.value, outcome.out + outcome.err
    assert outcome.out.startswith(verdict.name)
    report = json.loads(Path("run/watch/watch.json").read_text())
    assert report["verdict"] == verdict.name
    alarms = [one["at"] for one in report["drift"] if one["at"]]
    if shift:
        assert BREAK <= table.index[table["date"] == pd.Timestamp(alarms[0])][0] < BREAK + 100
    else:
        assert alarms == []
    assert "In service" in Path("run/watch/watch.html").read_text()
    # every origin after the rows of all parts, against the season before
    values, starts = table["y"].to_numpy() / table["y"].head(500).std(ddof=0), range(OLD, ALL - 6 + 1)
    steps = np.stack([values[start : start + 6] - values[start - 24 : start - 18] for start in starts])
    assert report["mse"]["seasonal naive"] == pytest.approx((steps**2).mean(), rel=1e-4)
    assert report["origins"] == len(starts)


def test_a_level_that_the_model_reads_is_found(folder: Path) -> None:
    """Red if only errors are tested, or the level is compared from another row than the first after training."""
    rng, values = np.random.default_rng(1), np.zeros(ALL)
    for t in range(1, ALL):
        values[t] = 0.7 * values[t - 1] + 0.51**0.5 * rng.normal()
    table = series(0.0).assign(y=(values + 2 * (np.arange(ALL) >= BREAK)).round(6))
    table.head(OLD).to_csv("all.csv", index=False)
    done("train", *RUN)
    table.iloc[OLD:].to_csv("new.csv", index=False)
    outcome = call("watch", "checkpoint=run", "input=new.csv")
    assert outcome.status == Verdict.update.value, outcome.out + outcome.err
    assert outcome.out.startswith("update: level moved: y by +")
    report = json.loads(Path("run/watch/watch.json").read_text())
    level = report["drift"][0]
    place = table.index[table["date"] == pd.Timestamp(level["at"])][0]
    assert BREAK <= place < BREAK + 100
    assert level["after"] == place - OLD + 1
    assert "Level of the targets" in Path("run/watch/watch.html").read_text()


def test_too_few_rows_are_refused_in_one_line(folder: Path) -> None:
    table = series(0.0)
    table.head(OLD).to_csv("all.csv", index=False)
    done("train", *RUN)
    table.iloc[OLD : OLD + 3].to_csv("new.csv", index=False)
    assert "expected at least pred_len=6 rows after" in refusal("watch", "checkpoint=run", "input=new.csv")


def test_series_that_end_at_different_times_are_aligned_by_time(folder: Path) -> None:
    """Red if origins are matched from the ends of the series: the last period would contain errors of the shorter."""
    table, end = series(0.0), OLD + 150
    parts = {"a": table, "b": table.assign(y=5 * table["y"][::-1].to_numpy()).iloc[:end]}
    pd.concat([part.head(OLD).assign(id=name) for name, part in parts.items()]).to_csv("all.csv", index=False)
    done("train", *RUN, "dataset.series_col=id", "scaler.per_series=true")
    pd.concat([part.iloc[OLD:].assign(id=name) for name, part in parts.items()]).to_csv("new.csv", index=False)
    assert call("watch", "checkpoint=run", "input=new.csv").status in (0, 10, 11, 12)
    last = json.loads(Path("run/watch/watch.json").read_text())["periods"][-1]
    times = table["date"].astype(str)
    starts = [times[times == last[end]].index[0] for end in ("first", "last")]
    assert starts[0] >= end
    values = table["y"].to_numpy() / table["y"].head(500).std(ddof=0)
    steps = np.stack([values[i : i + 6] - values[i - 24 : i - 18] for i in range(starts[0], starts[1] + 1)])
    assert last["mse"]["seasonal naive"] == pytest.approx((steps**2).mean(), rel=1e-4)


@pytest.mark.parametrize("where", ["train", "watch"])
def test_missing_values_are_refused_in_one_line(folder: Path, where: str) -> None:
    """Red if they end in an error about a forecast, or about the run's own rows."""
    table = series(0.0)
    table.head(OLD).to_csv("all.csv", index=False)
    table.iloc[OLD:].to_csv("new.csv", index=False)
    mask = ["dataset.fill=mask"]
    done("train", *RUN, *(mask if where == "train" else []))
    line = refusal("watch", "checkpoint=run", "input=new.csv", *(mask if where == "watch" else []))
    assert line.startswith("error: dataset.fill=mask: watch does not support missing values")


def test_a_gap_after_training_names_what_closes_it(folder: Path) -> None:
    """Red if the advice has no effect: rows between two files cannot be filled, those within one can."""
    table = series(0.0)
    table.head(OLD).to_csv("all.csv", index=False)
    done("train", *RUN)
    table.iloc[OLD + 3 :].to_csv("new.csv", index=False)
    line = refusal("watch", "checkpoint=run", "input=new.csv", "dataset.fill=linear")
    last = table["date"][OLD - 1]
    assert f"give a file that begins at {last} or earlier, with dataset.fill=" in line
    pd.concat([table.iloc[OLD - 1 : OLD], table.iloc[OLD + 3 :]]).to_csv("new.csv", index=False)
    assert call("watch", "checkpoint=run", "input=new.csv", "dataset.fill=linear").status == Verdict.ok.value
    report = json.loads(Path("run/watch/watch.json").read_text())
    assert report["origins"] == ALL - OLD - 6 + 1


def findings(own: float = 0.5, *, alarm: int = 0, inside: float = 0.8) -> Findings:
    rng = np.random.default_rng(0)
    errors = {name: size * rng.chisquare(10, 600) / 10 for name, size in (("linear", own), ("naive", 1.0))}
    coverage = np.clip(inside + 0.1 * rng.normal(size=100), 0, 1)
    at = "now" if alarm else ""
    test = {"series": "", "column": "y", "at": at, "after": alarm, "evidence": 0.0, "bound": 5.0, "change": -1.96}
    origins = pd.DataFrame(errors | {"inside": np.nan})
    return Findings(model="linear", origins=origins, coverage=coverage, level=80, horizon=6, drift=pd.DataFrame([test]))


def test_the_verdict_is_the_gravest() -> None:
    """Red if a better baseline is not noticed, or intervals are blamed where the level moved."""
    assert findings().decide() == (Verdict.ok, "errors, coverage and level are as expected")
    assert findings(inside=0.6).decide()[0] is Verdict.recalibrate
    assert findings(inside=0.77).decide()[0] is Verdict.ok
    moved = "level moved: y by -2.0 standard deviations, seen at now (1 of 1 tests)"
    assert findings(inside=0.6, alarm=1).decide() == (Verdict.update, moved)
    assert findings(own=1.5, alarm=30, inside=0.6).decide()[0] is Verdict.retrain
    assert findings(own=1.5).skill == pytest.approx(-0.5, abs=0.1)


def test_intervals_of_few_horizons_decide_little() -> None:
    """Red if the standard deviation of a few similar horizons is used without a minimum, or seven horizons decide."""
    for n, share, verdict in ((7, 0.3, "ok"), (8, 0.3, "recalibrate"), (8, 0.9, "ok"), (100, 0.9, "recalibrate")):
        assert replace(findings(), coverage=np.full(n, share)).decide()[0].name == verdict
    assert replace(findings(inside=0.6), level=None).decide()[0] is Verdict.ok


def test_rows_of_training_are_read_again_or_named(folder: Path) -> None:
    """Red if the level is compared with the rows of the file only although those of training are there, or a file
    without history before it passes where they are not."""
    table = series(0.0)
    table.head(OLD).to_csv("all.csv", index=False)
    done("train", *RUN)
    table.iloc[OLD:].to_csv("new.csv", index=False)
    table.iloc[OLD - 100 :].to_csv("longer.csv", index=False)
    evidence = []
    for words in (["input=new.csv"], ["input=longer.csv"], ["input=longer.csv", "history=moved.csv"]):
        outcome = call("watch", "checkpoint=run", *words)
        assert outcome.status == Verdict.ok.value, outcome.err
        evidence.append(json.loads(Path("run/watch/watch.json").read_text())["drift"][0]["evidence"])
        if "history=moved.csv" not in words and Path("all.csv").exists() and "input=longer.csv" in words:
            Path("all.csv").rename("moved.csv")
    assert evidence == [evidence[0]] * 3
    assert evidence[0] != 0
    outcome = call("watch", "checkpoint=run", "input=longer.csv", checked=True)
    assert outcome.status == Verdict.ok.value
    assert "set history=FILE" in " ".join((outcome.out + outcome.err).split())
    assert "set history=FILE" in refusal("watch", "checkpoint=run", "input=new.csv")


BEFORE, AFTER, CHANGE = 1000, 300, 100
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
        values[BEFORE + CHANGE :] += shift
        level = find_drift(*parts(values), season=24)
        if level.alarm is not None and CHANGE <= level.alarm < CHANGE + 100:
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
