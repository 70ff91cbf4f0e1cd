"""Many series for one model, with the same columns and step, from one file each or from a single file.

Tables with many series one below the other: the rows of each series, and a fast path for series without problems.

Checking a series takes a millisecond or two, most of it for the frame of its rows. With thousands of series, those with
numbers in every cell and the time step of the first series are taken from arrays of the whole table.

The rows of a model's series as one table, which any later command can read from a file.
"""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Int
from pandas.api.types import is_datetime64_any_dtype

from informer.base.errors import InputError, listed
from informer.config.data import DatasetConfig, Ended, Outliers, Short, SplitKind
from informer.config.model import WindowSizes
from informer.read.cells import is_encoded
from informer.read.checks import Report, are_sound, far_numbers, outliers
from informer.read.columns import CategoryReader, are_plain, numbers, text_columns
from informer.read.dialect import Dialect
from informer.read.parse import release_free
from informer.read.series import (
    Series,
    column_values,
    from_date,
    series_from_table,
    table_of_file,
)
from informer.read.split import Split, cut_rows, remedy, shortage, split_rows
from informer.read.table import Table, name_of
from informer.read.time_columns import find_time_column
from informer.read.times import times_of

log = logging.getLogger(__name__)

SERIES = "series"
"""Column of series names, if each series came from a file of its own."""


@dataclass(frozen=True, slots=True)
class LongTable:
    """The rows of a table by series, in the order in which the series begin.

    Args:
        all_rows: the table without the column of series names.
        series_col: that column; None: the table is a single series.
        names: names of the series.
        order: row numbers grouped by series; None if the table is already grouped.
        ends: end of each series in `order`.
    """

    all_rows: Table
    series_col: str | None
    names: Sequence[str]
    order: Int[np.ndarray, " t"] | None
    ends: Int[np.ndarray, " s"]

    @classmethod
    def of(cls, table: Table, series_col: str | None, name: str = "") -> "LongTable":
        """Find the series of a table; without a column of their names it is one, called `name`.

        Raises:
            InputError: no such column, an empty cell in it, or no rows.
        """
        if series_col is None:
            return cls(table, None, [name], None, np.array([len(table.frame)]))
        codes, names = series_codes(table, series_col)
        table, borders = table.without([series_col]), np.flatnonzero(codes[1:] != codes[:-1]) + 1
        if len(borders) == len(names) - 1:
            return cls(table, series_col, names, None, np.append(borders, len(codes)))
        order, counts = np.argsort(codes, kind="stable"), np.bincount(codes, minlength=len(names))
        return cls(table, series_col, names, order, np.cumsum(counts))

    def rows(self, k: int) -> slice:
        """Rows of series number `k`, as a slice of `order`."""
        return slice(int(self.ends[k - 1]) if k else 0, int(self.ends[k]))

    def table(self, k: int) -> Table:
        """Rows of series number `k` as a table."""
        if self.series_col is None:
            return self.all_rows
        rows = self.rows(k)
        frame = self.all_rows.frame.iloc[rows if self.order is None else self.order[rows]]
        return replace(self.all_rows, name=f"{self.all_rows.name}, {self.series_col} {self.names[k]}", frame=frame)

    def tables(self) -> Iterator[tuple[Table, str]]:
        """The table and the name of each series."""
        return ((self.table(k), name) for k, name in enumerate(self.names))


def series_codes(table: Table, column: str) -> tuple[Int[np.ndarray, " t"], list[str]]:
    """The series number of each row, and the names of the series in the order in which they begin.

    Raises:
        InputError: no such column, an empty cell in it, or no rows.
    """
    if column not in table.columns:
        raise table.missing("dataset.series_col", column)
    if not len(table.frame):
        raise table.without_rows()
    codes, texts = _factorized(table.frame[column])
    names = [str(name) for name in texts]
    empty = codes < 0 if "" not in names else (codes < 0) | (codes == names.index(""))
    if empty.any():
        raise InputError(f"{table.at(int(empty.argmax()), column)}: expected the name of a series, found an empty cell")
    return codes, names


