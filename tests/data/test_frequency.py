"""Steps between rows: every pandas offset, old spelling or new; inferred from rows, continued, and put into words."""

import numpy as np
import pandas as pd
import pytest

from informer import InputError
from informer.read.frequency import Frequency, Unit

# spelling -> canonical code, unit, rows in a season, rows in a day
OFFSETS = {
    "s": ("s", Unit.second, 3600, 86400),
    "S": ("s", Unit.second, 3600, 86400),
    "500ms": ("500ms", Unit.second, 7200, 172800),
    "L": ("ms", Unit.second, 3_600_000, 86_400_000),
    "us": ("us", Unit.second, 3_600_000_000, 86_400_000_000),
    "N": ("ns", Unit.second, 3_600_000_000_000, 86_400_000_000_000),
    "T": ("min", Unit.minute, 1440, 1440),
    "15min": ("15min", Unit.minute, 96, 96),
    "2h30min": ("150min", Unit.minute, 48, None),
    "h": ("h", Unit.hour, 24, 24),
    "H": ("h", Unit.hour, 24, 24),
    "7h": ("7h", Unit.hour, 24, None),
    "1D12h": ("36h", Unit.hour, 2, None),
    "24h": ("D", Unit.day, 7, 1),
    "D": ("D", Unit.day, 7, 1),
    "2D": ("2D", Unit.day, 7, None),
    "B": ("B", Unit.business_day, 5, None),
    "C": ("C", Unit.business_day, 5, None),
    "7D": ("7D", Unit.week, 52, None),
    "2W": ("2W-SUN", Unit.week, 26, None),
    "SM": ("SME-15", Unit.week, 24, None),
    "SMS": ("SMS-15", Unit.week, 24, None),
    "M": ("ME", Unit.month, 12, None),
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
    "A-JUN": ("YE-JUN", Unit.year, 1, None),
    "AS": ("YS-JAN", Unit.year, 1, None),
    "BA": ("BYE-DEC", Unit.year, 1, None),
    "BAS": ("BYS-JAN", Unit.year, 1, None),
    "RE-N-DEC-MON": ("RE-N-DEC-MON", Unit.year, 1, None),
}


@pytest.mark.parametrize("text", OFFSETS)
def test_every_spelling_has_one_meaning(text: str) -> None:
    """Also red if the rows that follow are not those of pandas."""
    frequency = Frequency.parse(text)
    code, unit, season, per_day = OFFSETS[text]
    assert (frequency.code, frequency.unit, frequency.season, frequency.per_day) == (code, unit, season, per_day)
    assert Frequency.parse(code) == frequency
    if code not in ("ns", "us"):
        freq = pd.offsets.LastWeekOfMonth(weekday=4) if code == "LWOM-FRI" else code  # no code of pandas 2
        timestamps = pd.date_range("2020-01-03", periods=20, freq=freq)
        assert frequency.future(timestamps[12], 7).equals(timestamps[13:])
        assert len(frequency.future(timestamps[12], 0)) == 0


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


INFERRED = ["s", "10s", "500ms", "min", "15min", "90min", "h", "7h", "36h", "D", "2D", "B", "W-MON", "2W-WED", "MS"]
INFERRED += ["2MS", "BME", "BMS", "QE-DEC", "BQE-DEC", "YE-DEC", "YS-MAR", "BYS-JAN", "2YS-JAN", "4ME", "ME"]


