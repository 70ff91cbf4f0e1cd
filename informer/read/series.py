"""Read a file or frame as `Series`, for training, evaluation, prediction and reports on files alike.

A file has a time column with equal steps (any pandas offset) and numbers without gaps in every other used column.
Anything else is an InputError with a line for each problem. Repairs are made only on request, and reported.
"""

import logging
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int

from informer.base.errors import ColumnError, FileError, InputError, ShortError, listed
from informer.config.data import STEP, DatasetConfig
from informer.read import checks, time_columns
from informer.read.cells import key_cells, key_text
from informer.read.columns import CategoryReader, numbers, separating_column, value_columns
from informer.read.dialect import COMMON, Dialect
from informer.read.frequency import Frequency
from informer.read.grid import on_grid
from informer.read.limits import LIMITS
from informer.read.outliers import check_far, check_outliers, first_of_test, outliers_of
from informer.read.remote import is_remote, local_path
from informer.read.repairs import joins_rows, repair
from informer.read.rows import Report, Rows
from informer.read.shapes import prepared, with_missing_values
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
            raise FileError(f"{name}: expected a series indexed by times, found an index of {data.index.dtype}; {HOW}")
        return data.to_frame("value" if data.name is None else str(data.name))
    is_dataset = type(data).__module__ == "pyarrow._dataset"  # of pyarrow, which is not imported for this
    is_lazy = type(data).__module__.startswith("polars.lazyframe")
    if isinstance(data, str | Path) or not (is_dataset or is_lazy or hasattr(data, "__arrow_c_stream__")):
        raise FileError(
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
        raise FileError(f"{name}: expected a table, found {type(data).__name__} ({error}); {HOW}") from error
    types = pyarrow.types
    for position, column in enumerate(arrow.schema):
        cells = arrow.column(position)
        if types.is_decimal(column.type):  # becomes floats
            cells = cells.cast(pyarrow.float64())
        elif types.is_dictionary(column.type) and types.is_unsigned_integer(column.type.index_type):
            # pyarrow before 21 makes no categories of these
            signed = [pyarrow.DictionaryArray.from_arrays(x.indices.cast("int64"), x.dictionary) for x in cells.chunks]
            cells = pyarrow.chunked_array(signed, pyarrow.dictionary(pyarrow.int64(), column.type.value_type))
        else:
            continue
        arrow = arrow.set_column(position, column.name, cells)
    # one block per column, to avoid copies
    frame: pd.DataFrame = arrow.to_pandas(split_blocks=True, date_as_object=False)
    frame.attrs[DATES] = [column.name for column in arrow.schema if pyarrow.types.is_date(column.type)]
    return frame


DATES = "dates"
"""Attribute of a converted table: its columns of dates without a time of day, of which pandas makes times."""


def like(data: Frame, frame: pd.DataFrame, same: Sequence[str] = ()) -> Any:
    """Convert `frame` to the type of `data`: pandas for pandas and paths, polars for polars (also lazy frames), and
    pyarrow for all others. In polars and pyarrow the columns `same` have the types of those in `data`, which pandas may
    not have.
    """
    if isinstance(data, pd.DataFrame | pd.Series | str | Path):
        return frame
    import pyarrow

    result = pyarrow.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    if isinstance(data, pyarrow.Table):  # integers with empty cells have another type in pandas
        for name in same:
            place, kind = result.schema.get_field_index(name), data.schema.field(name).type
            result = result.set_column(place, name, result.column(place).cast(kind))
    if not _is_polars(data):
        return result
    import polars

    return polars.DataFrame(result).cast({name: kind for name, kind in data.collect_schema().items() if name in same})


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
        raise ColumnError(
            f"{series.name}: columns missing: {listed(missing)}; its value columns are {listed(series.columns)}"
        )
    if tuple(names) == series.columns:
        return series.values
    return series.values[:, [series.columns.index(name) for name in names]]


def table_of_file(path: Path, config: DatasetConfig) -> Table:
    """The table of a file, prepared; errors as in `read_table` and `prepared`."""
    return prepared(read_table(path, config), config)


def series_codes(table: Table, column: str) -> tuple[Int[np.ndarray, " t"], list[str]]:
    """The series number of each row, and the names of the series in the order in which they begin.

    Raises:
        InputError: no such column, an empty cell in it, or no rows.
    """
    if column not in table.columns:
        raise table.missing("dataset.series_col", column)
    if not len(table.frame):
        raise table.without_rows()
    codes, texts = pd.factorize(table.frame[column])
    names = [key_text(name) for name in texts]
    empty = codes < 0 if "" not in names else (codes < 0) | (codes == names.index(""))
    if empty.any():
        raise ColumnError(
            f"{table.at(int(empty.argmax()), column)}: expected the name of a series, found an empty cell"
        )
    return codes, names


def _step_with_holidays(times: pd.DatetimeIndex, end: int, config: DatasetConfig) -> Frequency | None:
    """The step of days, weekdays or opening hours if the rows of all series leave out holidays, see
    `Frequency.without_holidays`; `end`: of the first series."""
    if config.frequency is not None or config.duplicates in ("sum", "mean"):
        return None
    first = times[:end].dropna().unique().sort_values()
    if len(first) < 2 or not Frequency.closest(first)[0].may_close:
        return None
    once = first if end == len(times) else times.dropna().unique().sort_values()
    step = Frequency.closest(once)[0].without_holidays(once)
    return step if step.closed else None


class Reading:
    """The rows of a table as numbers at times, one series below the other, before they are checked.

    Args:
        table, config: the table, prepared, and the settings of its dataset.
        name: name of the series if there is one.
        categories: numbers the texts of categorical columns; None: they are numbers already.
        trained_format: for prediction, time format of the training data, which resolves ambiguous dates.
        groups: number of the forecast, or other rows of its own times, that each row is from; None: they are series.

    Attributes:
        table, config: the table, and how it was read.
        report: problems of the table as a whole, of its names, number marks and times.
        rows, places: the rows, grouped by series, and their positions in the table.
        text: cells of columns of numbers that are text, by series and column, indexed by row number.
        time_format: format of the times; None if they were timestamps.
        is_timed: whether the times could be read; otherwise the rows are those of one series.
        names, ends: name of each series, and the end of its rows.
        low, high: least and largest value of each column of each series; NaN where one is missing.

    Raises:
        InputError: no rows, no column of series names, an empty cell in it, or none before `dataset.since`.
    """

    def __init__(
        self,
        table: Table,
        config: DatasetConfig,
        name: str,
        *,
        categories: CategoryReader | None = None,
        trained_format: str | None = None,
        groups: Int[np.ndarray, " t"] | None = None,
    ) -> None:
        if not len(table.frame):
            raise table.without_rows()
        if categories is not None:
            table, config = categories.coded(table, config)
        self.report, names, codes = Report(), [name], np.zeros(len(table.frame), dtype=np.int64)
        if config.series_col is not None:
            codes, names = series_codes(table, config.series_col)
            table = table.without([config.series_col])
        table = with_missing_values(table, config)
        time_col, columns, times = "", tuple[str, ...](), None
        self.time_format: str | None = None
        with self.report.gathering():
            time_col = time_columns.find_time_column(table, config.time_col)
            checks.check_names(table, None if config.columns is None else (time_col, *config.columns), self.report)
            columns = value_columns(table, time_col, config)
            checks.check_doubts(table, columns, self.report)
            is_summed = config.duplicates == "sum" and config.series_col is None
            if is_summed and (column := separating_column(table, time_col, config.target)):
                self.report.warnings.append(
                    f"{table.name}: rows of one time are summed over {column!r}; dataset.series_col={column} keeps "
                    "them apart"
                )
            with self.report.gathering():  # from all rows, since those of one series may be ambiguous
                if config.timezone is not None and len(names) > 1:
                    groups = codes
                self.time_format, times = times_of(table, time_col, config, trained_format, groups)
        self.is_timed, places = times is not None, np.arange(len(table.frame))
        if times is None:
            times, names, codes = pd.DatetimeIndex(np.full(len(codes), "NaT", "datetime64[s]")), [name], 0 * codes
        values, words = numbers(table, columns)
        rows = Rows(table.name, time_col, tuple(columns), times, values, table.lines)
        if self.is_timed and config.since is not None:
            is_old = times.tz_localize(None) < pd.Timestamp(config.since).tz_localize(None)
            if is_old.all():
                raise InputError(f"dataset.since={config.since}: {table.name} ends before, at {times.max()}")
            places = np.flatnonzero(~is_old)
            codes, kept = pd.factorize(codes[places])
            names = [names[k] for k in kept]
        if np.count_nonzero(np.diff(codes)) >= len(names):  # not one series after the other
            order = np.argsort(codes, kind="stable")
            places, codes = places[order], codes[order]
        self.text: dict[int, dict[str, pd.Series]] = {}
        for column, positions in words.items():
            of_cells = pd.Series(codes, index=places).reindex(positions).dropna()
            for k, cells in of_cells.groupby(of_cells):
                self.text.setdefault(int(k), {})[column] = table.cells(column, cells.index.to_numpy())
        if len(places) < len(rows) or (np.diff(places) != 1).any():
            rows = rows.take(places)
        self.rows, self.places, self.names = rows, places, names
        self.ends = np.cumsum(np.bincount(codes, minlength=len(names)))
        self.low, self.high = checks.extremes(rows.values, np.append(0, self.ends[:-1]))
        if self.is_timed and (step := _step_with_holidays(rows.timestamps, int(self.ends[0]), config)) is not None:
            config = replace(config, frequency=step.code)
            self.report.repairs.append(
                f"{table.name}: no rows on holidays of {step.closed}, which are closed days and not forecast; "
                f"dataset.frequency={replace(step, closed='').code} reads them as gaps"
            )
        self.table, self.config = table, config

    @property
    def lengths(self) -> list[int]:
        """Number of rows of each series."""
        return [int(n) for n in np.diff(self.ends, prepend=0)]

    def label(self, k: int) -> str:
        """Name of the table, and of one of several series, for messages."""
        key = self.config.series_col
        return self.table.name if key is None or not self.is_timed else f"{self.table.name}, {key} {self.names[k]}"

    def timed(self) -> Rows:
        """All rows, of which nothing but the times was checked: not the cells, nor the order and steps.

        Raises:
            ReportError: problems of the table as a whole, or of its times.
        """
        rows, form = self.rows, self.time_format
        if self.is_timed:
            checks.check_times(self.table, rows.time_col, rows.timestamps, form, self.report, places=self.places)
        self.report.refuse()
        return rows

    def series(self, k: int = 0, **how: Any) -> Series:
        """A checked series; its warnings and repairs are logged. Arguments as of `check`.

        Raises:
            ReportError: one line for each problem.
        """
        series, report = self.check(k, **how)
        for line in report.repairs:
            log.info(line)
        report.refuse()
        assert series is not None  # else there are problems
        return replace(series, repairs=tuple(report.repairs)) if report.repairs else series

    def check(
        self,
        k: int = 0,
        *,
        like: Series | None = None,
        step: str | None = None,
        history: int | None = None,
    ) -> tuple[Series | None, Report]:
        """Repair and check the rows of a series: the series, None if it cannot be read, and all problems, warnings and
        repairs, for the first series also those of the table.

        Args:
            k: its number.
            like: another series, in whose step this one probably is.
            step: the step that it must have; None: that of the settings.
            history: for prediction, number of rows needed from the end. Of older rows only the times are checked.
        """
        config, report = self.config, deepcopy(self.report) if k == 0 else Report()
        own = slice(int(self.ends[k - 1]) if k else 0, int(self.ends[k]))
        text: Mapping[str, pd.Series] = self.text.get(k, {})
        rows, is_numbered = self.rows.take(own, name=self.label(k)), self.time_format == STEP
        name, time_col, values = rows.name, rows.time_col, rows.values
        if not self.is_timed:
            rows = rows.end(history)
            checks.check_cells(rows, text, config, report, checks.fill_for(rows, 0) if rows.columns else None)
            return None, report
        frequency, missing, n_unread = None, 0, 0
        if like is not None and not text and (times := self._regular(k, rows, like)) is not None:
            read = ordered = replace(rows, timestamps=times).end(history)
            frequency = like.frequency
        else:
            config = config if step is None else replace(config, frequency=step)
            set_step = Frequency.parse(config.frequency) if config.frequency else None
            if joins_rows(rows.timestamps, config):  # a row with text has no row of its own any more
                checks.check_cells(rows, text, replace(config, fill="mask"), report)
                rows, text = checks.with_zeros(rows, text), {}
            elif not is_numbered and (rounded := on_grid(rows.timestamps, set_step)) is not None:
                rows = replace(rows, timestamps=rounded[0])
                report.repairs.append(f"{name}: {rounded[1]}")
            places, form = self.places[own], self.time_format
            unread = checks.check_times(self.table, time_col, rows.timestamps, form, report, name, places)
            rows, ahead = checks.until_observed(rows, text, config)
            if ahead:
                report.repairs.append(f"{name}: {ahead}")
            rows = rows.take(np.asarray(rows.timestamps.notna())) if rows.timestamps.hasnans else rows
            # before rows of an hour that occurs twice are dropped
            if repeats := not rows.is_increasing and not joins_rows(rows.timestamps, config):
                rows = checks.check_clock_changes(rows, report)
            read = repair(rows, config, report, is_numbered=is_numbered)
            read = read if repeats else checks.check_clock_changes(read, report)
            has_steps = checks.check_order(read, config, report)
            read, n_unread = read.end(history), len(unread)
            ordered = read.in_order()
            with report.gathering():
                if len(ordered):
                    frequency = checks.choose_step(ordered, config.frequency, is_numbered=is_numbered)
                    if has_steps and (config.fill is None or read.is_increasing):  # others are not filled
                        missing = checks.check_steps(ordered, frequency, unread, config, report)
            if text or read.values is not values or not checks.in_range(self.low[k], self.high[k]).all():
                fill = checks.fill_for(ordered, missing) if len(ordered) else "linear"
                checks.check_cells(read, text, config, report, fill)
        check_outliers(read, config, report)
        if history is not None and len(read) + n_unread < history and config.short != "pad":
            line = f"{rows.name}: expected at least seq_len={history} rows of history, found {len(read) + n_unread}"
            report.problems.append(ShortError(line, table=rows.name))
        if frequency is None:
            return None, report
        if history is None:
            check_far(ordered, config, report)
            fixed = [*config.categorical, *config.static_covariates, *text]
            if read.values is not values or not (self.low[k] < self.high[k]).all():
                report.warnings += checks.constant_columns(ordered, fixed)
        series = Series(
            name=self.names[k],
            timestamps=ordered.timestamps,
            values=ordered.values,
            columns=ordered.columns,
            frequency=frequency,
            time_col=rows.time_col,
            time_format=self.time_format,
            dialect=self.table.dialect,
            n_rows=own.stop - own.start,
        )
        return series, report

    def _regular(self, k: int, rows: Rows, like: Series) -> pd.DatetimeIndex | None:
        """The times of a series with numbers in all cells and the step of another one, in which nothing can be
        repaired; None for other series."""
        times, are_alike = rows.timestamps, (self.time_format == STEP) == like.frequency.is_numbered
        is_sound = checks.in_range(self.low[k], self.high[k]).all()
        if not are_alike or not is_sound or self.config.duplicates == "sum":
            return None
        if self.config.outliers == "missing":
            first = first_of_test(rows, self.config)
            if any(outliers_of(rows, self.config, first)):
                return None
        if times.equals(like.timestamps):  # as most series
            return like.timestamps
        is_rising = times.dtype == like.timestamps.dtype and not times.hasnans and rows.is_increasing
        return times if is_rising and (like.frequency.strides(times) == 1).all() else None


def row_of(start: str, series: Series, setting: str) -> int:
    """The first row at or after a time, which is in the zone of the series; an InputError that names `setting` if there
    is none, or it is no date."""
    try:
        moment = pd.Timestamp(start)
    except ValueError as error:
        raise InputError(f"{setting}={start}: expected a date such as {series.timestamps[0]:%Y-%m-%d}") from error
    if (zone := series.timestamps.tz) is None:
        moment = moment.tz_localize(None)
    elif moment.tz is None:
        moment = moment.tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
    first, last = series.timestamps[[0, -1]]
    if moment > last:
        raise InputError(f"{setting}={start}: {series.name} ends at {last}; choose an earlier date")
    return int(series.timestamps.searchsorted(max(moment, first)))  # what nanoseconds cannot hold is not searched