def _factorized(cells: pd.Series) -> tuple[Int[np.ndarray, " t"], Sequence[object]]:
    """The number of each cell's text in the order of their first rows, and the texts."""
    if is_encoded(cells):  # numbered in this order already, unless these are a part of the rows
        codes, texts = np.asarray(cells.array.codes), list(cells.cat.categories)
        firsts = np.maximum.accumulate(codes[np.append(True, codes[1:] != codes[:-1])])
        numbers = np.unique(firsts[firsts >= 0])
        if len(numbers) == len(texts) and (np.diff(firsts, prepend=-1) <= 1).all():
            return codes, texts
    codes, uniques = pd.factorize(cells)
    return codes, list(uniques)


def _sound_series(
    long: LongTable, config: DatasetConfig, first: Series, sizes: WindowSizes | None
) -> Callable[[int], Series | None]:
    """The series of a table with the columns and step of `first`, from arrays of all rows; None for one with something
    to report, or with cells that are no numbers."""
    table, columns = long.all_rows, first.columns
    if config.time_col != first.time_col or table.doubts or table.repeated:
        return lambda k: None
    cells = table.frame[first.time_col]
    value_columns = [column for column in table.columns if column != first.time_col]
    expected = value_columns if config.columns is None else config.columns
    if not is_datetime64_any_dtype(cells) or list(columns) != list(expected) or not are_plain(table, columns):
        return lambda k: None
    all_values, all_times = numbers(table, columns)[0], pd.DatetimeIndex(cells, name=None)
    if long.order is not None:
        all_values, all_times = all_values[long.order], all_times[long.order]
    may_be_constant = [*config.categorical, *config.static_covariates]
    counts, latest = all_times.asi8, first.timestamps  # most series have the times of another
    like_first = replace(first, repairs=(), dialect=table.dialect, time_format=config.time_format)

    def series(k: int) -> Series | None:
        nonlocal latest
        rows, name = long.rows(k), long.names[k]
        values = all_values[rows]
        constant = values.min(axis=0) == values.max(axis=0)
        keeps = config.outliers is Outliers.keep
        if not are_sound(values).all():
            return None
        if not keeps and any(len(outliers(column)) or far_numbers(column) for column in values.T):
            return None
        if len(values) > 1 and any(column not in may_be_constant for column in np.array(columns)[constant]):
            return None
        if all_times.dtype != latest.dtype or not np.array_equal(counts[rows], latest.asi8):
            times = all_times[rows]
            if not (np.diff(times.asi8) > 0).all() or (first.frequency.strides(times) != 1).any():
                return None
            latest = times
        if sizes is not None:
            split_rows(latest, first.frequency, config.split, sizes=sizes, name=name)
        return replace(like_first, name=name, timestamps=latest, values=values, n_rows=len(latest))

    return series


def series_reader(
    long: LongTable,
    config: DatasetConfig,
    read: Callable[[int], Series | None],
    *,
    first: Series | None = None,
    sizes: WindowSizes | None = None,
    least: int = 0,
) -> Callable[[int], Series | None]:
    """A function that takes series by their numbers: from arrays of all rows those without anything to report, like the
    first one, and the others from `read`; an InputError of it means a series that is too short.

    Args:
        long: the table.
        config: how to read its series.
        read: reads a series and checks it; None is no example for others.
        first: a series that was read before; None: the first that `read` returns.
        sizes: sizes of a window; each part of the split must have room for one. None: no check.
        least: number of rows that a series from arrays must have.
    """
    sound: Callable[[int], Series | None] | None = None

    def series(k: int) -> Series | None:
        nonlocal sound, first
        if sound is None and first is not None:
            sound = _sound_series(long, config, first, sizes)
        rows = long.rows(k)
        found = sound(k) if sound is not None and rows.stop - rows.start >= least else None
        found = read(k) if found is None else found
        first = found if first is None else first
        return found

    return series


MOST = 3
"""Largest number of problems and names in one line."""


SHARED_END = 0.8
"""Minimum share of series that end within a season of the last time, at which half of them end, for others to have
ended before: some of the newest rows may be missing."""


