"""The column of a table that has its times.

It is the one of dates with the most detail; else of years, or of dates or counts whose format must be set, or of
numbers of rows. Before it is looked for, parts of a time in several columns are joined, see `time_parts`.
"""

import re

import numpy as np
import pandas as pd
from pandas.api.types import (
    is_datetime64_any_dtype,
    is_float_dtype,
    is_integer_dtype,
    is_numeric_dtype,
    is_string_dtype,
)

from informer.base.errors import TimeError, listed
from informer.config.data import EXCEL
from informer.read.cells import decoded, distinct, text_of
from informer.read.date_text import date_formats
from informer.read.numbered_times import MOSTLY, YEARS, changed_unit, digits_format, numbered_periods, usual_units
from informer.read.table import Table, shown, without
from informer.read.time_parts import HEAD, are_texts, are_years, calendar_parts, clock_texts, month_columns


def number_format(column: str, cells: pd.Series) -> str | None:
    """The format of numbers that are times without doubt: years in a column of that name, periods, dates, and counts
    since 1970 whose unit changes; None for others."""
    if are_years(column, cells):
        return "%Y"
    return numbered_periods(cells) or digits_format(cells) or changed_unit(cells)


TIME_NAMES = {"date", "time", "timestamp", "datetime", "date_time", "ds", "dates", "times", "timestamps", "period"}
"""Column names (any case) for a time column."""

ROW_NUMBERS = {"no", "no.", "nr", "number", "index", "idx", "id", "row", "row_id", "rownum", "obs", "instant", "#", ""}
ROW_NUMBERS |= {"t", "step", "steps", "tick", "n", "i", "observation", "unnamed: 0"}
"""Column names (any case) for the numbers of rows."""

_NUMBERS = r"(?<!\d)(?:19|20)\d\d(?!\d).*\d|\d.*(?<!\d)(?:19|20)\d\d(?!\d)|(?:19|20)\d{6}|\w\W+(?:19|20)\d\d$"
_NUMBERS += r"|^\d{1,2}\D\d{1,2}\D\d{1,2}(?:\D|$)"
"""Text with a year and another number or word, or of at least three numbers."""

_DATE = r"\s*(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})(?:\D|$)"

_BEGINS = re.compile(r"start|begin|open|from|von|since|d[eé]but|desde|inicio", re.IGNORECASE)
_ENDS = re.compile(r"end|stop|close|until|till|bis|fin|hasta|to(?:$|[\W_])", re.IGNORECASE)
"""Names of the beginnings and ends of intervals."""

LEAST_STEPS = 10
"""Minimum number of columns with numbered names that may be steps in time."""

_SHORT_YEAR = re.compile(r"\d{1,3}[-/.]\d{1,2}")
"""Cells such as 1-01, the first month of a first year."""


def find_time_column(table: Table, time_col: str | None) -> str:
    """`time_col`, otherwise the column of dates with the most detail, otherwise of years, otherwise of dates or counts
    since 1970 whose format must be set, otherwise of row numbers.

    A column of dates has one in its first cell. Those with a name in TIME_NAMES are preferred, unless another one has
    the same days and times of day. Of several that are alike, the one with the most distinct times is taken.

    Raises:
        InputError: there is none, or several that differ but are alike in this.
    """
    if time_col is not None:
        if time_col not in table.columns:
            raise table.missing("dataset.time_col", time_col)
        return time_col
    dated = dated_columns(table)
    named = [column for column in table.columns if column.strip("<> ").lower() in TIME_NAMES]
    numbers = [column for column in (named if dated else table.columns) if _are_dates(table.frame[column])]
    preferred = [column for column in named if column in (dated or numbers)] or dated
    preferred += numbers if dated else []
    # a column named time may contain times of day, next to one of dates; else it counts something
    if not preferred and not (named and clock_texts(table.frame[named[0]], is_named=True) is None):
        parts = calendar_parts(table.columns)  # a year next to a day is a part of a time
        is_year = len(parts) == 1 and are_years(parts[0], table.frame[parts[0]]) and not month_columns(table.columns)
        preferred = [*(parts if is_year else []), *numbers]
    if preferred := preferred or named[:1]:
        best = _most_distinct(table, preferred)
        finer = [column for column in dated if column != best and _refines(table.frame[column], table.frame[best])]
        return _most_distinct(table, finer) if finer else best
    if unread := [column for column in table.columns if _is_unread(table.frame[column])]:
        return _most_distinct(table, unread)
    if counts := [column for column in table.columns if is_row_number(column) and counts_rows(table.frame[column])]:
        return counts[0]
    raise TimeError(f"{table.name}: no time column found among {listed(table.columns)}; {_advice(table)}")


