"""From series to the rows of windows: scaled values, calendar marks, and how to convert back to data units.

Of data larger than memory these are arrays in files: written once, block by block, and verified when opened.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float32, Float64, Int64
from numpy.typing import DTypeLike

from informer.base.errors import InputError
from informer.base.files import expanded, replacing, write_atomic
from informer.base.runtime import versions
from informer.config.data import Calendar, DatasetConfig, settings_that
from informer.data.calendar import calendar_marks, mark_fields
from informer.data.panel import Attributes, series_names
from informer.data.scaler import Scaler
from informer.data.windows import DataUnits, Issued, Store
from informer.read.series import Series, column_values

log = logging.getLogger(__name__)

Rows = TypeVar("Rows", np.ndarray, pd.DatetimeIndex)

ROWS = 1 << 16
"""Rows processed at once."""

Span = tuple[str, str, str, int]
"""Time zone, first and last timestamp, number of rows; equal for series with the same step and timestamps."""


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of array files, each named by a hash of its key."""

    folder: Path

    @classmethod
    def below(cls, folder: Path, key: Any) -> "Cache":
        """The cache for `key` (plain containers) in a subfolder of `folder`."""
        return cls(folder / _digest(key))

    def array(self, key: Any, blocks: Callable[[], Iterable[np.ndarray]], *, dtype: DTypeLike) -> np.ndarray:
        """The concatenated values of blocks as a memory map of a file; writes to the map are not saved.

        Args:
            key: plain containers; an existing file with this key is used if its checksum matches.
            blocks: computes the blocks if there is no such file.
            dtype: type of the values.

        Raises:
            InputError: the folder is not writable.
        """
        path = self._path(key, dtype)
        if not is_whole(path):
            write_checked(path, (np.ascontiguousarray(block, dtype=dtype).tobytes() for block in blocks()))
        # copy on write: torch requires writable memory
        return np.memmap(path, dtype=dtype, mode="c")

    def forget(self, key: Any, *, dtype: DTypeLike) -> None:
        """Compute an array again when it is next requested."""
        _checksum(self._path(key, dtype)).unlink(missing_ok=True)

    def _path(self, key: Any, dtype: DTypeLike) -> Path:
        return self.folder / f"{_digest(key)}.{np.dtype(dtype).name}"


def _checksum(path: Path) -> Path:
    return path.with_suffix(path.suffix + ".sha256")


def _digest(key: Any) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True, default=str).encode()).hexdigest()[:20]


def is_whole(path: Path) -> bool:
    """Whether a file is unchanged since it was written; damage is logged, because cached content can be recomputed."""
    checksum = _checksum(path)
    if not (path.exists() and checksum.exists()):
        return False
    try:
        with path.open("rb") as file:
            unchanged = hashlib.file_digest(file, "sha256").hexdigest().encode() == checksum.read_bytes()
    except OSError:  # a folder, or unreadable: writing will raise
        unchanged = False
    if not unchanged:
        log.warning(f"{path}: damaged cache file; writing it again")
    return unchanged


def write_checked(path: Path, blocks: Iterable[bytes]) -> None:
    """Write a file with a checksum for `is_whole`."""
    digest = hashlib.sha256()
    with replacing(path, cure="set dataset.cache_dir") as temporary, temporary.open("xb") as file:
        for block in blocks:
            digest.update(block)
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    write_atomic(_checksum(path), digest.hexdigest())


def dataset_cache(
    dataset: DatasetConfig, data_dir: Path, paths: Sequence[Path], sha256: str, attributes: Attributes | None = None
) -> Cache:
    """The cache for files with this checksum, read with these settings, attributes and versions of libraries."""
    key = {
        "versions": versions(),
        "sha256": sha256,
        "files": [path.name for path in paths],
        "series": series_names(paths),
        "settings": {name: getattr(dataset, name) for name in settings_that(reading=True)},
        "attributes": attributes and attributes.to_plain(),
    }
    folder = expanded(dataset.cache_dir) if dataset.cache_dir else data_dir / "cache"
    return Cache.below(folder, key)


