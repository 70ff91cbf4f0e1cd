"""The step of a series: any pandas offset, in old or new spelling, of numbers of rows, or within opening hours.

It is set or inferred from the times, counts and continues them, and has seasons and words (`hourly`, `48 hours`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import tzinfo
from enum import Enum
from functools import lru_cache
from math import gcd, lcm
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import (
    BaseOffset,
    CustomBusinessDay,
    DateOffset,
    Day,
    LastWeekOfMonth,
    Tick,
    Week,
    WeekOfMonth,
)

from informer.base.errors import InputError, TimeError, counted
from informer.config.data import SPANS, date_problems, span_of, span_problems
from informer.read.closures import (
    CALENDAR,
    OPENING,
    WEEKDAYS,
    OpenHours,
    are_closed,
    check_calendar,
    find_calendar,
    hours_shown,
    opening_hours,
)

SECOND = 10**9
DAY = 86_400 * SECOND

# old spellings, which pandas 3 rejects, but datasets, papers and older code still use
MODERN = {"T": "min", "H": "h", "S": "s", "L": "ms", "U": "us", "N": "ns", "M": "ME", "Q": "QE", "A": "YE", "Y": "YE"}
MODERN |= {old.lower(): new for old, new in MODERN.items()} | {code.lower(): code for code in "DBCW"}
MODERN |= {"SM": "SME", "BM": "BME", "CBM": "CBME", "BQ": "BQE", "BA": "BYE", "BY": "BYE", "AS": "YS", "BAS": "BYS"}

UNIT_NANOS = {"s": SECOND, "ms": 10**6, "us": 10**3, "ns": 1}

SIZES = {"D": DAY, "h": 3600 * SECOND, "min": 60 * SECOND, **UNIT_NANOS}


def nanos_of(offset: BaseOffset) -> int | None:
    """Length of a step of fixed length (days included), None for calendar steps."""
    # pandas 3 no longer counts Day among the ticks
    if isinstance(offset, Day):
        return offset.n * DAY
    return int(offset.nanos) if isinstance(offset, Tick) else None


def fixed(nanos: int) -> BaseOffset:
    """The offset of a fixed length in nanoseconds, in the coarsest unit up to days."""
    code, size = next((code, size) for code, size in SIZES.items() if nanos % size == 0)
    return to_offset(f"{nanos // size}{code}")


def usual_distance(timestamps: pd.DatetimeIndex) -> int:
    """The most frequent distance between rows, in the unit of the timestamps."""
    distances = np.diff(timestamps.asi8)
    if (distances == distances[0]).all():  # sorting them takes a second array
        return int(distances[0])
    gaps, counts = np.unique(distances, return_counts=True)
    return int(gaps[counts.argmax()])


def _month_steps(timestamps: pd.DatetimeIndex) -> Iterator[BaseOffset]:
    months = timestamps.year.to_numpy() * 12 + timestamps.month.to_numpy()
    steps, counts = np.unique(np.diff(months), return_counts=True)
    step, first = int(steps[counts.argmax()]), timestamps[0]
    month = first.month
    if step < 1:
        return
    for kind in ("S", "E"):
        for day in ("", "B"):
            if step % 12 == 0:
                yield to_offset(f"{step // 12}{day}Y{kind}-{_MONTHS[month - 1]}")
            elif step % 3 == 0:
                anchor = (month - 1) % 3 + (0 if kind == "S" else 9)
                yield to_offset(f"{step // 3}{day}Q{kind}-{_MONTHS[anchor]}")
            else:
                yield to_offset(f"{step}{day}M{kind}")
    yield DateOffset(n=step, months=1, day=int(timestamps.day.max()))
    yield WeekOfMonth(step, week=min((first.day + 6) // 7, 4) - 1, weekday=first.weekday())
    yield LastWeekOfMonth(step, weekday=first.weekday())  # type: ignore[arg-type]


CLOSED_WEEKS = 3
"""Number of weeks without rows on a weekday after which it is taken for closed."""

_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]

MOST_HOLIDAYS = 30
"""Days of a calendar in a short time, as of a new year."""

FARTHEST = 100
"""Calendar steps are counted up to this many per row on average; later rows count as off the step."""


class Unit(Enum):
    """The calendar unit of a step."""

    second = "second"
    minute = "minute"
    hour = "hour"
    day = "day"
    business_day = "business day"
    week = "week"
    month = "month"
    quarter = "quarter"
    year = "year"
    step = "step"
    """Rows with numbers instead of times."""


_FIXED = {Unit.week: 7 * DAY, Unit.day: DAY, Unit.hour: 3600 * SECOND, Unit.minute: 60 * SECOND, Unit.second: SECOND}
_BELOW_A_DAY = (Unit.hour, Unit.minute, Unit.second)

# prefix of the code -> unit, steps in a season; half-months carry a day of the month, as weeks do
_CALENDAR = {
    **dict.fromkeys(["B", "C"], (Unit.business_day, 5)),
    "W": (Unit.week, 52),
    **dict.fromkeys(["SME", "SMS"], (Unit.week, 24)),
    **dict.fromkeys(["ME", "MS", "BME", "BMS", "CBME", "CBMS", "WOM", "LWOM"], (Unit.month, 12)),
    **dict.fromkeys(["QE", "QS", "BQE", "BQS", "REQ"], (Unit.quarter, 4)),
    **dict.fromkeys(["HYE", "HYS", "BHYE", "BHYS"], (Unit.quarter, 2)),
    **dict.fromkeys(["YE", "YS", "BYE", "BYS", "RE"], (Unit.year, 1)),
}

_MONTHS_IN = {Unit.year: 12, Unit.quarter: 3, Unit.month: 1}

_OWN = re.compile(
    rf"(?P<n>\d*)(?:MS-(?P<day>[12]?\d|30)|C-(?P<weekdays>(?:{'|'.join(WEEKDAYS)}){{2,6}})"
    rf"|LWOM-(?P<last>{'|'.join(WEEKDAYS).upper()}))"
)
"""Steps that pandas has, but without a spelling (LWOM has one from pandas 3 on)."""
_CLOSED = re.compile(rf"(?P<open>.+?)-(?P<closed>{CALENDAR})")
_BUSINESS_HOURS = re.compile(r"(\d*)[bB][hH]")


def _own_offset(match: re.Match[str]) -> BaseOffset:
    n = int(match["n"] or 1)
    if match["day"]:
        return DateOffset(n=n, months=1, day=int(match["day"])) if int(match["day"]) > 1 else to_offset(f"{n}MS")
    if match["last"]:
        return LastWeekOfMonth(n, weekday=WEEKDAYS.index(match["last"].capitalize()))  # type: ignore[arg-type]
    days = [name for name in WEEKDAYS if name in match["weekdays"]]
    return to_offset(f"{n}B") if days == [*WEEKDAYS[:5]] else CustomBusinessDay(n, weekmask="".join(days))


def _end_of(date: str, first: pd.Timestamp) -> pd.Timestamp:
    """The first second after a date or moment, as local times or in the zone of `first`."""
    moment = pd.Timestamp(date)
    zone = moment.tz or first.tz
    end = moment + (DateOffset(days=1) if ":" not in date else pd.Timedelta(1, "s"))
    if moment.tz is None and zone is not None:
        end = end.tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
    return end.tz_localize(None) if first.tz is None else end.tz_convert(first.tz)


LONGEST = 100
"""Maximum length of a step in years, and maximum multiple of a calendar step."""


@dataclass(frozen=True, slots=True)
class Frequency:
    """A step between rows.

    `code` is canonical: equal steps have equal codes (60min and h, 24h and D) and `parse(f.code) == f`.

    Args:
        offset: the step as a pandas offset; a second for numbered rows.
        hours: opening hours outside of which there are no rows, for steps below a day.
        is_numbered: whether rows have numbers, such as 1, 2, 3, instead of times: there is no calendar.
        closed: calendar on whose days there are no rows, for steps of a day, a weekday, or within opening hours.
    """

    offset: BaseOffset
    hours: OpenHours | None = None
    is_numbered: bool = False
    closed: str = ""

    @classmethod
    @lru_cache(maxsize=256)
    def parse(cls, text: str) -> "Frequency":
        """Parse a pandas offset alias, with or without a multiple: h, H, 15min, 30T, D, B, W-MON, M, ME, MS, QS, Y ...

        MS-15 is the 15th of each month, and MS-30 the 30th or else the last day; C-MonTueSat are these weekdays. Steps
        below a day may have opening hours, of the first and the last row of a day: 30min-MonFri0800-1930-Sat0900-1230.
        B-XNYS are business days without those on which a market is closed, and C-MonTueWedThuFriSat-DE-BY weekdays
        without the holidays of a country or a part of it.
        `step` is the distance of rows that are numbered 1, 2, 3, and `10step` that of 10, 20, 30.

        Raises:
            InputError: not an offset, not a step forward, or a step of more than LONGEST years.
        """
        if numbered := re.fullmatch(r"(\d{0,6})step", text.strip()):
            return cls(fixed(max(1, int(numbered[1] or 1)) * SECOND), is_numbered=True)
        if (closed := _CLOSED.fullmatch(text.strip())) is not None:
            frequency = replace(cls.parse(closed["open"]), closed=closed["closed"])
            if not frequency.may_close:
                raise TimeError(f"frequency {text!r}: expected a day, weekdays or opening hours before the holidays")
            check_calendar(frequency.closed)
            return frequency
        text = _BUSINESS_HOURS.sub(r"\1h-MonTueWedThuFri0900-1600", text)
        if (start := OPENING.search(text)) is not None:
            step = cls.parse(text[: start.start()].rstrip("-"))
            if step.per_day is None or step.per_day == 1:
                raise TimeError(f"frequency {text!r}: expected a step that divides a day before the opening hours")
            return cls(step.offset, opening_hours(text[start.start() :]))
        modern = re.sub(r"(?<![-A-Za-z])[A-Za-z]+", lambda alias: MODERN.get(alias[0], alias[0]), text.strip())
        try:
            offset = _own_offset(own) if (own := _OWN.fullmatch(text.strip())) else to_offset(modern)
        except (ValueError, TypeError, OverflowError) as error:
            raise TimeError(
                f"frequency {text!r}: expected a pandas offset such as h, 15min, D, B, W, MS, ME, QS or YE"
            ) from error
        if offset is None or offset.n < 1:
            raise TimeError(f"frequency {text!r}: expected a step forward in time")
        nanos = nanos_of(offset)
        if offset.n > LONGEST if nanos is None else nanos > LONGEST * 366 * DAY:
            raise TimeError(f"frequency {text!r}: expected a step of at most {LONGEST} years")
        return cls(offset if nanos is None else fixed(nanos))

    @classmethod
    def closest(cls, timestamps: pd.DatetimeIndex) -> tuple["Frequency", int]:
        """The step that most rows follow, and the number of leading rows that follow it.

        Args:
            timestamps: two or more, increasing.

        Raises:
            ValueError: fewer than two rows.
        """
        if len(timestamps) < 2:
            raise ValueError(f"timestamps: expected at least 2 to see a step, found {len(timestamps)}")
        tried: list[tuple[Frequency, np.ndarray]] = []
        for frequency in cls._candidates(timestamps):
            tried.append((frequency, frequency.strides(timestamps) == 1))
            if tried[-1][1].all():
                break
        frequency, regular = max(tried, key=lambda each: int(each[1].sum()))
        return frequency, int(np.append(regular, False).argmin()) + 1

    @classmethod
    def _candidates(cls, timestamps: pd.DatetimeIndex) -> Iterator["Frequency"]:
        """Possible steps given the most frequent distance between rows, most likely first."""
        gap = usual_distance(timestamps) * UNIT_NANOS[timestamps.unit]
        if gap >= 28 * DAY:
            yield from map(cls, _month_steps(timestamps))
        if gap % (7 * DAY) == 0:
            yield cls(Week(gap // (7 * DAY), weekday=timestamps[0].weekday()))
        yield cls(fixed(gap))
        if gap % DAY == 0 and gap < 7 * DAY:  # from one open day to the next: business days, or weekdays that have rows
            yield cls(to_offset("B"))
            days = [WEEKDAYS[day] for day in np.unique(timestamps.day_of_week)]
            if 1 < len(days) < 7 and timestamps[-1] - timestamps[0] >= pd.Timedelta(weeks=CLOSED_WEEKS):
                yield cls(CustomBusinessDay(weekmask="".join(days)))
        if 13 * DAY <= gap <= 16 * DAY:
            yield from (cls(to_offset("SMS")), cls(to_offset("SME")))
        if (hours := hours_shown(timestamps, gap)) is not None:
            yield cls(fixed(gap), hours)

    def strides(self, timestamps: pd.DatetimeIndex) -> Int[np.ndarray, " steps"]:
        """Number of steps from each row to the next: 1 if regular, more over a gap, 0 if not a whole number.

        Args:
            timestamps: increasing.
        """
        nanos = nanos_of(self.offset)
        # days are calendar days, which may not have 24 hours in a time zone
        if nanos is None or self.hours or self.closed or (nanos % DAY == 0 and timestamps.tz is not None):
            return self._calendar_strides(timestamps)
        # a common unit, such as half seconds for steps of 1.5 s in timestamps of whole seconds
        unit = gcd(nanos, UNIT_NANOS[timestamps.unit])
        distances, each = np.diff(timestamps.asi8), UNIT_NANOS[timestamps.unit]
        if nanos % each == 0 and (distances == nanos // each).all():  # as usual: one number, repeated without memory
            return np.broadcast_to(np.int64(1), len(distances))
        steps, remainder = np.divmod(distances * (each // unit), nanos // unit)
        return np.where(remainder == 0, steps, 0)

    def _calendar_strides(self, timestamps: pd.DatetimeIndex) -> Int[np.ndarray, " steps"]:
        if len(timestamps) < 2:
            return np.zeros(0, dtype=np.int64)
        stamps = timestamps.asi8
        step = int(np.diff(self.grid(timestamps[0], 2).as_unit(timestamps.unit).asi8)[0])
        first, zone = self._clock(timestamps[0], like=timestamps[1])
        # a far-off date would take minutes to reach
        end = min(int(stamps[0]) + FARTHEST * len(stamps) * step, int(stamps[-1]))
        last = timestamps[int(stamps.searchsorted(end, side="right")) - 1]
        grid = localized(self._range(first, self._clock(last)[0]), zone)
        # compare local times, so that either of two equal hours matches
        positions = grid.tz_localize(None).get_indexer(timestamps.tz_localize(None))
        on_grid = (positions[1:] >= 0) & (positions[:-1] >= 0)
        return np.where(on_grid, np.diff(positions), 0)

    def grid(self, first: pd.Timestamp, n: int) -> pd.DatetimeIndex:
        """n timestamps at this step, starting at `first`.

        In a time zone, steps of days and more keep the local time of day. If a clock change skips it, the timestamp is
        the end of the gap; if it occurs twice, the first of the two.
        """
        start, zone = self._clock(first)
        return localized(self._range(start, n=n + 1), zone)[:n]

    def future(self, last: pd.Timestamp, n: int, *, like: pd.Timestamp | None = None) -> pd.DatetimeIndex:
        """The n timestamps after `last`.

        Args:
            last: the last row.
            n: number of timestamps.
            like: another row, whose time of day is used if a clock change has moved that of `last`.

        Raises:
            InputError: they are beyond the range of the unit of `last`, the year 2262 for nanoseconds.
        """
        return self._beyond(last, like, n, is_after=True)[:n]

    def past(self, first: pd.Timestamp, n: int, *, like: pd.Timestamp | None = None) -> pd.DatetimeIndex:
        """The n timestamps before `first`; `like` and errors as in `future`."""
        return self._beyond(first, like, n, is_after=False)[-n - 1 : -1]

    def _beyond(self, row: pd.Timestamp, like: pd.Timestamp | None, n: int, *, is_after: bool) -> pd.DatetimeIndex:
        """n + 2 times after a row, or up to it: pandas 3.0 makes no range of one from some offsets."""
        clock, zone = self._clock(row, like=like)
        try:
            start, end = (clock + self.offset, None) if is_after else (None, clock)
            return localized(self._range(start, end, n + 2), zone)
        except pd.errors.OutOfBoundsDatetime as error:
            raise TimeError(
                f"{row}: too close to the end of the range of times in {row.unit}; check the year, or use a coarser "
                "unit"
            ) from error

    def _range(
        self, start: pd.Timestamp | None = None, end: pd.Timestamp | None = None, n: int | None = None
    ) -> pd.DatetimeIndex:
        """`pandas.date_range` at this step, without closed hours and days."""
        if self.closed:
            times = replace(self, closed="")._range(start, end, None if n is None else n + n // 4 + MOST_HOLIDAYS)
            times = times[~are_closed(times, self.closed)]
            return times if n is None else times[:n] if end is None else times[-n:]
        if self.hours is None:
            # pandas 3 would choose this unit, pandas 2 nanoseconds
            units = [UNIT_NANOS[row.unit] for row in (start, end) if row is not None]
            size = gcd(nanos_of(self.offset) or SECOND, *units)
            unit = next(unit for unit, nanos in UNIT_NANOS.items() if size % nanos == 0)
            return pd.date_range(start, end, n, self.offset, unit=unit)  # type: ignore[call-overload]
        reach = pd.Timedelta(weeks=(n or 0) // self.seasons[-1] + 2)
        if end is None:
            assert start is not None
            return self._open(start, start + reach)[:n]
        return self._open(end - reach, end)[-n:] if start is None and n else self._open(start or end, end)

    def _open(self, start: pd.Timestamp, end: pd.Timestamp) -> pd.DatetimeIndex:
        """The times within opening hours from `start` to `end`."""
        days = pd.date_range(start.normalize(), end.normalize(), unit=start.unit)
        at = [days[days.day_of_week == weekday].to_numpy() for weekday in range(7)]
        rows = [np.add.outer(*each).ravel() for each in zip(at, self._rows_of_days, strict=True)]
        times = pd.DatetimeIndex(np.sort(np.concatenate(rows))).as_unit(start.unit)
        return times[(times >= start) & (times <= end)]

    @property
    def _rows_of_days(self) -> list[np.ndarray]:
        """For each weekday, the times of day of its rows within opening hours."""
        ends, step = [day or (0, -1) for day in self.hours or ()], (nanos_of(self.offset) or 0) // SECOND
        return [np.arange(60 * first, 60 * last + 1, step).astype("m8[s]") for first, last in ends]

    def _clock(self, row: pd.Timestamp, *, like: pd.Timestamp | None = None) -> tuple[pd.Timestamp, tzinfo | None]:
        """The start for counting steps: the row, or for calendar steps its local time, and its zone."""
        if row.tz is None or (self.unit in _BELOW_A_DAY and self.hours is None):
            return row, None
        wall = row.tz_localize(None)
        if like is not None:
            other = like.tz_localize(None)
            shifted = wall.normalize() + (other - other.normalize())
            wall = shifted if row in localized(pd.DatetimeIndex([shifted]), row.tz) else wall
        return wall, row.tz

    def periods(self, times: pd.DatetimeIndex) -> tuple[pd.DatetimeIndex, Int[np.ndarray, " t"]]:
        """The times of all periods of this step from the first to the last of `times`, and the period of each of these.

        A period has its beginning as time, or, as pandas resamples, its last day for weeks and ends of months. Times
        outside opening hours or days belong to the last open ones before.

        Raises:
            InputError: more than FARTHEST times as many periods as times.
        """
        nanos, zone = nanos_of(self.offset), times.tz
        wall = times.tz_localize(None) if nanos is None or nanos % DAY == 0 or self.hours is not None else times
        first, last = wall.min(), wall.max()
        begin = first.normalize()
        if (last - first) / (begin + self.offset - begin) > FARTHEST * len(times):
            raise TimeError(
                f"dataset.frequency={self.code}: from {first} to {last} are too many periods for {len(times)} rows; "
                "set a longer one, or fix the dates"
            )
        rule = self.code.lstrip("0123456789").partition("-")[0] if nanos is None else ""
        if rule == "W" or rule.endswith("E"):
            ends = self.offset.rollforward(begin), self.offset.rollforward(last.normalize())
            grid = self._range(*ends)
            return localized(grid, zone), grid.searchsorted(wall.normalize())
        if self._on_a_day:
            begin = begin - DateOffset(months=self.offset.n) + DateOffset(day=self.offset.kwds["day"])
        elif nanos is None:
            begin = self.offset.rollback(begin)
        elif DAY % nanos == 0:
            begin += ((first - begin) // pd.Timedelta(nanos) * pd.Timedelta(nanos)).as_unit(times.unit)
        grid = self._range(begin, last)
        codes = np.maximum(grid.searchsorted(wall, side="right") - 1, 0)
        grid, codes = grid[codes.min() :], codes - codes.min()
        return localized(grid, zone) if wall is not times else grid, codes

    @property
    def code(self) -> str:
        """Canonical spelling, as read by `parse`."""
        n = self.offset.n if self.offset.n > 1 else ""
        if self.is_numbered:
            return f"{self.multiple if self.multiple > 1 else ''}step"
        if self.closed:
            return f"{replace(self, closed='').code}-{self.closed}"
        if self.hours is not None:
            days: dict[tuple[int, int], str] = {}
            for name, ends in zip(WEEKDAYS, self.hours, strict=True):
                if ends is not None:
                    days[ends] = days.get(ends, "") + name
            times = {ends: "-".join(f"{at // 60:02}{at % 60:02}" for at in ends) for ends in days}
            return "-".join([Frequency(self.offset).code, *(names + times[ends] for ends, names in days.items())])
        if self._on_a_day:
            return f"{n}MS-{self.offset.kwds['day']}"
        # pandas' own weekdays, if none are given, have blanks between them
        if isinstance(self.offset, CustomBusinessDay) and " " not in self.offset.weekmask:
            return f"{n}C-{self.offset.weekmask}"
        return self.offset.freqstr

    @property
    def unit(self) -> Unit:
        """The coarsest unit of which the step is a multiple; fractions of a second count as seconds."""
        return self._measure[0]

    @property
    def multiple(self) -> int:
        """Units in a step: 15 for 15min, and 1 for steps below a second."""
        return self._measure[1]

    @property
    def season(self) -> int:
        """Rows of the default season, at least 1.

        The season is an hour for steps below a minute, a day below a day, a week for days (5 for business days), and
        otherwise a year. If the step does not divide it, it is the shortest multiple that does (2D: 7 rows, two weeks).
        With opening hours it is a day, or a week if these differ from day to day; numbered rows have none.
        """
        return self._measure[2] if self.hours is None else self.seasons[0]

    @property
    def _measure(self) -> tuple[Unit, int, int]:
        """Unit, its number in a step, and rows of a season without opening hours."""
        nanos, n = nanos_of(self.offset), self.offset.n
        if self.is_numbered:
            return Unit.step, (nanos or 0) // SECOND, 1
        if nanos is not None:
            unit = next((unit for unit, size in _FIXED.items() if nanos % size == 0), Unit.second)
            multiple = max(1, nanos // _FIXED[unit])
            cycle = {Unit.week: 364 * DAY, Unit.day: 7 * DAY, Unit.second: 3600 * SECOND}.get(unit, DAY)
            return unit, multiple, _rows(nanos, cycle)
        if self._on_a_day:
            unit, months = next((unit, months) for unit, months in _MONTHS_IN.items() if n % months == 0)
            return unit, n // months, _rows(n, 12)
        rule, _, days = Frequency(self.offset).code.lstrip("0123456789").partition("-")
        unit, in_season = (Unit.business_day, len(days) // len("Mon")) if rule == "C" and days else _CALENDAR[rule]
        return unit, n, _rows(n, in_season)

    def rows_of(self, span: int | str, after: pd.DatetimeIndex | None = None) -> int:
        """Number of rows in a span of time such as 2w, 1day or 3months, or up to a date; numbers are those of rows.

        Args:
            span: number of rows, span or date. A date without a time of day includes its rows.
            after: times of a series, after which the rows are counted: a day of a clock change has 92 or 100
                quarters of an hour. None: as of the first row of 2001, which began on a Monday, without a time zone.

        Raises:
            InputError: another text, less than a step, or a date without `after`.
        """
        is_date = after is not None and not any(date_problems(str(span)))
        if not is_date:
            for problem in span_problems(str(span)):
                raise InputError(problem)
        setting, (number, unit) = ("until", (0, "")) if is_date else ("horizon", span_of(str(span)))
        if not (unit or is_date):
            return number
        if self.is_numbered:
            raise TimeError(f"{setting}={span}: expected a number of rows, since the data have no times")
        before = pd.DatetimeIndex(["2001-01-01"]) if after is None else after[-2:]
        first, nanos = self.future(before[-1], 1, like=before[0])[0], nanos_of(self.offset)
        if nanos is None or self.unit not in _BELOW_A_DAY or self.hours is not None:  # counted by the clock
            first = first.tz_localize(None)
        length: dict[str, Any] = {} if is_date else {SPANS[unit]: number}
        try:
            end = _end_of(str(span), first) if is_date else first + DateOffset(**length)
        except (OverflowError, ValueError):  # out of the range of times
            end = first + DateOffset(years=LONGEST + 1)
        if end > first + DateOffset(years=LONGEST):
            raise TimeError(f"{setting}={span}: expected at most {LONGEST} years")
        if (
            nanos is not None and self.hours is None and not self.closed
        ):  # rows of a span are whole steps, those up to a date begin in it
            between = int((end - first).total_seconds()) * SECOND
            rows = -(-between // nanos) if is_date else between // nanos
        else:
            # the last step of an open day is whole, though the next one begins after the closed hours or days
            is_whole = (
                is_date
                or self.hours is not None
                or bool(self.closed)
                or isinstance(self.offset, pd.offsets.BusinessDay)
            )
            rows = len(self._range(first, end - pd.Timedelta(1, "s"))) if is_whole else len(self._range(first, end)) - 1
            if is_whole and not is_date and end - first < pd.Timedelta(nanos or "1D"):
                rows = 0
        if rows < 1 and is_date:
            raise TimeError(f"until={span}: expected a date after the last row, {self.text(before[-1])}")
        if rows < 1:
            raise TimeError(f"horizon={span}: expected at least a step of the data ({self.code})")
        return rows

    def labels(self, times: pd.DatetimeIndex) -> pd.Index:
        """The times, or the numbers of numbered rows."""
        return pd.Index(times.as_unit("s").asi8) if self.is_numbered else times

    def text(self, time: pd.Timestamp) -> str:
        """A row's number, or its day, with the time of day unless it is midnight."""
        if self.is_numbered:
            return str(round(time.timestamp()))
        return f"{time:%Y-%m-%d}" if time == time.normalize() else f"{time:%Y-%m-%d %H:%M}"

    @property
    def seasons(self) -> list[int]:
        """Rows of the seasons of the calendar that are whole numbers of steps: a day, a week or a year."""
        lengths = [len(rows) for rows in self._rows_of_days if len(rows)]
        if lengths:  # opening hours
            return [*{*lengths}, sum(lengths)] if len({*lengths}) == 1 else [sum(lengths)]
        if self.per_day is None:
            return [self.season]
        return [7, 365] if self.per_day == 1 else [self.per_day, 7 * self.per_day]

    @property
    def per_day(self) -> int | None:
        """Rows per day; None if that is not a whole number, or there are opening hours or closed days."""
        nanos = nanos_of(self.offset)
        is_whole = nanos is not None and DAY % nanos == 0 and not (self.hours or self.closed or self.is_numbered)
        return DAY // nanos if nanos is not None and is_whole else None

    @property
    def may_close(self) -> bool:
        """Whether days may be closed: the step is that from a day or weekday to the next, or has opening hours."""
        is_daily = nanos_of(self.offset) == DAY or (self.unit is Unit.business_day and self.multiple == 1)
        return self.hours is not None or (is_daily and not self.is_numbered)

    def without_holidays(self, timestamps: pd.DatetimeIndex) -> "Frequency":
        """This step without the days of a calendar, if the rows leave these out, see `find_calendar`."""
        if not self.may_close or len(timestamps) < 2 or not (self.strides(timestamps) > 0).all():
            return self
        grid = self._range(self._clock(timestamps[0])[0], self._clock(timestamps[-1])[0])
        days = grid.tz_localize(None).normalize().unique()
        calendar = find_calendar(days, ~days.isin(timestamps.tz_localize(None).normalize()))
        return self if calendar is None else replace(self, closed=calendar)

    @property
    def _on_a_day(self) -> bool:
        """Whether it is a step of months on a day of the month."""
        return type(self.offset) is DateOffset


