"""Read a file or frame as a `Series`; used for training, evaluation and prediction alike.

A file has a time column with equal steps (any pandas offset) and numbers without gaps in every other used column.
Anything else is an InputError with a line for each problem. Repairs are made only on request, and reported.

Convert data passed by Python users to pandas, and results back to the type that was passed.
"""

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64

from informer.base.errors import InputError, listed
from informer.base.files import fingerprint
from informer.config.data import STEP, DatasetConfig, Fill, Short, key_columns, settings_that
from informer.config.model import WindowSizes
from informer.read import checks, time_columns
from informer.read.cells import decoded, dictionary_encoded, joined_names, key_cells, without_words
from informer.read.columns import are_plain, counting_column, number_columns, value_columns
from informer.read.date_text import date_formats
from informer.read.dialect import COMMON, TOTAL, Dialect
from informer.read.files import is_partitioned
from informer.read.frequency import Frequency, on_grid
from informer.read.limits import LIMITS
from informer.read.number_marks import amounts, may_be_amount
from informer.read.remote import is_remote, local_path
from informer.read.split import split_rows
from informer.read.table import Table, are_dates, read_table, without
from informer.read.times import clocks_of_hours, times_of

log = logging.getLogger(__name__)

LEAST_DATES = 4
"""Minimum number of columns named after dates that are read as rows."""


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


def prepared(table: Table, config: DatasetConfig) -> Table:
    """The table without excluded columns, with times that are in several columns joined in one, with the starts of
    intervals, without a first column of row numbers, and with missing values as `config` lists them.

    Raises:
        InputError: a column of `dataset.exclude` or `dataset.clock_col` is missing.
    """
    for column in without(config.exclude, table.columns):
        raise table.missing("dataset.exclude", column)
    if config.clock_col is not None and config.clock_col not in table.columns:
        raise table.missing("dataset.clock_col", config.clock_col)
    table = table.without(config.exclude) if config.exclude else table
    table = with_labels(with_missing_values(table, config))
    table = time_columns.with_starts(with_series_names(table, config.series_col))
    table = with_amounts(table, {*config.as_text, config.time_col, config.clock_col})
    table = with_parts_as_rows(table, config)
    if config.time_col is None and (dates := dates_as_columns(table)):
        table = one_row_per_date(table, dates)
    named_columns = [*(config.columns or []), *config.as_text, *filter(None, [config.target, config.time_col])]
    dated = time_columns.dated_columns(table) if config.time_col is None else []
    if config.time_col is None and not dated and (parts := time_columns.find_calendar_columns(table, named_columns)):
        log.info("%s: times are joined from the columns %s", table.name, listed(list(parts.values())))
        table = time_columns.joined_calendar(table, parts)
    try:
        time_col = time_columns.find_time_column(table, config.time_col)
    except InputError:  # reported with all other problems of the table
        return table
    if (counting := counting_column(table, [time_col, *named_columns])) is not None:
        log.info("%s: column %r numbers the rows, and is not used", table.name, counting)
        table = table.without([counting])
    clock_col = config.clock_col or time_columns.find_clock_column(table, time_col, named_columns)
    if clock_col in table.columns and clock_col != time_col:
        log.info("%s: times are the dates of %r with the times of day of %r", table.name, time_col, clock_col)
        with suppress(InputError):  # reported with all other problems of the table
            if (clocks := clocks_of_hours(table, time_col, clock_col, config)) is not None:
                table = replace(table, frame=table.frame.assign(**{clock_col: clocks}))
        return time_columns.joined(table, time_col, clock_col, keeps_digits=config.time_format is not None)
    if unused := without(dated, [time_col]):
        log.info(
            "%s: times are those of %r, not of %s; dataset.time_col names another", table.name, time_col, listed(unused)
        )
    return table


def with_series_names(table: Table, series_col: str | None) -> Table:
    """The table with one column in place of those that name the series together.

    Raises:
        InputError: some of these columns are missing. (A table without all of them has a single series.)
    """
    keys = key_columns(series_col)
    lacking = without(keys, table.columns)
    if len(keys) < 2 or series_col in table.columns or len(lacking) == len(keys):
        return table
    if lacking:
        raise table.missing("dataset.series_col", lacking[0])
    frame = table.frame.drop(columns=keys)
    names = joined_names(table.frame[keys]).set_axis(frame.index)
    frame.insert(min(map(table.columns.index, keys)), series_col, names)
    return replace(table, frame=frame)