@pytest.mark.parametrize(
    ("times", "code", "season"),
    [
        *((pd.date_range("2021-03-01 09:00", periods=60, freq=code), code, None) for code in INFERRED),
        (pd.date_range("2024-03-20", periods=400, freq="h", tz="Europe/Berlin"), "h", 24),
        (pd.date_range("2024-03-20", periods=40, freq="D", tz="Europe/Berlin"), "D", 7),
        (at_hours("1h", OFFICE), "h-MonTueWedThuFri0900-1600", 8),
        (at_hours("30min", SHOP), "30min-MonTueWedThuFri0830-1930-Sat0900-1200", 122),
        (at_hours("1h", PLANT), "h-MonTueWedThuFriSatSun0600-2200", 17),
        (at_hours("15min", DAYS), "15min-MonTueWedThuFri0000-2345", 96),
        (at_hours("1h", OFFICE, zone="Europe/Berlin"), "h-MonTueWedThuFri0900-1600", 8),
        (on_day(15), "MS-15", 12),
        (on_day(28), "MS-28", 12),
        (on_day(29), "MS-29", 12),
        (on_day(30)[1:], "MS-30", 12),
        (on_day(31), "ME", 12),
        (on_day(10) + pd.Timedelta("13h"), "MS-10", 12),
        (on_day(30).tz_localize("Europe/Berlin"), "MS-30", 12),
        (on_day(15, 2), "2MS-15", 6),
        (on_day(15, 3), "3MS-15", 4),
        (on_day(20, 12), "12MS-20", 1),
        (nth_weekday(0, 0), "WOM-1MON", 12),
        (nth_weekday(-1, 4), "LWOM-FRI", 12),
        (nth_weekday(2, 4, 3), "3WOM-3FRI", 4),
        (on_weekdays(0, 1, 2, 3, 4, 5), "C-MonTueWedThuFriSat", 6),
        (on_weekdays(6, 0, 1, 2, 3), "C-MonTueWedThuSun", 5),
        (on_weekdays(0, 2, 4) + pd.Timedelta("8h"), "C-MonWedFri", 3),
        (on_weekdays(5, 6), "C-SatSun", 2),
        (on_weekdays(2), "W-WED", 52),
    ],
)
def test_a_step_is_inferred_and_continued(times: pd.DatetimeIndex, code: str, season: int | None) -> None:
    """Red if rows before or after are on other days or hours than those of the file, or a hole has another length."""
    n = 3 * len(times) // 5
    step, n_following = Frequency.closest(times[:n])
    assert (step.code, n_following) == (code, n)
    assert season in (None, step.season)
    assert Frequency.parse(code) == step
    assert step.future(times[n - 1], len(times) - n).equals(times[n:])
    assert step.past(times[n], n).equals(times[:n])
    assert step.grid(times[0], len(times)).equals(times)
    kept = [0, 1, 2, 7, 8, 20, 25]
    np.testing.assert_array_equal(step.strides(times[kept]), np.diff(kept))
    moved = times[kept].insert(4, times[7] + pd.Timedelta("77ms"))
    np.testing.assert_array_equal(step.strides(moved), [1, 1, 5, 0, 0, 12, 5])
    assert len(step.strides(times[:1])) == 0


@pytest.mark.parametrize(
    "text", ["", "hourly", "0h", "-1h", "-2M", "5", "h-Mon0900", "h-Mon1700-0900", "D-Mon0900-1600"]
)
def test_what_is_no_step_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="frequency"):
        Frequency.parse(text)


@pytest.mark.parametrize(("code", "row", "way"), [("h", "2262-04-11", "future"), ("MS", "1677-09-22", "past")])
def test_steps_beyond_what_nanoseconds_count_are_told(code: str, row: str, way: str) -> None:
    step = Frequency.parse(code)
    with pytest.raises(InputError, match=row):
        getattr(step, way)(pd.Timestamp(row).as_unit("ns"), 24)
    assert len(getattr(step, way)(pd.Timestamp(row).as_unit("s"), 24)) == 24


