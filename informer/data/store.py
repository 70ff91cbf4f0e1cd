"""From series to the rows that windows are cut from: scaled values, calendar marks, and the way back to data units."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float32, Float64, Int64

from informer.data.scaler import Scaler
from informer.data.source import Series
from informer.data.table import listed
from informer.data.time_features import CalendarKind, calendar_marks
from informer.data.windows import Store
from informer.errors import InputError

Span = tuple[str, int, int, int]
"""Time zone, first and last timestamp, rows: series of one step that agree in it have the same timestamps."""


def build_store(
    panel: Sequence[Series],
    *,
    columns: Sequence[str],
    scalers: Sequence[Scaler],
    calendar: CalendarKind,
    device: torch.device | str,
) -> Store:
    """Lay out series one below the other: scaled in float64, kept in float32.

    Args:
        panel: series of one frequency.
        columns: those to keep, in this order.
        scalers: one a series, over `columns`.
        calendar: kind of the marks.
        device: where the rows lie.

    Raises:
        InputError: a series that lacks columns.
    """
    marks, first_marks = _shared_marks(panel, calendar)
    parts = {
        "values": _scaled(panel, columns, scalers),
        "marks": marks,
        "first_rows": np.cumsum([0, *map(len, panel[:-1])]),
        "first_marks": first_marks,
        "center": np.stack([scaler.center for scaler in scalers]),
        "scale": np.stack([scaler.scale for scaler in scalers]),
    }
    return Store(**{name: torch.from_numpy(part).to(device) for name, part in parts.items()})


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


def span(timestamps: pd.DatetimeIndex) -> Span:
    """What tells the timestamps of one series from those of another."""
    return str(timestamps.tz), timestamps[0].value, timestamps[-1].value, len(timestamps)


def _scaled(
    panel: Sequence[Series], columns: Sequence[str], scalers: Sequence[Scaler]
) -> Float32[np.ndarray, "rows c"]:
    rows = np.empty((sum(map(len, panel)), len(columns)), dtype=np.float32)
    end = 0
    for series, scaler in zip(panel, scalers, strict=True):
        begin, end = end, end + len(series)
        rows[begin:end] = scaler.transform(column_values(series, columns))
    return rows


def _shared_marks(
    panel: Sequence[Series], calendar: CalendarKind
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
    marks = [calendar_marks(block, panel[0].frequency, calendar) for block in blocks]
    return np.concatenate(marks), np.array([firsts[span(series.timestamps)] for series in panel])


def _union(indices: list[pd.DatetimeIndex]) -> pd.DatetimeIndex:
    first, *others = indices
    return pd.DatetimeIndex(first.append(others).unique().sort_values()) if others else first
