"""Dates are read as they were meant, or refused: day and month, times in two columns, and the last rows of a file."""

import logging
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, Trained, call, done, refusal
from stores import read_series, read_written, series_from_frame

from informer import Forecaster
from informer.base.errors import InputError
from informer.base.runtime import resource
from informer.config.data import DatasetConfig, Duplicates
from informer.read.date_text import date_formats
from informer.read.series import Series
from informer.read.times import has_equal_steps

DATES = ["%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%m-%d-%Y", "%d %m %Y", "%Y-%m-%d", "%Y-%d-%m", "%Y/%m/%d", "%Y%m%d"]
DATES += ["%d/%m/%y", "%d %b %Y", "%b %d, %Y", "%d-%b-%y", "%d-%b-%Y", "%a, %d %b %Y", "%d. %m. %Y"]
CLOCKS = [" %H:%M", " %H:%M:%S", ", %H:%M", ", %H:%M:%S", "T%H:%M:%S", "T%H:%M:%SZ", " %H:%M UTC", " %H:%M:%S+00:00"]
CLOCKS += [" %H:%M:%S +0000", " %I:%M %p", ", %I:%M:%S %p", " %H.%M", " at %H:%M", "  %H:%M", " %H:%M:%S.%f", "T%H%M"]
DAY_OR_MONTH_FIRST = ["%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%m-%d-%Y", "%d %m %Y"]
HOURS_OF_DAYS = pd.date_range("2024-03-12", periods=40, freq="h")


def read(times: pd.DatetimeIndex, written: str, **config: str) -> Series:
    frame = pd.DataFrame({"date": times.strftime(written), "a": np.arange(len(times)) + 0.25})
    return series_from_frame(frame, DatasetConfig(**config), "written")


@pytest.mark.parametrize("date", DATES)
def test_a_column_with_days_above_12_is_read_in_every_way_of_writing(date: str) -> None:
    """Red if a tail after the date is not known, hides the order of day and month, or the format that is found does not
    read rows that settle nothing."""
    for clock in CLOCKS:
        if "%y" in date:
            with pytest.raises(InputError, match=r"set dataset\.time_format='%"):
                read(HOURS_OF_DAYS, date + clock)
        else:
            series = read(HOURS_OF_DAYS, date + clock)
            assert list(series.timestamps.tz_localize(None)) == list(HOURS_OF_DAYS), date + clock
            assert (series.timestamps.tz is not None) == clock.endswith(("Z", "UTC", "00:00", "0000"))
            assert series.frequency.code == "h"
            few = read(HOURS_OF_DAYS[:5], date + clock, time_format=series.time_format)
            assert list(few.timestamps) == list(series.timestamps[:5]), date + clock


@pytest.mark.parametrize(
    ("start", "rows", "step"), [("2024-03-04", 24, "h"), ("2024-03-01", 9, "D"), ("2024-02-05", 6, "W-MON")]
)
def test_a_column_that_settles_nothing_is_refused(start: str, rows: int, step: str) -> None:
    """One day, or days up to the 12th whose months would follow each other as evenly."""
    times = pd.date_range(start, periods=rows, freq=step)
    for date, clock in [*product(DAY_OR_MONTH_FIRST[:1], CLOCKS), *product(DAY_OR_MONTH_FIRST[1:], CLOCKS[:1])]:
        if step != "W-MON":
            with pytest.raises(InputError, match=r"set dataset\.time_format='%.*' or '%") as error:
                read(times, date + clock)
            assert len(str(error.value).splitlines()) == 1
        else:
            assert list(read(times, date + clock).timestamps.tz_localize(None)) == list(times)
        told = (date + clock).replace("UTC", "%Z").replace("+00:00", "%z").replace("+0000", "%z")
        assert list(read(times, date + clock, time_format=told).timestamps.tz_localize(None)) == list(times)


