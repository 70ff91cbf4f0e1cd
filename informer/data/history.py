"""From new series to the batch that a trained model forecasts from.

It goes through the same store and windows as training does, so the same rows give the same scaled window.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from informer.data.columns import Columns
from informer.data.future import Future
from informer.data.panel import left_padded
from informer.data.scaler import PanelScaler
from informer.data.source import Series
from informer.data.store import build_store, narrowed
from informer.data.table import listed
from informer.data.time_features import CalendarKind
from informer.data.windows import Batch, Windows, WindowSizes
from informer.errors import InputError


def history_batch(
    series: Sequence[Series],
    *,
    columns: Columns,
    scaler: PanelScaler,
    sizes: WindowSizes,
    calendar: CalendarKind,
    device: torch.device | str,
    futures: Sequence[Future] | None = None,
    pad: bool = False,
) -> Batch:
    """The last seq_len rows of each series as one batch; `target` has no rows.

    Args:
        series: each with the input columns, in any order and among others.
        columns, sizes, calendar: as in training.
        scaler: of training. Where it has one for each series, a series of another name is scaled by its own last
            seq_len rows.
        device: where the batch lies.
        futures: one a series, with the future covariates of the pred_len times after its last row; None where the
            model has none.
        pad: lengthen a shorter history by repeats of its first row.

    Raises:
        InputError: a series that lacks columns or rows of history, or a future that lacks columns, times or numbers.
    """
    check_futures(columns, given=futures is not None)
    recent = narrowed([_last_rows(one, sizes.seq_len) for one in series], columns.inputs)
    scalers = [scaler.of(one.name, one.values) for one in recent]
    histories = [_whole(one, sizes.seq_len, pad=pad) for one in recent]
    ahead: Sequence[Future | None] = futures or [None] * len(histories)
    tables = [_with_horizon(one, columns, sizes.pred_len, future) for one, future in zip(histories, ahead, strict=True)]
    store = build_store(tables, scalers=scalers, calendar=calendar, device=device)
    windows = Windows.of_columns(store, columns, starts=store.first_rows, sizes=sizes)
    batch = windows.batch(torch.arange(len(tables)))
    return batch._replace(target=batch.target[:, :0])


def check_futures(columns: Columns, *, given: bool) -> None:
    """Raise the InputError of future covariates that are lacking, or of no use."""
    if columns.future_covariates and not given:
        raise InputError(f"future: expected a table of {listed(columns.future_covariates)} ahead, found none")
    if given and not columns.future_covariates:
        raise InputError("future: the model has no future covariates; expected no table of them")


def future_index(series: Series, n: int) -> pd.DatetimeIndex:
    """The n timestamps after the series' last."""
    return series.frequency.future(series.timestamps[-1], n, like=series.timestamps[-2:][0])


def _last_rows(series: Series, n: int) -> Series:
    """The last n rows, or as many as there are."""
    return replace(series, timestamps=series.timestamps[-n:], values=series.values[-n:])


def _whole(series: Series, seq_len: int, *, pad: bool) -> Series:
    lacking = seq_len - len(series)
    if lacking > 0 and not pad:
        raise InputError(f"{series.name}: expected at least seq_len={seq_len} rows of history, found {len(series)}")
    return left_padded(series, lacking)


def _with_horizon(series: Series, columns: Columns, n: int, future: Future | None) -> Series:
    """The series and n future timestamps; values that are not known there are zeros, which no window shows."""
    ahead, known = future_index(series, n), columns.future_covariates
    values = np.zeros((n, len(columns.inputs)))
    if future is not None:
        values[:, columns.positions(known)] = future.at(ahead, known)
    timestamps = pd.DatetimeIndex(series.timestamps.append(ahead))
    return replace(series, timestamps=timestamps, values=np.concatenate([series.values, values]))
