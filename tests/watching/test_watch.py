"""`informer watch`: logged forecasts compared with what happened since, and what the exit status says of them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import call, done, refusal

DAY, DAYS, KNOWN = 24, 20, 30
WATCH = ["log=log.csv", "actuals=all.csv", "output=watched", "overwrite=true"]


def actuals() -> pd.DataFrame:
    """Fifty days of two shops with a daily season and noise of deviation one, in hours."""
    hours, rng = np.arange((KNOWN + DAYS) * DAY), np.random.default_rng(1)
    times = pd.date_range("2024-01-01", periods=len(hours), freq="h")
    season = 30 + 3 * np.sin(2 * np.pi * hours / DAY)
    shops = [pd.DataFrame({"time": times, "shop": name, "y": season + rng.normal(size=len(hours))}) for name in "ab"]
    return pd.concat(shops, ignore_index=True)


def log(*, off: float = 0.0, half: float = 1.2816, days: int = DAYS) -> None:
    """The actual values, and a log of forecasts of each day that know the season, with intervals of 80 %."""
    table = actuals()
    table.to_csv("all.csv", index=False)
    rows = []
    for (shop, day), values in table[table["time"] >= "2024-01-31"].groupby(["shop", table["time"].dt.date]):
        if (pd.Timestamp(day) - pd.Timestamp("2024-01-31")).days < days:
            forecast = 30 + 3 * np.sin(2 * np.pi * values["time"].dt.hour / DAY) + off
            origin = str(values["time"].min() - pd.Timedelta("1h"))
            for name, shift in (("value", 0.0), ("lo80", -half), ("hi80", half)):
                part = pd.DataFrame(
                    {"series": shop, "column": "y", "origin": origin, "time": values["time"].astype(str)}
                )
                rows.append(part.assign(name=name, value=forecast + shift, logged=origin, model="own"))
    columns = ["logged", "model", "series", "column", "origin", "time", "name", "value"]
    pd.concat(rows)[columns].to_csv("log.csv", index=False)


STATUSES = {"ok": 0, "recalibrate": 10, "retrain": 12}


@pytest.mark.parametrize(
    ("made", "verdict", "said"),
    [
        ({}, "ok", "errors and coverage of 20 origins are as expected"),
        ({"half": 0.7}, "recalibrate", "intervals of 80 % cover 5"),
        ({"off": 4.0, "half": 0.7}, "retrain", "worse than ridge on the later half of the origins"),
        ({"off": 4.0, "days": 7}, "ok", "7 origins so far; a verdict needs 8"),
    ],
)
def test_the_verdict_is_the_gravest(made: dict, verdict: str, said: str, folder: Path) -> None:
    """Red if a better baseline or a wrong coverage is not noticed, or a few days decide."""
    log(**made)
    outcome = call("watch", *WATCH, "dataset.series_col=shop")
    assert outcome.status == STATUSES[verdict], outcome.out + outcome.err
    assert outcome.out.startswith(f"{verdict}: {said}")
    report = json.loads(Path("watched/watch.json").read_text())
    assert (report["verdict"], report["exit_status"]) == (verdict, STATUSES[verdict])


def test_errors_and_coverage_are_those_of_the_forecasts(folder: Path) -> None:
    """Red if a day is missing, or its error or coverage is not that of its own rows, which pandas computes here."""
    log(half=1.0)
    assert call("watch", *WATCH, "dataset.series_col=shop").status in (0, 10)
    report = json.loads(Path("watched/watch.json").read_text())
    table = pd.read_csv("log.csv").rename(columns={"series": "shop"})
    table = table.pivot(index=["shop", "origin", "time"], columns="name", values="value").reset_index()
    both = table.merge(actuals().assign(time=lambda rows: rows["time"].astype(str)), on=["shop", "time"])
    both["mae"], both["inside"] = (both["y"] - both["value"]).abs(), both["y"].between(both["lo80"], both["hi80"])
    expected = both.groupby("origin")[["mae", "inside"]].mean()
    assert report["origins"] == DAYS
    assert report["mae"] == pytest.approx(expected["mae"].mean(), rel=1e-6)
    assert report["coverage"]["80"] == pytest.approx(expected["inside"].mean(), rel=1e-6)
    assert [day["mae"] for day in report["newest"]] == pytest.approx(expected["mae"].tail(12).tolist(), rel=1e-6)
    assert report["newest"][-1]["origin"] == expected.index[-1]
    naive = next(each for each in report["skill"] if each["baseline"] == "seasonal naive")
    assert naive["low"] < naive["skill"] < naive["high"]


def test_a_command_logs_what_watch_reads(folder: Path) -> None:
    """Red if the rows that `forecast` adds to a log are not found in the file of actual values."""
    table = actuals().query("shop == 'a'").drop(columns="shop")
    table.to_csv("all.csv", index=False)
    for day in range(2):
        table.head((KNOWN + day) * DAY).to_csv("today.csv", index=False)
        done("forecast", "today.csv", "horizon=1day", f"output=out{day}", "log=log.csv")
    assert done("watch", *WATCH[:2]).out.startswith("ok: 2 origins so far")


def test_what_is_missing_is_one_line(folder: Path) -> None:
    log()
    actuals().query("time < '2024-01-30'").to_csv("all.csv", index=False)
    line = refusal("watch", "log=log.csv", "actuals=all.csv", "dataset.series_col=shop")
    assert "no actual value for any forecast of log.csv yet" in line


@pytest.mark.parametrize("written", ["local", "both"])
def test_local_times_are_joined_over_a_clock_change(written: str, folder: Path) -> None:
    """Forecasts are one above the actual values. Red if those after a clock change meet the values of another hour, or
    if times without an offset are taken for UTC."""
    times = pd.date_range("2024-10-20", "2024-10-29", freq="h", tz="Europe/Berlin", inclusive="left")
    table = pd.DataFrame({"time": times.strftime("%Y-%m-%d %H:%M"), "y": np.arange(len(times)) ** 2.0})
    table.drop(index=50).to_csv("all.csv", index=False)
    ahead = table.assign(at=times, value=table["y"] + 1)[times >= "2024-10-26"].drop_duplicates("time")
    ahead["time"] = ahead["time"] + ":00"
    if written == "both":
        ahead["time"] = ahead["time"].where(ahead["at"] < "2024-10-28", ahead["at"].astype(str))
    ahead["origin"] = ahead.groupby(ahead["at"].dt.date)["time"].transform("first")
    rows = ahead.assign(logged="2024-10-25", model="own", series="", column="y", name="value")
    columns = ["logged", "model", "series", "column", "origin", "time", "name", "value"]
    rows[columns].to_csv("log.csv", index=False)
    assert "dataset.timezone=Europe/Berlin" in refusal("watch", *WATCH)
    done("watch", *WATCH, "dataset.timezone=Europe/Berlin")
    assert json.loads(Path("watched/watch.json").read_text())["mae"] == 1.0


def test_quarter_hours_with_a_missing_row_are_judged(folder: Path) -> None:
    """The ridge of a history with a gap is about as good as without. Red if the gap spoils the sums of products."""
    times = pd.date_range("2024-01-01", periods=3000, freq="15min")
    load = 100 + 20 * np.sin(2 * np.pi * np.arange(3000) / 96) + np.random.default_rng(0).normal(size=3000)
    table = pd.DataFrame({"time": times, "y": load})
    table.iloc[-96:].to_csv("forecasts.csv", index=False)
    errors = []
    for missing in ([], [1500]):
        table.drop(index=missing).to_csv("all.csv", index=False)
        done("score", "forecasts=forecasts.csv", "actuals=all.csv", "history=all.csv", *WATCH[2:])
        errors.append(json.loads(Path("watched/scores.json").read_text())["overall"]["ridge"]["mae"])
    assert errors[1] == pytest.approx(errors[0], rel=0.02)
