"""Every pandas offset, old spelling or new: one unit, season and grid, and inferred from its own timestamps."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from informer.base.errors import InputError
from informer.read.frequency import Frequency, Unit

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
    "bh": ("bh", Unit.hour, 8, None),
    "BH": ("bh", Unit.hour, 8, None),
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


INFERRED = ["s", "10s", "500ms", "min", "15min", "90min", "h", "7h", "36h", "bh", "D", "2D", "B", "W-MON", "2W-WED"]
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
    timestamps = pd.date_range("2020-01-03", periods=20, freq=code)
    future = Frequency.parse(code).future(timestamps[12], 7)
    assert future.equals(timestamps[13:])
    assert len(Frequency.parse(code).future(timestamps[12], 0)) == 0


def test_three_months_of_31_days_are_months() -> None:
    assert inferred(pd.DatetimeIndex(["2020-12-01", "2021-01-01", "2021-02-01"])).code == "MS"


def test_two_rows_show_a_step() -> None:
    assert inferred(pd.DatetimeIndex(["2020-12-01 10:00", "2020-12-01 10:20"])).code == "20min"


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


def test_the_step_shows_through_gaps_at_the_start() -> None:
    """Days would do for the first four rows of business days."""
    timestamps = pd.date_range("2020-01-06", periods=60, freq="B")
    assert Frequency.closest(timestamps.delete([2, 30]))[0].code == "B"
    days = pd.date_range("2020-01-06", periods=60, freq="D")
    assert Frequency.closest(days.delete([2, 30]))[0].code == "D"


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
        assert frequency.follows(times[begin:]) == 6 - begin
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
