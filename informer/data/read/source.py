"""Read a file or frame as a `Series`; used for training, evaluation and prediction alike.

A file has a time column with equal steps (any pandas offset) and numbers without gaps in every other used column.
Anything else is an InputError with a line for each problem. Repairs are made only on request, and reported.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.config.dataset import DatasetConfig, Short
from informer.config.lengths import WindowSizes
from informer.data.read.calendar_columns import find_calendar_columns, joined_calendar
from informer.data.read.cells import without_words
from informer.data.read.checks import check_doubts, constant_columns
from informer.data.read.clock_column import find_clock_column, joined
from informer.data.read.dialect import COMMON, Dialect
from informer.data.read.examine import Examined, ReadSpec, TimesCache, examine
from informer.data.read.frequency import Frequency
from informer.data.read.report import Report
from informer.data.read.table import Table, read_table, without
from informer.data.read.time_column import dated_columns, find_time_column
from informer.data.read.value_columns import counting_column, value_columns
from informer.data.split import split_rows
from informer.errors import InputError, listed

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Series:
    """A series with regular timestamps and one or more columns.

    Args:
        name, columns, time_col: names of the series, its value columns and its time column.
        timestamps: timestamps at equal steps of `frequency`.
        values: [t c], in data units.
        time_format: format of the time column; None if it had timestamps.
        dialect, n_rows: format and rows of the file; `values` may contain only the last rows.
        series_col: column that named the series; None if the file has a single series.
        repairs: descriptions of the repairs.
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


def column_values(series: Series, names: Sequence[str]) -> Float64[np.ndarray, "t c"]:
    """These columns of a series, in this order.

    Raises:
        InputError: columns are missing.
    """
    missing = [name for name in names if name not in series.columns]
    if missing:
        raise InputError(
            f"{series.name}: columns missing: {listed(missing)}; its value columns are {listed(series.columns)}"
        )
    if tuple(names) == series.columns:
        return series.values
    return series.values[:, [series.columns.index(name) for name in names]]


def table_of_file(path: Path, config: DatasetConfig) -> Table:
    """The table of a file, prepared; errors as in `cells_of_file` and `prepared`."""
    return prepared(cells_of_file(path, config), config)


def cells_of_file(path: Path, config: DatasetConfig) -> Table:
    """The cells of a file, read with the settings of `config`; errors as in `read_table`."""
    return read_table(path, config.hints, config.as_text, config.limits)


def prepared(table: Table, config: DatasetConfig) -> Table:
    """The table without excluded columns, and with times that are in several columns joined.

    Raises:
        InputError: a column of `dataset.exclude` or `dataset.clock_col` is missing.
    """
    for column in without(config.exclude, table.columns):
        raise table.missing("dataset.exclude", column)
    if config.clock_col is not None and config.clock_col not in table.columns:
        raise table.missing("dataset.clock_col", config.clock_col)
    return with_whole_times(table.without(config.exclude) if config.exclude else table, config)


def with_whole_times(table: Table, config: DatasetConfig) -> Table:
    """The table with times that are in several columns joined in one, without a first column of row numbers, and with
    missing values as `config` lists them."""
    table = with_missing_values(table, config)
    named_columns = [*(config.columns or []), *config.as_text, *filter(None, [config.target, config.time_col])]
    if counting := counting_column(table, named_columns):
        log.info("%s: column %r numbers the rows, and is not used", table.name, counting)
        table = table.without([counting])
    dated = dated_columns(table) if config.time_col is None else []
    if config.time_col is None and not dated and (parts := find_calendar_columns(table, named_columns)):
        log.info("%s: times are joined from the columns %s", table.name, listed(list(parts.values())))
        table = joined_calendar(table, parts)
    try:
        time_col = find_time_column(table, config.time_col)
    except InputError:  # reported with all other problems of the table
        return table
    clock_col = config.clock_col or find_clock_column(table, time_col, named_columns)
    if clock_col in table.columns and clock_col != time_col:
        log.info("%s: times are the dates of %r with the times of day of %r", table.name, time_col, clock_col)
        return joined(table, time_col, clock_col)
    if unused := without(dated, [time_col]):
        log.info(
            "%s: times are those of %r, not of %s; dataset.time_col names another", table.name, time_col, listed(unused)
        )
    return table


def with_missing_values(table: Table, config: DatasetConfig) -> Table:
    """The table with `dataset.missing_values` as missing values; those of CSV text are read as such already."""
    if not config.missing_values:
        return table
    excluded = {*config.as_text, config.time_col, config.clock_col}
    return replace(table, frame=without_words(table.frame, config.missing_values, excluded))


def series_from_table(
    table: Table,
    config: DatasetConfig,
    name: str,
    *,
    sizes: WindowSizes | None = None,
    history: int | None = None,
    trained_format: str | None = None,
    times_cache: TimesCache | None = None,
) -> Series:
    """Check the cells of a file or frame, and return its series; warnings and repairs are logged.

    Args:
        table, config, name: the cells, settings of the dataset, and name of the series.
        sizes: for training, sizes of a window; each part of the split must contain at least one.
        history: for prediction, number of rows needed from the end; of older rows only the times are checked.
        trained_format: for prediction, time format of the training data (see `find_format`).
        times_cache: cache of time columns.

    Raises:
        InputError: one line for each problem.
    """
    series, report = inspect_table(
        table, config, name, sizes=sizes, history=history, trained_format=trained_format, times_cache=times_cache
    )
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
    trained_format: str | None = None,
    times_cache: TimesCache | None = None,
) -> tuple[Series | None, Report]:
    """The series, None if it cannot be read, and all problems, warnings and repairs; see `series_from_table`."""
    report = Report()
    with report.gathering():
        if not len(table.frame):
            raise table.without_rows()
        table = with_missing_values(table, config)
        time_col = find_time_column(table, config.time_col)
        _check_repeats(table, time_col, config.columns, report)
        columns = value_columns(table, time_col, config.columns)
        check_doubts(table, columns, report)
        spec = ReadSpec(
            time_format=config.time_format,
            trained_format=trained_format,
            timezone=config.timezone,
            frequency=config.frequency,
            repairs=config.repairs,
            history=history,
            times_cache=times_cache or TimesCache(),
        )
        examined = examine(table, time_col, columns, spec, report)
        if examined is None:
            return None, report
        if history is not None and examined.n_rows < history and config.short is not Short.pad:
            report.add(f"{table.name}: expected at least seq_len={history} rows of history, found {examined.n_rows}")
        if examined.frequency is None:
            return None, report
        if history is None:
            report.warnings += constant_columns(examined.rows, [*config.categorical, *config.static_covariates])
        if sizes is not None:
            times = examined.frequency.grid(examined.rows.timestamps[0], examined.n_rows)
            with report.gathering():
                split_rows(times, examined.frequency, config.split, sizes=sizes, name=name)
        return _series(examined, examined.frequency, table, name), report
    return None, report


def _series(examined: Examined, frequency: Frequency, table: Table, name: str) -> Series:
    rows = examined.rows
    return Series(
        name=name,
        timestamps=rows.timestamps,
        values=rows.values,
        columns=rows.columns,
        frequency=frequency,
        time_col=rows.time_col,
        time_format=examined.time_format,
        dialect=table.dialect,
        n_rows=len(table.frame),
    )


def _check_repeats(table: Table, time_col: str, wanted: list[str] | None, report: Report) -> None:
    repeated = [column for column in table.repeated if wanted is None or column in (time_col, *wanted)]
    if repeated:
        report.add(f"{table.name}, row 1: column names repeat: {', '.join(map(repr, repeated))}; rename them")
