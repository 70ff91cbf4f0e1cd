"""Many series for one model, with the same columns and step, from one file each or from a single file."""

import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from informer.config.dataset import DatasetConfig, Short
from informer.config.lengths import WindowSizes
from informer.data.attributes import Attributes, read_attributes
from informer.data.long import LongTable, SoundSeries
from informer.data.read.categories import CategoryReader
from informer.data.read.dialect import Dialect
from informer.data.read.memory import release_free
from informer.data.read.report import Report
from informer.data.read.source import Series, column_values, series_from_table, table_of_file, with_whole_times
from informer.data.read.table import Table, name_of
from informer.data.read.time_column import find_time_column
from informer.data.read.timestamps import find_format, parse_timestamps
from informer.data.read.value_columns import text_columns
from informer.data.split import Split, cut_rows, shortage
from informer.errors import InputError, listed

log = logging.getLogger(__name__)

MOST = 3
"""Largest number of problems and names in one line."""

MOST_KEPT = 1 << 20
"""Largest number of rows for which the text of times is kept, to compare it with the next file."""


def read_panel(
    paths: Sequence[Path],
    config: DatasetConfig,
    sizes: WindowSizes,
    categories: CategoryReader | None = None,
    attributes: Attributes | None = None,
) -> list[Series]:
    """Read the series of these files; all must have the columns and step of the first.

    Args:
        paths: the files.
        config: how to read them.
        sizes: sizes of a window; with short=error, series that are too short are an error.
        categories: converts the cells of categorical columns to codes; None: only of the columns in `config`.
        attributes: columns that the rows of a series have in addition.

    Raises:
        ReportError: problems in any of the files, or differences from the first.
    """
    reader = _Reader(categories=categories or CategoryReader(), attributes=attributes)
    return _panel(zip(paths, series_names(paths), strict=True), config, sizes, reader)


def table_panel(
    table: Table,
    config: DatasetConfig,
    sizes: WindowSizes,
    categories: CategoryReader | None = None,
    attributes: Attributes | None = None,
) -> list[Series]:
    """The series of a table in memory, checked like those of a file."""
    reader = _Reader(categories=categories or CategoryReader(), attributes=attributes)
    return _panel([(table, table.name)], config, sizes, reader)


def _panel(
    tables: Iterable[tuple[Path | Table, str]],
    config: DatasetConfig,
    sizes: WindowSizes,
    reader: "_Reader",
) -> list[Series]:
    panel: list[Series] = []
    report = Report()
    least = sizes if config.short is Short.error else None
    for origin, name in tables:
        with report.gathering():
            table, settings = reader.whole(origin, name, config)
            release_free(8 * table.frame.size)  # the text of its times
            if settings.series_col is not None:
                _add_long(panel, LongTable.of(table, settings.series_col), settings, least, report)
                continue
            series = series_from_table(table, _stepping(settings, panel), name, sizes=least)
            panel.append(aligned(series, panel[0]) if panel else series)
    report.refuse()
    repeated = [name for name, number in Counter(series.name for series in panel).items() if number > 1]
    if repeated:
        raise InputError(f"{listed(repeated, MOST)}: series of that name in more than one file; rename one")
    return panel


def _add_long(
    panel: list[Series], long: LongTable, config: DatasetConfig, sizes: WindowSizes | None, report: Report
) -> None:
    """Append the series of a long table."""
    sound = SoundSeries.of(long, config, panel[0]) if panel else None
    for k, name in enumerate(long.names):
        with report.gathering():
            series = None if sound is None else sound.series(k, sizes)
            if series is None:
                series = series_from_table(long.table(k), _stepping(config, panel), name, sizes=sizes)
            panel.append(aligned(series, panel[0]) if panel else series)
            if len(panel) == 1:
                sound = SoundSeries.of(long, config, panel[0])


def _stepping(config: DatasetConfig, panel: Sequence[Series]) -> DatasetConfig:
    """`config` with the step of the first series, which all others must have."""
    return replace(config, frequency=panel[0].frequency.code) if panel else config


def panel_tables(table: Table, name: str, config: DatasetConfig) -> Iterator[tuple[Table, str, DatasetConfig]]:
    """The rows of each series of a table, its name (`name` for a single series), and how to read them.

    Raises:
        InputError: no such series column, or no time column.
    """
    yield from _Reader(attributes=read_attributes(config)).tables(table, name, config)


