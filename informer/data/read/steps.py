"""Steps as pandas offsets: spellings, lengths, and candidates for given timestamps."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import BaseOffset, BusinessHour, Day, Tick, Week

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