def localized(wall: pd.DatetimeIndex, zone: tzinfo | None) -> pd.DatetimeIndex:
    """Times on the wall clock of a zone, in it; unchanged without a zone.

    Of an hour that a clock change repeats it is the first; of one that a clock change leaves out, the end.
    """
    if zone is None:
        return wall
    first = np.ones(len(wall), dtype=bool)
    times = wall.tz_localize(zone, nonexistent="shift_forward", ambiguous=first)
    # a whole date that a zone left out (Samoa, 30 December 2011) has no row
    return times[times.tz_localize(None) - wall < pd.Timedelta("12h")]


def _rows(step: int, cycle: int) -> int:
    whole = round(cycle / step)
    # nanoseconds are too coarse for most rates: 10,800 rows an hour at 3 Hz have steps of 333333333 ns
    is_rate = 1 < step < SECOND and abs(cycle - whole * step) < step / 20
    return whole if is_rate else lcm(step, cycle) // step


_LARGER = {Unit.second: Unit.minute, Unit.minute: Unit.hour}
HOURS = 48
"""Longer spans of whole days are in days."""
_UNNAMED = ("SME", "SMS", "HYE", "HYS", "BHYE", "BHYS")
"""Offsets whose step is no multiple of a unit with a name: half-months, half-years."""


