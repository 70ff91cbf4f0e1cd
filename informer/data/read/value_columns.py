"""The columns of a table that are read as values."""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import chain

import pandas as pd
from pandas.api.types import is_integer_dtype

from informer.config.dataset import DatasetConfig
from informer.config.overrides import to_display
from informer.data.read.numeric import check_no_times, has_numbers, has_words, number_columns
from informer.data.read.separating import separating_column
from informer.data.read.table import Table, without
from informer.data.read.time_column import dated_columns, find_time_column, has_only_dates, looks_dated
from informer.errors import InputError, listed

log = logging.getLogger(__name__)

ROW_NUMBERS = {"no", "no.", "nr", "number", "index", "idx", "id", "row", "row_id", "rownum", "obs", "instant", "#"}
"""Names (any case) of a first column that is left out if it numbers the rows."""

LEAST_REPEATED = 10
"""Minimum average number of rows per distinct text for a text column to be proposed as categorical."""


def text_columns(tables: Iterable[Table], config: DatasetConfig) -> list[str]:
    """Columns of a file that are text in all rows, to be left out of each of its series or pieces; logged.

    Empty if `config` lists the columns, or if no other column would be left, which is an error when the file is read.

    Args:
        tables: the rows, at once or in pieces; only as many pieces are read as needed.
        config: settings of the dataset.

    Raises:
        InputError: no time column.
    """
    pieces = iter(tables)
    first = next(pieces)
    if config.columns is not None or not len(first.frame):
        return []
    keys = find_time_column(first, config.time_col), config.series_col
    others = undecided = [column for column in first.columns if column not in keys]
    worded: set[str] = set()
    for table in chain([first], pieces):
        undecided = [column for column in undecided if not has_numbers(table, column)]
        worded.update(column for column in undecided if column not in worded and has_words(table, column))
        if not undecided:
            break
    text_only = [column for column in undecided if column in worded]
    if not 0 < len(text_only) < len(others):
        return []
    check_no_times(first, text_only)
    log.info(_unused(first, text_only))
    return text_only


def value_columns(table: Table, time_col: str, configured: list[str] | None) -> tuple[str, ...]:
    """The columns that are read as numbers: those configured, or all with numbers. Others are logged.

    Raises:
        InputError: no such column, or one without a name.
    """
    candidates = [column for column in table.columns if column != time_col]
    if configured is not None:
        _check_configured(table.name, configured, candidates)
        return tuple(configured)
    selected = number_columns(table, candidates)
    # dates without letters might be numbers with signs
    selected = tuple(
        without(selected, [column for column in dated_columns(table) if has_only_dates(table.frame[column])])
    )
    unnamed = [column for column in selected if column == "" or column.startswith("Unnamed: ")]
    # spreadsheets leave empty columns, and pandas writes row numbers
    useless = [column for column in unnamed if not table.frame[column].notna().any()]
    if unnamed and unnamed[0] == table.columns[0] and _numbers_rows(table.frame[unnamed[0]]):
        useless.append(unnamed[0])
    selected = tuple(without(selected, useless))
    candidates = without(candidates, useless)
    if without(unnamed, useless):
        raise InputError(f"{table.name}, row 1: a column has no name; name it, or list dataset.columns")
    if not selected:
        descriptions = [f"{column} (text such as {str(table.frame[column].iloc[0])[:40]!r})" for column in candidates]
        advice = "; write plain numbers, without %, $ or other units" if candidates else ""
        raise InputError(f"{table.name}: no numeric column next to {time_col!r}, found {listed(descriptions)}{advice}")
    passed_over = without(candidates, selected)
    if passed_over:
        check_no_times(table, passed_over)
        log.info(_unused(table, passed_over, separating_column(table, time_col)))
    return selected


def counting_column(table: Table, excluded: Collection[str]) -> str | None:
    """The first column if it has a name in ROW_NUMBERS and counts the rows, 1 by 1; else None."""
    first = table.columns[0] if table.columns else None
    if first is None or first in excluded or first.strip().lower() not in ROW_NUMBERS:
        return None
    cells = table.frame[first]
    return first if is_integer_dtype(cells) and bool((cells.diff().iloc[1:] == 1).all()) else None


def _numbers_rows(cells: pd.Series) -> bool:
    """Whether whole numbers rise by the same step from row to row; it is more than 1 in a series of a longer file."""
    steps = pd.to_numeric(cells, errors="coerce").diff().iloc[1:]
    return len(steps) > 0 and bool((steps == steps.iloc[0]).all()) and steps.iloc[0] >= 1 and steps.iloc[0] % 1 == 0


def _unused(table: Table, columns: Sequence[str], series_col: str | None = None) -> str:
    """Message about unused text columns, with the settings that read those with repeated cells and `series_col`."""
    if series_col is not None and series_col in columns:
        line = f"{table.name}: times repeat; dataset.series_col={series_col} reads each {series_col} as a series"
        remaining = without(columns, [series_col])
        return f"{line}\n{_unused(table, remaining)}" if remaining else line
    repeated = repeated_text(table, columns)
    descriptions = [f"{column} ({repeated[column]} values)" if column in repeated else column for column in columns]
    proposed = f"; dataset.categorical={to_display([*repeated])} reads them as categories" if repeated else ""
    return f"{table.name}: text columns not used: {', '.join(descriptions)}{proposed}"


def repeated_text(table: Table, columns: Sequence[str]) -> dict[str, int]:
    """Text columns, other than of dates, whose cells repeat enough to be categorical, with their number of distinct
    texts."""
    text = [column for column in columns if not looks_dated(table.frame[column])]
    numbers = {column: table.frame[column].nunique(dropna=False) for column in text}
    return {column: n for column, n in numbers.items() if 1 < n <= len(table.frame) / LEAST_REPEATED}


def _check_configured(name: str, configured: list[str], columns: list[str]) -> None:
    missing = without(configured, columns)
    if missing or not configured:
        lacking = listed(missing) if configured else "dataset.columns lists none"
        raise InputError(f"{name}: columns missing: {lacking}; its value columns are {listed(columns)}")
    repeated = [column for column, n in Counter(configured).items() if n > 1]
    if repeated:
        raise InputError(f"dataset.columns: {listed(repeated)} is given twice")
