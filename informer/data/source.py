"""File or frame -> Series: the only way in, the same for training, evaluation and prediction.

A file has a time column with equal steps (in any pandas offset) and numbers without gaps in every other column used.
Anything else is an InputError that names file, row and column; nothing is repaired in silence.
"""

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.data.dialect import COMMON, Dialect
from informer.data.frequency import Frequency
from informer.data.split import Short, SplitConfig
from informer.data.table import Table, is_number_column, listed, name_of, numbers, read_table, table_of_frame
from informer.data.timestamps import find_frequency, find_time_column, parse_timestamps
from informer.errors import InputError

log = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class DatasetConfig:
    """The node `dataset`: what a file is called, where it comes from, how to read it, how to split it.

    Args:
        name: of the dataset, in reports.
        path: the file, CSV (packed by gzip or not) or parquet, or a folder or pattern of files with a series each; None
            takes `file` from the data folder.
        file: file name within the data folder.
        packaged: `file` ships with this package (the sample) instead.
        series_col: the column that names the series of each row, where one file holds many; None: it holds one.
        short: what to do with series too short for a window in each part.
        time_col: the time column; None finds it.
        time_format: strptime format of its cells, or s, ms, us, ns for counts since 1970; None finds it.
        frequency: step between rows; None infers it.
        columns: the value columns, in this order; None takes every column of numbers.
        target: the column to forecast; None takes the last value column.
        split: how rows are divided into training, validation and test.
        url: where to fetch `file` when it is missing.
        sha256: of the file as published; required of a fetched file, reported of one that was there.
        hint: where to get a file that has no stable address.
        separator, decimal, encoding: of CSV text; None finds them.
    """

    name: str = "csv"
    path: str | None = None
    file: str | None = None
    packaged: bool = False
    series_col: str | None = None
    short: Short = Short.error
    time_col: str | None = None
    time_format: str | None = None
    frequency: str | None = None
    columns: list[str] | None = None
    target: str | None = None
    split: SplitConfig = field(default_factory=SplitConfig)
    url: str | None = None
    sha256: str | None = None
    hint: str | None = None
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """A named table: `values` [t c] in data units, one row a timestamp at equal steps, one column a name.

    `time_format` is what read the timestamps, None where they came as timestamps; `dialect` is how the file is written.
    """

    name: str
    timestamps: pd.DatetimeIndex
    values: Float64[np.ndarray, "t c"]
    columns: tuple[str, ...]
    frequency: Frequency
    time_col: str
    time_format: str | None = None
    dialect: Dialect = COMMON

    def __len__(self) -> int:
        return len(self.timestamps)


def recent(series: Series, n: int) -> Series:
    """The last n rows, or as many as there are; what lies before can be freed."""
    timestamps = series.timestamps[-n:].copy(deep=True)
    return replace(series, timestamps=timestamps, values=series.values[-n:].copy())


def read_series(path: Path, config: DatasetConfig) -> Series:
    """Read a CSV file, packed or not, or a parquet file.

    Raises:
        InputError: see the head of this file.
    """
    table = read_table(path, separator=config.separator, decimal=config.decimal, encoding=config.encoding)
    if table.dialect.uncommon():
        log.info("%s: %s", table.name, table.dialect.uncommon())
    return series_from_table(table, config, name_of(path))


def series_from_frame(frame: pd.DataFrame, config: DatasetConfig, name: str) -> Series:
    """Take a frame whose time is a column, or its DatetimeIndex; checked as a file is, rows counted from 0.

    Raises:
        InputError: see the head of this file.
    """
    return series_from_table(table_of_frame(frame, name, config.time_col), config, name)


def series_from_table(table: Table, config: DatasetConfig, name: str) -> Series:
    """Check the cells of a file or frame, and take its series.

    Raises:
        InputError: see the head of this file.
    """
    if not len(table.frame):
        raise InputError(f"{table.name}: a header without rows, expected one row for each time")
    time_col = find_time_column(table, config.time_col)
    columns = _value_columns(table, time_col, config.columns)
    timestamps, time_format = parse_timestamps(table, time_col, config.time_format)
    frequency = find_frequency(table, time_col, timestamps, config.frequency)
    values = np.stack([numbers(table, column) for column in columns], axis=1)
    return Series(name, timestamps, values, columns, frequency, time_col, time_format, table.dialect)


def _value_columns(table: Table, time_col: str, wanted: list[str] | None) -> tuple[str, ...]:
    others = [column for column in table.columns if column != time_col]
    if wanted is not None:
        _check_wanted(table.name, wanted, others)
        return tuple(wanted)
    chosen = tuple(column for column in others if is_number_column(table, column))
    unnamed = [column for column in chosen if column == "" or column.startswith("Unnamed: ")]
    if unnamed:
        raise InputError(f"{table.name}, row 1: a column has no name (a row number?); name it, or list dataset.columns")
    if not chosen:
        raise InputError(f"{table.name}: no column of numbers beside {time_col!r}, found {listed(others)}")
    passed_over = [column for column in others if column not in chosen]
    if passed_over:
        log.info("%s: text columns not used: %s", table.name, ", ".join(passed_over))
    return chosen


def _check_wanted(name: str, wanted: list[str], found: list[str]) -> None:
    missing = [column for column in wanted if column not in found]
    if missing or not wanted:
        lacking = listed(missing) if wanted else "none asked for"
        raise InputError(f"{name}: columns missing: {lacking}; its value columns are {listed(found)}")
    repeated = [column for column in found if wanted.count(column) > 1]
    if repeated:
        raise InputError(f"dataset.columns: {listed(repeated)} stands twice")