def without_ended(panel: Sequence[Series], setting: Ended) -> tuple[list[Series], str]:
    """The series that are forecast, see `dataset.ended`, and a line about the others; "" without such series."""
    ends, step = Counter(series.timestamps[-1] for series in panel), panel[0].frequency
    last = max(ends)
    if setting is Ended.forecast or step.is_numbered or 2 * ends[last] < len(panel):
        return list(panel), ""
    are_gone = [
        series.timestamps[-1] < last and step.future(series.timestamps[-1], step.season)[-1] < last for series in panel
    ]
    if len(panel) - sum(are_gone) < SHARED_END * len(panel):
        return list(panel), ""
    gone = [f"{each.name} ({step.text(each.timestamps[-1])})" for each in compress(panel, are_gone)]
    line = f"ended before the others, so not forecast: {listed(gone)}; dataset.ended=forecast forecasts them too"
    return [series for series, is_gone in zip(panel, are_gone, strict=True) if not is_gone], line if gone else ""


def read_panel(
    origin: Sequence[Path] | Table,
    config: DatasetConfig,
    sizes: WindowSizes | None,
    categories: CategoryReader | None = None,
) -> list[Series]:
    """Read the series of files, or of a prepared table; all must have the columns and step of the first.

    Args:
        origin: the files, or the table, see `prepared`.
        config: how to read them.
        sizes: sizes of a window; with short=error, series that are too short are an error. None: any length.
        categories: converts the cells of categorical columns to codes; None: only of the columns in `config`.

    Raises:
        ReportError: problems in any of the files, or differences from the first.
    """
    reader = _Reader(categories=categories or CategoryReader())
    tables: Iterable[tuple[Path | Table, str]] = (
        [(origin, origin.name)] if isinstance(origin, Table) else zip(origin, series_names(origin), strict=True)
    )
    panel: list[Series] = []
    report = Report()
    # what ends before a date may be trained on if others do not, see `divide`
    least = sizes if config.short is Short.error and config.split.kind is not SplitKind.dates else None
    for file, name in tables:
        with report.gathering():
            table, settings = reader.whole(file, name, config)
            release_free(8 * table.frame.size)  # the text of its times
            _add(panel, LongTable.of(table, settings.series_col, name), settings, least, report)
    report.refuse()
    repeated = [name for name, number in Counter(series.name for series in panel).items() if number > 1]
    if repeated:
        raise InputError(f"{listed(repeated, MOST)}: series of that name in more than one file; rename one")
    return panel


def _add(
    panel: list[Series], long: LongTable, config: DatasetConfig, sizes: WindowSizes | None, report: Report
) -> None:
    """Append the series of a table, which must have the step of the first of all."""

    def read(k: int) -> Series:
        stepping = replace(config, frequency=panel[0].frequency.code) if panel else config
        return series_from_table(long.table(k), stepping, long.names[k], sizes=sizes)

    reader = series_reader(long, config, read, first=panel[0] if panel else None, sizes=sizes)
    for k in range(len(long.names)):
        with report.gathering():
            if (series := reader(k)) is not None:
                panel.append(aligned(series, panel[0]) if panel else series)


def panel_tables(table: Table, name: str, config: DatasetConfig) -> tuple[LongTable, DatasetConfig]:
    """The rows of each series of a table, a single one called `name`, and how to read them.

    Raises:
        InputError: no such series column, or no time column.
    """
    table, config = _Reader().whole(table, name, config)
    return LongTable.of(table, config.series_col, name), config


def divide(panel: Sequence[Series], config: DatasetConfig, sizes: WindowSizes) -> tuple[list[Series], list[Split]]:
    """Split each series, and handle short ones according to `config.short`.

    With kind=dates, series that end too early for the later parts are trained on, if others have all parts.

    Raises:
        InputError: a series is too short, or all are.
    """
    usable: list[tuple[Series, Split]] = []
    left_out: list[str] = []
    splits = [cut_rows(series.timestamps, series.frequency, config.split) for series in panel]
    lacks = [
        shortage(split, len(series), config.split, sizes=sizes, name=series.name)
        for series, split in zip(panel, splits, strict=True)
    ]
    for series, split, lacking in zip(panel, splits, lacks, strict=True):
        n = len(series)
        is_early = config.split.kind is SplitKind.dates and None in lacks and len(split.train) >= sizes.least_rows(0)
        if lacking is None or (is_early and config.short is not Short.skip):
            usable.append((series, split))
        elif config.short is Short.pad and n > sizes.pred_len:
            usable.append((left_padded(series, sizes.seq_len - 1), split.clip(n, shift=sizes.seq_len - 1)))
        else:
            left_out.append(lacking)
    if left_out and (config.short is Short.error or not usable):
        raise InputError(and_more([line + remedy(sizes) for line in left_out]))
    if left_out:
        log.warning(f"skipped {len(left_out)} of {len(panel)} series: {'; '.join(left_out[:MOST])}")
    return [series for series, _ in usable], [split for _, split in usable]