def with_labels(table: Table) -> Table:
    """The table with the labels of groups of rows in all their rows, if they are in the first one only, as in pivot
    tables and merged cells: the first columns, if the next one repeats, but not within the groups."""
    labels = dict[str, pd.Series]()
    for column in table.columns:
        cells = table.frame[column]
        n_empty = int(cells.isna().sum())
        if not n_empty or 2 * n_empty < len(cells) or pd.isna(cells.iloc[0]):
            break
        labels[column] = cells.ffill()
    if not labels or len(labels) == len(table.columns):
        return table
    rest = table.columns[len(labels)]
    rows = table.frame[[rest]].assign(**labels)
    if rows[rest].isna().any() or not rows[rest].duplicated().any() or rows.duplicated().any():
        return table
    note = f"cells of {listed([*labels])} in the first row of a group are those of all its rows"
    log.info("%s: %s", table.name, note)
    return replace(table, frame=table.frame.assign(**labels), dialect=table.dialect.noting(note))


def with_amounts(table: Table, unchanged: Collection[str | None]) -> Table:
    """The table with numbers in place of text that is an amount or a number with a unit, see `amounts`."""
    changed, dialect = dict[str, np.ndarray](), table.dialect
    for column in without(table.not_numeric, unchanged) if len(table.frame) else ():
        cells = table.frame[column]
        if not may_be_amount(cells.iat[int(cells.notna().to_numpy().argmax())]):
            continue
        codes, texts = pd.factorize(cells)
        if all(isinstance(text, str) for text in texts) and (found := amounts(pd.Series(texts, dtype="str"))):
            changed[column] = np.append(found[0], np.nan)[codes]
            log.info("%s: column %r is read as numbers, %s", table.name, column, found[1])
            if found[1].startswith("<"):  # numbers that are not in the file
                dialect = dialect.noting(f"{column}: {found[1]}")
    return replace(table, frame=table.frame.assign(**changed), dialect=dialect) if changed else table


_YEAR_NAME = re.compile(r"X?((?:1[5-9]|20|21)\d\d)(?: \[YR\d{4}\])?")
"""Years as names of columns, also as R and the World Bank write them."""


def dates_as_columns(table: Table) -> dict[str, str]:
    """The dates by the columns that are named after them, if most columns are, and no other has times; else none."""
    dates = {}
    for column in table.columns:
        name = column.strip()
        if year := _YEAR_NAME.fullmatch(name):
            dates[column] = f"{year[1]}-01-01"
        elif date_formats(name):
            dates[column] = name
    others = without(table.columns, dates)
    if len(dates) < LEAST_DATES or len(dates) <= len(others) or without([*dates], number_columns(table, [*dates])):
        return {}
    rest = table.without(dates)
    has_times = time_columns.dated_columns(rest) or time_columns.calendar_parts(others)
    is_named = any(name.strip().lower() in time_columns.TIME_NAMES for name in others)
    are_months = any(time_columns.month_columns([*map(str, rest.frame[name])]) for name in others)
    return {} if has_times or is_named or are_months else dates