def _are_dates(cells: pd.Series) -> bool:
    """Whether numbers are times whatever the name of their column; days not all in one month, or hours not all of one
    day, where they may count something."""
    time_format = number_format("", cells) if is_numeric_dtype(cells) else None
    if time_format is None or not time_format.startswith("%Y%m%d"):
        return time_format is not None
    return (cells // 100 ** max(time_format.count("%") - 3, 1)).nunique() > 1


def _is_unread(cells: pd.Series) -> bool:
    """Whether cells are times in a format that is not recognised: whole numbers since 1970 that mostly rise or fall, or
    text of one form with a year or at least three numbers, which does not begin with one word, as names do."""
    if is_integer_dtype(cells):
        steps = cells.diff().iloc[1:]
        shares = [float((steps >= 0).mean()), float((steps <= 0).mean())] if len(steps) else [0.0]
        return (
            max(shares) >= MOSTLY
            and bool((steps.abs() > 1).any())
            and bool(usual_units(cells))
            and usual_units(cells) != [EXCEL]
        )
    texts = distinct(cells.iloc[:HEAD]).dropna() if len(cells) and are_texts(cells) else pd.Series(dtype="str")
    texts = texts.astype("str").str.strip()
    if len(texts) < 2 or not texts.str.contains(_NUMBERS).all():
        return False
    forms = texts.str.replace(r"[^\W\d]+\.?", "a", regex=True).str.replace(r"\d+", "1", regex=True)
    words = texts.str.extract(r"^([^\W\d]*)")[0]
    return forms.nunique() == 1 and (words.nunique() > 1 or not words.iloc[0])


def is_row_number(column: str) -> bool:
    """Whether a column is named after the number of a row."""
    return column.strip().lower() in ROW_NUMBERS


def counts_rows(cells: pd.Series) -> bool:
    """Whether whole numbers rise by equal steps from row to row, from the first one again for each series."""
    if len(cells) < 2 or not is_integer_dtype(cells) or cells.hasnans:
        return False
    steps = cells.diff().iloc[1:]
    again = cells.iloc[1:][steps != steps.iloc[0]]
    return bool(steps.iloc[0] >= 1 and cells.iloc[0] >= 0 and (again == cells.iloc[0]).all())


def dated_columns(table: Table) -> list[str]:
    """The columns whose first cell is a date, or whose cells are timestamps."""
    return [column for column in table.not_numeric if looks_dated(table.frame[column])]


def are_rising(cells: pd.Series) -> bool:
    """Whether cells are times that rise from row to row."""
    return is_datetime64_any_dtype(cells) and bool((np.diff(pd.DatetimeIndex(cells).asi8) > 0).all())


def looks_dated(cells: pd.Series) -> bool:
    """Whether the cells are timestamps, or the first one is a date."""
    if is_datetime64_any_dtype(cells):
        return True
    return not is_numeric_dtype(cells) and len(cells) > 0 and bool(date_formats(str(cells.array[0]).strip()))


def has_only_dates(cells: pd.Series) -> bool:
    """Whether all cells are text with a year of four digits, a month and a day, which no number looks like."""
    texts = distinct(cells).dropna()
    return is_string_dtype(texts) and len(texts) > 0 and bool(texts.str.match(_DATE).all())


def _most_distinct(table: Table, columns: list[str]) -> str:
    """The column with the most distinct times, of text rather than of numbers, which may be others; the first of
    columns with equal cells, and of two with the beginnings and ends of intervals.

    Raises:
        InputError: several have as many, but other cells.
    """
    for frame in (table.frame.iloc[:HEAD], table.frame):
        if len(columns) == 1:
            break
        numbers = {column: frame[column].nunique() for column in columns}
        columns = [column for column in columns if numbers[column] == max(numbers.values())]
        texts = [column for column in columns if not is_numeric_dtype(frame[column])]
        columns = texts or [column for column in columns if are_years(column, frame[column])] or columns
    first, *others = columns
    if len(others) == 1 and _begin(table.frame, first, others[0]):
        return first
    differing = [column for column in others if not decoded(table.frame[column]).equals(decoded(table.frame[first]))]
    if differing:
        settings = " or ".join(f"dataset.time_col={column}" for column in (first, *differing))
        raise TimeError(
            f"{table.name}: times in the columns {listed([first, *differing])}; name one of them: {settings}"
        )
    return first


def _begin(frame: pd.DataFrame, first: str, last: str) -> bool:
    """Whether two columns are named after the beginnings and ends of intervals, and one begins where its neighbour
    ends, as do times when forecasts were issued and for which they hold."""
    if not (_BEGINS.search(first) and _ENDS.search(last)):
        return False
    cells, others = (decoded(frame[name].iloc[:HEAD]).reset_index(drop=True) for name in (first, last))
    if is_integer_dtype(cells) and is_integer_dtype(others):  # 999 milliseconds before the next one
        shares = [((cells.shift(step) - others).abs() <= 1).iloc[1:-1].mean() for step in (-1, 1)]
    else:
        shares = [(cells == others.shift(step)).iloc[1:-1].mean() for step in (1, -1)]
    return max(shares) >= MOSTLY and not cells.equals(others)


def _refines(cells: pd.Series, others: pd.Series) -> bool:
    """Whether cells have the days of the others, and more distinct times, with times of day that repeat: the times at
    which rows were written do not."""
    cells, others = (decoded(column.iloc[:HEAD]) for column in (cells, others))
    if cells.nunique() <= others.nunique():
        return False
    parts, days = (text_of(column).str.strip().str.extract(r"^([^ T]*)(.*)") for column in (cells, others))
    return parts[0].equals(days[0]) and 2 * parts[1].nunique() <= len(parts)


def _advice(table: Table) -> str:
    """What to do about a table without a time column."""
    if len(table.columns) == 1 and re.search(r"\S(?: {2,}|\t)\S", table.columns[0]):
        return (
            "its columns seem to be separated by blanks, and some cells to be empty: write NA in them, or "
            f"pandas.read_fwf({table.name!r}).to_csv('table.csv', index=False), and read that"
        )
    reading = f"such as pandas.read_csv({table.name!r})"
    steps = [name for name in without(table.columns, table.not_numeric) if re.fullmatch(r"[^\W\d]+_?\d+", name)]
    if len(steps) >= LEAST_STEPS and 2 * len(steps) > len(table.columns):
        columns = [column for column in table.columns if column not in steps]
        return (
            f"if {steps[0]} to {steps[-1]} are steps in time, write one row per step, {reading}.melt({columns}, "
            "var_name='date').assign(date=lambda frame: pandas.Timestamp('2024-01-01') + "
            "pandas.to_timedelta(frame['date'].str.extract(r'(\\d+)$')[0].astype(int), 'D'))"
            ".to_csv('steps.csv', index=False) with your first day"
        )
    for column, cells in table.frame.items():
        cell = str(cells.iloc[0]).strip() if len(cells) else ""
        if not is_numeric_dtype(cells) and _SHORT_YEAR.fullmatch(cell):
            return (
                f"times such as {shown(cell)} in column {column!r} have no year of four digits: write 2001-01 for the "
                "first month of the first year"
            )
        if is_numeric_dtype(cells) and digits_format(cells):
            return f"if {cell} in column {column!r} is a date, set dataset.time_col={column}"
        are_years = is_float_dtype(cells) and cells.between(YEARS.start, YEARS.stop).all()
        if are_years and 0.9 < 12 * cells.diff().median() < 1.1:
            month = f"{int(cells.iloc[0])}-{int(cells.iloc[0] % 1 * 12) + 1:02d}"
            return (
                f"years such as {cell} in column {column!r} need months: frame[{column!r}] = "
                f"pandas.date_range('{month}', periods=len(frame), freq='MS')"
            )
    parts = calendar_parts(table.columns)
    if len(parts) > 1:
        return (
            f"{listed(parts)} may be parts of a time, which needs a year of four digits, a month (or quarter, week, or "
            "day of year), and a day if there are hours; add what is missing, or name a time column with "
            "dataset.time_col"
        )
    first = table.columns[:1]
    numbers = f" (={first[0]} if it numbers the rows)" if first and counts_rows(table.frame[first[0]]) else ""
    return (
        f"name it with dataset.time_col{numbers}; if the file has none, add one, such as frame.insert(0, 'date', "
        "pandas.date_range('2024-01-01', periods=len(frame), freq='D'))"
    )
