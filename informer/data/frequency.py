"""The step of a series: any pandas offset, old spelling or new, given or inferred; what follows from it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from math import lcm

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import BaseOffset, BusinessHour, Day, Tick, Week

from informer.errors import InputError

SECOND = 10**9
DAY = 86_400 * SECOND


class Unit(Enum):
    """The calendar unit that a step is counted in."""

    second = "second"
    minute = "minute"
    hour = "hour"
    day = "day"
    business_day = "business_day"
    week = "week"
    month = "month"
    quarter = "quarter"
    year = "year"


# pandas 3 rejects these spellings, which data sets, papers and older code still use
_NEW = {"T": "min", "H": "h", "S": "s", "L": "ms", "U": "us", "N": "ns", "M": "ME", "Q": "QE", "A": "YE", "Y": "YE"}
_NEW |= {old.lower(): new for old, new in _NEW.items()}
_NEW |= {"d": "D", "b": "B", "c": "C", "w": "W", "SM": "SME", "BM": "BME", "CBM": "CBME", "BQ": "BQE", "BH": "bh"}
_NEW |= {"BA": "BYE", "BY": "BYE", "AS": "YS", "BAS": "BYS", "CBH": "cbh"}

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


@dataclass(frozen=True, slots=True)
class Frequency:
    """A step between rows.

    `code` is canonical: equal steps have equal codes (60min and h, 24h and D) and `parse(f.code) == f`.
    """

    offset: BaseOffset

    @classmethod
    def parse(cls, text: str) -> "Frequency":
        """A pandas offset alias, with or without a multiple: h, H, 15min, 30T, D, B, W-MON, M, ME, MS, QS, Y ...

        Raises:
            InputError: not an offset, or not a step forward.
        """
        modern = re.sub(r"(?<![-A-Za-z])[A-Za-z]+", lambda alias: _NEW.get(alias[0], alias[0]), text.strip())
        try:
            offset = to_offset(modern)
        except (ValueError, TypeError, OverflowError) as error:
            raise InputError(
                f"frequency {text!r}: expected a pandas offset such as h, 15min, D, B, W, MS, ME, QS or YE"
            ) from error
        if offset is None or offset.n < 1:
            raise InputError(f"frequency {text!r}: expected a step forward in time")
        return cls(_canonical(offset))

    @classmethod
    def infer(cls, timestamps: pd.DatetimeIndex) -> "Frequency":
        """The step that every row follows, from seconds to years, business days and month ends included.

        Raises:
            ValueError: fewer than two rows, or no step that they all follow (`closest` says which comes nearest).
        """
        frequency, kept = cls.closest(timestamps)
        if kept < len(timestamps):
            raise ValueError(f"no regular step: {frequency.code} holds for the first {kept} rows only")
        return frequency

    @classmethod
    def closest(cls, timestamps: pd.DatetimeIndex) -> tuple["Frequency", int]:
        """The step that the most leading rows follow, and their number.

        Args:
            timestamps: two or more, increasing.
        """
        if len(timestamps) < 2:
            raise ValueError(f"timestamps: expected at least 2 to see a step, found {len(timestamps)}")
        best: tuple[Frequency, int] | None = None
        for offset in _candidates(timestamps):
            frequency = cls(_canonical(offset))
            kept = frequency.follows(timestamps)
            if kept == len(timestamps):
                return frequency, kept
            if best is None or kept > best[1]:
                best = frequency, kept
        assert best is not None
        return best

    def follows(self, timestamps: pd.DatetimeIndex) -> int:
        """How many leading rows lie on this step's grid, counted from the first row."""
        off = np.flatnonzero(self.grid(timestamps) != timestamps)
        return int(off[0]) if len(off) else len(timestamps)

    def grid(self, timestamps: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """As many timestamps as given, from the first of them on this step."""
        return pd.date_range(timestamps[0], periods=len(timestamps), freq=self.offset)

    def future(self, last: pd.Timestamp, n: int) -> pd.DatetimeIndex:
        """The n timestamps after `last`."""
        return pd.date_range(last + self.offset, periods=n, freq=self.offset)

    @property
    def code(self) -> str:
        """Canonical pandas spelling."""
        return self.offset.freqstr

    @property
    def unit(self) -> Unit:
        """The coarsest unit that the step is a whole number of; fractions of a second count as seconds."""
        nanos = _nanos(self.offset)
        if nanos is None:
            return self._calendar[0]
        if nanos % DAY == 0:
            return Unit.week if nanos % (7 * DAY) == 0 else Unit.day
        return next((unit for unit in (Unit.hour, Unit.minute) if nanos % _FIXED[unit] == 0), Unit.second)

    @property
    def multiple(self) -> int:
        """Units in a step: 15 for 15min (and 1 below a second)."""
        nanos = _nanos(self.offset)
        if nanos is None:
            return self.offset.n
        sizes = _FIXED | {Unit.day: DAY, Unit.week: 7 * DAY}
        return max(1, nanos // sizes[self.unit])

    @property
    def season(self) -> int:
        """Rows after which a naive seasonal forecast repeats, at least 1.

        An hour for steps below a minute, a day below a day, a week for days (5 for business days), a year above.
        A step that does not divide the season takes as many whole seasons as it needs (2D: 7 rows, two weeks).
        """
        nanos = _nanos(self.offset)
        if nanos is None:
            return _rows(self.offset.n, self._calendar[1])
        if self.unit is Unit.week:
            return _rows(self.multiple, 52)
        cycle = 7 * DAY if self.unit is Unit.day else 3600 * SECOND if self.unit is Unit.second else DAY
        return _rows(nanos, cycle)

    @property
    def per_day(self) -> int | None:
        """Rows in a day where that is a whole number, else None."""
        nanos = _nanos(self.offset)
        return DAY // nanos if nanos is not None and DAY % nanos == 0 else None

    @property
    def _calendar(self) -> tuple[Unit, int]:
        return _CALENDAR[self.offset.rule_code.partition("-")[0]]


def _rows(step: int, cycle: int) -> int:
    return lcm(step, cycle) // step


def _nanos(offset: BaseOffset) -> int | None:
    """Length of a step of fixed length (days included), None for calendar steps."""
    # pandas 3 no longer counts Day among the ticks
    if isinstance(offset, Day):
        return offset.n * DAY
    return int(offset.nanos) if isinstance(offset, Tick) else None


def _canonical(offset: BaseOffset) -> BaseOffset:
    nanos = _nanos(offset)
    return offset if nanos is None else _fixed(nanos)


def _fixed(nanos: int) -> BaseOffset:
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


def _candidates(timestamps: pd.DatetimeIndex) -> Iterator[BaseOffset]:
    """Steps that the most frequent distance between rows speaks for, the likeliest first."""
    gaps, counts = np.unique(np.diff(timestamps.as_unit("ns").asi8), return_counts=True)
    gap = int(gaps[counts.argmax()])
    first = timestamps[0]
    if gap >= 28 * DAY:
        yield from _month_steps(timestamps)
    if gap % (7 * DAY) == 0:
        yield Week(gap // (7 * DAY), weekday=first.weekday())
    yield _fixed(gap)
    if gap == DAY:
        yield to_offset("B")
    if gap == 3600 * SECOND:
        yield BusinessHour()
    if 13 * DAY <= gap <= 16 * DAY:
        yield from (to_offset("SMS"), to_offset("SME"))


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
