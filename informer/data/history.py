"""From new series to a model's input batch.

It uses the same store and windows as training, so equal rows give equal scaled windows.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo
from functools import lru_cache

import numpy as np
import pandas as pd
import torch

from informer.config.lengths import WindowSizes
from informer.data.calendar import Marks
from informer.data.columns import Columns
from informer.data.future import Future
from informer.data.panel import left_padded
from informer.data.read.frequency import Frequency
from informer.data.read.source import Series
from informer.data.scaler import PanelScaler
from informer.data.store import build_store, with_columns
from informer.data.windows import Batch, Windows
from informer.errors import InputError, listed


def history_batch(
    series: Sequence[Series],
    *,
    columns: Columns,
    scaler: PanelScaler,
    sizes: WindowSizes,
    calendar: Marks,
    device: torch.device | str,
    futures: Sequence[Future] | None = None,
    pad: bool = False,
) -> Batch:
    """The last seq_len rows of each series as one batch; `target` has no rows.

    Args:
        series: each with the input columns, in any order; additional columns are allowed.
        columns, sizes, calendar: as in training.
        scaler: scaler fitted in training. With one scaler per series, a series with a new name is scaled by its own
            last seq_len rows.
        device: device of the batch.
        futures: one per series, with the future covariates of the pred_len forecast times; None if the model has none.
        pad: extend a shorter history by repeating its first row.

    Raises:
        InputError: a series without some columns or enough rows, or a future without some columns, times or numbers.
    """
    check_futures(columns, has_futures=futures is not None)
    recent = with_columns([_last_rows(history, sizes.seq_len) for history in series], columns.inputs)
    scalers = [scaler.of(history.name, history.values) for history in recent]
    histories = [_padded(history, sizes.seq_len, pad=pad) for history in recent]
    ahead: Sequence[Future | None] = futures or [None] * len(histories)
    tables = [_with_horizon(history, columns, sizes, future) for history, future in zip(histories, ahead, strict=True)]
    store = build_store(tables, scalers=scalers, calendar=calendar, device=device)
    windows = Windows.of_columns(store, columns, starts=store.first_rows, sizes=sizes)
    batch = windows.batch(torch.arange(len(tables)))
    return batch._replace(target=batch.target[:, :0])


def check_futures(columns: Columns, *, has_futures: bool) -> None:
    """Raise InputError if future covariates are missing or not used by the model."""
    if columns.future_covariates and not has_futures:
        raise InputError(f"future: expected future values of {listed(columns.future_covariates)}, found none")
    if has_futures and not columns.future_covariates:
        raise InputError("future: the model has no future covariates; leave it out")


def future_index(series: Series, n: int) -> pd.DatetimeIndex:
    """The n timestamps after the end of the series."""
    times = series.timestamps
    return _index_after(series.frequency, tuple(times.asi8[-2:].tolist()), times.unit, times.tz, n)


@lru_cache(maxsize=256)
def _index_after(step: Frequency, end: tuple[int, ...], unit: str, zone: tzinfo | None, n: int) -> pd.DatetimeIndex:
    """`Frequency.future` of the last two times (or one), cached; they are counts of a unit since 1970."""
    times = pd.DatetimeIndex(np.array(end, dtype=f"datetime64[{unit}]"))
    times = times if zone is None else times.tz_localize("UTC").tz_convert(zone)
    return step.future(times[-1], n, like=times[0])


def _last_rows(series: Series, n: int) -> Series:
    """The last n rows, or fewer if there are not enough."""
    if len(series) <= n:
        return series
    return replace(series, timestamps=series.timestamps[-n:], values=series.values[-n:])


def _padded(series: Series, seq_len: int, *, pad: bool) -> Series:
    lacking = seq_len - len(series)
    if lacking > 0 and not pad:
        raise InputError(f"{series.name}: expected at least seq_len={seq_len} rows of history, found {len(series)}")
    return left_padded(series, lacking)


def _with_horizon(series: Series, columns: Columns, sizes: WindowSizes, future: Future | None) -> Series:
    """The series and the timestamps up to the last forecast time; unknown values are zeros, which no window
    contains."""
    ahead, covariates = future_index(series, sizes.reach), columns.future_covariates
    values = np.zeros((len(ahead), len(columns.inputs)))
    static = columns.positions(columns.static_covariates)
    values[:, static] = series.values[-1, static]
    if future is not None:
        values[sizes.offset :, columns.positions(covariates)] = future.at(ahead[sizes.offset :], covariates)
    timestamps = pd.DatetimeIndex(series.timestamps.append(ahead))
    return replace(series, timestamps=timestamps, values=np.concatenate([series.values, values]))