@pytest.mark.parametrize("date", ["%d/%m/%Y", "%m/%d/%Y", "%Y-%m-%d"])
def test_equal_steps_over_midnight_show_the_day(date: str) -> None:
    """Two nights in days up to the 12th: read otherwise, a month is missing at midnight."""
    times = pd.date_range("2024-03-04 18:00", periods=40, freq="h")
    assert list(read(times, date + ", %H:%M").timestamps) == list(times)


def test_days_before_months_after_the_year() -> None:
    """As ISO 8601 these rows lack a month at midnight, which an ISO file may: that is for the user to say."""
    times = pd.date_range("2024-03-04 18:00", periods=40, freq="h")
    with pytest.raises(InputError, match=r"set dataset.time_format='ISO8601' or '%Y-%d-%m %H:%M'"):
        read(times, "%Y-%d-%m %H:%M")


def test_eight_digits_that_may_begin_or_end_with_their_year() -> None:
    """Red if 19032012, the 19th of March 2012, becomes the 20th of December 1903."""
    times = pd.date_range("2012-03-19 21:00", periods=8, freq="15min")
    with pytest.raises(InputError, match="the order of day, month and year is ambiguous"):
        read(times, "%d%m%Y %H:%M")
    assert list(read(HOURS_OF_DAYS, "%d%m%Y %H:%M").timestamps) == list(HOURS_OF_DAYS)


def test_every_fifth_of_the_month_is_not_taken_for_days_of_may() -> None:
    """Red if steps of a month count as equal on their first or last day only."""
    fifths = pd.DatetimeIndex([f"2024-{month:02}-05" for month in range(1, 8)])
    assert has_equal_steps(fifths)
    with pytest.raises(InputError, match="the order of day, month and year is ambiguous"):
        read(fifths, "%d/%m/%Y")
    assert list(read(fifths, "%Y-%m-%d").timestamps) == list(fifths)


@pytest.mark.parametrize("cell", ["now", "today", "-2024-01-03", "+2024-01-03", "NOW"])
def test_words_and_signs_are_no_dates(cell: str) -> None:
    """Red if pandas reads the time of reading, or drops a sign."""
    for time_format, first in (("%Y-%m-%d", "2024-01-01"), ("%d/%m/%Y", "31/01/2024")):
        frame = pd.DataFrame({"date": [first, cell], "a": [1.0, 2.0]})
        with pytest.raises(InputError, match=r"row 1, column 'date': expected a date"):
            series_from_frame(frame, DatasetConfig(time_format=time_format, frequency="D"), "words")
        with pytest.raises(InputError, match=r"row 1, column 'date': expected a date"):
            series_from_frame(frame, DatasetConfig(frequency="D"), "words")
    assert date_formats(cell) == ()


@pytest.mark.parametrize("clock", ["", ", %H:%M:%S", "T%H:%M:%SZ"])
@pytest.mark.parametrize(("trained", "other"), [("%d/%m/%Y", "%m/%d/%Y"), ("%m/%d/%Y", "%d/%m/%Y")])
def test_what_training_read_settles_what_is_read_later(trained: str, other: str, clock: str) -> None:
    """Red if rows that settle nothing are not read in training's order, or rows of the other order are read."""

    def later(times: pd.DatetimeIndex, time_format: str) -> pd.DatetimeIndex:
        frame = pd.DataFrame({"date": times.strftime(time_format), "a": 1.5})
        config = DatasetConfig(frequency="D")
        return series_from_frame(frame, config, "later", history=3, trained_format=trained + clock).timestamps

    open_days, settled = (pd.date_range(first, periods=5, freq="D") for first in ("2024-03-05", "2024-03-10"))
    for written in (trained + clock, trained.replace("/", ".") + ", %H:%M"):
        assert list(later(open_days, written).tz_localize(None)) == list(open_days[-3:])
    with pytest.raises(InputError, match=r"expected dates like .* as in training, .*set dataset.time_format"):
        later(settled, other + clock)
    # the proof may stand in rows that are not needed
    with pytest.raises(InputError, match="as in training"):
        later(pd.DatetimeIndex([*settled, *pd.date_range("2024-04-01", periods=3)]), other + clock)