def divide(panel: Sequence[Series], config: DatasetConfig, sizes: WindowSizes) -> tuple[list[Series], list[Split]]:
    """Split each series, and handle short ones according to `config.short`.

    Raises:
        InputError: a series is too short, or all are.
    """
    usable: list[tuple[Series, Split]] = []
    left_out: list[str] = []
    for series in panel:
        split, n = cut_rows(series.timestamps, series.frequency, config.split), len(series)
        lacking = shortage(split, n, config.split, sizes=sizes, name=series.name)
        if lacking is None:
            usable.append((series, split))
        elif config.short is Short.pad and n > sizes.pred_len:
            usable.append((left_padded(series, sizes.seq_len - 1), split.clip(n).shift(sizes.seq_len - 1)))
        else:
            left_out.append(lacking)
    if left_out and (config.short is Short.error or not usable):
        raise InputError(left_out[0] + (f" (and {len(left_out) - 1} series more)" if len(left_out) > 1 else ""))
    if left_out:
        log.warning(f"skipped {len(left_out)} of {len(panel)} series: {'; '.join(left_out[:MOST])}")
    return [series for series, _ in usable], [split for _, split in usable]


def training_series(panel: Sequence[Series], names: Sequence[str], where: str) -> list[Series]:
    """The series that a model was trained on, in the order of training.

    Args:
        panel: series, with all of training among them.
        names: names of the training series, in order; empty for a single series.
        where: location of the series, for errors.

    Raises:
        InputError: a series of training is missing.
    """
    if not names:
        if len(panel) != 1:
            raise InputError(f"{where}: expected one series as in training, found {len(panel)}")
        return list(panel)
    by_name = {series.name: series for series in panel}
    if missing := [name for name in names if name not in by_name]:
        raise InputError(f"{where}: expected all series of training, found no {listed(missing)}; add them")
    return [by_name[name] for name in names]


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
    """Reads files one after the other; a time column equal to the previous file's is not parsed again."""

    cells: pd.Series | None = None
    times: pd.Series | None = None
    time_format: str | None = None
    dialects: set[Dialect] = field(default_factory=set)
    categories: CategoryReader = field(default_factory=CategoryReader)
    attributes: Attributes | None = None

    def tables(
        self, origin: Path | Table, name: str, config: DatasetConfig
    ) -> Iterator[tuple[Table, str, DatasetConfig]]:
        """The rows of each series of a file, its name (`name` for a single series), and how to read them."""
        table, config = self.whole(origin, name, config)
        if config.series_col is None:
            yield table, name, config
        else:
            yield from (
                (rows, series_name, config) for rows, series_name in LongTable.of(table, config.series_col).tables()
            )

    def whole(self, origin: Path | Table, name: str, config: DatasetConfig) -> tuple[Table, DatasetConfig]:
        """A file with attributes, parsed times and codes for its categories, and how to read it; `name` as in
        `tables`."""
        table = with_whole_times(origin, config) if isinstance(origin, Table) else table_of_file(origin, config)
        release_free(8 * table.frame.size)
        if table.dialect.uncommon() and table.dialect not in self.dialects:
            log.info("%s: %s", table.name, table.dialect.uncommon())
        self.dialects.add(table.dialect)
        if self.attributes is not None:
            table, config = self.attributes.joined(table, config.series_col, name), self.attributes.named_in(config)
        table, config = self.categories.coded(table, config)
        if config.series_col is not None:
            table, config = self._timed(table, config)
            return table.without(text_columns([table], config)), config
        with suppress(InputError):  # reported with all other problems of the file
            table, config = self._timed(table, config)
        return table, config

    def _timed(self, table: Table, config: DatasetConfig) -> tuple[Table, DatasetConfig]:
        """The table with its time column parsed for all series at once, because parsing text is the slowest step."""
        time_col = find_time_column(table, config.time_col)
        cells = table.frame[time_col]
        if self.cells is None or not cells.equals(self.cells):
            self.time_format = find_format(table, time_col, config.time_format, trained_format=self.time_format)
            times = parse_timestamps(
                table,
                time_col,
                self.time_format,
                timezone=config.timezone,
                groups=_groups(table, config),
            )
            # a cell that is not a time is kept, so that it is reported with its series and original text
            parsed = None if times.hasnans else pd.Series(times, index=cells.index)
            # the text of a long file takes more memory than its numbers
            self.cells, self.times = (cells, parsed) if len(cells) <= MOST_KEPT else (None, None)
        else:
            parsed = self.times
        if parsed is not None:
            table = replace(table, frame=table.frame.assign(**{time_col: parsed}))
        return table, replace(config, time_col=time_col, time_format=self.time_format)


def _groups(table: Table, config: DatasetConfig) -> np.ndarray | None:
    """The series name of each row, if local times need it."""
    if config.timezone is None or config.series_col not in table.columns:
        return None
    return table.frame[config.series_col].to_numpy()


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
