"""Read a panel larger than memory: files are read in pieces, and values stored in a cache file."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from informer.base.errors import InputError
from informer.config.data import DatasetConfig
from informer.data.history import future_index
from informer.data.panel import Attributes, aligned, series_codes, series_names
from informer.data.store import Cache, is_whole, write_checked
from informer.read.columns import text_columns
from informer.read.frequency import Frequency
from informer.read.series import Series, prepared, series_from_table
from informer.read.table import Table, read_pieces
from informer.read.time_columns import find_time_column
from informer.read.times import find_format

VALUES = "values"


def mapped_panel(
    paths: Sequence[Path], config: DatasetConfig, cache: Cache, attributes: Attributes | None = None
) -> list[Series]:
    """The series of `read_panel`, with values in a memory map; the rows of a series must be consecutive.

    Args:
        cache: the folder for these files and this way of reading them.
        attributes: columns of numbers that the rows of a series have in addition.

    Raises:
        InputError: the first problem in the files.
    """
    if config.repairs_rows:
        raise InputError(
            "dataset.memmap: repairs (sort, duplicates, fill, outliers) need the files in memory; fix them first"
        )
    if config.categorical:
        raise InputError("dataset.categorical: not supported with dataset.memmap, which reads numbers; leave one out")
    if config.timezone:
        raise InputError(
            "dataset.timezone: not supported with dataset.memmap, which reads files in pieces; write times in UTC"
        )
    facts_file = cache.folder / "panel.json"
    if not is_whole(facts_file):
        cache.forget(VALUES, dtype=np.float64)
    reader = _Reader(config, attributes)
    values = cache.array(VALUES, lambda: reader.blocks(paths), dtype=np.float64)
    if reader.first is not None:
        write_checked(facts_file, [json.dumps(reader.facts()).encode()])
    return _panel(json.loads(facts_file.read_text()), values)


class _Reader:
    """Reads the files; `facts` is complete after all blocks were consumed."""

    def __init__(self, config: DatasetConfig, attributes: Attributes | None = None) -> None:
        self.as_given, self._attributes = config, attributes
        self.frequency = config.frequency
        self.first: Series | None = None
        self._last: Series | None = None
        self._seen: dict[str, dict[str, Any]] = {}  # steps are equal: the first timestamp is enough

    def blocks(self, paths: Sequence[Path]) -> Iterator[np.ndarray]:
        """Values, one series after the other."""
        for path, file_name in zip(paths, series_names(paths), strict=True):
            for rows, name, config in self._parts(path, file_name):
                yield self._take(series_from_table(rows, replace(config, frequency=self.frequency), name), rows)

    def facts(self) -> dict[str, Any]:
        assert self.first is not None
        return {
            "columns": self.first.columns,
            "time_col": self.first.time_col,
            "time_format": self.first.time_format,
            "frequency": self.first.frequency.code,
            "series": [*self._seen.values()],
        }

    def _pieces(self, path: Path, name: str) -> Iterator[Table]:
        for piece in read_pieces(path, self.as_given):
            table, more = prepared(piece, self.as_given), self._attributes
            yield table if more is None else more.joined(table, self.as_given.series_col, name)

    def _parts(self, path: Path, file_name: str) -> Iterator[tuple[Table, str, DatasetConfig]]:
        """The rows of each series in a file, its name, and how to read them."""
        # all files use the same order of day and month
        config, known_format = self.as_given, None if self.first is None else self.first.time_format
        # whether a column is text depends on the whole file: read twice, unless dataset.columns names the others
        text = text_columns(self._pieces(path, file_name), config)
        for piece in self._pieces(path, file_name):
            table = piece.without(text)
            with suppress(InputError):  # reported with all other problems of the rows
                # by all rows of a piece: those of one series may be ambiguous
                time_col = find_time_column(table, config.time_col)
                time_format = find_format(table, time_col, config.time_format, trained_format=known_format)
                config = replace(config, time_col=time_col, time_format=time_format)
            for rows, name in _runs(table, config.series_col) if config.series_col else [(table, file_name)]:
                yield rows, name, config

    def _take(self, series: Series, table: Table) -> np.ndarray:
        if self.first is None:
            self.first = series
            self.frequency = series.frequency.code
        series, before = aligned(series, self.first), self._last
        if before is not None and before.name == series.name:
            expected = future_index(before, 1)[0]
            if series.timestamps[0] != expected:
                raise InputError(
                    f"{table.at(0, series.time_col)}: expected {expected} (step {series.frequency.code}), "
                    f"found {series.timestamps[0]}; add or remove rows so that the steps are equal"
                )
        elif series.name in self._seen:
            raise InputError(
                f"{table.at(0, series.time_col)}: rows of {series.name} are not consecutive; "
                "dataset.memmap needs them together: sort the file by series"
            )
        zone = None if series.timestamps.tz is None else str(series.timestamps.tz)
        start = {"name": series.name, "rows": 0, "first": series.timestamps[0].isoformat(), "zone": zone}
        self._seen.setdefault(series.name, start)["rows"] += len(series)
        self._last = series
        return series.values


def _runs(table: Table, series_col: str) -> Iterator[tuple[Table, str]]:
    """Consecutive rows of one series, and its name."""
    codes, names = series_codes(table, series_col)
    borders = [0, *np.flatnonzero(np.diff(codes)) + 1, len(codes)]
    frame = table.frame.drop(columns=series_col)
    for begin, end in pairwise(borders):
        name = names[codes[begin]]
        yield replace(table, name=f"{table.name}, {series_col} {name}", frame=frame[begin:end]), name


def _panel(facts: dict[str, Any], values: np.ndarray) -> list[Series]:
    frequency = Frequency.parse(facts["frequency"])
    columns = tuple(facts["columns"])
    values = values.reshape(-1, len(columns))
    panel: list[Series] = []
    end = 0
    for entry in facts["series"]:
        begin, end = end, end + entry["rows"]
        first, zone = pd.Timestamp(entry["first"]), entry["zone"]
        panel.append(
            Series(
                name=entry["name"],
                timestamps=frequency.grid(first.tz_convert(zone) if zone else first, entry["rows"]),
                values=values[begin:end],
                columns=columns,
                frequency=frequency,
                time_col=facts["time_col"],
                time_format=facts["time_format"],
            )
        )
    return panel