def test_predict_continues_in_the_order_of_training(folder: Path) -> None:
    """Red if the last rows are read by themselves: 12/03/2024 is then followed by 12/04/2024."""
    times = pd.date_range("2024-02-28", periods=340, freq="h")
    written = times.strftime("%d/%m/%Y, %H:%M:%S")
    frame = pd.DataFrame({"date": written, "a": np.sin(np.arange(340.0)).round(4)})
    frame.to_csv("hourly.csv", index=False)
    done("train", "dataset=csv", "dataset.path=hourly.csv", *SMALL, "trainer.max_steps=1", "run_dir=run")
    frame[-40:].to_csv("last.csv", index=False)
    done("predict", "checkpoint=run", "input=last.csv", "output=out", "plots=false")
    expected = pd.date_range(times[-1], periods=7, freq="h")[1:].strftime("%d/%m/%Y, %H:%M:%S")
    assert pd.read_csv("out/last.forecast.csv")["date"].tolist() == list(expected)


def test_a_format_with_a_comma_on_the_command_line(tmp_path: Path) -> None:
    """Red if the setting in the error cannot be typed as shown."""
    times = pd.date_range("2024-03-04", periods=24, freq="h")
    frame = pd.DataFrame({"date": times.strftime("%d/%m/%Y, %H:%M"), "a": np.arange(24) + 0.5})
    frame.to_csv(tmp_path / "f.csv", index=False)
    sizes = ("seq_len=6", "label_len=2", "pred_len=1")
    for written in ("%d/%m/%Y, %H:%M", "'%d/%m/%Y, %H:%M'"):
        outcome = call("inspect", str(tmp_path / "f.csv"), f"dataset.time_format={written}", *sizes)
        assert "time:     date, 2024-03-04 00:00:00 to 2024-03-04 23:00:00, hourly (step h)" in outcome.out, outcome.err


Frame = pd.DataFrame


@pytest.fixture(scope="module")
def rows() -> Frame:
    """The first rows of the sample, 200 hours."""
    return pd.read_csv(resource("data/sample.csv"), nrows=200)


def newer_half_first(rows: Frame) -> Frame:
    return pd.concat([rows[100:], rows[:100]])