def build_store(
    panel: Sequence[Series],
    *,
    scalers: Sequence[Scaler],
    calendar: Calendar,
    device: torch.device | str,
    cache: Cache | None = None,
    trained: Sequence[str] = (),
) -> Store:
    """Concatenate series: scaled in float64, stored in float32.

    Args:
        panel: series with the same columns, in one order, and the same frequency.
        scalers: one scaler per series.
        calendar: calendar marks of each row.
        device: device of the rows.
        cache: store values and marks in its files, and move batches to the device.
        trained: names of the training series, in the order of their numbers.
    """
    marks, first_marks = _shared_marks(panel, calendar, cache)
    values, home = _scaled(panel, scalers, cache), "cpu" if cache else device
    first_rows = np.cumsum([0, *map(len, panel[:-1])])
    return Store(
        values=torch.from_numpy(values).to(home),
        marks=torch.from_numpy(marks).to(home),
        first_rows=torch.from_numpy(first_rows).to(device),
        mark_shift=torch.from_numpy(first_marks - first_rows).to(device),
        units=_units(scalers, torch.device(device)),
        numbers=torch.from_numpy(series_numbers(panel, trained)).to(device),
        has_gaps=cache is None and bool(np.isnan(values).any()),  # cache files never have gaps
        issued=_issued(panel, scalers, device),
    )


def _units(scalers: Sequence[Scaler], device: torch.device) -> DataUnits:
    """Scaling of each series: all are transformed, or none."""
    parts = {name: [getattr(scaler, name) for scaler in scalers] for name in DataUnits._fields}
    if not np.any(parts["constant"]):
        del parts["constant"]
    units = DataUnits(**{name: torch.from_numpy(np.stack(part)) for name, part in parts.items() if part[0] is not None})
    # float64 stays on the CPU if the device is Apple's, which does not support it
    return units.mapped(lambda part: part if device.type == "mps" and part.dtype == torch.float64 else part.to(device))


def series_numbers(panel: Sequence[Series], trained: Sequence[str]) -> Int64[np.ndarray, "s"]:
    """Number of each series among the training series, by name; -1 for a new one."""
    numbers = {name: number for number, name in enumerate(trained)}
    return np.array([numbers.get(series.name, -1) for series in panel])


def with_columns(panel: Sequence[Series], names: Sequence[str], cache: Cache | None = None) -> list[Series]:
    """The series with only these columns, in this order.

    Raises:
        InputError: a series without some columns.
    """
    if cache is None or panel[0].columns == tuple(names):
        return [replace(series, values=column_values(series, names), columns=tuple(names)) for series in panel]

    def blocks() -> Iterator[np.ndarray]:
        for series in panel:
            for block in row_blocks(series.values):
                yield column_values(replace(series, values=block), names)

    values = cache.array(["columns", *names], blocks, dtype=np.float64).reshape(-1, len(names))
    ends = np.cumsum([len(series) for series in panel])
    return [
        replace(series, values=values[end - len(series) : end], columns=tuple(names))
        for series, end in zip(panel, ends, strict=True)
    ]


def with_issues_of(panel: Sequence[Series], known: Sequence[str]) -> list[Series]:
    """The series with the issues of the columns that are known ahead, if they have any; errors as in `Issues.of`."""
    return [
        series if series.issues is None else replace(series, issues=series.issues.of(known, series.name))
        for series in panel
    ]


def _issued(panel: Sequence[Series], scalers: Sequence[Scaler], device: torch.device | str) -> dict[int, Issued]:
    """The issues of each column that has any, as rows of the store; of the rows that they are ahead of."""
    parts: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    span, first = sum(map(len, panel)), 0
    for series, scaler in zip(panel, scalers, strict=True):
        if (issues := series.issues) is not None:
            row = series.timestamps.get_indexer(issues.timestamps)
            known_from = series.timestamps.searchsorted(issues.issued)
            values = np.full((len(row), len(series.columns)), np.nan)
            places = [series.columns.index(column) for column in issues.columns]
            values[:, places] = issues.values
            keys = (first + row) * span + first + known_from
            for place, column in zip(places, _single(scaler.transform(values), series.name).T[places], strict=True):
                is_ahead = (known_from < row) & ~np.isnan(column)
                parts.setdefault(place, []).append((keys[is_ahead], column[is_ahead]))
        first += len(series)
    return {
        place: Issued(*(torch.from_numpy(np.concatenate(each)).to(device) for each in zip(*pairs, strict=True)))
        for place, pairs in parts.items()
    }