def adjective(frequency: Frequency) -> str:
    """`hourly`, `15-minute`, `monthly`; steps without a common name by their code, as in `SMS-15-step`."""
    if frequency.is_numbered:
        return "numbered"
    if not _has_name(frequency):
        return f"{frequency.code}-step"
    if frequency.multiple == 1 and frequency.unit not in _LARGER:
        return {Unit.day: "daily", Unit.business_day: "business-day"}.get(frequency.unit, f"{frequency.unit.value}ly")
    return f"{frequency.multiple}-{frequency.unit.value}"


def lasting(n: int, frequency: Frequency) -> str:
    """How long n steps are: `48 hours`, `24 hours` for 96 steps of 15 minutes, `7 days` for 168 hours."""
    if not _has_name(frequency) or frequency.hours is not None or frequency.is_numbered:
        return counted(n, "row")
    total, unit = n * frequency.multiple, frequency.unit
    while unit in _LARGER and total % 60 == 0:
        total, unit = total // 60, _LARGER[unit]
    if unit is Unit.hour and total > HOURS and total % 24 == 0:
        total, unit = total // 24, Unit.day
    return counted(total, unit.value)


def _has_name(frequency: Frequency) -> bool:
    nanos = nanos_of(frequency.offset)
    if nanos is not None:
        return nanos % SECOND == 0
    return frequency.code.lstrip("0123456789").partition("-")[0] not in _UNNAMED
