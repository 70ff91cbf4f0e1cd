"""Every pandas offset, old spelling or new: unit, season, grid, words; and inferred from its own timestamps."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from informer.base.errors import InputError
from informer.read.frequency import Frequency, Unit, adjective, lasting, on_grid

# spelling -> canonical code, unit, rows in a season, rows in a day
OFFSETS = {
    "s": ("s", Unit.second, 3600, 86400),
    "S": ("s", Unit.second, 3600, 86400),
    "10S": ("10s", Unit.second, 360, 8640),
    "500ms": ("500ms", Unit.second, 7200, 172800),
    "L": ("ms", Unit.second, 3_600_000, 86_400_000),
    "us": ("us", Unit.second, 3_600_000_000, 86_400_000_000),
    "N": ("ns", Unit.second, 3_600_000_000_000, 86_400_000_000_000),
    "t": ("min", Unit.minute, 1440, 1440),
    "T": ("min", Unit.minute, 1440, 1440),
    "1min": ("min", Unit.minute, 1440, 1440),
    "15min": ("15min", Unit.minute, 96, 96),
    "15t": ("15min", Unit.minute, 96, 96),
    "30T": ("30min", Unit.minute, 48, 48),
    "90min": ("90min", Unit.minute, 16, 16),
    "2h30min": ("150min", Unit.minute, 48, None),
    "60min": ("h", Unit.hour, 24, 24),
    "h": ("h", Unit.hour, 24, 24),
    "H": ("h", Unit.hour, 24, 24),
    "4H": ("4h", Unit.hour, 6, 6),
    "7h": ("7h", Unit.hour, 24, None),
    "1D12h": ("36h", Unit.hour, 2, None),
    "24h": ("D", Unit.day, 7, 1),
    "d": ("D", Unit.day, 7, 1),
    "D": ("D", Unit.day, 7, 1),
    "2D": ("2D", Unit.day, 7, None),
    "B": ("B", Unit.business_day, 5, None),
    "b": ("B", Unit.business_day, 5, None),
    "C": ("C", Unit.business_day, 5, None),
    "7D": ("7D", Unit.week, 52, None),
    "w": ("W-SUN", Unit.week, 52, None),
    "W-MON": ("W-MON", Unit.week, 52, None),
    "2W": ("2W-SUN", Unit.week, 26, None),
    "SM": ("SME-15", Unit.week, 24, None),
    "SMS": ("SMS-15", Unit.week, 24, None),
    "m": ("ME", Unit.month, 12, None),
    "M": ("ME", Unit.month, 12, None),
    "ME": ("ME", Unit.month, 12, None),
    "MS": ("MS", Unit.month, 12, None),
    "BM": ("BME", Unit.month, 12, None),
    "BMS": ("BMS", Unit.month, 12, None),
    "CBM": ("CBME", Unit.month, 12, None),
    "CBMS": ("CBMS", Unit.month, 12, None),
    "WOM-3FRI": ("WOM-3FRI", Unit.month, 12, None),
    "LWOM-FRI": ("LWOM-FRI", Unit.month, 12, None),
    "Q": ("QE-DEC", Unit.quarter, 4, None),
    "Q-MAR": ("QE-MAR", Unit.quarter, 4, None),
    "QS": ("QS-JAN", Unit.quarter, 4, None),
    "BQ": ("BQE-DEC", Unit.quarter, 4, None),
    "BQS": ("BQS-JAN", Unit.quarter, 4, None),
    "REQ-N-DEC-MON-1": ("REQ-N-DEC-MON-1", Unit.quarter, 4, None),
    "A": ("YE-DEC", Unit.year, 1, None),
    "a": ("YE-DEC", Unit.year, 1, None),
    "Y": ("YE-DEC", Unit.year, 1, None),
    "A-JUN": ("YE-JUN", Unit.year, 1, None),
    "AS": ("YS-JAN", Unit.year, 1, None),
    "BA": ("BYE-DEC", Unit.year, 1, None),
    "BAS": ("BYS-JAN", Unit.year, 1, None),
    "RE-N-DEC-MON": ("RE-N-DEC-MON", Unit.year, 1, None),
}


@pytest.mark.parametrize("text", OFFSETS)
def test_every_spelling_has_one_meaning(text: str) -> None:
    frequency = Frequency.parse(text)
    assert (frequency.code, frequency.unit, frequency.season, frequency.per_day) == OFFSETS[text]
    assert Frequency.parse(frequency.code) == frequency


@pytest.mark.parametrize("text", ["", "hourly", "0h", "-1h", "-2M", "5"])
def test_what_is_no_step_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="frequency"):
        Frequency.parse(text)


INFERRED = ["s", "10s", "500ms", "min", "15min", "90min", "h", "7h", "36h", "D", "2D", "B", "W-MON", "2W-WED"]
INFERRED += ["SME", "SMS", "ME", "MS", "2MS", "BME", "BMS", "QE-DEC", "QS-JAN", "QE-JAN", "BQE-DEC", "YE-DEC", "YS-MAR"]
INFERRED += ["BYS-JAN", "2YS-JAN", "4ME"]


def inferred(timestamps: pd.DatetimeIndex) -> Frequency:
    """The step that all rows follow."""
    frequency, n_following = Frequency.closest(timestamps)
    assert n_following == len(timestamps)
    return frequency


@pytest.mark.parametrize("code", INFERRED)
def test_inferred_from_its_own_timestamps(code: str) -> None:
    timestamps = pd.date_range("2021-03-01 09:00", periods=37, freq=code)
    step = inferred(timestamps)
    given = Frequency.parse(code)
    assert (step.unit, step.multiple) == (given.unit, given.multiple)
    assert step.grid(timestamps[0], len(timestamps)).equals(timestamps)


@pytest.mark.parametrize("code", sorted({code for code, *_ in OFFSETS.values()} - {"ns", "us"}))
def test_future_continues_the_grid(code: str) -> None:
    freq = pd.offsets.LastWeekOfMonth(weekday=4) if code == "LWOM-FRI" else code  # no code of pandas 2
    timestamps = pd.date_range("2020-01-03", periods=20, freq=freq)
    future = Frequency.parse(code).future(timestamps[12], 7)
    assert future.equals(timestamps[13:])
    assert len(Frequency.parse(code).future(timestamps[12], 0)) == 0


def at_hours(step: str, hours: dict[int, tuple[str, str]], weeks: int = 5, zone: str | None = None) -> pd.DatetimeIndex:
    """Rows from Monday, 26 February 2024 on, within the opening hours of each weekday."""
    every = pd.date_range(
        "2024-02-26", periods=weeks * 7 * (pd.Timedelta("1D") // pd.Timedelta(step)), freq=step, tz=zone
    )
    days = {day: hours.get(day, ("24:00", "24:00")) for day in range(7)}
    clocks = every.strftime("%H:%M")
    return every[[days[day][0] <= clock <= days[day][1] for day, clock in zip(every.day_of_week, clocks, strict=True)]]


OFFICE, DAYS = dict.fromkeys(range(5), ("09:00", "16:00")), dict.fromkeys(range(5), ("00:00", "23:45"))
PLANT = dict.fromkeys(range(7), ("06:00", "22:00"))
SHOP = dict.fromkeys(range(5), ("08:30", "19:30")) | {5: ("09:00", "12:00")}


@pytest.mark.parametrize(
    ("rows", "code", "season", "seasons"),
    [
        (at_hours("1h", OFFICE), "h-MonTueWedThuFri0900-1600", 8, [8, 40]),
        (at_hours("30min", SHOP), "30min-MonTueWedThuFri0830-1930-Sat0900-1200", 122, [122]),
        (at_hours("1h", PLANT), "h-MonTueWedThuFriSatSun0600-2200", 17, [17, 119]),
        (at_hours("15min", DAYS), "15min-MonTueWedThuFri0000-2345", 96, [96, 480]),
        (at_hours("1h", OFFICE, zone="Europe/Berlin"), "h-MonTueWedThuFri0900-1600", 8, [8, 40]),
    ],
)
def test_opening_hours(rows: pd.DatetimeIndex, code: str, season: int, seasons: list[int]) -> None:
    """Fails if a closed hour is forecast, or is a gap; the last one has clocks set forward between its rows."""
    step = inferred(rows[: 3 * len(rows) // 5])
    assert (step.code, step.season, step.seasons, step.unit) == (code, season, seasons, Frequency.parse(code).unit)
    assert Frequency.parse(code) == step
    n = len(rows) // 3
    assert step.future(rows[n], len(rows) - n - 1).equals(rows[n + 1 :])
    assert step.past(rows[n], n).equals(rows[:n])
    assert step.grid(rows[0], len(rows)).equals(rows)
    assert step.strides(rows.delete([5, 6, n])).tolist() == [1] * 4 + [3] + [1] * (n - 8) + [2] + [1] * (
        len(rows) - n - 2
    )


def test_what_are_no_opening_hours() -> None:
    """Nights that are missing at times, one day's outages, and hours of daylight do not close a plant."""
    every = pd.date_range("2024-02-26", periods=24 * 40, freq="h")
    outages = every[~((every.day_of_week == 2) & (every.hour > 20)) | (every.day > 14)]
    assert Frequency.closest(outages)[0].code == "h"
    daylight = every[np.abs(every.hour - 12.5) < 3 + 0.1 * (every - every[0]).days]
    assert Frequency.closest(daylight)[0].code == "h"
    bar = at_hours("30min", dict.fromkeys(range(7), ("00:00", "05:00")), zone="Europe/Berlin")
    assert Frequency.closest(bar)[0].code == "30min"  # one night has no 02:30
    for wrong in ("h-Mon0900", "h-Mon1700-0900", "D-Mon0900-1600", "7h-Mon0900-1600", "h-Mon0900-1600Tue"):
        with pytest.raises(InputError, match="frequency"):
            Frequency.parse(wrong)
    assert Frequency.parse("2bh").code == "2h-MonTueWedThuFri0900-1600"