def row_blocks(rows: Rows, *, shared: int = 0) -> Iterator[Rows]:
    """Pieces of ROWS rows, each starting with the last `shared` rows of the previous piece."""
    return (rows[max(begin - shared, 0) : begin + ROWS] for begin in range(0, len(rows), ROWS))


def span_of(timestamps: pd.DatetimeIndex) -> Span:
    """Identifies the timestamps of a series."""
    # text represents any year; nanoseconds end in 2262
    return str(timestamps.tz), timestamps[0].isoformat(), timestamps[-1].isoformat(), len(timestamps)


def _scaled(panel: Sequence[Series], scalers: Sequence[Scaler], cache: Cache | None) -> Float32[np.ndarray, "rows c"]:
    def blocks() -> Iterator[np.ndarray]:
        for series, scaler in zip(panel, scalers, strict=True):
            for block in row_blocks(series.values):
                yield _single(scaler.transform(block), series.name)

    n_columns = len(panel[0].columns)
    if cache is None:
        return _filled(blocks(), sum(map(len, panel)), n_columns)
    units = hashlib.sha256()
    for scaler in scalers:
        units.update(repr(scaler.state()).encode())
    key = ["scaled", panel[0].columns, [(series.name, len(series)) for series in panel], units.hexdigest()]
    return cache.array(key, blocks, dtype=np.float32).reshape(-1, n_columns)


def _single(scaled: Float64[np.ndarray, "rows c"], name: str) -> Float32[np.ndarray, "rows c"]:
    """Convert to single precision; raises InputError if a value is too large."""
    with np.errstate(over="ignore"):  # checked below
        single = scaled.astype(np.float32)
    if np.isinf(single).any():
        raise InputError(
            f"{name}: expected values that fit single precision when scaled, found larger ones (up to "
            f"{np.nanmax(np.abs(scaled)):.3g}); use another scaler, or take them out of the data"
        )
    return single


def _filled(blocks: Iterator[np.ndarray], n_rows: int, n_columns: int) -> Float32[np.ndarray, "rows c"]:
    rows = np.empty((n_rows, n_columns), dtype=np.float32)
    end = 0
    for block in blocks:
        begin, end = end, end + len(block)
        rows[begin:end] = block
    return rows


def _shared_marks(
    panel: Sequence[Series], calendar: Calendar, cache: Cache | None
) -> tuple[Float32[np.ndarray, "times m"], Int64[np.ndarray, "s"]]:
    """Marks of each distinct timestamp in the panel, and the index at which those of each series start."""
    own_spans = [span_of(series.timestamps) for series in panel]
    spans = {key: series.timestamps for key, series in zip(own_spans, panel, strict=True)}
    blocks: list[pd.DatetimeIndex] = []
    firsts: dict[Span, int] = {}
    end = 0
    for zone in dict.fromkeys(key[0] for key in spans):
        in_zone = {key: times for key, times in spans.items() if key[0] == zone}
        first, *others = in_zone.values()
        together = pd.DatetimeIndex(first.append(others).unique().sort_values()) if others else first
        blocks.append(together)
        begin, end = end, end + len(together)
        for key, times in in_zone.items():
            position = int(together.searchsorted(times[0]))
            if together[position : position + len(times)].equals(times):
                firsts[key] = begin + position
                continue
            # another series has times between those of this one
            blocks.append(times)
            firsts[key], end = end, end + len(times)
    frequency, n_marks = panel[0].frequency, len(mark_fields(panel[0].frequency, calendar))
    first_marks = np.array([firsts[key] for key in own_spans])

    def marks() -> Iterator[np.ndarray]:
        return (calendar_marks(piece, frequency, calendar) for block in blocks for piece in row_blocks(block))

    if cache is None or n_marks == 0:  # an empty file cannot be mapped
        return _filled(marks(), end, n_marks), first_marks
    chosen: list[Any] = [calendar.fields, calendar.holidays] if calendar.fields or calendar.holidays else []
    chosen += [version("holidays")] if calendar.holidays else []  # each knows other holidays
    name = ["marks", calendar.kind.value, *chosen, frequency.code, [span_of(block) for block in blocks]]
    return cache.array(name, marks, dtype=np.float32).reshape(-1, n_marks), first_marks
