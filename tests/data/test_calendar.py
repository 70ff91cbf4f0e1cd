"""Marks against formulas written with pandas by hand, for every offset."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from informer import InputError
from informer.config.data import FIELDS, Calendar
from informer.data import Frequency
from informer.data.calendar import calendar_marks, mark_fields, mark_sizes

Formula = Callable[[pd.DatetimeIndex], np.ndarray]

LINEAR: dict[str, Formula] = {
    "second": lambda t: t.second.to_numpy() / 59 - 0.5,
    "minute": lambda t: t.minute.to_numpy() / 59 - 0.5,
    "hour": lambda t: t.hour.to_numpy() / 23 - 0.5,
    "weekday": lambda t: t.day_of_week.to_numpy() / 6 - 0.5,
    "day": lambda t: (t.day.to_numpy() - 1) / 30 - 0.5,
    "dayofyear": lambda t: (t.day_of_year.to_numpy() - 1) / 365 - 0.5,
    "week": lambda t: (t.strftime("%V").astype(int).to_numpy() - 1) / 52 - 0.5,
    "month": lambda t: (t.month.to_numpy() - 1) / 11 - 0.5,
}
TABLE: dict[str, Formula] = {
    "second": lambda t: t.second.to_numpy(),
    "minute": lambda t: t.minute.to_numpy(),
    "quarter": lambda t: np.array([stamp.minute // 15 for stamp in t]),
    "hour": lambda t: t.hour.to_numpy(),
    "weekday": lambda t: t.day_of_week.to_numpy(),
    "day": lambda t: t.day.to_numpy(),
    "month": lambda t: t.month.to_numpy(),
}
ROWS_OF_TABLE = {"second": 60, "minute": 60, "quarter": 4, "hour": 24, "weekday": 7, "day": 32, "month": 13}

HOURLY = "hour weekday day dayofyear"
DAILY = "weekday day dayofyear"
# offsets -> columns of timeF, columns of fixed and learned
COLUMNS = {
    "s 10s 500ms": (f"second minute {HOURLY}", "month day weekday hour minute second"),
    "min 5min 10min 20min 100min": (f"minute {HOURLY}", "month day weekday hour minute"),
    "15min 30T 90min 150min": (f"minute {HOURLY}", "month day weekday hour quarter"),
    "h 4H 36h bh": (HOURLY, "month day weekday hour"),
    "D 2D B C": (DAILY, "month day weekday"),
    "W W-MON 2W 7D SME SMS": ("day week", "month day"),
    "M MS BME QE QS BQE YE YS BYE A": ("month", "month"),
}
EDGES = pd.DatetimeIndex(["2020-12-31 23:59:59", "2020-12-30", "2021-01-01", "2024-02-29", "2020-01-01"])
CASES = [(offset, *columns) for offsets, columns in COLUMNS.items() for offset in offsets.split()]


@pytest.mark.parametrize(("offset", "linear", "table"), CASES)
def test_marks_are_the_formulas(offset: str, linear: str, table: str) -> None:
    """Red if a field has another range or place; the edges are a leap year's last day, week 53, the last second."""
    frequency = Frequency.parse(offset)
    timestamps = pd.date_range("2019-11-27 21:43:55", periods=150, freq=frequency.offset).append(EDGES)
    expected = np.stack([LINEAR[name](timestamps) for name in linear.split()], axis=1)
    marks = calendar_marks(timestamps, frequency, Calendar("timeF"))
    np.testing.assert_allclose(marks, expected, rtol=0, atol=1e-7)
    assert mark_sizes(frequency, Calendar("timeF")) == (1,) * marks.shape[1]
    for kind in (Calendar("fixed"), Calendar("learned")):
        expected = np.stack([TABLE[name](timestamps) for name in table.split()], axis=1)
        np.testing.assert_array_equal(calendar_marks(timestamps, frequency, kind), expected)
        assert mark_sizes(frequency, kind) == tuple(ROWS_OF_TABLE[name] for name in table.split())


def test_no_calendar_has_no_marks() -> None:
    """Red if rows are lost with the columns."""
    hour, none = Frequency.parse("h"), Calendar("none")
    assert calendar_marks(pd.date_range("2020", periods=5, freq="h"), hour, none).shape == (5, 0)
    assert mark_sizes(hour, none) == ()


# from the calendars of 2024, of Germany and of Bavaria in addition
GERMAN = ["01-01", "03-29", "04-01", "05-01", "05-09", "05-20", "10-03", "12-25", "12-26"]
BAVARIAN = ["01-06", "05-30", "11-01"]
DAY, HOUR = Frequency.parse("D"), Frequency.parse("h")


def test_holidays_are_those_of_the_calendar() -> None:
    """Red if a part of a country has not its own days, or a mark of a table is not 0 or 1."""
    year = pd.date_range("2024-01-01", "2024-12-31")
    marks = calendar_marks(year, DAY, Calendar("learned", ("weekday",), ("DE", "DE-BY")))
    assert set(year[marks[:, 1] == 1].strftime("%m-%d")) == {*GERMAN}
    assert set(year[marks[:, 2] == 1].strftime("%m-%d")) == {*GERMAN, *BAVARIAN}
    assert set(np.unique(marks[:, 1:])) == {0, 1}
    linear = calendar_marks(year, DAY, Calendar("timeF", ("weekday",), ("DE",)))
    np.testing.assert_array_equal(linear[:, 1], marks[:, 1] - 0.5)


def test_marks_are_of_the_local_time() -> None:
    """Red if the hour that a clock change leaves out is there, or New Year's Day of Berlin begins as in UTC."""
    times = pd.date_range("2024-03-30 22:00", periods=10, freq="h", tz="Europe/Berlin")
    hours = calendar_marks(times, HOUR, Calendar("learned"))[:, 3]
    assert hours.tolist() == [22, 23, 0, 1, 3, 4, 5, 6, 7, 8]
    times = pd.date_range("2023-12-31 20:00", periods=40, freq="h", tz="UTC").tz_convert("Europe/Berlin")
    marks = calendar_marks(times, HOUR, Calendar("fixed", (), ("DE",)))
    assert np.flatnonzero(marks[:, -1]).tolist() == list(range(3, 27))


def test_chosen_fields_are_the_same_columns() -> None:
    """Red if the order is not that of the choice, or a field is written in another way than without one."""
    usual = calendar_marks(EDGES, HOUR, Calendar("timeF"))
    assert mark_fields(HOUR, Calendar("timeF")) == ("hour", "weekday", "day", "dayofyear")
    np.testing.assert_array_equal(calendar_marks(EDGES, HOUR, Calendar("timeF", ("day", "hour"))), usual[:, [2, 0]])
    everything = Calendar("learned", FIELDS, ("FR",))
    assert (calendar_marks(EDGES, HOUR, everything) < mark_sizes(HOUR, everything)).all()


def test_steps_longer_than_a_day_and_unknown_years() -> None:
    german = Calendar("timeF", (), ("DE",))
    with pytest.raises(InputError, match="W-SUN"):
        mark_fields(Frequency.parse("W"), german)
    with pytest.raises(InputError, match="1950"):
        calendar_marks(pd.date_range("1950-01-01", periods=3), DAY, german)