def test_numbered_rows_have_no_calendar() -> None:
    step = Frequency.parse("10step")
    assert (step.code, step.unit, step.season, step.per_day) == ("10step", Unit.step, 1, None)
    assert [step.text(time) for time in step.future(pd.Timestamp(120, unit="s"), 2)] == ["130", "140"]


def on_day(day: int, months: int = 1, n: int = 60) -> pd.DatetimeIndex:
    """A day of every nth month, or the last one of shorter months."""
    starts = pd.date_range("2004-01-01", periods=n, freq=f"{months}MS")
    return pd.DatetimeIndex([start.replace(day=min(day, start.days_in_month)) for start in starts])


def on_weekdays(*days: int, weeks: int = 30) -> pd.DatetimeIndex:
    every = pd.date_range("2021-01-04", periods=7 * weeks, freq="D")
    return every[np.isin(every.day_of_week, days)]


def nth_weekday(nth: int, weekday: int, months: int = 1) -> pd.DatetimeIndex:
    """The nth weekday of every nth month; -1 is the last."""
    days = [
        pd.date_range(start, periods=start.days_in_month)
        for start in pd.date_range("2010-01-01", periods=40, freq=f"{months}MS")
    ]
    return pd.DatetimeIndex([month[month.day_of_week == weekday][nth] for month in days])


