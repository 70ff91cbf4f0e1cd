"""The log of forecasts: each morning a line, scored later; pandas is the oracle of the scores."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, done, refusal

from informer import checkpoint

LOG = "log=forecasts.log.jsonl"
MORNINGS = ("2024-03-30", "2024-03-31", "2024-04-02")
"""The clocks change on the second; none is logged on the first of April."""


def rows() -> pd.DataFrame:
    """Hours in Berlin of two shops, and of one that closes in the middle of March, and of three others."""
    times = pd.date_range("2024-03-10", "2024-04-04", freq="h", tz="Europe/Berlin", inclusive="left")
    rng = np.random.default_rng(0)
    season = 10 + 5 * np.sin(2 * np.pi * times.hour / 24)
    shops = [
        pd.DataFrame(
            {"time": times.astype(str), "shop": name, "sales": (season + rng.normal(size=len(times))).round(3)}
        )
        for name in "abcdef"
    ]
    shops[-1] = shops[-1][times < pd.Timestamp("2024-03-25", tz="Europe/Berlin")]
    return pd.concat(shops)


def until(table: pd.DataFrame, day: str) -> pd.DataFrame:
    """The rows before this day in Berlin."""
    return table[pd.to_datetime(table["time"], utc=True) < pd.Timestamp(day, tz="Europe/Berlin")]


@pytest.fixture
def log(folder: Path) -> Path:
    """A log of three mornings, one of them twice."""
    table = rows()
    until(table, "2024-03-28").to_csv("old.csv", index=False)
    table.to_csv("all.csv", index=False)
    given = ["dataset.series_col=shop", "dataset.timezone=Europe/Berlin", "target=sales", "features=S"]
    done("train", "dataset=csv", "dataset.path=old.csv", "model=linear", *SMALL[1:], *given, "run_dir=run")
    for day in (*MORNINGS, MORNINGS[-1]):
        until(table, day).to_csv("today.csv", index=False)
        words = ["checkpoint=run", "input=today.csv", "horizon=1day", "intervals=[80]", "output=out", "overwrite=true"]
        done("predict", *words, LOG)
    return folder / "forecasts.log.jsonl"


def test_yesterdays_forecasts_are_scored(log: Path) -> None:
    """Red if a row of a forecast is lost or scored twice, or the hour of a clock change has the value of another."""
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert [entry["before"] for entry in entries[1:]] == [
        sha256(x).hexdigest() for x in log.read_bytes().split(b"\n")[:3]
    ]
    assert entries[0]["model"] == checkpoint.load(Path("run")).digest
    assert entries[-1]["data"] == sha256(Path("today.csv").read_bytes()).hexdigest()
    assert {one["series"] for one in entries[0]["forecasts"]} == set("abcde")
    assert [len(entry["forecasts"][0]["times"]) for entry in entries] == [24, 23, 24, 24]
    outcome = done("score", LOG, "actuals=all.csv", "output=scores", "dataset.series_col=shop")
    parts = [
        pd.DataFrame({"shop": one["series"], "time": one["times"], "value": one["columns"]["sales"]["value"]})
        for entry in entries[:3]
        for one in entry["forecasts"]
    ]
    merged = pd.concat(parts).merge(rows(), on=["shop", "time"])
    assert len(merged) == 5 * (24 + 23 + 24)
    scored = pd.read_csv("scores/scores.csv", dtype=str)
    overall = scored[(scored["forecaster"] == "forecast") & (scored["metric"] == "mae")].iloc[0]
    by_step = (merged["value"] - merged["sales"]).abs()
    assert float(overall["value"]) == pytest.approx(
        by_step.mean(), rel=0.02
    )  # a mean of units, one of which is shorter
    assert "120 rows forecast again from the same origin are left out" in outcome.out
    assert "rows were logged more than a day after their time" in outcome.out


def test_a_log_that_was_changed_is_refused(log: Path) -> None:
    """Red if a forecast, a time or a line that is gone goes unnoticed, or a broken log is continued."""
    lines = log.read_text().splitlines(keepends=True)
    better = lines[1].replace('"value":[1', '"value":[2', 1)
    assert better != lines[1]
    changed = {
        2: [lines[0], better, *lines[2:]],
        3: [*lines[:1], lines[1].replace("T", "t", 1), *lines[2:]],
        1: lines[1:],
    }
    for number, content in changed.items():
        log.write_text("".join(content))
        for words in (("score", LOG, "actuals=all.csv"), ("predict", "checkpoint=run", "input=today.csv", LOG)):
            assert f"line {number}: this line or the one before it was changed" in refusal(*words)
    log.write_text("".join(lines)[:-5])
    assert "its last line is not complete; remove it" in refusal("score", LOG, "actuals=all.csv")
    assert "leave one out" in refusal("score", LOG, "actuals=all.csv", "forecasts=all.csv")


def test_forecasts_of_the_model_that_comes_trained_are_logged(folder: Path) -> None:
    """Red if a single series has another name in the log than in the actual values."""
    table = rows().query("shop == 'a'").drop(columns="shop")
    table.head(300).to_csv("monday.csv", index=False)
    table.to_csv("later.csv", index=False)
    given = ["model=zero", "horizon=24", "output=out", LOG, "dataset.timezone=Europe/Berlin"]
    done("forecast", "monday.csv", *given)
    outcome = done("score", LOG, "actuals=later.csv")
    assert "1 logged forecast in forecasts.log.jsonl, unchanged since" in outcome.out
