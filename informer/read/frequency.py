"""The step of a series: any pandas offset in old or new spelling, set or inferred, and its properties.

Steps as pandas offsets: spellings, lengths, and candidates for given timestamps.

Steps and numbers of steps in words: `hourly rows`, `48 hours`.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import tzinfo
from enum import Enum
from functools import lru_cache
from math import gcd, lcm

import numpy as np
import pandas as pd
from jaxtyping import Int
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import BaseOffset, BusinessHour, Day, Tick, Week

from informer.base.errors import InputError, counted

SECOND = 10**9
DAY = 86_400 * SECOND

# old spellings, which pandas 3 rejects, but datasets, papers and older code still use
MODERN = {
    "T": "min",
    "H": "h",
    "S": "s",
    "L": "ms",
    "U": "us",
    "N": "ns",
    "M": "ME",
    "Q": "QE",
    "A": "YE",
    "Y": "YE",
}
MODERN |= {old.lower(): new for old, new in MODERN.items()}
MODERN |= {
    "d": "D",
    "b": "B",
    "c": "C",
    "w": "W",
    "SM": "SME",
    "BM": "BME",
    "CBM": "CBME",
    "BQ": "BQE",
    "BH": "bh",
}
MODERN |= {"BA": "BYE", "BY": "BYE", "AS": "YS", "BAS": "BYS", "CBH": "cbh"}

UNIT_NANOS = {"s": SECOND, "ms": 10**6, "us": 10**3, "ns": 1}


def nanos_of(offset: BaseOffset) -> int | None:
    """Length of a step of fixed length (days included), None for calendar steps."""
    # pandas 3 no longer counts Day among the ticks
    if isinstance(offset, Day):
        return offset.n * DAY
    return int(offset.nanos) if isinstance(offset, Tick) else None


def canonical(offset: BaseOffset) -> BaseOffset:
    """The canonical offset of a step: equal for steps of equal length."""
    nanos = nanos_of(offset)
    return offset if nanos is None else fixed(nanos)


def fixed(nanos: int) -> BaseOffset:
    """The offset of a fixed length in nanoseconds, in the coarsest unit up to days."""
    if nanos % DAY == 0:
        return Day(nanos // DAY)
    code, size = next(
        (code, size)
        for code, size in [
            ("h", 3600 * SECOND),
            ("min", 60 * SECOND),
            ("s", SECOND),
            ("ms", 10**6),
            ("us", 10**3),
            ("ns", 1),
        ]
        if nanos % size == 0
    )
    return to_offset(f"{nanos // size}{code}")


def candidates(timestamps: pd.DatetimeIndex) -> Iterator[BaseOffset]:
    """Possible steps given the most frequent distance between rows, most likely first."""
    gap = _usual_distance(timestamps) * UNIT_NANOS[timestamps.unit]
    first = timestamps[0]
    if gap >= 28 * DAY:
        yield from _month_steps(timestamps)
    if gap % (7 * DAY) == 0:
        yield Week(gap // (7 * DAY), weekday=first.weekday())
    yield fixed(gap)
    if gap == DAY:
        yield to_offset("B")
    if gap == 3600 * SECOND:
        yield BusinessHour()
    if 13 * DAY <= gap <= 16 * DAY:
        yield from (to_offset("SMS"), to_offset("SME"))


def _usual_distance(timestamps: pd.DatetimeIndex) -> int:
    """The most frequent distance between rows, in the unit of the timestamps."""
    distances = np.diff(timestamps.asi8)
    if (distances == distances[0]).all():  # sorting them takes a second array
        return int(distances[0])
    gaps, counts = np.unique(distances, return_counts=True)
    return int(gaps[counts.argmax()])


def _month_steps(timestamps: pd.DatetimeIndex) -> Iterator[BaseOffset]:
    months = timestamps.year.to_numpy() * 12 + timestamps.month.to_numpy()
    steps, counts = np.unique(np.diff(months), return_counts=True)
    step, month = int(steps[counts.argmax()]), timestamps[0].month
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


_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]


FARTHEST = 100
"""Calendar steps are counted up to this many per row on average; later rows count as off the step."""


class Unit(Enum):
    """The calendar unit of a step."""

    second = "second"
    minute = "minute"
    hour = "hour"
    day = "day"
    business_day = "business_day"
    week = "week"
    month = "month"
    quarter = "quarter"
    year = "year"


_FIXED = {Unit.second: SECOND, Unit.minute: 60 * SECOND, Unit.hour: 3600 * SECOND}

# prefix of the code -> unit, steps in a season; half-months carry a day of the month, as weeks do
_CALENDAR = {
    **dict.fromkeys(["B", "C"], (Unit.business_day, 5)),
    **dict.fromkeys(["bh", "cbh"], (Unit.hour, 8)),
    "W": (Unit.week, 52),
    **dict.fromkeys(["SME", "SMS"], (Unit.week, 24)),
    **dict.fromkeys(["ME", "MS", "BME", "BMS", "CBME", "CBMS", "WOM", "LWOM"], (Unit.month, 12)),
    **dict.fromkeys(["QE", "QS", "BQE", "BQS", "REQ"], (Unit.quarter, 4)),
    **dict.fromkeys(["HYE", "HYS", "BHYE", "BHYS"], (Unit.quarter, 2)),
    **dict.fromkeys(["YE", "YS", "BYE", "BYS", "RE"], (Unit.year, 1)),
}

LONGEST = 100
"""Maximum length of a step in years, and maximum multiple of a calendar step."""


@dataclass(frozen=True, slots=True)
class Frequency:
    """A step between rows.

    `code` is canonical: equal steps have equal codes (60min and h, 24h and D) and `parse(f.code) == f`.
    """

    offset: BaseOffset

    @classmethod
    @lru_cache(maxsize=256)
    def parse(cls, text: str) -> "Frequency":
        """Parse a pandas offset alias, with or without a multiple: h, H, 15min, 30T, D, B, W-MON, M, ME, MS, QS, Y ...

        Raises:
            InputError: not an offset, not a step forward, or a step of more than LONGEST years.
        """
        modern = re.sub(r"(?<![-A-Za-z])[A-Za-z]+", lambda alias: MODERN.get(alias[0], alias[0]), text.strip())
        try:
            offset = to_offset(modern)
        except (ValueError, TypeError, OverflowError) as error:
            raise InputError(
                f"frequency {text!r}: expected a pandas offset such as h, 15min, D, B, W, MS, ME, QS or YE"
            ) from error
        if offset is None or offset.n < 1:
            raise InputError(f"frequency {text!r}: expected a step forward in time")
        if (nanos_of(offset) or 0) > LONGEST * 366 * DAY or (nanos_of(offset) is None and offset.n > LONGEST):
            raise InputError(f"frequency {text!r}: expected a step of at most {LONGEST} years")
        return cls(canonical(offset))

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
        best: tuple[int, Frequency, np.ndarray] | None = None
        for offset in candidates(timestamps):
            frequency = cls(canonical(offset))
            regular = frequency.strides(timestamps) == 1
            if best is None or regular.sum() > best[0]:
                best = int(regular.sum()), frequency, regular
            if regular.all():  # counting business hours is slow
                break
        assert best is not None
        _, frequency, regular = best
        return frequency, _leading(regular)

    def follows(self, timestamps: pd.DatetimeIndex) -> int:
        """Number of leading rows that follow this step, the first row included."""
        return _leading(self.strides(timestamps) == 1) if len(timestamps) > 1 else len(timestamps)

    def strides(self, timestamps: pd.DatetimeIndex) -> Int[np.ndarray, "steps"]:
        """Number of steps from each row to the next: 1 if regular, more over a gap, 0 if not a whole number.

        Args:
            timestamps: increasing.
        """
        nanos = nanos_of(self.offset)
        # days are calendar days, which may not have 24 hours in a time zone
        if nanos is None or (nanos % DAY == 0 and timestamps.tz is not None):
            return self._calendar_strides(timestamps)
        # a common unit, such as half seconds for steps of 1.5 s in timestamps of whole seconds
        unit = gcd(nanos, UNIT_NANOS[timestamps.unit])
        distances, each = np.diff(timestamps.asi8), UNIT_NANOS[timestamps.unit]
        if nanos % each == 0 and (distances == nanos // each).all():  # as usual: one number, repeated without memory
            return np.broadcast_to(np.int64(1), len(distances))
        steps, remainder = np.divmod(distances * (each // unit), nanos // unit)
        return np.where(remainder == 0, steps, 0)

    def _calendar_strides(self, timestamps: pd.DatetimeIndex) -> Int[np.ndarray, "steps"]:
        if len(timestamps) < 2:
            return np.zeros(0, dtype=np.int64)
        stamps = timestamps.asi8
        step = int(np.diff(self.grid(timestamps[0], 2).as_unit(timestamps.unit).asi8)[0])
        first, zone = self._clock(timestamps[0], like=timestamps[1])
        # a far-off date would take minutes to reach
        end = min(int(stamps[0]) + FARTHEST * len(stamps) * step, int(stamps[-1]))
        last = timestamps[int(stamps.searchsorted(end, side="right")) - 1]
        grid = _in_zone(pd.date_range(first, self._clock(last)[0], freq=self.offset), zone)
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
        return _in_zone(pd.date_range(start, periods=n + 1, freq=self.offset), zone)[:n]

    def future(self, last: pd.Timestamp, n: int, *, like: pd.Timestamp | None = None) -> pd.DatetimeIndex:
        """The n timestamps after `last`.

        Args:
            last: the last row.
            n: number of timestamps.
            like: another row, whose time of day is used if a clock change has moved that of `last`.

        Raises:
            InputError: they are beyond the range of the unit of `last`, the year 2262 for nanoseconds.
        """
        end, zone = self._clock(last, like=like)
        with _countable(last):
            return _in_zone(pd.date_range(end + self.offset, periods=n + 1, freq=self.offset), zone)[:n]

    def past(self, first: pd.Timestamp, n: int, *, like: pd.Timestamp | None = None) -> pd.DatetimeIndex:
        """The n timestamps before `first`; `like` and errors as in `future`."""
        start, zone = self._clock(first, like=like)
        with _countable(first):
            return _in_zone(pd.date_range(end=start, periods=n + 2, freq=self.offset), zone)[-n - 1 : -1]

    def _clock(self, row: pd.Timestamp, *, like: pd.Timestamp | None = None) -> tuple[pd.Timestamp, tzinfo | None]:
        """The start for counting steps: the row, or for calendar steps its local time, and its zone."""
        if row.tz is None or self.unit in _FIXED:
            return row, None
        wall = row.tz_localize(None)
        if like is not None:
            other = like.tz_localize(None)
            shifted = wall.normalize() + (other - other.normalize())
            wall = shifted if row in _in_zone(pd.DatetimeIndex([shifted]), row.tz) else wall
        return wall, row.tz

    @property
    def code(self) -> str:
        """Canonical pandas spelling."""
        return self.offset.freqstr

    @property
    def unit(self) -> Unit:
        """The coarsest unit of which the step is a multiple; fractions of a second count as seconds."""
        nanos = nanos_of(self.offset)
        if nanos is None:
            return self._calendar[0]
        if nanos % DAY == 0:
            return Unit.week if nanos % (7 * DAY) == 0 else Unit.day
        return next((unit for unit in (Unit.hour, Unit.minute) if nanos % _FIXED[unit] == 0), Unit.second)

    @property
    def multiple(self) -> int:
        """Units in a step: 15 for 15min, and 1 for steps below a second."""
        nanos = nanos_of(self.offset)
        if nanos is None:
            return self.offset.n
        sizes = _FIXED | {Unit.day: DAY, Unit.week: 7 * DAY}
        return max(1, nanos // sizes[self.unit])

    @property
    def season(self) -> int:
        """Rows of the default season, at least 1.

        The season is an hour for steps below a minute, a day below a day, a week for days (5 for business days), and
        otherwise a year. If the step does not divide it, it is the shortest multiple that does (2D: 7 rows, two weeks).
        """
        nanos = nanos_of(self.offset)
        if nanos is None:
            return _rows(self.offset.n, self._calendar[1])
        if self.unit is Unit.week:
            return _rows(self.multiple, 52)
        cycle = 7 * DAY if self.unit is Unit.day else 3600 * SECOND if self.unit is Unit.second else DAY
        return _rows(nanos, cycle)

    @property
    def per_day(self) -> int | None:
        """Rows per day; None if that is not a whole number."""
        nanos = nanos_of(self.offset)
        return DAY // nanos if nanos is not None and DAY % nanos == 0 else None

    @property
    def _calendar(self) -> tuple[Unit, int]:
        return _CALENDAR[self.offset.rule_code.partition("-")[0]]


@contextmanager
def _countable(row: pd.Timestamp) -> Iterator[None]:
    """Turn timestamps out of the range of a row's unit into an InputError."""
    try:
        yield
    except pd.errors.OutOfBoundsDatetime as error:
        raise InputError(
            f"{row}: too close to the end of the range of times in {row.unit}; check the year, or use a coarser unit"
        ) from error