@pytest.mark.parametrize(
    ("times", "code", "unit", "season"),
    [
        (on_day(15), "MS-15", Unit.month, 12),
        (on_day(28), "MS-28", Unit.month, 12),
        (on_day(29), "MS-29", Unit.month, 12),
        (on_day(30)[1:], "MS-30", Unit.month, 12),
        (on_day(31), "ME", Unit.month, 12),
        (on_day(10) + pd.Timedelta("13h"), "MS-10", Unit.month, 12),
        (on_day(30).tz_localize("Europe/Berlin"), "MS-30", Unit.month, 12),
        (on_day(15, 2), "2MS-15", Unit.month, 6),
        (on_day(15, 3), "3MS-15", Unit.quarter, 4),
        (on_day(20, 12), "12MS-20", Unit.year, 1),
        (nth_weekday(0, 0), "WOM-1MON", Unit.month, 12),
        (nth_weekday(-1, 4), "LWOM-FRI", Unit.month, 12),
        (nth_weekday(2, 4, 3), "3WOM-3FRI", Unit.month, 4),
        (on_weekdays(0, 1, 2, 3, 4, 5), "C-MonTueWedThuFriSat", Unit.business_day, 6),
        (on_weekdays(6, 0, 1, 2, 3), "C-MonTueWedThuSun", Unit.business_day, 5),
        (on_weekdays(0, 2, 4) + pd.Timedelta("8h"), "C-MonWedFri", Unit.business_day, 3),
        (on_weekdays(5, 6), "C-SatSun", Unit.business_day, 2),
        (on_weekdays(0, 1, 2, 3, 4), "B", Unit.business_day, 5),
        (on_weekdays(2), "W-WED", Unit.week, 52),
    ],
)
def test_days_of_months_and_open_days(times: pd.DatetimeIndex, code: str, unit: Unit, season: int) -> None:
    """Red if rows before or after are on other days than those of the file, or the code reads as another step."""
    step = inferred(times[:-12])
    assert (step.code, step.unit, step.season) == (code, unit, season)
    assert Frequency.parse(code) == step
    assert step.future(times[-13], 12).equals(times[-12:])
    assert step.past(times[12], 12).equals(times[:12])
    np.testing.assert_array_equal(step.strides(times[[0, 1, 4, 20, -1]]), np.diff([0, 1, 4, 20, len(times) - 1]))