def with_parts_as_rows(table: Table, config: DatasetConfig) -> Table:
    """The table with a row for each month of a year, or for each hour of a date, instead of a column for each, unless
    one of these columns, or other times, are set in `config`.

    Numbers in columns after them, such as the mean of a year, are left out, and so are hours that only some days have
    where they are empty. If rows are months and columns years, they change places first.
    """
    table = table if config.time_col else _years_as_rows(table)
    name, columns, parts = "month", time_columns.month_columns(table.columns), list[int | str](range(1, 13))
    if not columns:
        name, (columns, parts) = "hour", time_columns.hour_columns(table.columns)
    if not columns or {*columns} & {*(config.columns or []), *config.as_text, config.target}:
        return table
    rest = table.without(columns)
    if name == "month":
        parts_of_time = time_columns.calendar_parts(rest.columns)
        has_times = config.time_col is None and any(time_columns.are_years(x, rest.frame[x]) for x in parts_of_time)
    else:
        dated = time_columns.dated_columns(rest)
        has_times = config.clock_col is None and bool(dated) and config.time_col in (None, *dated)
    if not has_times or name in rest.columns or without(columns, number_columns(table, columns)):
        return table
    after = number_columns(table, table.columns[table.columns.index(columns[-1]) + 1 :])
    cells = table.frame[columns].to_numpy(np.float64 if are_plain(table, columns) else object)
    row, column = np.nonzero(pd.notna(cells) | (np.arange(len(columns)) < SHORTEST_DAY))
    long = rest.without(after).frame.iloc[row]
    value = "value" if "value" not in long.columns else "_value"
    long[name], long[value] = np.array(parts)[column], cells[row, column]
    line = f"{table.name}: {columns[0]} to {columns[-1]} are read as rows, as by pandas.melt, with {name!r} and "
    log.info(f"{line}{value!r}" + (f"; without {listed(after)}" if after else ""))
    return replace(table, frame=long)


def _years_as_rows(table: Table) -> Table:
    """The table with a row for each year and a column for each month, if it has them the other way round."""
    years = {column: int(year[1]) for column in table.columns if (year := _YEAR_NAME.fullmatch(column.strip()))}
    others = without(table.columns, years)
    if not years or len(others) != 1 or not time_columns.month_columns([*map(str, decoded(table.frame[others[0]]))]):
        return table
    turned = table.frame.set_index(others[0])[[*years]].T.rename_axis(columns=None).rename(columns=str)
    turned.insert(0, "year", [*years.values()])
    return replace(table, frame=turned.set_axis(table.frame.index[:1].repeat(len(years))))


SHORTEST_DAY = 23
"""Hours of the shortest day."""

SAME_SUM = 5e-3
"""Relative difference up to which numbers are the sums of others, which may be rounded."""


def one_row_per_date(table: Table, dates: Mapping[str, str]) -> Table:
    """The table with a row for each date of a row, from its first value on, instead of a column for each date.

    A row with the sums of the others that says so is left out.
    """
    frame = table.frame
    if are_plain(table, [*dates]):
        names = frame.drop(columns=[*dates]).astype(str)
        is_total = names.apply(lambda cells: cells.str.match(TOTAL)).any(axis=1)
        sums = frame.loc[~is_total, [*dates]].sum()
        is_total &= pd.Series(np.isclose(frame[[*dates]], sums, rtol=SAME_SUM).all(axis=1), index=frame.index)
        if is_total.any():
            note = f"not read: row {listed([*map(str, table.lines[is_total])])}, the sum of the others"
            frame = frame[~is_total]
            table = replace(table, frame=frame, dialect=table.dialect.noting(note))
    cells = frame[[*dates]].to_numpy(dtype=np.float64 if are_plain(table, [*dates]) else object)
    observed = pd.notna(cells)
    row, column = np.nonzero(np.logical_or.accumulate(observed, axis=1) & observed.any(axis=0))
    time_col, value = (name if name not in frame.columns else f"_{name}" for name in ("date", "value"))
    line = f"{table.name}: {len(dates)} columns named after dates are read as rows, as by pandas.melt, with "
    line += f"{time_col!r} and {value!r}"
    if len(empty := table.lines[~observed.any(axis=1)]):
        line += f"; without rows {listed([*map(str, empty)])}, which have no value"
    log.info(line)
    long = frame.drop(columns=[*dates]).iloc[row]
    times = dictionary_encoded(column, [*dates.values()]).set_axis(long.index)
    long[time_col], long[value] = times, cells[row, column]
    return replace(table, frame=long)


def with_missing_values(table: Table, config: DatasetConfig) -> Table:
    """The table with `dataset.missing_values` as missing values; those of CSV text are read as such already."""
    if not config.missing_values:
        return table
    excluded = {*config.as_text, config.time_col, config.clock_col}
    return replace(table, frame=without_words(table.frame, config.missing_values, excluded))


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