# zone, step, three rows before the change, and the one in it with two after, as a clock at the place shows them
CLOCK_CHANGES = {
    "midnight left out": (
        "America/Santiago", "D", "2024-09-05T00:00-04 2024-09-06T00:00-04 2024-09-07T00:00-04",
        "2024-09-08T01:00-03 2024-09-09T00:00-03 2024-09-10T00:00-03",
    ),
    "left out": (
        "Europe/Berlin", "D", "2024-03-28T02:30+01 2024-03-29T02:30+01 2024-03-30T02:30+01",
        "2024-03-31T03:00+02 2024-04-01T02:30+02 2024-04-02T02:30+02",
    ),
    "twice": (
        "Europe/Berlin", "D", "2024-10-24T02:30+02 2024-10-25T02:30+02 2024-10-26T02:30+02",
        "2024-10-27T02:30+02 2024-10-28T02:30+01 2024-10-29T02:30+01",
    ),
    "weeks": (
        "Europe/Berlin", "W-SUN", "2024-03-10T02:30+01 2024-03-17T02:30+01 2024-03-24T02:30+01",
        "2024-03-31T03:00+02 2024-04-07T02:30+02 2024-04-14T02:30+02",
    ),
    "months": (
        "Europe/Berlin", "ME", "2023-12-31T02:30+01 2024-01-31T02:30+01 2024-02-29T02:30+01",
        "2024-03-31T03:00+02 2024-04-30T02:30+02 2024-05-31T02:30+02",
    ),
    "a day left out": (
        "Pacific/Apia", "D", "2011-12-27T00:00-10 2011-12-28T00:00-10 2011-12-29T00:00-10",
        "2011-12-31T00:00+14 2012-01-01T00:00+14 2012-01-02T00:00+14",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CLOCK_CHANGES)
def test_calendar_steps_through_a_clock_change(change: str) -> None:
    """Red if a time that the clock leaves out, or shows twice, raises, or moves the rows after it."""
    zone, code, before, after = CLOCK_CHANGES[change]
    times = pd.DatetimeIndex([pd.Timestamp(text).tz_convert(zone) for text in f"{before} {after}".split()])
    frequency = Frequency.parse(code)
    for n in range(1, 4):
        assert frequency.future(times[n - 1], 6 - n).equals(times[n:])
        assert frequency.grid(times[0], n + 3).equals(times[: n + 3])
    for row in (4, 5):
        assert frequency.past(times[row], row).equals(times[:row])
    for begin in range(4):
        assert (frequency.strides(times[begin:]) == 1).all()
    if change != "twice":
        assert Frequency.closest(times) == (frequency, len(times))
    # what the change has moved is shown by a row next to it
    assert frequency.future(times[3], 2, like=times[2]).equals(times[4:])
    assert frequency.past(times[3], 3, like=times[4]).equals(times[:3])


SPANS = {
    "h": {"24": 24, "2w": 336}, "MS": {7: 7, "1y": 12}, "15min": {"1day": 96}, "D": {"2 weeks": 14, "3 Months": 90},
    "30min": {"90min": 3}, "ME": {"1year": 12}, "QE-DEC": {"2years": 8}, "B": {"2w": 10}, "W-MON": {"1year": 52},
    "C-MonTueWedThuFriSat": {"1w": 6}, "h-MonTueWedThuFri0900-1600-Sat0900-1200": {"1w": 44}, "MS-15": {"3months": 3},
    "MS-30": {"1year": 12}, "12MS-15": {"1year": 1}, "h-MonTueWedThuFri0900-1600": {"1hour": 1},
}  # fmt: skip
"""Rows of spans by step."""


@pytest.mark.parametrize("code", SPANS)
def test_rows_of_a_span(code: str) -> None:
    assert {span: Frequency.parse(code).rows_of(span) for span in SPANS[code]} == SPANS[code]


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
    ("span", "code", "setting"),
    [
        *((span, code, "horizon") for span, code in (("1h", "D"), ("1h", "B"), ("300 years", "h"), ("0", "h"))),
        *((span, code, "horizon") for span, code in (("soon", "h"), ("2w", "step"))),
        ("20min", "30min-MonTueWedThuFri0900-1600", "horizon"),
        *(("2024-02-28", code, "until") for code in ("h", "h-MonTueWedThuFri0900-1600")),
    ],
)
def test_what_is_no_span_of_rows(span: str, code: str, setting: str) -> None:
    before = pd.date_range("2024-01-01", periods=3, freq="MS") if setting == "until" else None
    with pytest.raises(InputError, match=f"^{setting}"):
        Frequency.parse(code).rows_of(span, before)