def test_a_few_missing_days_are_no_closed_days() -> None:
    """Red if a weekday without rows in two weeks is never forecast."""
    days = pd.date_range("2024-01-01", periods=19)
    assert Frequency.closest(days[days.day_of_week != 6])[0].code == "D"
    days = pd.date_range("2024-01-01", periods=90)
    step = Frequency.closest(days[(days.day_of_week != 6) | (days == days[48])])[0]
    assert step.strides(days).min() == 1 or step.code == "C-MonTueWedThuFriSat"


@pytest.mark.parametrize(
    ("first", "step", "earliest", "latest", "unit"),
    [
        ("2024-01-01 10:00", "10min", 0, 8, "s"),
        ("2024-01-01 10:03", "10min", -3, 3, "s"),
        ("2024-01-01 10:02:17", "10min", -4, 4, "s"),
        ("2024-01-01 10:00", "10min", -140, 140, "s"),
        ("2024-01-01 08:00", "D", -1000, 1000, "s"),
        ("2024-01-01 16:00", "B", 0, 30, "s"),
        ("2024-01-01", "s", -200, 200, "ms"),
        ("2024-01-01", "333333333ns", 0, 0, "us"),
        ("2024-01-01", "16666667ns", 0, 0, "us"),
        ("2024-01-01", "16666667ns", 0, 0, "ms"),
    ],
)
@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_times_with_jitter(first: str, step: str, earliest: int, latest: int, unit: str, zone: str | None) -> None:
    """Red if the grid has another step or start, or if missing and double rows go."""
    grid = pd.date_range(first, periods=300, freq=step).tz_localize("UTC").tz_convert(zone).as_unit("ns")
    random = np.random.default_rng(0)
    times = (grid + pd.to_timedelta(random.integers(earliest, latest + 1, 300), unit=unit)).as_unit(unit)
    if zone is not None and step in ("D", "B"):
        assert on_grid(times, None) is None  # calendar days are not all of one length
        return
    rounded = on_grid(times, None)
    assert rounded is not None
    assert rounded[0].as_unit("ns").equals(grid)
    deviation = np.abs((times - grid) / pd.Timedelta("1s")).max()
    assert float(rounded[1].split()[-3]) == pytest.approx(deviation, rel=0.01)
    if step == "B":
        return  # its gaps are weekends
    damaged = times.delete([40, 41, 90]).insert(200, times[203])[::-1]
    rounded = on_grid(damaged, None)
    assert rounded is not None
    assert rounded[0].as_unit("ns").equals(grid.delete([40, 41, 90]).insert(200, grid[203])[::-1])


