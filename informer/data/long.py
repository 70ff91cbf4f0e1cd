"""Tables with many series one below the other: the rows of each, and those series that need no closer look.

Checking a series takes a millisecond or two, most of it for the frame of its rows. With thousands of series, those with
numbers in every cell and times that follow the step of the first one are taken from arrays of the whole table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int
from pandas.api.types import is_datetime64_any_dtype

from informer.config.dataset import DatasetConfig
from informer.config.lengths import WindowSizes
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
        whole: the table without the column that names the series.
        series_col: that column.
        names: of the series.
        order: rows, those of a series together; None if they are together in the table.
        ends: where those of each series end.
    """

    whole: Table
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
        counts = np.bincount(codes, minlength=len(names))
        together = np.count_nonzero(np.diff(codes)) == len(names) - 1
        order = None if together else np.argsort(codes, kind="stable")
        return cls(table.without([series_col]), series_col, names, order, np.cumsum(counts))

    def rows(self, k: int) -> slice:
        """Those of a series, counted in `order`."""
        return slice(int(self.ends[k - 1]) if k else 0, int(self.ends[k]))

    def table(self, k: int) -> Table:
        """Those of a series as a table."""
        rows = self.rows(k)
        frame = self.whole.frame.iloc[rows if self.order is None else self.order[rows]]
        return replace(self.whole, name=f"{self.whole.name}, {self.series_col} {self.names[k]}", frame=frame)

    def tables(self) -> Iterator[tuple[Table, str]]:
        """That of each series, and its name."""
        return ((self.table(k), name) for k, name in enumerate(self.names))


def series_codes(table: Table, column: str) -> tuple[Int[np.ndarray, "t"], list[str]]:
    """The number of the series of each row, and their names in the order in which they begin.

    Raises:
        InputError: no such column, an empty cell in it, or no rows.
    """
    if column not in table.columns:
        raise table.missing("dataset.series_col", column)
    if not len(table.frame):
        raise table.without_rows()
    codes, found = pd.factorize(table.frame[column])
    names = [str(name) for name in found]
    empty = codes < 0 if "" not in names else (codes < 0) | (codes == names.index(""))
    if empty.any():
        raise InputError(f"{table.at(int(empty.argmax()), column)}: expected the name of a series, found an empty cell")
    return codes, names


@dataclass(frozen=True, slots=True)
class SoundSeries:
    """Series that can be taken as they are, from arrays in the order of a `LongTable`.

    Args:
        long: the table.
        config: how to read its series.
        first: a series of it, read and checked; the others must have its columns and its step.
        times, values: of all rows.
    """

    long: LongTable
    config: DatasetConfig
    first: Series
    times: pd.DatetimeIndex
    values: Float64[np.ndarray, "t c"]

    @classmethod
    def of(cls, long: LongTable, config: DatasetConfig, first: Series) -> "SoundSeries | None":
        """None: the table has something to report, or cells that are no numbers."""
        table, columns = long.whole, first.columns
        if config.time_col != first.time_col or table.doubts or table.repeated:
            return None
        cells = table.frame[first.time_col]
        others = [column for column in table.columns if column != first.time_col]
        expected = others if config.columns is None else config.columns
        if not is_datetime64_any_dtype(cells) or list(columns) != list(expected) or not are_plain(table, columns):
            return None
        values, times = numbers(table, columns)[0], pd.DatetimeIndex(cells, name=None)
        if long.order is not None:
            values, times = values[long.order], times[long.order]
        return cls(long, config, first, times, values)

    def series(self, k: int, sizes: WindowSizes | None) -> Series | None:
        """A series; None: it is to be read by itself, which reports what is wrong with it.

        Args:
            sizes: of windows that each part of the split must hold.

        Raises:
            InputError: it is too short for `sizes`.
        """
        rows, first, name = self.long.rows(k), self.first, self.long.names[k]
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
        found = replace(first, name=name, timestamps=times, values=values, n_rows=len(times), repairs=())
        return replace(found, dialect=self.long.whole.dialect, time_format=self.config.time_format)
