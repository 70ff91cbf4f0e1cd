"""File or frame -> Series: the only way in, the same for training, evaluation and prediction.

A file has a time column with equal steps (in any pandas offset) and numbers without gaps in every other column used.
Anything else is an InputError with a line for each problem; what is repaired was asked for, and is told.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.data.checks import constant_columns
from informer.data.dialect import COMMON, Dialect
from informer.data.examine import Demands, Examined, examine
from informer.data.frequency import Frequency
from informer.data.repair import Duplicates, Fill, Repairs
from informer.data.report import Report
from informer.data.split import Short, SplitConfig, split_rows
from informer.data.table import Table, has_numbers, has_words, is_number_column, listed, name_of, read_table
from informer.data.timestamps import find_time_column
from informer.data.windows import WindowSizes
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
        series_col: the column that names the series of each row, where one file holds many, as the names are written
            there (001, NA); None: it holds one.
        short: what to do with series too short for a window in each part.
        memmap: keep the values in files of the cache instead of in memory, and read CSV files in pieces.
        cache_dir: the folder of these files; None: `cache` in the data folder.
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
        sort, duplicates, fill, max_gap: repairs (see `Repairs`), none unless asked for.
    """

    name: str = "csv"
    path: str | None = None
    file: str | None = None
    packaged: bool = False
    series_col: str | None = None
    short: Short = Short.error
    memmap: bool = False
    cache_dir: str | None = None
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
    sort: bool = False
    duplicates: Duplicates | None = None
    fill: Fill | None = None
    max_gap: int | None = None

    @property
    def repairs(self) -> Repairs:
        """What is mended before the checks."""
        return Repairs(sort=self.sort, duplicates=self.duplicates, fill=self.fill, max_gap=self.max_gap)

    def problems(self) -> list[str]:
        """Every value out of range, one sentence each."""
        if self.max_gap is not None and self.max_gap < 1:
            return [f"dataset.max_gap: expected at least 1, found {self.max_gap}"]
        return []


@dataclass(frozen=True, slots=True)
class Series:
    """A named table: `values` [t c] in data units, one row a timestamp at equal steps, one column a name.

    `time_format` is what read the timestamps, None where they came as timestamps; `dialect` is how the file is written,
    `n_rows` the rows that it has, of which these may be the last; `series_col` the column that named the series, None
    where the file holds no other; `repairs` says what was mended, a line each.
    """

    name: str
    timestamps: pd.DatetimeIndex
    values: Float64[np.ndarray, "t c"]
    columns: tuple[str, ...]
    frequency: Frequency
    time_col: str
    time_format: str | None = None
    dialect: Dialect = COMMON
    n_rows: int = 0
    series_col: str | None = None
    repairs: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.timestamps)


def read_series(path: Path, config: DatasetConfig, *, sizes: WindowSizes | None = None) -> Series:
    """Read a CSV file, packed or not, or a parquet file.

    Args:
        sizes: of windows that each part of the split must hold.

    Raises:
        InputError: see `series_from_table`.
    """
    table = table_of_file(path, config)
    if table.dialect.uncommon():
        log.info("%s: %s", table.name, table.dialect.uncommon())
    return series_from_table(table, config, name_of(path), sizes=sizes)


def table_of_file(path: Path, config: DatasetConfig) -> Table:
    """The cells of a file that is written as `config` says.

    Raises:
        InputError: see `read_table`.
    """
    return read_table(
        path,
        separator=config.separator,
        decimal=config.decimal,
        encoding=config.encoding,
        series_col=config.series_col,
    )


def series_from_table(
    table: Table,
    config: DatasetConfig,
    name: str,
    *,
    sizes: WindowSizes | None = None,
    history: int | None = None,
) -> Series:
    """Check the cells of a file or frame, and take its series; warnings and repairs go to the log.

    Args:
        name: of the series.
        sizes: for training: of windows that each part of the split must hold.
        history: for prediction: rows that it needs. The last so many are taken and checked, older ones are not.

    Raises:
        InputError: one line for each problem.
    """
    series, report = inspect_table(table, config, name, sizes=sizes, history=history)
    for line in report.repairs:
        log.info(line)
    report.refuse()
    for line in report.warnings:
        log.warning(line)
    assert series is not None  # else there are problems
    return replace(series, repairs=tuple(report.repairs))


