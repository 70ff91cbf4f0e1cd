"""Join a column of dates and a column of times of day."""

from collections.abc import Collection
from dataclasses import replace

import pandas as pd
from pandas.api.types import is_integer_dtype

from informer.data.read.calendar_columns import NAMES as PARTS
from informer.data.read.cells import decoded, distinct, is_encoded
from informer.data.read.date_text import date_formats, has_clock
from informer.data.read.table import Table

CLOCK = r"\s*\d{1,2}[:.h]\d{2}(?:[:.]\d{2}(?:[.,]\d+)?)?(?: ?[AaPp][Mm])?\s*"
"""A time of day."""

NAMES = {"time", "clock", "hour", "time of day", "zeit", "uhrzeit", "heure", "hora", "ora", "tijd", "tid", "klockslag"}
"""Column names (any case) for a time of day; the column right after the dates may have any name."""

HOURS = PARTS["hour"]
"""Column names (any case) for whole hours."""


def find_clock_column(table: Table, time_col: str, excluded: Collection[str]) -> str | None:
    """The column of times of day for a column of dates; None unless dates have no time of day and repeat in
    consecutive rows. (A column of sunrise times has one date per row.)

    Args:
        time_col: the column of dates.
        excluded: columns with other roles.
    """
    dates = table.frame[time_col]
    if not len(dates) or not (isinstance(dates.dtype, pd.StringDtype) or is_encoded(dates)):
        return None
    first = str(dates.array[0])
    if not date_formats(first.strip()) or has_clock(first) or not (decoded(dates) == decoded(dates).shift()).any():
        return None
    following = table.columns[table.columns.index(time_col) + 1 :][:1]
    candidates = [column for column in table.columns if column.strip().lower() in NAMES and column != time_col]
    clocks = (
        column for column in [*candidates, *following] if column not in excluded and _has_clocks(table.frame[column])
    )
    hours = (
        column
        for column in table.columns
        if column not in excluded and _has_hours(table.frame[column], column, decoded(dates))
    )
    return next(clocks, None) or next(hours, None)


def joined(table: Table, time_col: str, clock_col: str) -> Table:
    """The table with times of day appended to its dates, and without the column of times of day."""
    frame = table.frame
    both = frame[time_col].astype(str).str.strip() + " " + frame[clock_col].astype(str).str.strip()
    times = both.where(frame[time_col].notna() & frame[clock_col].notna())
    return replace(table, frame=frame.assign(**{time_col: times}).drop(columns=clock_col))


def _has_hours(cells: pd.Series, column: str, dates: pd.Series) -> bool:
    """Whether a column has the name of hours, and they are whole and rise within each run of rows with one date."""
    if column.strip().lower() not in HOURS or not is_integer_dtype(cells) or not cells.between(0, 23).all():
        return False
    return bool((cells.diff()[dates == dates.shift()] > 0).all())


def _has_clocks(cells: pd.Series) -> bool:
    text = distinct(cells).dropna()
    return isinstance(text.dtype, pd.StringDtype) and len(text) > 0 and bool(text.str.fullmatch(CLOCK).all())
