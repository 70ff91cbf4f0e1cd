"""Covariates known ahead: a table of their future values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.config.dataset import DatasetConfig
from informer.data.read.checks import check_cells, check_doubts, check_times
from informer.data.read.examine import read_cells
from informer.data.read.report import Report
from informer.data.read.source import Series
from informer.data.read.table import Table
from informer.data.read.time_column import find_time_column
from informer.data.read.timestamps import find_format, parse_timestamps
from informer.errors import InputError, listed


@dataclass(frozen=True, slots=True)
class Future:
    """Future covariates by time; rows may be in any order, and additional times are allowed."""

    table: Table
    time_col: str
    timestamps: pd.DatetimeIndex

    def at(self, timestamps: pd.DatetimeIndex, columns: Sequence[str]) -> Float64[np.ndarray, "h k"]:
        """Values of the given columns at the given times.

        Raises:
            InputError: a column or time is missing, a timestamp occurs twice, or a cell is not a number.
        """
        self._check(timestamps, columns)
        rows = self.timestamps.get_indexer(timestamps)
        cells, text = read_cells(self.table, self.time_col, columns, self.timestamps)
        report = Report()
        check_doubts(self.table, columns, report)
        check_cells(cells.take(rows), text, "fix the file", report)
        report.refuse()
        return cells.values[rows]

    def _check(self, timestamps: pd.DatetimeIndex, columns: Sequence[str]) -> None:
        name = self.table.name
        lacking = [column for column in columns if column not in self.table.columns]
        if lacking:
            raise InputError(
                f"{name}: future covariates missing: {listed(lacking)}; found the columns {listed(self.table.columns)}"
            )
        if (self.timestamps.tz is None) != (timestamps.tz is None):
            raise InputError(
                f"{name}: expected times {_zone(timestamps)} as in the history, found times {_zone(self.timestamps)}"
            )
        repeated = self.timestamps[self.timestamps.duplicated()]
        if len(repeated):
            raise InputError(f"{name}: duplicate timestamp {repeated[0]}; keep one row per time")
        absent = timestamps.difference(self.timestamps)
        if len(absent):
            raise InputError(
                f"{name}: expected future covariates for {len(timestamps)} times, {timestamps[0]} to {timestamps[-1]}; "
                f"missing: {listed([str(time) for time in absent])}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Futures:
    """Future covariates of one table: shared by all series, or one table per series name."""

    name: str
    shared: Future | None = None
    by_series: Mapping[str, Future] = field(default_factory=dict)

    def of(self, series: Series) -> Future:
        """The future covariates of a series.

        Raises:
            InputError: there are none.
        """
        if self.shared is not None:
            return self.shared
        if series.name not in self.by_series:
            raise InputError(f"{self.name}: expected future covariates of the series {series.name}, found none")
        return self.by_series[series.name]


def future_of_table(table: Table, config: DatasetConfig, trained_format: str | None = None) -> Future:
    """Future covariates from a table in the format of `config`; for `trained_format` see `find_format`.

    Raises:
        InputError: the table has no times.
    """
    configured = config.time_col if config.time_col in table.columns else None
    time_col = find_time_column(table, configured)
    time_format = find_format(table, time_col, config.time_format, trained_format=trained_format)
    timestamps = parse_timestamps(table, time_col, time_format, timezone=config.timezone)
    report = Report()
    check_times(table.name, table.cells(time_col, np.flatnonzero(timestamps.isna())), time_format, report)
    report.refuse()
    return Future(table, time_col, timestamps)


def _zone(timestamps: pd.DatetimeIndex) -> str:
    return "without a time zone" if timestamps.tz is None else f"in {timestamps.tz}"
