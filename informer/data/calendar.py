"""Calendar marks of each row, one column per calendar field that changes within a year at the series' frequency.

timeF: the field scaled to [-0.5, 0.5], in the order and with the ranges of GluonTS that Informer 2020 uses.
fixed, learned: the field as an index into an embedding table.
none: no marks.

`dataset.calendar` chooses other fields, and `dataset.holidays` adds a mark for each country.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from jaxtyping import Float32, Float64

from informer.base.errors import InputError
from informer.config.data import Calendar
from informer.read.frequency import DAY, Frequency, Unit, nanos_of

Field = Callable[[pd.DatetimeIndex], "np.ndarray | pd.Index"]

_FIELDS: dict[str, tuple[Field, int, int, int]] = {
    "second": (lambda t: t.second, 0, 59, 60),
    "minute": (lambda t: t.minute, 0, 59, 60),
    "quarter_hour": (lambda t: t.minute // 15, 0, 3, 4),
    "hour": (lambda t: t.hour, 0, 23, 24),
    "weekday": (lambda t: t.day_of_week, 0, 6, 7),
    "day": (lambda t: t.day, 1, 30, 32),
    "dayofyear": (lambda t: t.day_of_year, 1, 365, 367),
    "week": (lambda t: t.isocalendar().week.to_numpy(), 1, 52, 54),
    "month": (lambda t: t.month, 1, 11, 13),
}
"""Each field, its smallest value and its range, for `timeF`, and the rows of its embedding table."""

RANGES = {name: (least, span) for name, (_, least, span, _) in _FIELDS.items()}
"""Smallest value of each field, and its range."""

HOLIDAY = "holiday_"
"""Prefix of the names of holiday marks, followed by the country."""


def mark_fields(frequency: Frequency, calendar: Calendar) -> tuple[str, ...]:
    """Names of the mark columns; a yearly series has the month, which is constant.

    Raises:
        InputError: holidays with steps longer than a day.
    """
    if calendar.kind == "none":
        return ()
    if calendar.holidays and (frequency.unit not in _N_FIELDS or (nanos_of(frequency.offset) or 0) > DAY):
        raise InputError(
            f"dataset.holidays: expected a step of at most a day, found {frequency.code}; for longer steps, count the "
            "holidays of each in a column, and name it in future_covariates"
        )
    usual = _usual_fields(frequency, linear=calendar.kind == "timeF")
    return (*(calendar.fields or usual), *(HOLIDAY + region for region in calendar.holidays))


def mark_sizes(frequency: Frequency, calendar: Calendar) -> tuple[int, ...]:
    """Size of the embedding table of each mark column; 1 if it is linear (timeF)."""
    fields = mark_fields(frequency, calendar)
    if calendar.kind == "timeF":
        return (1,) * len(fields)
    return tuple(_FIELDS[field][3] if field in _FIELDS else 2 for field in fields)


def calendar_marks(
    timestamps: pd.DatetimeIndex, frequency: Frequency, calendar: Calendar
) -> Float32[np.ndarray, "t m"]:
    """Marks of each timestamp, in the order of `mark_fields`; fields and holidays are in local time.

    Raises:
        InputError: see `mark_fields`; or holidays of a year are not known.
    """
    columns, linear = [], calendar.kind == "timeF"
    for field in mark_fields(frequency, calendar):
        if field.startswith(HOLIDAY):
            column = holiday_mark(timestamps, field.removeprefix(HOLIDAY))
        else:
            column = np.asarray(_FIELDS[field][0](timestamps), dtype=np.float64)
        if linear:
            least, span = RANGES.get(field, (0, 1))
            column = (column - least) / span - 0.5
        columns.append(column.astype(np.float32))
    return np.stack(columns, axis=1) if columns else np.empty((len(timestamps), 0), dtype=np.float32)


def holiday_mark(timestamps: pd.DatetimeIndex, region: str) -> Float64[np.ndarray, " t"]:
    """1 on holidays of a country or part of a country (DE-BY), 0 on other days."""
    from holidays import country_holidays  # an optional dependency, slow to import

    country, _, subdivision = region.partition("-")
    dates = country_holidays(country, subdiv=subdivision or None)
    first, last = timestamps.min().year, timestamps.max().year
    if first < dates.start_year or last > dates.end_year:
        raise InputError(
            f"dataset.holidays: those of {region} are known from {dates.start_year} to {dates.end_year}, found times "
            f"from {first} to {last}; leave it out"
        )
    dates = country_holidays(country, subdiv=subdivision or None, years=range(first, last + 1))
    days = timestamps.tz_localize(None).normalize()
    return days.isin(pd.DatetimeIndex(sorted(dates))).astype(np.float64)


_N_FIELDS = {Unit.second: 6, Unit.minute: 5, Unit.hour: 4, Unit.day: 3, Unit.business_day: 3}
"""How many fields change from row to row at steps of at most a day."""


def _usual_fields(frequency: Frequency, *, linear: bool) -> tuple[str, ...]:
    """The fields that change within a year at the step of a series."""
    n = _N_FIELDS.get(frequency.unit, 0)
    if not n:
        return (("day", "week") if linear else ("month", "day")) if frequency.unit is Unit.week else ("month",)
    if linear:
        return ("second", "minute", "hour", "weekday", "day", "dayofyear")[-n:]
    minute = "quarter_hour" if frequency.unit is Unit.minute and frequency.multiple % 15 == 0 else "minute"
    return ("month", "day", "weekday", "hour", minute, "second")[:n]
