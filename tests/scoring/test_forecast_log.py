"""The log of forecasts: rows for each morning, scored later; pandas is the oracle of the scores."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, call, done

from informer import checkpoint

LOG = "log=forecasts.log.csv"
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


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log of three mornings, one of them twice."""
    table, folder = rows(), tmp_path_factory.mktemp("logged")
    with contextlib.chdir(folder):
        _log(table)
    return folder


@pytest.fixture
def log(logged: Path, folder: Path) -> Path:
    """A copy of it, here."""
    shutil.copytree(logged, folder, dirs_exist_ok=True)
    return folder / "forecasts.log.csv"


def _log(table: pd.DataFrame) -> None:
    until(table, "2024-03-28").to_csv("old.csv", index=False)
    table.to_csv("all.csv", index=False)
    given = ["dataset.series_col=shop", "dataset.timezone=Europe/Berlin", "target=sales", "features=S"]
    done("train", "dataset=csv", "dataset.path=old.csv", "model=linear", *SMALL[1:], *given, "run_dir=run")
    for day in (*MORNINGS, MORNINGS[-1]):
        until(table, day).to_csv("today.csv", index=False)
        words = ["checkpoint=run", "input=today.csv", "horizon=1day", "intervals=[80]", "output=out", "overwrite=true"]
        done("predict", *words, LOG)


def test_yesterdays_forecasts_are_scored(log: Path) -> None:
    """Red if a row of a forecast is lost or scored twice, or the hour of a clock change has the value of another."""
    table = pd.read_csv(log, dtype={"series": str, "model": str})
    assert set(table["model"]) == {checkpoint.load(Path("run")).sha256[:12]}
    assert set(table["series"]) == set("abcde")
    values = table[table["name"] == "value"]
    assert values.groupby("origin").size().tolist() == [5 * 24, 5 * 23, 5 * 2 * 24]
    outcome = done("score", LOG, "actuals=all.csv", "output=scores", "dataset.series_col=shop")
    once = values.drop_duplicates(["series", "origin", "time"]).rename(columns={"series": "shop"})
    merged = once.merge(rows(), on=["shop", "time"])
    assert len(merged) == 5 * (24 + 23 + 24)
    scored = pd.read_csv("scores/scores.csv", dtype=str)
    overall = scored[(scored["forecaster"] == "forecast") & (scored["metric"] == "mae")].iloc[0]
    by_step = (merged["value"] - merged["sales"]).abs()
    assert float(overall["value"]) == pytest.approx(
        by_step.mean(), rel=0.02
    )  # a mean of units, one of which is shorter
    assert "120 rows forecast again from the same origin are left out" in outcome.out
    assert "rows were logged more than a day after their time" in outcome.out


def test_what_a_killed_command_began_is_replaced(log: Path) -> None:
    """Red if half a row is scored, stops the next command, or stays in front of its rows."""
    whole = log.read_bytes()
    log.write_bytes(whole[:-5])
    assert "4 logged forecasts" not in done("score", LOG, "actuals=all.csv", "dataset.series_col=shop").out
    words = ["checkpoint=run", "input=today.csv", "horizon=1day", "intervals=[80]", "output=out", "overwrite=true", LOG]
    done("predict", *words)
    lines = log.read_text().splitlines()
    assert len(lines) == len(whole.splitlines()) - 1 + 5 * 24 * 3
    assert {line.count(",") for line in lines} == {7}


def test_a_log_next_to_the_forecasts(log: Path) -> None:
    """Red if the lock of the output folder refuses the command's own log, or files that are done are never logged."""
    Path("in").mkdir()
    for name in ("a", "b", "c"):
        until(rows()[rows()["shop"] == name], "2024-03-30").to_csv(f"in/{name}.csv", index=False)
    words = ["checkpoint=run", "input=in", "output=jobs", "batch_size=1"]
    done("predict", *words, "log=jobs/log.csv")
    assert set(pd.read_csv("jobs/log.csv")["series"]) == {"a", "b", "c"}


def test_forecasts_of_the_model_that_comes_trained_are_logged(folder: Path) -> None:
    """Red if a single series has another name in the log than in the actual values."""
    table = rows().query("shop == 'a'").drop(columns="shop")
    table.head(300).to_csv("monday.csv", index=False)
    table.to_csv("later.csv", index=False)
    given = ["model=zero", "horizon=24", "output=out", LOG, "dataset.timezone=Europe/Berlin"]
    done("forecast", "monday.csv", *given)
    outcome = done("score", LOG, "actuals=later.csv")
    assert "1 logged forecast in forecasts.log.csv" in outcome.out


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_file_name_that_is_not_utf_8_is_logged(folder: Path) -> None:
    """Red if its bytes end in an error where names are written: reports, logs, folders; or if a shell reads another
    name in the command that repeats the forecast."""
    Path("in").mkdir()
    files = [os.fsdecode(name) for name in (b"in/a\xff.csv", b"in/b.csv")]
    for file in files:
        rows().query("shop == 'a'").drop(columns="shop").head(300).to_csv(file, index=False)
    done("forecast", "in", "horizon=24", "output=out", LOG)
    answer = call("forecast", files[0], "horizon=24", "output=alone", LOG)
    command = next(line for line in answer.out.splitlines() if line.startswith("Repeat")).removeprefix("Repeat")
    words = subprocess.run(["bash", "-c", rf"printf '%s\n' {command}"], capture_output=True, check=True).stdout
    assert words.splitlines()[:3] == [b"informer", b"forecast", os.fsencode(files[0])]
    assert {*pd.read_csv("forecasts.log.csv", dtype=str)["series"].fillna("")} == {"", "a\ufffd", "b"}