@pytest.mark.parametrize(
    "times",
    [
        pd.date_range("2024-01-01", periods=400, freq="6h", tz="UTC").tz_convert("Europe/Berlin").tz_localize(None),
        pd.date_range("2024-01-01", periods=400, freq="D", tz="Europe/Berlin").tz_convert("UTC"),
        pd.date_range("2024-01-01", periods=40, freq="ME"),
        pd.date_range("2024-01-01", periods=400, freq="10min").insert(7, pd.Timestamp("2024-01-01 01:04:11")),
        pd.to_datetime(np.random.default_rng(0).integers(0, 400_000, 300).cumsum(), unit="s"),
        pd.date_range("2024-01-01", periods=40, freq="2D") + pd.to_timedelta(np.arange(40) ** 2 % 7, unit="s"),
    ],
    ids=["clock changes", "days in a zone", "months", "one wrong row", "events", "every second day"],
)
def test_what_is_no_jitter(times: pd.DatetimeIndex) -> None:
    """Red if rows that are on no grid, or hours off it, are moved."""
    assert on_grid(times, None) is None


def test_jitter_of_few_times_with_an_expected_step() -> None:
    """Red if the rows of a forecast are put on another grid than those of training."""
    times = pd.DatetimeIndex(["2024-01-01 10:00:07", "2024-01-01 10:10:05", "2024-01-01 10:20:06"])
    rounded = on_grid(times, Frequency.parse("10min"))
    assert rounded is not None
    assert rounded[0].equals(pd.date_range("2024-01-01 10:00", periods=3, freq="10min"))
    assert on_grid(times, Frequency.parse("h")) is None
    assert Frequency.parse("333333333ns").season == 3 * 3600


@pytest.mark.parametrize("code", ["W-MON", "W-FRI", "2W-SUN"])
@pytest.mark.parametrize("clock", ["0h", "8h"])
def test_weeks_dated_a_day_off(code: str, clock: str) -> None:
    """Red if a week after a holiday is an uneven step, or weekdays that say nothing are moved."""
    weeks = pd.date_range("2021-01-01", periods=60, freq=code) + pd.Timedelta(clock)
    shifted = weeks + pd.to_timedelta(np.where(np.arange(60) % 9 == 4, [1, -2, 3] * 20, 0), unit="D")
    found = on_grid(shifted, None)
    assert found is not None
    assert found[0].equals(weeks)
    assert "week" in found[1]
    few = on_grid(shifted[3:6], Frequency.parse(code))
    assert few is not None
    assert few[0].equals(weeks[3:6])
    assert [on_grid(shifted[:n], None) is None for n in (9, 10)] == [True, False]  # without one, ten show the weekday
    assert on_grid(weeks, None) is None
    assert on_grid(weeks + pd.to_timedelta(np.arange(60) % 7 * (np.arange(60) % 2), unit="D"), None) is None
    double = shifted.insert(0, weeks[0] + pd.Timedelta("1D"))  # two rows in a week
    assert on_grid(double, None) is None


@pytest.mark.parametrize(
    ("times", "code"),
    [
        (pd.DatetimeIndex(["2020-12-01", "2021-01-01", "2021-02-01"]), "MS"),  # all of 31 days
        (pd.DatetimeIndex(["2020-12-01 10:00", "2020-12-01 10:20"]), "20min"),
        (pd.date_range("2020-01-06", periods=60, freq="B").delete([2, 30]), "B"),  # days would do for four rows
        (pd.date_range("2020-01-06", periods=60, freq="D").delete([2, 30]), "D"),
    ],
)
def test_the_step_of_few_rows_or_of_rows_with_gaps(times: pd.DatetimeIndex, code: str) -> None:
    assert Frequency.closest(times)[0].code == code


def test_closest_counts_the_rows_before_the_gap() -> None:
    for code in ("15min", "B", "MS"):
        timestamps = pd.date_range("2020-01-01", periods=60, freq=code)
        frequency, kept = Frequency.closest(timestamps.delete(41))
        assert (frequency.code, kept) == (code, 41)


@pytest.mark.parametrize("code", ["h", "D", "MS", "YS"])
@pytest.mark.parametrize(("row", "way"), [("2262-04-11", Frequency.future), ("1677-09-22", Frequency.past)])
def test_steps_beyond_what_nanoseconds_count_are_told(code: str, row: str, way: Callable) -> None:
    with pytest.raises(InputError, match=row):
        way(Frequency.parse(code), pd.Timestamp(row).as_unit("ns"), 24)
    assert len(way(Frequency.parse(code), pd.Timestamp(row).as_unit("s"), 24)) == 24


