"""Covariates that are known ahead: a table of their values at times to come."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.data.checks import check_cells, check_times
from informer.data.examine import read_cells
from informer.data.report import Report
from informer.data.source import DatasetConfig
from informer.data.table import Table, listed
from informer.data.timestamps import find_format, find_time_column, parse_timestamps
from informer.errors import InputError


@dataclass(frozen=True, slots=True)
class Future:
    """Future covariates by time: rows in any order, and for other times besides."""

    table: Table
    time_col: str
    timestamps: pd.DatetimeIndex

    def at(self, timestamps: pd.DatetimeIndex, columns: Sequence[str]) -> Float64[np.ndarray, "h k"]:
        """Values of these columns at these times.

        Raises:
            InputError: a column or a time that is missing, a time that stands twice, or a cell that is no number.
        """
        self._check(timestamps, columns)
        rows = self.timestamps.get_indexer(timestamps)
        read, text = read_cells(self.table, self.time_col, columns, self.timestamps)
        report = Report()
        check_cells(read.take(rows), text, "mend the file", report)
        report.refuse()
        return read.values[rows]

    def _check(self, timestamps: pd.DatetimeIndex, columns: Sequence[str]) -> None:
        name = self.table.name
        lacking = [column for column in columns if column not in self.table.columns]
        if lacking:
            raise InputError(
                f"{name}: future covariates missing: {listed(lacking)}; its columns are {listed(self.table.columns)}"
            )
        if (self.timestamps.tz is None) != (timestamps.tz is None):
            raise InputError(
                f"{name}: expected times {_zone(timestamps)} as in the history, found times {_zone(self.timestamps)}"
            )
        repeated = self.timestamps[self.timestamps.duplicated()]
        if len(repeated):
            raise InputError(f"{name}: {repeated[0]} stands twice; keep one row for each time")
        absent = timestamps.difference(self.timestamps)
        if len(absent):
            raise InputError(
                f"{name}: expected future covariates for {len(timestamps)} times, {timestamps[0]} to {timestamps[-1]}; "
                f"missing: {listed([str(time) for time in absent])}"
            )


def future_of_table(table: Table, config: DatasetConfig) -> Future:
    """Take a table of future covariates, written as `config` says.

    Raises:
        InputError: it has no times.
    """
    named = config.time_col if config.time_col in table.columns else None
    time_col = find_time_column(table, named)
    time_format = find_format(table, time_col, config.time_format)
    timestamps = parse_timestamps(table, time_col, time_format)
    report = Report()
    check_times(table.name, table.cells(time_col, np.flatnonzero(timestamps.isna())), time_format, report)
    report.refuse()
    return Future(table, time_col, timestamps)


def _zone(timestamps: pd.DatetimeIndex) -> str:
    return "without a time zone" if timestamps.tz is None else f"in {timestamps.tz}"
