"""From series to the rows of windows: scaled values, calendar marks, and how to convert back to data units."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float32, Float64, Int64

from informer.base.errors import InputError
from informer.config.data import Calendar
from informer.data.calendar import calendar_marks, mark_fields
from informer.data.scaler import Scaler
from informer.data.windows import DataUnits, Store
from informer.read.series import Series, column_values

log = logging.getLogger(__name__)

Rows = TypeVar("Rows", np.ndarray, pd.DatetimeIndex)

ROWS = 1 << 16
"""Rows processed at once."""

Span = tuple[str, str, str, int]
"""Time zone, first and last timestamp, number of rows; equal for series with the same step and timestamps."""


def build_store(
    panel: Sequence[Series],
    *,
    scalers: Sequence[Scaler],
    calendar: Calendar,
    device: torch.device | str,
    trained: Sequence[str] = (),
) -> Store:
    """Concatenate series: scaled in float64, stored in float32.

    Args:
        panel: series with the same columns, in one order, and the same frequency.
        scalers: one scaler per series.
        calendar: calendar marks of each row.
        device: device of the rows.
        trained: names of the training series, in the order of their numbers.
    """
    marks, first_marks = _shared_marks(panel, calendar)
    values = _scaled(panel, scalers)
    first_rows = np.cumsum([0, *map(len, panel[:-1])])
    of_names = {name: number for number, name in enumerate(trained)}
    numbers = np.array([of_names.get(series.name, -1) for series in panel])  # -1 for a new series
    return Store(
        values=torch.from_numpy(values).to(device),
        marks=torch.from_numpy(marks).to(device),
        first_rows=torch.from_numpy(first_rows).to(device),
        mark_shift=torch.from_numpy(first_marks - first_rows).to(device),
        units=_units(scalers, torch.device(device)),
        numbers=torch.from_numpy(numbers).to(device),
        has_gaps=bool(np.isnan(values).any()),
    )


def _units(scalers: Sequence[Scaler], device: torch.device) -> DataUnits:
    """Scaling of each series: all are transformed, or none."""
    parts = {name: [getattr(scaler, name) for scaler in scalers] for name in DataUnits._fields}
    if not np.any(parts["constant"]):
        del parts["constant"]
    units = DataUnits(**{name: torch.from_numpy(np.stack(part)) for name, part in parts.items() if part[0] is not None})
    # float64 stays on the CPU if the device is Apple's, which does not support it
    return units.mapped(lambda part: part if device.type == "mps" and part.dtype == torch.float64 else part.to(device))


def with_columns(panel: Sequence[Series], names: Sequence[str]) -> list[Series]:
    """The series with only these columns, in this order.

    Raises:
        InputError: a series without some columns.
    """
    return [replace(series, values=column_values(series, names), columns=tuple(names)) for series in panel]


def row_blocks(rows: Rows, *, shared: int = 0) -> Iterator[Rows]:
    """Pieces of ROWS rows, each starting with the last `shared` rows of the previous piece."""
    return (rows[max(begin - shared, 0) : begin + ROWS] for begin in range(0, len(rows), ROWS))


def span_of(timestamps: pd.DatetimeIndex) -> Span:
    """Identifies the timestamps of a series."""
    # text represents any year; nanoseconds end in 2262
    return str(timestamps.tz), timestamps[0].isoformat(), timestamps[-1].isoformat(), len(timestamps)


def _scaled(panel: Sequence[Series], scalers: Sequence[Scaler]) -> Float32[np.ndarray, "rows c"]:
    def blocks() -> Iterator[np.ndarray]:
        for series, scaler in zip(panel, scalers, strict=True):
            for block in row_blocks(series.values):
                yield _single(scaler.transform(block), series.name)

    return _filled(blocks(), sum(map(len, panel)), len(panel[0].columns))


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
    panel: Sequence[Series], calendar: Calendar
) -> tuple[Float32[np.ndarray, "times m"], Int64[np.ndarray, " s"]]:
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

    return _filled(marks(), end, n_marks), first_marks
