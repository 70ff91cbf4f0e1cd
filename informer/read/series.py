"""Read a file or frame as a `Series`; used for training, evaluation and prediction alike.

A file has a time column with equal steps (any pandas offset) and numbers without gaps in every other used column.
Anything else is an InputError with a line for each problem. Repairs are made only on request, and reported.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64

from informer.base.errors import InputError, listed
from informer.base.files import fingerprint
from informer.config.data import STEP, DatasetConfig, Fill, Short, settings_that
from informer.config.model import WindowSizes
from informer.read import checks, time_columns
from informer.read.cells import key_cells
from informer.read.columns import value_columns
from informer.read.dialect import COMMON, Dialect
from informer.read.files import is_partitioned
from informer.read.frequency import Frequency, on_grid
from informer.read.limits import LIMITS
from informer.read.remote import is_remote, local_path
from informer.read.shapes import prepared, with_missing_values
from informer.read.split import split_rows
from informer.read.table import Table, are_dates, read_table
from informer.read.times import times_of

log = logging.getLogger(__name__)

Frame = Any
"""A pandas, polars or pyarrow table, or another with Arrow's stream interface (`__arrow_c_stream__`, as of duckdb and
ibis), or a pandas series; times are a column or the index. Or the path of a file."""

HOW = "pass pandas.DataFrame(values, index=pandas.date_range('2024-01-01', periods=len(values), freq='h'))"


def frame_of(data: Frame, name: str) -> pd.DataFrame:
    """Convert to a pandas table. Numeric columns without gaps share memory with polars and pyarrow tables.

    Raises:
        InputError: another type, or a series without times.
    """
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, pd.Series):
        if not any(are_dates(data.index.get_level_values(place)) for place in range(data.index.nlevels)):
            raise InputError(f"{name}: expected a series indexed by times, found an index of {data.index.dtype}; {HOW}")
        return data.to_frame("value" if data.name is None else str(data.name))
    is_dataset = type(data).__module__ == "pyarrow._dataset"  # of pyarrow, which is not imported for this
    is_lazy = type(data).__module__.startswith("polars.lazyframe")
    if isinstance(data, str | Path) or not (is_dataset or is_lazy or hasattr(data, "__arrow_c_stream__")):
        raise InputError(
            f"{name}: expected a table (pandas, polars, pyarrow), a series indexed by times, or the path of a file, "
            f"found {type(data).__name__}, which has no times; {HOW}"
        )
    import pyarrow

    try:
        if is_dataset:
            arrow = data.to_table()
        elif _is_polars(data):
            arrow = pyarrow.table((data.collect() if is_lazy else data).to_arrow())
        else:
            arrow = pyarrow.table(data)
    except (pyarrow.ArrowException, TypeError) as error:  # not a stream of tables, such as a single column
        raise InputError(f"{name}: expected a table, found {type(data).__name__} ({error}); {HOW}") from error
    for position, column in enumerate(arrow.schema):  # decimals become floats
        if pyarrow.types.is_decimal(column.type):
            arrow = arrow.set_column(position, column.name, arrow.column(position).cast(pyarrow.float64()))
    # one block per column, to avoid copies
    frame: pd.DataFrame = arrow.to_pandas(split_blocks=True, date_as_object=False)
    return frame


def like(data: Frame, frame: pd.DataFrame) -> Any:
    """Convert `frame` to the type of `data`: pandas for pandas and paths, polars for polars (also lazy frames), and
    pyarrow for all others."""
    if isinstance(data, pd.DataFrame | pd.Series | str | Path):
        return frame
    import pyarrow

    result = pyarrow.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    if not _is_polars(data):
        return result
    import polars

    return polars.from_arrow(result)


def _is_polars(data: Frame) -> bool:
    return type(data).__module__.partition(".")[0] == "polars"


def path_of(data: Frame) -> Path | None:
    """The path, if `data` is one; for an address, the path of its local copy. Errors as in `local_path`."""
    if isinstance(data, str) and is_remote(data):
        return Path(local_path("frame", data, LIMITS))
    return Path(data) if isinstance(data, str | Path) else None


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

    def part(self, rows: slice) -> "Series":
        """These rows."""
        return replace(self, timestamps=self.timestamps[rows], values=self.values[rows])

    def end(self, n: int | None) -> "Series":
        """The last n rows, or all if there are fewer; None: all."""
        return self if n is None or n >= len(self) else self.part(slice(-n, None))

    @property
    def keys(self) -> dict[str, str]:
        """The columns that name the series, and its cells in them; empty if the file has a single series."""
        return key_cells(self.series_col, self.name)


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
    if (kept := _kept.get()) is None or is_partitioned(path):
        return read_table(path, config)
    key = _kept_as(path, config)
    if key in kept:
        return kept[key]
    table = read_table(path, config)
    others = list(dict.fromkeys(other for other, *_ in kept if other != key[0]))
    for entry in [entry for entry in kept if entry[0] not in others[-1:]]:
        del kept[entry]
    if int(key[1] or 0) <= MOST_KEPT:
        kept[key] = table
    return table


def _kept_as(path: Path, config: DatasetConfig) -> tuple[Any, ...]:
    return path.resolve(), *fingerprint(path), repr([getattr(config, name) for name in settings_that(of_cells=True)])


def reads_the_same(path: Path, before: DatasetConfig, now: DatasetConfig) -> None:
    """Let `cells_of_file` know that the cells of a file are the same with other settings."""
    kept = _kept.get()
    if kept and (table := kept.get(_kept_as(path, before))) is not None:
        kept[_kept_as(path, now)] = table


MOST_KEPT = 64 * 10**6
"""Size of the largest file whose cells are kept, in bytes."""

_kept: ContextVar[dict[tuple[Any, ...], Table] | None] = ContextVar("kept", default=None)


@contextmanager
def keeping_cells() -> Iterator[None]:
    """Within it the cells of the last two files, of data and of what is known ahead of them, are kept for
    `cells_of_file`, which need not open them again."""
    before = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(before)


def series_from_table(table: Table, config: DatasetConfig, name: str, **how: Any) -> Series:
    """The checked series of a file or frame; warnings and repairs are logged. Arguments as of `inspect_table`.

    Raises:
        InputError: one line for each problem.
    """
    series, report = inspect_table(table, config, name, **how)
    for line in report.repairs:
        log.info(line)
    report.refuse()
    report.warn()
    assert series is not None  # else there are problems
    return replace(series, repairs=tuple(report.repairs))


def from_date(times: pd.DatetimeIndex, date: str, name: str) -> Bool[np.ndarray, " t"]:
    """Which times are from a date on, or missing.

    Raises:
        InputError: there are none.
    """
    is_old = np.asarray(times.tz_localize(None) < pd.Timestamp(date).tz_localize(None))
    if is_old.all():
        raise InputError(f"dataset.since={date}: {name} ends before, at {times.max()}")
    return ~is_old


def inspect_table(
    table: Table,
    config: DatasetConfig,
    name: str,
    *,
    sizes: WindowSizes | None = None,
    history: int | None = None,
    trained_format: str | None = None,
) -> tuple[Series | None, checks.Report]:
    """Read, repair and check the rows: the series, None if it cannot be read, and all problems, warnings and repairs.

    Args:
        table, config, name: the cells, settings of the dataset, and name of the series.
        sizes: for training, sizes of a window; each part of the split must contain at least one.
        history: for prediction, number of rows needed from the end. Of older rows only the times are read and checked.
        trained_format: for prediction, time format of the training data, which resolves ambiguous dates.
    """
    report, last = checks.Report(), history
    with report.gathering():
        if not len(table.frame):
            raise table.without_rows()
        table = with_missing_values(table, config)
        time_col = time_columns.find_time_column(table, config.time_col)
        if repeated := [
            name for name in table.repeated if config.columns is None or name in (time_col, *config.columns)
        ]:
            report.add(f"{table.name}, row 1: column names repeat: {', '.join(map(repr, repeated))}; rename them")
        columns = value_columns(table, time_col, config)
        checks.check_doubts(table, columns, report)
        # repairs may move rows, or fill from older ones
        reads_all = last is None or config.repairs_rows or config.since is not None
        reads_all |= checks.ends_without(table, config.target)
        reads_all |= all(checks.ends_without(table, name) for name in columns)
        n = len(table.frame) if reads_all else min(last or 0, len(table.frame))
        with report.gathering():
            # from all rows, since the last ones may be ambiguous
            time_format, times = times_of(table, time_col, config, trained_format, None)
            step, is_numbered = Frequency.parse(config.frequency) if config.frequency else None, time_format == STEP
            joins = checks.joins_rows(times, config)
            if not is_numbered and not joins and (rounded := on_grid(times, step)) is not None:
                times, note = rounded
                report.repairs.append(f"{table.name}: {note}")
            rows, text = checks.read_cells(table, time_col, columns, times[len(times) - n :])
            rows = rows if config.since is None else rows.take(from_date(rows.timestamps, config.since, table.name))
            if joins:  # a row with text has no row of its own any more
                checks.check_cells(rows, text, replace(config, fill=Fill.mask), report)
                rows, text = checks.with_zeros(rows, text), {}
            rows, ahead = checks.until_observed(rows, text, config)
            if ahead:
                report.repairs.append(f"{table.name}: {ahead}")
            read = checks.repair(rows.timed, config, report, is_numbered=is_numbered)
            unread = checks.check_times(table, time_col, times, time_format, report)
            # the last rows are the latest only if all are sorted
            lines = rows.lines if len(rows) == len(times) else table.lines
            all_rows = checks.Rows(table.name, time_col, (), times, np.empty((len(times), 0)), lines)
            every = read if n == len(times) else all_rows.timed
            has_steps = not checks.check_clock_changes(every, report) and checks.check_order(every, config, report)
            read = read if last is None else read.end(last)
            ordered, frequency, missing, n_rows = read.in_order(), None, 0, len(read) + len(unread)
            with report.gathering():
                if len(ordered):
                    frequency = checks.choose_step(ordered, config.frequency, is_numbered=is_numbered)
                    if has_steps and (config.fill is None or read.is_increasing):  # others are not filled
                        missing = checks.check_steps(ordered, frequency, unread, config, report)
            is_sound = not len(ordered) or checks.are_sound(ordered.values).all()
            fill = Fill.linear if is_sound else checks.fill_for(ordered, missing)
            checks.check_cells(read, text, config, report, fill)
            checks.check_outliers(read, config, report)
            if history is not None and n_rows < history and config.short is not Short.pad:
                report.add(f"{table.name}: expected at least seq_len={history} rows of history, found {n_rows}")
            if frequency is None:
                return None, report
            if history is None:
                checks.check_far(ordered, config, report)
                fixed = [*config.categorical, *config.static_covariates, *text]
                report.warnings += checks.constant_columns(ordered, fixed)
            if sizes is not None:
                with report.gathering():
                    grid = frequency.grid(ordered.timestamps[0], n_rows)
                    split_rows(grid, frequency, config.split, sizes=sizes, name=name)
            series = Series(
                name=name,
                timestamps=ordered.timestamps,
                values=ordered.values,
                columns=ordered.columns,
                frequency=frequency,
                time_col=time_col,
                time_format=time_format,
                dialect=table.dialect,
                n_rows=len(table.frame),
            )
            return series, report
        rows, text = checks.read_cells(table, time_col, columns, pd.DatetimeIndex(np.full(n, "NaT", "datetime64[s]")))
        checks.check_cells(rows, text, config, report, checks.fill_for(rows, 0) if len(rows) else None)
    return None, report
