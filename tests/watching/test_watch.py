"""`informer watch` on series with and without a break, and the seasonal naive computed by hand."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, call, done, refusal

from informer.service.watch import Findings, Verdict

SPLIT = [
    f"dataset.split.{name}={rows}" for name, rows in (("kind", "rows"), ("train", 500), ("val", 200), ("test", 100))
]
RUN = [
    "dataset=csv",
    "dataset.path=all.csv",
    "model=linear",
    *SMALL[1:4],
    *SPLIT,
    "target=y",
    "features=S",
    "run_dir=run",
    "trainer.refit=true",
]
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
    assert findings(inside=0.6, alarm=30).decide() == (Verdict.update, moved)
    assert findings(own=1.5, alarm=30, inside=0.6).decide()[0] is Verdict.retrain
    assert findings(own=1.5).skill == pytest.approx(-0.5, abs=0.1)


def test_intervals_of_few_horizons_decide_little() -> None:
    """Red if the standard deviation of a few similar horizons is used without a minimum."""
    for inside, verdict in ((np.full(8, 0.9), Verdict.ok), (np.full(100, 0.9), Verdict.recalibrate)):
        assert replace(findings(), coverage=inside).decide()[0] is verdict


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
