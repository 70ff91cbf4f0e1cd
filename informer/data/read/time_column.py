"""Find the time column of a table."""

import re

import pandas as pd
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

from informer.data.read.calendar_columns import are_years, calendar_parts, month_columns
from informer.data.read.cells import decoded, distinct
from informer.data.read.date_text import date_formats
from informer.data.read.table import Table, shown
from informer.errors import InputError, listed

NAMES = {"date", "time", "timestamp", "datetime", "date_time", "ds", "dates", "times", "timestamps", "period"}
"""Column names (any case) for a time column."""

HEAD = 10_000
"""Number of rows by which columns of times are compared first."""

_DATE = r"\s*(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})(?:\D|$)"

_SHORT_YEAR = re.compile(r"\d{1,3}[-/.]\d{1,2}")
"""Cells such as 1-01, the first month of a first year."""


def find_time_column(table: Table, time_col: str | None) -> str:
    """`time_col`, otherwise the column of dates with the most detail, otherwise a column of years.

    A column of dates has one in its first cell. Those with a name in NAMES are preferred, unless another one has the
    same days and times of day. Of several that are alike, the one with the most distinct times is taken.

    Raises:
        InputError: there is none, or several that differ but are alike in this.
    """
    if time_col is not None:
        if time_col not in table.columns:
            raise table.missing("dataset.time_col", time_col)
        return time_col
    dated = dated_columns(table)
    named = [column for column in table.columns if column.strip().lower() in NAMES]
    # a column named time may contain times of day, next to one of dates
    if preferred := [column for column in named if column in dated] or dated or named[:1]:
        best = _most_distinct(table, preferred)
        finer = [column for column in dated if column != best and _refines(table.frame[column], table.frame[best])]
        return _most_distinct(table, finer) if finer else best
    parts = calendar_parts(table.columns)  # a year next to a day is a part of a time
    if len(parts) == 1 and are_years(parts[0], table.frame[parts[0]]) and not month_columns(table.columns):
        return parts[0]
    raise InputError(f"{table.name}: no time column found among {listed(table.columns)}; {_advice(table)}")


def dated_columns(table: Table) -> list[str]:
    """The columns whose first cell is a date, or whose cells are timestamps."""
    # by types first: selecting a hundred thousand columns one by one is slow
    types = zip(table.columns, table.frame.dtypes.array, strict=True)
    return [column for column, dtype in types if not is_numeric_dtype(dtype) and looks_dated(table.frame[column])]


def looks_dated(cells: pd.Series) -> bool:
    """Whether the cells are timestamps, or the first one is a date."""
    if is_datetime64_any_dtype(cells):
        return True
    return not is_numeric_dtype(cells) and len(cells) > 0 and bool(date_formats(str(cells.array[0]).strip()))


def has_only_dates(cells: pd.Series) -> bool:
    """Whether all cells are text with a year of four digits, a month and a day, which no number looks like."""
    texts = distinct(cells).dropna()
    return isinstance(texts.dtype, pd.StringDtype) and len(texts) > 0 and bool(texts.str.match(_DATE).all())


def _most_distinct(table: Table, columns: list[str]) -> str:
    """The column with the most distinct times; the first of columns with equal cells.

    Raises:
        InputError: several have as many, but other cells.
    """
    for frame in (table.frame.iloc[:HEAD], table.frame):
        if len(columns) == 1:
            break
        numbers = {column: frame[column].nunique() for column in columns}
        columns = [column for column in columns if numbers[column] == max(numbers.values())]
    first, *others = columns
    differing = [column for column in others if not decoded(table.frame[column]).equals(decoded(table.frame[first]))]
    if differing:
        settings = " or ".join(f"dataset.time_col={column}" for column in (first, *differing))
        raise InputError(
            f"{table.name}: times in the columns {listed([first, *differing])}; name one of them: {settings}"
        )
    return first


def _refines(cells: pd.Series, others: pd.Series) -> bool:
    """Whether cells have the days of the others, and more distinct times, with times of day that repeat: the times at
    which rows were written do not."""
    cells, others = (decoded(column.iloc[:HEAD]) for column in (cells, others))
    if cells.nunique() <= others.nunique():
        return False
    parts, days = (column.astype(str).str.strip().str.extract(r"^([^ T]*)(.*)") for column in (cells, others))
    return parts[0].equals(days[0]) and 2 * parts[1].nunique() <= len(parts)


def _advice(table: Table) -> str:
    """What to do about a table without a time column."""
    if months := month_columns(table.columns):
        columns = [column for column in table.columns if column not in months]
        return (
            f"{months[0]} to {months[-1]} are the months of a year: write one row per month, such as "
            f"pandas.read_csv({table.name!r}).melt({columns}, var_name='month').to_csv('months.csv', index=False), and "
            "read that with dataset.sort=true"
        )
    for column in table.columns:
        cell = str(table.frame[column].iloc[0]).strip() if len(table.frame) else ""
        if not is_numeric_dtype(table.frame[column]) and _SHORT_YEAR.fullmatch(cell):
            return (
                f"times such as {shown(cell)} in column {column!r} have no year of four digits: write 2001-01 for the "
                "first month of the first year"
            )
    parts = calendar_parts(table.columns)
    if len(parts) > 1:
        return (
            f"{listed(parts)} may be parts of a time, which needs a year of four digits, a month (or quarter), and a "
            "day if there are hours; add what is missing, or name a time column with dataset.time_col"
        )
    return (
        "name it with dataset.time_col; if the file has none, add one, such as frame.insert(0, 'date', "
        "pandas.date_range('2024-01-01', periods=len(frame), freq='D'))"
    )