def _in_zone(wall: pd.DatetimeIndex, zone: tzinfo | None) -> pd.DatetimeIndex:
    """Local times localized to a zone; unchanged without a zone."""
    if zone is None:
        return wall
    first = np.ones(len(wall), dtype=bool)
    times = wall.tz_localize(zone, nonexistent="shift_forward", ambiguous=first)
    # a whole date that a zone left out (Samoa, 30 December 2011) has no row
    return times[times.tz_localize(None) - wall < pd.Timedelta("12h")]


def _leading(regular: np.ndarray) -> int:
    """Number of rows before the first irregular step."""
    return int(regular.argmin()) + 1 if not regular.all() else len(regular) + 1


def _rows(step: int, cycle: int) -> int:
    return lcm(step, cycle) // step


_ADJECTIVES = {
    Unit.hour: "hourly",
    Unit.day: "daily",
    Unit.business_day: "business-day",
    Unit.week: "weekly",
    Unit.month: "monthly",
    Unit.quarter: "quarterly",
    Unit.year: "yearly",
}
_LARGER = {Unit.second: (60, Unit.minute), Unit.minute: (60, Unit.hour)}
HOURS = 48
"""Longer spans of whole days are in days."""
_UNNAMED = ("bh", "cbh", "SME", "SMS", "HYE", "HYS", "BHYE", "BHYS")
"""Offsets whose step is no multiple of a unit with a name: business hours, half-months, half-years."""


