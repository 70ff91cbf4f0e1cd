"""Calendar marks of each row, one column per calendar field that changes within a year at the series' frequency.

timeF: the field scaled to [-0.5, 0.5], in the order and with the ranges of GluonTS that Informer 2020 uses.
fixed, learned: the field as an index into an embedding table.
none: no marks.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from jaxtyping import Float32

from informer.config.model import CalendarEmbed
from informer.data.read.frequency import Frequency, Unit

Field = Callable[[pd.DatetimeIndex], "np.ndarray | pd.Index"]

_FIELDS: dict[str, Field] = {
    "second": lambda t: t.second,
    "minute": lambda t: t.minute,
    "quarter_hour": lambda t: t.minute // 15,
    "hour": lambda t: t.hour,
    "weekday": lambda t: t.day_of_week,
    "day": lambda t: t.day,
    "dayofyear": lambda t: t.day_of_year,
    "week": lambda t: t.isocalendar().week.to_numpy(),
    "month": lambda t: t.month,
}

RANGES = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "weekday": (0, 6),
    "day": (1, 30),
    "dayofyear": (1, 365),
    "week": (1, 52),
    "month": (1, 11),
}
"""Smallest value of each field, and its range."""

# field -> rows of its embedding table; month and day count from 1
_SIZES = {"second": 60, "minute": 60, "quarter_hour": 4, "hour": 24, "weekday": 7, "day": 32, "month": 13}


def mark_fields(frequency: Frequency, kind: CalendarEmbed) -> tuple[str, ...]:
    """Names of the mark columns; a yearly series keeps the month, which is constant."""
    if kind is CalendarEmbed.none:
        return ()
    return _linear_fields(frequency) if kind is CalendarEmbed.timeF else _table_fields(frequency)


def mark_sizes(frequency: Frequency, kind: CalendarEmbed) -> tuple[int, ...]:
    """One entry per mark column: the size of its embedding table, 1 if it is linear (timeF)."""
    fields = mark_fields(frequency, kind)
    return tuple(1 if kind is CalendarEmbed.timeF else _SIZES[field] for field in fields)


def calendar_marks(
    timestamps: pd.DatetimeIndex, frequency: Frequency, kind: CalendarEmbed
) -> Float32[np.ndarray, "t m"]:
    """Marks of each timestamp, in the order of `mark_fields`."""
    columns = []
    for field in mark_fields(frequency, kind):
        column = np.asarray(_FIELDS[field](timestamps), dtype=np.float64)
        if kind is CalendarEmbed.timeF:
            least, span = RANGES[field]
            column = (column - least) / span - 0.5
        columns.append(column.astype(np.float32))
    return np.stack(columns, axis=1) if columns else np.empty((len(timestamps), 0), dtype=np.float32)


def _linear_fields(frequency: Frequency) -> tuple[str, ...]:
    day = ("weekday", "day", "dayofyear")
    hour = ("hour", *day)
    fields: dict[Unit, tuple[str, ...]] = {
        Unit.second: ("second", "minute", *hour),
        Unit.minute: ("minute", *hour),
        Unit.hour: hour,
        Unit.day: day,
        Unit.business_day: day,
        Unit.week: ("day", "week"),
    }
    return fields.get(frequency.unit, ("month",))


def _table_fields(frequency: Frequency) -> tuple[str, ...]:
    day = ("month", "day", "weekday")
    minute = "quarter_hour" if frequency.unit is Unit.minute and frequency.multiple % 15 == 0 else "minute"
    fields: dict[Unit, tuple[str, ...]] = {
        Unit.second: (*day, "hour", "minute", "second"),
        Unit.minute: (*day, "hour", minute),
        Unit.hour: (*day, "hour"),
        Unit.day: day,
        Unit.business_day: day,
        Unit.week: ("month", "day"),
    }
    return fields.get(frequency.unit, ("month",))
