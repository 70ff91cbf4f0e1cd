"""From series to the rows that windows are cut from: scaled values, calendar marks, and the way back to data units."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float32, Float64, Int64

from informer.data.cache import Cache
from informer.data.scaler import Scaler
from informer.data.source import Series
from informer.data.table import listed
from informer.data.time_features import CalendarKind, calendar_marks, mark_fields
from informer.data.windows import Store
from informer.errors import InputError

Rows = TypeVar("Rows", np.ndarray, pd.DatetimeIndex)

ROWS = 1 << 16
"""Rows that are worked on at once."""

Span = tuple[str, str, str, int]
"""Time zone, first and last timestamp, rows: series of one step that agree in it have the same timestamps."""


def build_store(
    panel: Sequence[Series],
    *,
    scalers: Sequence[Scaler],
    calendar: CalendarKind,
    device: torch.device | str,
    cache: Cache | None = None,
) -> Store:
    """Lay out series one below the other: scaled in float64, kept in float32.

    Args:
        panel: series of the columns to keep, in one order, and of one frequency.
        scalers: one a series.
        calendar: kind of the marks.
        device: where the rows lie.
        cache: values and marks stay in its files instead, and go to the device batch by batch.
    """
    marks, first_marks = _shared_marks(panel, calendar, cache)
    parts = {
        "first_rows": np.cumsum([0, *map(len, panel[:-1])]),
        "first_marks": first_marks,
        "center": np.stack([scaler.center for scaler in scalers]),
        "scale": np.stack([scaler.scale for scaler in scalers]),
    }
    on_device = {name: torch.from_numpy(part).to(device) for name, part in parts.items()}
    large = {"values": _scaled(panel, scalers, cache), "marks": marks}
    home = "cpu" if cache else device
    return Store(**on_device, **{name: torch.from_numpy(part).to(home) for name, part in large.items()})


def narrowed(panel: Sequence[Series], names: Sequence[str], cache: Cache | None = None) -> list[Series]:
    """The series with these columns alone, in this order.

    Raises:
        InputError: a series that lacks columns.
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


def column_values(series: Series, names: Sequence[str]) -> Float64[np.ndarray, "t c"]:
    """These columns of a series, in this order.

    Raises:
        InputError: it lacks some.
    """
    missing = [name for name in names if name not in series.columns]
    if missing:
        raise InputError(
            f"{series.name}: columns missing: {listed(missing)}; its value columns are {listed(series.columns)}"
        )
    if tuple(names) == series.columns:
        return series.values
    return series.values[:, [series.columns.index(name) for name in names]]


def row_blocks(rows: Rows, *, shared: int = 0) -> Iterator[Rows]:
    """The same in pieces of ROWS, each with the last `shared` rows of the one before."""
    return (rows[max(begin - shared, 0) : begin + ROWS] for begin in range(0, len(rows), ROWS))


def span(timestamps: pd.DatetimeIndex) -> Span:
    """What tells the timestamps of one series from those of another."""
    # text holds any year; nanoseconds end in 2262
    return str(timestamps.tz), timestamps[0].isoformat(), timestamps[-1].isoformat(), len(timestamps)


def _scaled(panel: Sequence[Series], scalers: Sequence[Scaler], cache: Cache | None) -> Float32[np.ndarray, "rows c"]:
    def blocks() -> Iterator[np.ndarray]:
        for series, scaler in zip(panel, scalers, strict=True):
            for block in row_blocks(series.values):
                yield scaler.transform(block).astype(np.float32)

    n_columns = len(panel[0].columns)
    if cache is None:
        return _filled(blocks(), sum(map(len, panel)), n_columns)
    units = hashlib.sha256(b"".join(part.tobytes() for one in scalers for part in (one.center, one.scale)))
    key = ["scaled", panel[0].columns, [(series.name, len(series)) for series in panel], units.hexdigest()]
    return cache.array(key, blocks, dtype=np.float32).reshape(-1, n_columns)


def _filled(blocks: Iterator[np.ndarray], n_rows: int, n_columns: int) -> Float32[np.ndarray, "rows c"]:
    rows = np.empty((n_rows, n_columns), dtype=np.float32)
    end = 0
    for block in blocks:
        begin, end = end, end + len(block)
        rows[begin:end] = block
    return rows


def _shared_marks(
    panel: Sequence[Series], calendar: CalendarKind, cache: Cache | None
) -> tuple[Float32[np.ndarray, "times m"], Int64[np.ndarray, "s"]]:
    """Marks of each timestamp of the panel once, and where the timestamps of each series begin among them."""
    spans = {span(series.timestamps): series.timestamps for series in panel}
    blocks: list[pd.DatetimeIndex] = []
    firsts: dict[Span, int] = {}
    end = 0
    for zone in dict.fromkeys(key[0] for key in spans):
        own = {key: times for key, times in spans.items() if key[0] == zone}
        together = _union(list(own.values()))
        blocks.append(together)
        begin, end = end, end + len(together)
        for key, times in own.items():
            place = int(together.searchsorted(times[0]))
            if together[place : place + len(times)].equals(times):
                firsts[key] = begin + place
                continue
            # another series has times between those of this one
            blocks.append(times)
            firsts[key], end = end, end + len(times)
    frequency, n_marks = panel[0].frequency, len(mark_fields(panel[0].frequency, calendar))
    first_marks = np.array([firsts[span(series.timestamps)] for series in panel])

    def marks() -> Iterator[np.ndarray]:
        return (calendar_marks(piece, frequency, calendar) for block in blocks for piece in row_blocks(block))

    if cache is None or n_marks == 0:  # an empty file cannot be mapped
        return _filled(marks(), end, n_marks), first_marks
    name = ["marks", calendar.value, frequency.code, [span(block) for block in blocks]]
    return cache.array(name, marks, dtype=np.float32).reshape(-1, n_marks), first_marks


def _union(indices: list[pd.DatetimeIndex]) -> pd.DatetimeIndex:
    first, *others = indices
    return pd.DatetimeIndex(first.append(others).unique().sort_values()) if others else first