def and_more(lines: Sequence[str]) -> str:
    """The first line, and the number of others."""
    return lines[0] + (f" (and {len(lines) - 1} series more)" if len(lines) > 1 else "")


def training_rows(panel: Sequence[Series], splits: Sequence[Split]) -> list[Series]:
    """The series without the rows of other parts."""
    parts = (slice(split.train.start, split.train.stop) for split in splits)
    return [series.part(rows) for series, rows in zip(panel, parts, strict=True)]


def left_padded(series: Series, n: int) -> Series:
    """The series with its first row repeated n times in front."""
    if n <= 0:
        return series
    before = series.frequency.past(series.timestamps[0], n, like=series.timestamps[:2][-1])
    values = np.concatenate([np.repeat(series.values[:1], n, axis=0), series.values])
    return replace(series, timestamps=pd.DatetimeIndex(before.append(series.timestamps)), values=values)


def series_names(paths: Sequence[Path]) -> list[str]:
    """File names without suffix, with folders if names repeat."""
    stems = [name_of(path) for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    top = os.path.commonpath([path.parent for path in paths])
    return [str(path.parent.relative_to(top) / stem) for path, stem in zip(paths, stems, strict=True)]


@dataclass(slots=True)
class _Reader:
    """Reads files one after the other."""

    time_format: str | None = None
    dialects: set[Dialect] = field(default_factory=set)
    categories: CategoryReader = field(default_factory=CategoryReader)

    def whole(self, origin: Path | Table, name: str, config: DatasetConfig) -> tuple[Table, DatasetConfig]:
        """A file with parsed times and codes for its categories, and how to read it; `name` of its series if it has a
        single one."""
        table = origin if isinstance(origin, Table) else table_of_file(origin, config)
        release_free(8 * table.frame.size)
        if table.dialect.uncommon() and table.dialect not in self.dialects:
            log.info("%s: %s", table.name, table.dialect.uncommon())
        self.dialects.add(table.dialect)
        table, config = self.categories.coded(table, config)
        if config.series_col is not None:
            table, config = self._timed(table, config)
            return table.without(text_columns([table], config)), config
        with suppress(InputError):  # reported with all other problems of the file
            table, config = self._timed(table, config)
        return table, config

    def _timed(self, table: Table, config: DatasetConfig) -> tuple[Table, DatasetConfig]:
        table, config = timed(table, config, self.time_format)
        self.time_format = config.time_format
        return table, config


def timed(table: Table, config: DatasetConfig, trained_format: str | None) -> tuple[Table, DatasetConfig]:
    """The table with its time column parsed for all series at once, because parsing text is the slowest step.

    Raises:
        InputError: see `times_of`.
    """
    time_col, groups = find_time_column(table, config.time_col), None
    if config.timezone is not None and config.series_col in table.columns:  # local times of each series
        groups = table.frame[config.series_col].to_numpy()
    time_format, times = times_of(table, time_col, config, trained_format, groups)
    if not times.hasnans:  # a cell that is not a time is kept, so that it is reported with its series and text
        frame = table.frame.assign(**{time_col: pd.Series(times, index=table.frame.index)})
        frame = frame if config.since is None else frame[from_date(times, config.since, table.name)]
        table = replace(table, frame=frame)
    return table, replace(config, time_col=time_col, time_format=time_format)


def aligned(series: Series, first: Series) -> Series:
    """The series with columns in the order of `first`, sharing its timestamps object if they are equal.

    Raises:
        InputError: the columns differ.
    """
    missing, more = (
        [column for column in columns if column not in other]
        for columns, other in ((first.columns, series.columns), (series.columns, first.columns))
    )
    if missing or more:
        raise InputError(
            f"{series.name}: expected the columns of {first.name}; missing: {listed(missing)}, additional: "
            f"{listed(more)}; list the common columns in dataset.columns"
        )
    timestamps = first.timestamps if series.timestamps.equals(first.timestamps) else series.timestamps
    return replace(series, timestamps=timestamps, values=column_values(series, first.columns), columns=first.columns)
