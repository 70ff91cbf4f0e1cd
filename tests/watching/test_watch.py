"""`informer watch`: scores of the forecasts since training, and what the exit status says of them."""

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
    "dataset=csv", "dataset.path=all.csv", "model=linear", *SMALL[1:4], *SPLIT, "target=y", "features=S", "run_dir=run",
    "trainer.refit=true",
]  # fmt: skip
OLD, ALL = 800, 1070


def series() -> pd.DataFrame:
    """A daily season and noise of deviation one."""
    hours, rng = np.arange(ALL), np.random.default_rng(1)
    values = 3 * np.sin(2 * np.pi * hours / 24) + rng.normal(size=ALL)
    return pd.DataFrame({"date": pd.date_range("2024-01-01", periods=ALL, freq="h"), "y": values.round(6)})


def test_a_series_without_a_break_is_ok(folder: Path) -> None:
    """Red if an origin is missing or the errors are not those after training."""
    table = series()
    table.head(OLD).to_csv("all.csv", index=False)
    done("train", *RUN)
    table.iloc[OLD:].to_csv("new.csv", index=False)
    outcome = call("watch", "checkpoint=run", "input=new.csv", checked=True)
    assert outcome.status == Verdict.ok.value, outcome.out + outcome.err
    assert outcome.out.startswith("ok")
    report = json.loads(Path("run/watch/watch.json").read_text())
    assert report["verdict"] == "ok"
    # every origin after the rows of all parts, against the season before
    values, starts = table["y"].to_numpy() / table["y"].head(500).std(ddof=0), range(OLD, ALL - 6 + 1)
    steps = np.stack([values[start : start + 6] - values[start - 24 : start - 18] for start in starts])
    assert report["mse"]["seasonal naive"] == pytest.approx((steps**2).mean(), rel=1e-4)
    assert report["origins"] == len(starts)


def test_too_few_rows_are_refused_in_one_line(folder: Path) -> None:
    table = series()
    table.head(OLD).to_csv("all.csv", index=False)
    done("train", *RUN)
    table.iloc[OLD : OLD + 3].to_csv("new.csv", index=False)
    assert "expected at least pred_len=6 rows after" in refusal("watch", "checkpoint=run", "input=new.csv")


def test_series_that_end_at_different_times_are_aligned_by_time(folder: Path) -> None:
    """Red if origins are matched from the ends of the series: the last period would contain errors of the shorter."""
    table, end = series(), OLD + 150
    parts = {"a": table, "b": table.assign(y=5 * table["y"][::-1].to_numpy()).iloc[:end]}
    pd.concat([part.head(OLD).assign(id=name) for name, part in parts.items()]).to_csv("all.csv", index=False)
    done("train", *RUN, "dataset.series_col=id", "scaler.per_series=true")
    pd.concat([part.iloc[OLD:].assign(id=name) for name, part in parts.items()]).to_csv("new.csv", index=False)
    assert call("watch", "checkpoint=run", "input=new.csv").status in (0, 10, 12)
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
    table = series()
    table.head(OLD).to_csv("all.csv", index=False)
    table.iloc[OLD:].to_csv("new.csv", index=False)
    mask = ["dataset.fill=mask"]
    done("train", *RUN, *(mask if where == "train" else []))
    line = refusal("watch", "checkpoint=run", "input=new.csv", *(mask if where == "watch" else []))
    assert line.startswith("error: dataset.fill=mask: watch does not support missing values")


def test_a_gap_after_training_names_what_closes_it(folder: Path) -> None:
    """Red if the advice has no effect: rows between two files cannot be filled, those within one can."""
    table = series()
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


def findings(own: float = 0.5, *, inside: float = 0.8) -> Findings:
    rng = np.random.default_rng(0)
    errors = {name: size * rng.chisquare(10, 600) / 10 for name, size in (("linear", own), ("naive", 1.0))}
    coverage = np.clip(inside + 0.1 * rng.normal(size=100), 0, 1)
    origins = pd.DataFrame(errors | {"inside": np.nan})
    return Findings(model="linear", origins=origins, coverage=coverage, level=80, horizon=6)


def test_the_verdict_is_the_gravest() -> None:
    """Red if a better baseline is not noticed."""
    assert findings().decide() == (Verdict.ok, "errors and coverage are as expected")
    assert findings(inside=0.6).decide()[0] is Verdict.recalibrate
    assert findings(inside=0.77).decide()[0] is Verdict.ok
    assert findings(own=1.5, inside=0.6).decide()[0] is Verdict.retrain
    assert findings(own=1.5).skill == pytest.approx(-0.5, abs=0.1)


def test_intervals_of_few_horizons_decide_little() -> None:
    """Red if the standard deviation of a few similar horizons is used without a minimum, or seven horizons decide."""
    for n, share, verdict in ((7, 0.3, "ok"), (8, 0.3, "recalibrate"), (8, 0.9, "ok"), (100, 0.9, "recalibrate")):
        assert replace(findings(), coverage=np.full(n, share)).decide()[0].name == verdict
    assert replace(findings(inside=0.6), level=None).decide()[0] is Verdict.ok


def test_rows_of_training_are_read_again_or_named(folder: Path) -> None:
    """Red if a file without history before it passes where the rows of training are not found."""
    table = series()
    table.head(OLD).to_csv("all.csv", index=False)
    done("train", *RUN)
    table.iloc[OLD:].to_csv("new.csv", index=False)
    table.iloc[OLD - 100 :].to_csv("longer.csv", index=False)
    for words in (["input=new.csv"], ["input=longer.csv"], ["input=longer.csv", "history=moved.csv"]):
        outcome = call("watch", "checkpoint=run", *words)
        assert outcome.status == Verdict.ok.value, outcome.err
        if "history=moved.csv" not in words and Path("all.csv").exists() and "input=longer.csv" in words:
            Path("all.csv").rename("moved.csv")
    outcome = call("watch", "checkpoint=run", "input=longer.csv", checked=True)
    assert outcome.status == Verdict.ok.value
    assert "set history=FILE" in " ".join((outcome.out + outcome.err).split())
    assert "set history=FILE" in refusal("watch", "checkpoint=run", "input=new.csv")