def adjective(frequency: Frequency) -> str:
    """`hourly`, `15-minute`, `monthly`; steps without a common name by their code, as in `SMS-15-step`."""
    if not _has_name(frequency):
        return f"{frequency.code}-step"
    usual = _ADJECTIVES.get(frequency.unit)
    if frequency.multiple == 1 and usual is not None:
        return usual
    return f"{frequency.multiple}-{_name(frequency.unit)}"


def lasting(n: int, frequency: Frequency) -> str:
    """How long n steps are: `48 hours`, `24 hours` for 96 steps of 15 minutes, `7 days` for 168 hours."""
    if not _has_name(frequency):
        return counted(n, "row")
    total, unit = n * frequency.multiple, frequency.unit
    while unit in _LARGER and total % _LARGER[unit][0] == 0:
        total, unit = total // _LARGER[unit][0], _LARGER[unit][1]
    if unit is Unit.hour and total > HOURS and total % 24 == 0:
        total, unit = total // 24, Unit.day
    return counted(total, _name(unit))


def _has_name(frequency: Frequency) -> bool:
    nanos = nanos_of(frequency.offset)
    if nanos is not None:
        return nanos % SECOND == 0
    return frequency.offset.rule_code.partition("-")[0] not in _UNNAMED


def _name(unit: Unit) -> str:
    return unit.value.replace("_", " ")
