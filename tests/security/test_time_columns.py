"""Times in two columns or as a spreadsheet's days, columns left out by name, and repairs that would lose rows."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import call, done
from stores import read_series, series_from_frame

from informer.base.errors import InputError
from informer.config.data import DatasetConfig, Duplicates

TIMES = pd.date_range("2024-03-04", periods=400, freq="15min")
LOAD = np.arange(400) + 40_000.25


def german(path: Path, header: str = "Datum;Uhrzeit;Last") -> Path:
    """Fifteen-minute load in two columns of time, with points between thousands."""
    numbers = [f"{load:,.2f}".translate(str.maketrans(",.", ".,")) for load in LOAD]
    rows = [f"{time:%d.%m.%Y;%H:%M};{number}" for time, number in zip(TIMES, numbers, strict=True)]
    path.write_text("\n".join([header, *rows]) + "\n", encoding="latin-1")
    return path


@pytest.mark.parametrize("header", ["Datum;Uhrzeit;Last", "Date;Time;Last", "day;at;Last"])
def test_dates_and_times_of_day_in_two_columns(header: str, tmp_path: Path) -> None:
    """Red if a day's rows are taken for repeats of one time. Days from the 4th to the 8th: the step shows the month."""
    series = read_series(german(tmp_path / "load.csv", header), DatasetConfig())
    assert list(series.timestamps) == list(TIMES)
    assert series.columns == ("Last",)
    assert series.values[:, 0].tolist() == LOAD.tolist()


def test_times_of_day_before_the_dates(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"Time": TIMES.strftime("%I:%M:%S %p"), "a": 1.5, "Date": TIMES.strftime("%Y-%m-%d"), "b": LOAD}
    )
    frame.to_csv(tmp_path / "f.csv", index=False)
    series = read_series(tmp_path / "f.csv", DatasetConfig())
    assert list(series.timestamps) == list(TIMES)
    assert series.time_col == "Date"


def test_a_time_of_day_for_each_date_is_no_part_of_the_time(tmp_path: Path) -> None:
    """Red if the hour of sunrise becomes the time of a daily row; named, it does."""
    days = pd.date_range("2024-03-04", periods=60)
    frame = pd.DataFrame({"date": days.astype(str), "sunrise": [f"06:{59 - i:02}" for i in range(60)], "a": 1.5})
    frame.to_csv(tmp_path / "f.csv", index=False)
    assert list(read_series(tmp_path / "f.csv", DatasetConfig()).timestamps) == list(days)
    with pytest.raises(InputError, match="expected steps of D, found steps of 1439min"):
        read_series(tmp_path / "f.csv", DatasetConfig(clock_col="sunrise", frequency="D"))
    with pytest.raises(InputError, match=r"dataset\.clock_col=noon: f.csv has no such column"):
        read_series(tmp_path / "f.csv", DatasetConfig(clock_col="noon"))


def test_inspect_proposes_nothing_that_loses_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    german(tmp_path / "load.csv")
    assert "duplicates" not in done("inspect", "load.csv").out
    rows = pd.DataFrame({"date": np.repeat(TIMES[:100].astype(str), 4), "a": np.arange(400.0)})
    rows.to_csv("repeats.csv", index=False)
    outcome = call("inspect", "repeats.csv")
    assert outcome.status == 2
    assert "informer.train" not in outcome.out


@pytest.mark.parametrize("duplicates", Duplicates)
def test_many_rows_are_only_left_out_by_name(duplicates: Duplicates, caplog: pytest.LogCaptureFixture) -> None:
    """Red also if a repair that is refused is reported as done."""
    caplog.set_level(logging.INFO, "informer")
    rows = pd.DataFrame({"date": TIMES, "a": LOAD})
    few, many = (pd.concat([rows, rows[:n]]).sort_values("date", kind="stable", ignore_index=True) for n in (2, 3))
    assert len(series_from_frame(few, DatasetConfig(duplicates=duplicates), "few")) == 400
    with pytest.raises(InputError, match=r"\(3 of 403 rows repeat a time, .*dataset\.confirm=\[duplicates\]"):
        series_from_frame(many, DatasetConfig(duplicates=duplicates), "many")
    assert "many: duplicates" not in caplog.text
    confirmed = DatasetConfig(duplicates=duplicates, confirm=["duplicates"])
    assert len(series_from_frame(many, confirmed, "many")) == 400
    assert DatasetConfig(confirm=["all"]).problems() == [
        "dataset.confirm: expected names of repairs (duplicates), found all"
    ]


@pytest.mark.parametrize(("step", "digits"), [("D", 0), ("h", 9), ("h", 5), ("15min", 6), ("30s", 6), ("250ms", 12)])
def test_a_spreadsheets_days(step: str, digits: int, tmp_path: Path) -> None:
    """The oracle: 45355 is 2024-03-04, as every spreadsheet shows it."""
    times = pd.date_range("2024-03-04", periods=50, freq=step)
    days = 45355 + (times - times[0]) / pd.Timedelta("1D")
    pd.DataFrame({"date": [f"{day:.{digits}f}" for day in days], "a": 1.5}).to_csv(tmp_path / "f.csv", index=False)
    assert list(read_series(tmp_path / "f.csv", DatasetConfig(time_format="excel")).timestamps) == list(times)
    with pytest.raises(
        InputError, match=r"numbers such as 45355.*starting at 2024-03-04 00:00:00, set dataset\.time_format=excel"
    ):
        read_series(tmp_path / "f.csv", DatasetConfig())


def test_columns_left_out_by_name(tmp_path: Path) -> None:
    frame = pd.DataFrame({"date": TIMES, "a": LOAD, "b": "x", "c": LOAD, "d": 1.5})
    frame.loc[3, "a"] = np.nan
    frame.to_csv(tmp_path / "f.csv", index=False)
    assert read_series(tmp_path / "f.csv", DatasetConfig(exclude=["a", "d"])).columns == ("c",)
    with pytest.raises(InputError, match=r"dataset\.exclude=e: f.csv has no such column"):
        read_series(tmp_path / "f.csv", DatasetConfig(exclude=["a", "e"]))
    with pytest.raises(InputError, match="columns missing: a"):
        read_series(tmp_path / "f.csv", DatasetConfig(exclude=["a"], columns=["a", "c"]))


@pytest.mark.parametrize("written", ["%b %Y", "%B %Y", "%Y-%b", "%m/%Y", "%Y-%m"])
def test_months(written: str) -> None:
    months = pd.date_range("2020-01-01", periods=40, freq="MS")
    frame = pd.DataFrame({"month": months.strftime(written), "a": 1.5})
    assert list(series_from_frame(frame, DatasetConfig(), "monthly").timestamps) == list(months)
