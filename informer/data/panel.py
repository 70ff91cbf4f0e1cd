"""The series of a dataset, with the same columns and step, from one file each or from a single file: read, split,
padded, and which of them have ended."""

import logging
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from informer.base.errors import ColumnError, FileError, ShortError, listed
from informer.config.conversion import node_of
from informer.config.data import DatasetConfig, Ended, plain_settings
from informer.config.fields import check
from informer.config.model import WindowSizes
from informer.read.columns import CategoryReader
from informer.read.dialect import Dialect
from informer.read.files import find_files
from informer.read.parse import release_free
from informer.read.remote import copies
from informer.read.rows import Report
from informer.read.series import Reading, Series, column_values, frame_of, table_of_file
from informer.read.shapes import prepared
from informer.read.split import REMEDY, Split, cut_rows, shortage
from informer.read.table import Table, name_of, table_of_frame

log = logging.getLogger(__name__)

SERIES = "series"
"""Column of series names, if each series came from a file of its own."""


MOST = 3
"""Largest number of problems and names in one line."""


SHARED_END = 0.8
"""Minimum share of series that end within a season of the last time, at which half of them end, for others to have
ended before: some of the newest rows may be missing."""


def without_ended(panel: Sequence[Series], setting: Ended) -> tuple[list[Series], str]:
    """The series that are forecast, see `dataset.ended`, and a line about the others; "" without such series."""
    ends, step = Counter(series.timestamps[-1] for series in panel), panel[0].frequency
    last = max(ends)
    if setting == "forecast" or step.is_numbered or 2 * ends[last] < len(panel):
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
    origin: Sequence[Path] | Table, config: DatasetConfig, categories: CategoryReader | None = None
) -> list[Series]:
    """Read the series of files, or of a prepared table; all must have the columns and step of the first.

    Args:
        origin: the files, or the table, see `prepared`.
        config: how to read them.
        categories: converts the cells of categorical columns to codes; None: only of the columns in `config`.

    Raises:
        ReportError: problems in any of the files, or differences from the first.
    """
    categories = categories or CategoryReader()
    tables: Iterable[tuple[Path | Table, str]] = (
        [(origin, origin.name)] if isinstance(origin, Table) else zip(origin, series_names(origin), strict=True)
    )
    panel, report, time_format = list[Series](), Report(), None
    dialects: set[Dialect] = set()
    for file, name in tables:
        with report.gathering():
            table = file if isinstance(file, Table) else table_of_file(file, config)
            release_free(8 * table.frame.size)
            if table.dialect.uncommon() and table.dialect not in dialects:
                log.info("%s: %s", table.name, table.dialect.uncommon())
            dialects.add(table.dialect)
            reading = Reading(table, config, name, categories=categories, trained_format=time_format)
            time_format = reading.time_format if reading.is_timed else time_format
            release_free(8 * table.frame.size)  # the text of its times
            for k in range(len(reading.names)):
                with report.gathering():
                    step, like = (panel[0].frequency.code, panel[-1]) if panel else (None, None)
                    series = reading.series(k, like=like, step=step)
                    panel.append(aligned(series, panel[0]) if panel else series)
    report.refuse()
    repeated = [name for name, number in Counter(series.name for series in panel).items() if number > 1]
    if repeated:
        raise FileError(f"{listed(repeated, MOST)}: series of that name in more than one file; rename one")
    return panel


def read(source: object, **settings: Any) -> list[Series]:
    """The checked series of files or of a table, as commands read them.

    Args:
        source: a file or its address, a list of files, a folder or pattern, or a table of pandas, polars or pyarrow.
        settings: those of `dataset`, such as `fill="linear"`.

    Raises:
        InputError: a wrong setting, or all problems of the files.
    """
    config = check(node_of(DatasetConfig, plain_settings(settings)))
    files = [source] if isinstance(source, str | Path) else source
    if not isinstance(files, list):
        return read_panel(prepared(table_of_frame(frame_of(source, "frame"), "frame"), config), config)
    if not files or not all(isinstance(each, str | Path) for each in files):
        raise FileError("source: expected paths of files in a list, such as ['a.csv', 'b.csv']; pass one table alone")
    with copies():
        paths = chain.from_iterable(find_files(replace(config, path=str(each)), Path()) for each in files)
        return read_panel([*paths], config)


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
        is_early = config.split.kind == "dates" and None in lacks and len(split.train) >= sizes.least_rows(0)
        if lacking is None or (is_early and config.short != "skip"):
            usable.append((series, split))
        elif config.short == "pad" and n > sizes.pred_len:
            usable.append((left_padded(series, sizes.seq_len - 1), split.clip(n, shift=sizes.seq_len - 1)))
        else:
            left_out.append(lacking)
    if left_out and (config.short == "error" or not usable):
        raise ShortError(and_more([line + REMEDY for line in left_out]))
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
        raise ColumnError(
            f"{series.name}: expected the columns of {first.name}; missing: {listed(missing)}, additional: "
            f"{listed(more)}; list the common columns in dataset.columns"
        )
    timestamps = first.timestamps if series.timestamps.equals(first.timestamps) else series.timestamps
    if series.columns == first.columns and series.timestamps is timestamps:
        return series
    return replace(series, timestamps=timestamps, values=column_values(series, first.columns), columns=first.columns)
