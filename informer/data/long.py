"""Tables with many series one below the other: the rows of each series, and a fast path for series without problems.

Checking a series takes a millisecond or two, most of it for the frame of its rows. With thousands of series, those with
numbers in every cell and the time step of the first series are taken from arrays of the whole table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int
from pandas.api.types import is_datetime64_any_dtype

from informer.config.dataset import DatasetConfig
from informer.config.lengths import WindowSizes
from informer.data.read.cells import is_encoded
from informer.data.read.checks import are_sound
from informer.data.read.numeric import are_plain, numbers
from informer.data.read.source import Series
from informer.data.read.table import Table
from informer.data.split import split_rows
from informer.errors import InputError


@dataclass(frozen=True, slots=True)
class LongTable:
    """The rows of a table by series, in the order in which the series begin.

    Args:
        all_rows: the table without the column of series names.
        series_col: that column.
        names: names of the series.
        order: row numbers grouped by series; None if the table is already grouped.
        ends: end of each series in `order`.
    """

    all_rows: Table
    series_col: str
    names: Sequence[str]
    order: Int[np.ndarray, "t"] | None
    ends: Int[np.ndarray, "s"]

    @classmethod
    def of(cls, table: Table, series_col: str) -> "LongTable":
        """Find the series of a table.

        Raises:
            InputError: no such column, an empty cell in it, or no rows.
        """
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
        rows = self.rows(k)
        frame = self.all_rows.frame.iloc[rows if self.order is None else self.order[rows]]
        return replace(self.all_rows, name=f"{self.all_rows.name}, {self.series_col} {self.names[k]}", frame=frame)

    def tables(self) -> Iterator[tuple[Table, str]]:
        """The table and the name of each series."""
        return ((self.table(k), name) for k, name in enumerate(self.names))


def series_codes(table: Table, column: str) -> tuple[Int[np.ndarray, "t"], list[str]]:
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


def _factorized(cells: pd.Series) -> tuple[Int[np.ndarray, "t"], Sequence[object]]:
    """The number of each cell's text in the order of their first rows, and the texts."""
    if is_encoded(cells):  # numbered in this order already, unless these are a part of the rows
        codes, texts = np.asarray(cells.array.codes), list(cells.cat.categories)
        firsts = np.maximum.accumulate(codes[np.append(True, codes[1:] != codes[:-1])])
        numbers = np.unique(firsts[firsts >= 0])
        if len(numbers) == len(texts) and (np.diff(firsts, prepend=-1) <= 1).all():
            return codes, texts
    codes, uniques = pd.factorize(cells)
    return codes, list(uniques)


@dataclass(frozen=True, slots=True)
class SoundSeries:
    """Series that need no repairs, as arrays in the order of a `LongTable`.

    Args:
        long_table: the table.
        config: how to read its series.
        first: one of its series, read and checked; the others must have its columns and step.
        times, values: timestamps and values of all rows.
    """

    long_table: LongTable
    config: DatasetConfig
    first: Series
    times: pd.DatetimeIndex
    values: Float64[np.ndarray, "t c"]

    @classmethod
    def of(cls, long: LongTable, config: DatasetConfig, first: Series) -> "SoundSeries | None":
        """The series of a table; None if there is something to report, or cells are not numbers."""
        table, columns = long.all_rows, first.columns
        if config.time_col != first.time_col or table.doubts or table.repeated:
            return None
        cells = table.frame[first.time_col]
        value_columns = [column for column in table.columns if column != first.time_col]
        expected = value_columns if config.columns is None else config.columns
        if not is_datetime64_any_dtype(cells) or list(columns) != list(expected) or not are_plain(table, columns):
            return None
        values, times = numbers(table, columns)[0], pd.DatetimeIndex(cells, name=None)
        if long.order is not None:
            values, times = values[long.order], times[long.order]
        return cls(long, config, first, times, values)

    def series(self, k: int, sizes: WindowSizes | None) -> Series | None:
        """Series number `k`; None if it must be read separately, which reports its problems.

        Args:
            k: number of the series.
            sizes: sizes of a window; each part of the split must have room for one. None: no check.

        Raises:
            InputError: the series is too short for `sizes`.
        """
        rows, first, name = self.long_table.rows(k), self.first, self.long_table.names[k]
        values, times = self.values[rows], self.times[rows]
        constant = values.min(axis=0) == values.max(axis=0)
        may_be = [*self.config.categorical, *self.config.static_covariates]
        if not are_sound(values).all():
            return None
        if len(times) > 1 and any(column not in may_be for column in np.array(first.columns)[constant]):
            return None
        if times.equals(first.timestamps):
            times = first.timestamps
        elif not (np.diff(times.asi8) > 0).all() or first.frequency.follows(times) < len(times):
            return None
        if sizes is not None:
            split_rows(times, first.frequency, self.config.split, sizes=sizes, name=name)
        series = replace(first, name=name, timestamps=times, values=values, n_rows=len(times), repairs=())
        return replace(series, dialect=self.long_table.all_rows.dialect, time_format=self.config.time_format)