def inspect_table(
    table: Table,
    config: DatasetConfig,
    name: str,
    *,
    sizes: WindowSizes | None = None,
    history: int | None = None,
) -> tuple[Series | None, Report]:
    """What `series_from_table` takes, None where there is nothing to take, and all that is to say about it."""
    report = Report()
    with report.gathering():
        if not len(table.frame):
            raise table.without_rows()
        time_col = find_time_column(table, config.time_col)
        _check_repeats(table, time_col, config.columns, report)
        columns = _value_columns(table, time_col, config.columns)
        demands = Demands(
            time_format=config.time_format, frequency=config.frequency, repairs=config.repairs, history=history
        )
        found = examine(table, time_col, columns, demands, report)
        if found is None:
            return None, report
        if history is not None and found.n_rows < history and config.short is not Short.pad:
            report.add(f"{table.name}: expected at least seq_len={history} rows of history, found {found.n_rows}")
        if found.frequency is None:
            return None, report
        if history is None:
            report.warnings += constant_columns(found.rows)
        if sizes is not None:
            times = found.frequency.grid(found.rows.timestamps[0], found.n_rows)
            with report.gathering():
                split_rows(times, found.frequency, config.split, sizes=sizes, name=name)
        return _series(found, found.frequency, table, name), report
    return None, report


def _series(found: Examined, frequency: Frequency, table: Table, name: str) -> Series:
    rows = found.rows
    return Series(
        name=name,
        timestamps=rows.timestamps,
        values=rows.values,
        columns=rows.columns,
        frequency=frequency,
        time_col=rows.time_col,
        time_format=found.time_format,
        dialect=table.dialect,
        n_rows=len(table.frame),
    )


def _check_repeats(table: Table, time_col: str, wanted: list[str] | None, report: Report) -> None:
    repeated = [column for column in table.repeated if wanted is None or column in (time_col, *wanted)]
    if repeated:
        report.add(f"{table.name}, row 1: column names repeat: {', '.join(map(repr, repeated))}; rename them")


def text_columns(tables: Iterable[Table], config: DatasetConfig) -> list[str]:
    """Columns of a file that are text by all its rows, for each series or piece of it to leave out; told to the log.

    None where `config` names the columns, or where no other would be left: reading then says what is wrong.

    Args:
        tables: the rows, whole or piece by piece; no more pieces are taken than settle it.

    Raises:
        InputError: no time column.
    """
    pieces = iter(tables)
    first = next(pieces)
    if config.columns is not None or not len(first.frame):
        return []
    apart = find_time_column(first, config.time_col), config.series_col
    others = undecided = [column for column in first.columns if column not in apart]
    worded: set[str] = set()
    for table in chain([first], pieces):
        undecided = [column for column in undecided if not has_numbers(table, column)]
        worded.update(column for column in undecided if column not in worded and has_words(table, column))
        if not undecided:
            break
    found = [column for column in undecided if column in worded]
    if not 0 < len(found) < len(others):
        return []
    log.info("%s: text columns not used: %s", first.name, ", ".join(found))
    return found


def _value_columns(table: Table, time_col: str, wanted: list[str] | None) -> tuple[str, ...]:
    others = [column for column in table.columns if column != time_col]
    if wanted is not None:
        _check_wanted(table.name, wanted, others)
        return tuple(wanted)
    chosen = tuple(column for column in others if is_number_column(table, column))
    unnamed = [column for column in chosen if column == "" or column.startswith("Unnamed: ")]
    # spreadsheets leave columns without anything in them
    chosen = tuple(column for column in chosen if column not in unnamed or table.frame[column].notna().any())
    unnamed = [column for column in unnamed if column in chosen]
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
