"""From series to the rows of windows: scaled values, calendar marks, and how to convert back to data units."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from informer.base.errors import InputError
from informer.config.model import CalendarEmbed
from informer.data.cache import Cache
from informer.data.calendar import CalendarMarks, calendar_marks, mark_fields
from informer.data.scaler import Scaler
from informer.data.windows import Store
from informer.read.series import Series, column_values

Rows = TypeVar("Rows", np.ndarray, pd.DatetimeIndex)

ROWS = 1 << 16
"""Rows processed at once."""

Span = tuple[str, str, str, int]
"""Time zone, first and last timestamp, number of rows; equal for series with the same step and timestamps."""


def build_store(
    panel: Sequence[Series],
    *,
    scalers: Sequence[Scaler],
    calendar: CalendarMarks,
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
    arrays = {
        "first_rows": np.cumsum([0, *map(len, panel[:-1])]),
        "first_marks": first_marks,
        "center": np.stack([scaler.center for scaler in scalers]),
        "scale": np.stack([scaler.scale for scaler in scalers]),
        **_transform_parts(scalers),
        **_constant_part(scalers),
        "numbers": series_numbers(panel, trained),
    }
    on_device = {name: _placed(torch.from_numpy(array), torch.device(device)) for name, array in arrays.items()}
    large = {"values": _scaled(panel, scalers, cache), "marks": marks}
    home = "cpu" if cache else device
    has_gaps = cache is None and bool(np.isnan(large["values"]).any())  # cache files never have gaps
    placed = {name: torch.from_numpy(array).to(home) for name, array in large.items()}
    return Store(**on_device, **placed, has_gaps=has_gaps)


def _transform_parts(scalers: Sequence[Scaler]) -> dict[str, np.ndarray]:
    """Power and plain scale of each series; empty if values are not transformed."""
    transforms = [(scaler.power, scaler.untransformed_scale) for scaler in scalers if scaler.power is not None]
    return {
        name: np.stack(rows)
        for name, rows in zip(("power", "untransformed_scale"), zip(*transforms, strict=True), strict=False)
    }


def _constant_part(scalers: Sequence[Scaler]) -> dict[str, np.ndarray]:
    """Constant columns of each series; empty if there are none."""
    constant = np.stack([scaler.constant for scaler in scalers])
    return {"constant": constant} if constant.any() else {}


def _placed(tensor: Tensor, device: torch.device) -> Tensor:
    """Move to the device, except float64 to Apple's, which does not support it."""
    return tensor if device.type == "mps" and tensor.dtype == torch.float64 else tensor.to(device)


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
    panel: Sequence[Series], calendar: CalendarMarks, cache: Cache | None
) -> tuple[Float32[np.ndarray, "times m"], Int64[np.ndarray, "s"]]:
    """Marks of each distinct timestamp in the panel, and the index at which those of each series start."""
    own_spans = [span_of(series.timestamps) for series in panel]
    spans = {key: series.timestamps for key, series in zip(own_spans, panel, strict=True)}
    blocks: list[pd.DatetimeIndex] = []
    firsts: dict[Span, int] = {}
    end = 0
    for zone in dict.fromkeys(key[0] for key in spans):
        in_zone = {key: times for key, times in spans.items() if key[0] == zone}
        together = _union(list(in_zone.values()))
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
    name = ["marks", *_key(calendar), frequency.code, [span_of(block) for block in blocks]]
    return cache.array(name, marks, dtype=np.float32).reshape(-1, n_marks), first_marks


def _key(calendar: CalendarMarks) -> list[Any]:
    if isinstance(calendar, CalendarEmbed):
        return [calendar.value]
    choices = [calendar.fields, calendar.holidays] if calendar.fields or calendar.holidays else []
    return [calendar.kind.value, *choices]


def _union(indices: list[pd.DatetimeIndex]) -> pd.DatetimeIndex:
    first, *others = indices
    return pd.DatetimeIndex(first.append(others).unique().sort_values()) if others else first
