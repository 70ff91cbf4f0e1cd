"""Many series for one model: a file each or all in one, with the same columns and step; which are long enough."""

import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from informer.data.dialect import Dialect
from informer.data.report import Report
from informer.data.source import DatasetConfig, Series, series_from_table, table_of_file, text_columns
from informer.data.split import Short, Split, cut_rows, shortage
from informer.data.store import column_values
from informer.data.table import Table, listed, name_of
from informer.data.timestamps import find_format, find_time_column, parse_timestamps
from informer.data.windows import WindowSizes
from informer.errors import InputError

log = logging.getLogger(__name__)

MOST = 3
"""Problems and names that one line shows."""


def read_panel(paths: Sequence[Path], config: DatasetConfig, sizes: WindowSizes) -> list[Series]:
    """Read the series of these files; the first one's columns and step are expected of all.

    Args:
        sizes: of windows, which series must be long enough for where `config.short` makes it an error.

    Raises:
        ReportError: what is wrong with any of the files, or differs from the first.
    """
    panel: list[Series] = []
    reader, report = _Reader(), Report()
    least = sizes if config.short is Short.error else None
    for path, name in zip(paths, series_names(paths), strict=True):
        with report.gathering():
            for table, one, own in reader.tables(path, name, config):
                with report.gathering():
                    # the step of the first is expected of the others
                    step = panel[0].frequency.code if panel else config.frequency
                    series = series_from_table(table, replace(own, frequency=step), one, sizes=least)
                    panel.append(aligned(series, panel[0]) if panel else series)
    report.refuse()
    repeated = [name for name, number in Counter(series.name for series in panel).items() if number > 1]
    if repeated:
        raise InputError(f"{listed(repeated, MOST)}: series of that name in more than one file; expected each in one")
    return panel


def divide(panel: Sequence[Series], config: DatasetConfig, sizes: WindowSizes) -> tuple[list[Series], list[Split]]:
    """Cut each series into its parts, and do with the short ones as `config.short` says.

    Raises:
        InputError: a series is too short, or all are.
    """
    kept: list[tuple[Series, Split]] = []
    left_out: list[str] = []
    for series in panel:
        split, n = cut_rows(series.timestamps, series.frequency, config.split), len(series)
        lacking = shortage(split, n, config.split, sizes=sizes, name=series.name)
        if lacking is None:
            kept.append((series, split))
        elif config.short is Short.pad and n > sizes.pred_len:
            kept.append((left_padded(series, sizes.seq_len - 1), split.clip(n).shift(sizes.seq_len - 1)))
        else:
            left_out.append(lacking)
    if left_out and (config.short is Short.error or not kept):
        raise InputError(left_out[0] + (f" (and {len(left_out) - 1} series more)" if len(left_out) > 1 else ""))
    if left_out:
        log.warning(f"{len(left_out)} of {len(panel)} series left out: {'; '.join(left_out[:MOST])}")
    return [series for series, _ in kept], [split for _, split in kept]


def left_padded(series: Series, n: int) -> Series:
    """The series with its first row repeated n times before it."""
    if n <= 0:
        return series
    before = series.frequency.past(series.timestamps[0], n, like=series.timestamps[:2][-1])
    values = np.concatenate([np.repeat(series.values[:1], n, axis=0), series.values])
    return replace(series, timestamps=pd.DatetimeIndex(before.append(series.timestamps)), values=values)


def series_names(paths: Sequence[Path]) -> list[str]:
    """File names without their endings; with their folders where names alone repeat."""
    stems = [name_of(path) for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    top = os.path.commonpath([path.parent for path in paths])
    return [str(path.parent.relative_to(top) / stem) for path, stem in zip(paths, stems, strict=True)]


@dataclass(slots=True)
class _Reader:
    """Reads one file after the other; times written as in the file before are not read again."""

    cells: pd.Series | None = None
    times: pd.Series | None = None
    time_format: str | None = None
    dialects: set[Dialect] = field(default_factory=set)

    def tables(self, path: Path, name: str, config: DatasetConfig) -> Iterator[tuple[Table, str, DatasetConfig]]:
        """The rows of each series of a file, its name (`name` where the file holds one), and how to read them."""
        table = table_of_file(path, config)
        if table.dialect.uncommon() and table.dialect not in self.dialects:
            log.info("%s: %s", table.name, table.dialect.uncommon())
        self.dialects.add(table.dialect)
        if config.series_col is not None:
            table, config = self._timed(table, config)
            table = table.without(text_columns([table], config))
            yield from ((own, one, config) for own, one in series_tables(table, config.series_col or ""))
            return
        with suppress(InputError):  # told with all else that is wrong with the file
            table, config = self._timed(table, config)
        yield table, name, config

    def _timed(self, table: Table, config: DatasetConfig) -> tuple[Table, DatasetConfig]:
        """The table with its time column read, for all series at once: text costs more than all else."""
        time_col = find_time_column(table, config.time_col)
        cells = table.frame[time_col]
        if self.cells is None or not cells.equals(self.cells):
            self.time_format = find_format(table, time_col, config.time_format)
            times = parse_timestamps(table, time_col, self.time_format)
            # a cell that is no time stays, to be told by its series as it is written
            self.cells, self.times = cells, None if times.hasnans else pd.Series(times, index=cells.index)
        if self.times is not None:
            table = replace(table, frame=table.frame.assign(**{time_col: self.times}))
        return table, replace(config, time_col=time_col, time_format=self.time_format)


def series_tables(table: Table, series_col: str) -> Iterator[tuple[Table, str]]:
    """The rows of each series that a column names, without it, and that name.

    Raises:
        InputError: no such column, an empty cell in it, or no rows.
    """
    names = names_in(table, series_col)
    for one, rows in table.frame.drop(columns=series_col).groupby(names, sort=False):
        yield replace(table, name=f"{table.name}, {series_col} {one}", frame=rows), str(one)


def names_in(table: Table, column: str) -> np.ndarray:
    """The name of the series of each row."""
    if column not in table.columns:
        raise table.missing("dataset.series_col", column)
    if not len(table.frame):
        raise table.without_rows()
    cells = table.frame[column]
    empty = np.flatnonzero(cells.isna() | (cells.astype(str) == ""))
    if len(empty):
        raise InputError(f"{table.at(int(empty[0]), column)}: expected the name of a series, found an empty cell")
    return cells.to_numpy()


def aligned(series: Series, first: Series) -> Series:
    """The series with its columns in the order of the first one's, and with its timestamps where they are equal."""
    missing, more = (
        [column for column in one if column not in other]
        for one, other in ((first.columns, series.columns), (series.columns, first.columns))
    )
    if missing or more:
        raise InputError(
            f"{series.name}: expected the columns of {first.name}; missing: {listed(missing)}, besides: "
            f"{listed(more)}; name those to read in dataset.columns"
        )
    timestamps = first.timestamps if series.timestamps.equals(first.timestamps) else series.timestamps
    return replace(series, timestamps=timestamps, values=column_values(series, first.columns), columns=first.columns)