# what is wrong before the last seq_len = 24 rows, and where the line says it is
DAMAGES: dict[str, tuple[Callable[[Frame], Frame], str]] = {
    "newer half first": (newer_half_first, "row 102, column 'date': expected a time after"),
    "a second series below": (lambda rows: pd.concat([rows, rows]), "row 202, column 'date'"),
    "a row again": (lambda rows: pd.concat([rows[:50], rows[49:]]), "row 52, column 'date'"),
    "no date": (
        lambda rows: rows.replace({"date": {rows["date"][10]: "soon"}}),
        "row 12, column 'date': expected a date",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("repair", [[], ["dataset.fill=linear"]])
def test_a_file_whose_end_is_not_its_latest_time(
    damage: str, repair: list[str], rows: Frame, trained: Trained, folder: Path
) -> None:
    """Red where only the rows that the model reads are looked at, before or after a repair."""
    change, place = DAMAGES[damage]
    change(rows).to_csv("in.csv", index=False)
    line = refusal("predict", f"checkpoint={trained.run_dir}", "input=in.csv", "output=out", *repair)
    assert place in line
    assert not Path("out").exists()


def test_the_line_is_that_of_training(rows: Frame, trained: Trained, folder: Path) -> None:
    newer_half_first(rows).to_csv("in.csv", index=False)
    predicted = call("predict", f"checkpoint={trained.run_dir}", "input=in.csv", "output=out")
    trained_on = call("train", "dataset=csv", "dataset.path=in.csv", "seq_len=24", "label_len=12", "pred_len=6")
    assert predicted.err == trained_on.err


def test_one_series_of_many(rows: Frame, trained: Trained, folder: Path) -> None:
    """The rows of each series are in order, with rows of other series between them."""
    names = pd.Series(["a", "b"] * 200)
    both = pd.concat([rows, rows]).sort_index(kind="stable").assign(site=names.to_numpy())
    both.to_csv("in.csv", index=False)
    arguments = [f"checkpoint={trained.run_dir}", "input=in.csv", "dataset.series_col=site"]
    done("predict", *arguments, "output=out")
    swapped = pd.concat([both[200:], both[:200]])
    swapped.to_csv("in.csv", index=False)
    outcome = call("predict", *arguments, "output=swapped")
    assert outcome.status == 2
    assert outcome.err.count("go back in time") + outcome.err.count("expected a time after") >= 2


def test_a_table_of_python(rows: Frame, trained: Trained) -> None:
    forecaster = Forecaster.load(trained.run_dir)
    with pytest.raises(InputError, match="expected a time after"):
        forecaster.predict(newer_half_first(rows))
    by_index = newer_half_first(rows).assign(date=lambda frame: pd.to_datetime(frame["date"])).set_index("date")
    with pytest.raises(InputError, match="expected a time after"):
        forecaster.predict(by_index)
    forecaster.predict(newer_half_first(rows).sort_index())


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
    series = read_written(frame, tmp_path)
    assert list(series.timestamps) == list(TIMES)
    assert series.time_col == "Date"


def test_a_time_of_day_for_each_date_is_no_part_of_the_time(tmp_path: Path) -> None:
    """Red if the hour of sunrise becomes the time of a daily row; named, it does."""
    days = pd.date_range("2024-03-04", periods=60)
    frame = pd.DataFrame({"date": days.astype(str), "sunrise": [f"06:{59 - i:02}" for i in range(60)], "a": 1.5})
    assert list(read_written(frame, tmp_path).timestamps) == list(days)
    with pytest.raises(InputError, match="expected steps of D, found steps of 1439min"):
        read_series(tmp_path / "f.csv", DatasetConfig(clock_col="sunrise", frequency="D"))
    with pytest.raises(InputError, match=r"dataset\.clock_col=noon: f.csv has no such column"):
        read_series(tmp_path / "f.csv", DatasetConfig(clock_col="noon"))


def test_inspect_proposes_nothing_that_loses_rows(folder: Path) -> None:
    german(folder / "load.csv")
    assert "duplicates" not in done("inspect", "load.csv").out
    rows = pd.DataFrame({"date": np.repeat(TIMES[:100].astype(str), 4), "a": np.arange(400.0)})
    rows.to_csv("repeats.csv", index=False)
    outcome = call("inspect", "repeats.csv")
    assert outcome.status == 2
    assert "informer.train" not in outcome.out


@pytest.mark.parametrize("duplicates", [Duplicates.first, Duplicates.mean])  # a sum leaves none out
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
    frame = pd.DataFrame({"date": [f"{day:.{digits}f}" for day in days], "a": 1.5})
    assert list(read_written(frame, tmp_path, time_format="excel").timestamps) == list(times)
    with pytest.raises(
        InputError, match=r"numbers such as 45355.*starting at 2024-03-04 00:00:00, set dataset\.time_format=excel"
    ):
        read_series(tmp_path / "f.csv", DatasetConfig())


def test_columns_left_out_by_name(tmp_path: Path) -> None:
    frame = pd.DataFrame({"date": TIMES, "a": LOAD, "b": "x", "c": LOAD, "d": 1.5})
    frame.loc[3, "a"] = np.nan
    assert read_written(frame, tmp_path, exclude=["a", "d"]).columns == ("c",)
    with pytest.raises(InputError, match=r"dataset\.exclude=e: f.csv has no such column"):
        read_series(tmp_path / "f.csv", DatasetConfig(exclude=["a", "e"]))
    with pytest.raises(InputError, match="columns missing: a"):
        read_series(tmp_path / "f.csv", DatasetConfig(exclude=["a"], columns=["a", "c"]))