@pytest.mark.parametrize("code", ["15min", "B", "MS", "W-WED", "36h", "1500ms", "QE-DEC"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_strides_count_the_steps_between_rows(code: str, zone: str | None) -> None:
    """Rows taken out leave strides as long as the hole; a row next to the grid leaves none on either side of it."""
    timestamps = pd.date_range("2020-01-01", periods=60, freq=code, tz=zone)
    kept = np.array([0, 1, 2, 7, 8, 20, 59])
    frequency = Frequency.parse(code)
    np.testing.assert_array_equal(frequency.strides(timestamps[kept]), np.diff(kept))
    moved = timestamps[kept].insert(4, timestamps[7] + pd.Timedelta("77ms"))
    np.testing.assert_array_equal(frequency.strides(moved), [1, 1, 5, 0, 0, 12, 39])


def test_years_far_away() -> None:
    timestamps = pd.DatetimeIndex(np.array(["2021-01-01", "2021-01-02", "2021-01-03", "9021-01-04"], "datetime64[s]"))
    assert Frequency.closest(timestamps)[0].code == "D"
    assert Frequency.parse("D").strides(timestamps)[-1] == (timestamps[3] - timestamps[2]).days


def test_a_zone_with_clock_changes() -> None:
    """Hours are counted through the change, days are calendar days."""
    for code in ("h", "D"):
        timestamps = pd.date_range("2024-03-20", periods=400 if code == "h" else 40, freq=code, tz="Europe/Berlin")
        assert inferred(timestamps).code == code
        assert Frequency.parse(code).future(timestamps[-8], 7).equals(timestamps[-7:])


# zone, step, rows before the change, and the one in it with those after, as a clock at the place shows them
CLOCK_CHANGES = {
    "left out, midnight": (
        "America/Santiago",
        "D",
        ["2024-09-05T00:00-04:00", "2024-09-06T00:00-04:00", "2024-09-07T00:00-04:00"],
        ["2024-09-08T01:00-03:00", "2024-09-09T00:00-03:00", "2024-09-10T00:00-03:00"],
    ),
    "left out": (
        "Europe/Berlin",
        "D",
        ["2024-03-28T02:30+01:00", "2024-03-29T02:30+01:00", "2024-03-30T02:30+01:00"],
        ["2024-03-31T03:00+02:00", "2024-04-01T02:30+02:00", "2024-04-02T02:30+02:00"],
    ),
    "twice": (
        "Europe/Berlin",
        "D",
        ["2024-10-24T02:30+02:00", "2024-10-25T02:30+02:00", "2024-10-26T02:30+02:00"],
        ["2024-10-27T02:30+02:00", "2024-10-28T02:30+01:00", "2024-10-29T02:30+01:00"],
    ),
    "weeks": (
        "Europe/Berlin",
        "W-SUN",
        ["2024-03-10T02:30+01:00", "2024-03-17T02:30+01:00", "2024-03-24T02:30+01:00"],
        ["2024-03-31T03:00+02:00", "2024-04-07T02:30+02:00", "2024-04-14T02:30+02:00"],
    ),
    "months": (
        "Europe/Berlin",
        "ME",
        ["2023-12-31T02:30+01:00", "2024-01-31T02:30+01:00", "2024-02-29T02:30+01:00"],
        ["2024-03-31T03:00+02:00", "2024-04-30T02:30+02:00", "2024-05-31T02:30+02:00"],
    ),
    "a day left out": (
        "Pacific/Apia",
        "D",
        ["2011-12-27T00:00-10:00", "2011-12-28T00:00-10:00", "2011-12-29T00:00-10:00"],
        ["2011-12-31T00:00+14:00", "2012-01-01T00:00+14:00", "2012-01-02T00:00+14:00"],
    ),
}


@pytest.mark.parametrize("change", CLOCK_CHANGES)
def test_calendar_steps_through_a_clock_change(change: str) -> None:
    """Red if a time that the clock leaves out, or shows twice, raises, or moves the rows after it."""
    zone, code, before, after = CLOCK_CHANGES[change]
    times = pd.DatetimeIndex([pd.Timestamp(text).tz_convert(zone) for text in before + after])
    frequency = Frequency.parse(code)
    for n in range(1, 4):
        assert frequency.future(times[n - 1], 6 - n).equals(times[n:])
        assert frequency.grid(times[0], n + 3).equals(times[: n + 3])
    for row in (4, 5):
        assert frequency.past(times[row], row).equals(times[:row])
    for begin in range(4):
        assert (frequency.strides(times[begin:]) == 1).all()
    if change != "twice":
        assert inferred(times).offset == frequency.offset
    # what the change has moved is shown by a row next to it
    assert frequency.future(times[3], 2, like=times[2]).equals(times[4:])
    assert frequency.past(times[3], 3, like=times[4]).equals(times[:3])


def test_rows_in_the_hour_that_stands_twice() -> None:
    """Its second half hour continues the days as the first does; both are one too many."""
    clock = pd.date_range("2024-10-20 02:30", periods=12, freq="D")
    first, second = (clock.tz_localize("Europe/Berlin", ambiguous=np.full(12, dst)) for dst in (True, False))
    assert first[7] != second[7]
    for times in (first, second):
        assert inferred(times).code == "D"
        assert Frequency.parse("D").strides(times[7:]).tolist() == [1, 1, 1, 1]
    assert 0 in Frequency.parse("D").strides(first.insert(8, second[7]))


@pytest.mark.parametrize("hour", ["00:00", "02:30"])
def test_a_row_beside_a_clock_change_is_on_no_step(hour: str) -> None:
    """Fails if any hour of the day of the clock change is accepted."""
    times = Frequency.parse("D").grid(pd.Timestamp(f"2024-03-25 {hour}", tz="Europe/Berlin"), 12)
    moved = times.delete(6).insert(6, times[6] + pd.Timedelta("2h"))
    assert Frequency.parse("D").strides(times).tolist() == [1] * 11
    assert Frequency.parse("D").strides(moved).tolist() == [1] * 5 + [0, 0] + [1] * 4


def test_seasons_return_to_the_same_phase() -> None:
    """A season of steps is a whole number of its cycle, whatever the multiple."""
    for hours in (1, 2, 5, 7, 9, 23):
        season = Frequency.parse(f"{hours}h").season
        assert season * hours % 24 == 0
        assert not np.any(np.arange(1, season) * hours % 24 == 0)


@pytest.mark.parametrize(
    ("span", "code", "rows"),
    [
        ("24", "h", 24),
        (7, "MS", 7),
        ("1day", "15min", 96),
        ("2w", "h", 336),
        ("2 weeks", "D", 14),
        ("90min", "30min", 3),
        ("1y", "MS", 12),
        ("1year", "ME", 12),
        ("2years", "QE-DEC", 8),
        ("3 Months", "D", 90),
        ("2w", "B", 10),
        ("1w", "C-MonTueWedThuFriSat", 6),
        ("1w", "h-MonTueWedThuFri0900-1600-Sat0900-1200", 44),
        ("1year", "W-MON", 52),
        ("3months", "MS-15", 3),
        ("1year", "MS-30", 12),
        ("1year", "12MS-15", 1),
        ("1hour", "h-MonTueWedThuFri0900-1600", 1),
    ],
)
def test_rows_of_a_span(span: int | str, code: str, rows: int) -> None:
    assert Frequency.parse(code).rows_of(span) == rows


BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("ahead", "code", "first", "last"),
    [
        ("1day", "15min", "2024-03-31T00:00+01:00", "2024-03-31T23:45+02:00"),
        ("1day", "15min", "2024-10-27T00:00+02:00", "2024-10-27T23:45+01:00"),
        ("2days", "h", "2024-03-30T00:00+01:00", "2024-03-31T23:00+02:00"),
        ("1week", "D", "2024-03-29T00:00+01:00", "2024-04-04T00:00+02:00"),
        ("2024-03-31", "15min", "2024-03-30T12:00+01:00", "2024-03-31T23:45+02:00"),
        ("2024-10-27T02:00+01:00", "15min", "2024-10-27T00:00+02:00", "2024-10-27T02:00+01:00"),
        ("2024-10-28", "D", "2024-10-25T00:00+02:00", "2024-10-28T00:00+01:00"),
        ("2024-06-30", "MS", "2024-01-01T00:00+01:00", "2024-06-01T00:00+02:00"),
        ("2days", "h-MonTueWedThuFri0900-1600", "2024-06-27T09:00+02:00", "2024-06-28T16:00+02:00"),
        ("3days", "h-MonTueWedThuFri0900-1600-Sat0900-1200", "2024-06-27T09:00+02:00", "2024-06-29T12:00+02:00"),
        ("1day", "B", "2024-06-28T00:00+02:00", "2024-06-28T00:00+02:00"),
        ("2024-06-30", "h-MonTueWedThuFri0900-1600", "2024-06-27T09:00+02:00", "2024-06-28T16:00+02:00"),
    ],
)
def test_rows_ahead_are_counted_by_the_clock(ahead: str, code: str, first: str, last: str) -> None:
    """Red if a day of a clock change has 96 quarters of an hour, or the last day of a date is left out."""
    step, ends = Frequency.parse(code), pd.to_datetime([first, last], utc=True).tz_convert(BERLIN)
    before = step.past(ends[0], 3)
    rows = step.rows_of(ahead, before)
    future = step.future(before[-1], rows + 1)
    assert (future[0], future[rows - 1]) == (ends[0], ends[1])


@pytest.mark.parametrize(
    ("span", "code"),
    [
        ("1h", "D"),
        ("1h", "B"),
        ("20min", "30min-MonTueWedThuFri0900-1600"),
        ("300 years", "h"),
        ("300years", "MS"),
        ("0", "h"),
        ("soon", "h"),
        ("1 fortnight", "h"),
        ("2w", "step"),
    ],
)
def test_what_is_no_span_of_rows(span: str, code: str) -> None:
    with pytest.raises(InputError, match="horizon"):
        Frequency.parse(code).rows_of(span)


@pytest.mark.parametrize("code", ["h", "MS", "h-MonTueWedThuFri0900-1600"])
def test_a_date_that_has_passed_is_no_end(code: str) -> None:
    before = pd.date_range("2024-01-01", periods=3, freq="MS")
    with pytest.raises(InputError, match="until=2024-02-28: expected a date after the last row, 2024-03-01"):
        Frequency.parse(code).rows_of("2024-02-28", before)


@pytest.mark.parametrize(
    ("code", "word", "n", "span"),
    [
        ("h", "hourly", 48, "48 hours"),
        ("h", "hourly", 168, "7 days"),
        ("h", "hourly", 100, "100 hours"),
        ("15min", "15-minute", 96, "24 hours"),
        ("15min", "15-minute", 7, "105 minutes"),
        ("30s", "30-second", 120, "1 hour"),
        ("D", "daily", 14, "14 days"),
        ("2D", "2-day", 7, "14 days"),
        ("B", "business-day", 5, "5 business days"),
        ("W-SUN", "weekly", 52, "52 weeks"),
        ("MS", "monthly", 12, "12 months"),
        ("QS-JAN", "quarterly", 1, "1 quarter"),
        ("YE-DEC", "yearly", 3, "3 years"),
        ("6h", "6-hour", 8, "48 hours"),
        # half a month, half a year and half a second are no multiples of a unit
        ("SMS-15", "SMS-15-step", 24, "24 rows"),
        pytest.param(
            *("HYS-JAN", "HYS-JAN-step", 2, "2 rows"),
            marks=pytest.mark.skipif(not hasattr(pd.offsets, "HalfYearBegin"), reason="pandas 3 has half-years"),
        ),
        ("500ms", "500ms-step", 10, "10 rows"),
    ],
)
def test_steps(code: str, word: str, n: int, span: str) -> None:
    frequency = Frequency.parse(code)
    assert adjective(frequency) == word
    assert lasting(n, frequency) == span


def test_a_few_missing_rows_are_no_opening_hours() -> None:
    """Red if the last row of a day, missing in the only week, makes an evening when nothing is open."""
    times = pd.date_range("2000-01-01", periods=31, freq="6h")
    assert Frequency.closest(times.delete([19]))[0].code == "6h"
    assert Frequency.closest(times[times.hour < 18])[0].code.startswith("6h-Mon")
