"""Recursive forecasts beyond pred_len: the model reads its own output as history."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from informer.data.windows import Batch, Windows


def with_forecast_history(batch: Batch, forecast: Float[Tensor, "b h n"], targets: Sequence[int]) -> Batch:
    """Replace the last history rows of a batch by their scaled forecasts.

    Args:
        batch: windows h rows after the original ones.
        forecast: forecast of the last h rows before the horizon.
        targets: indices of its columns among the inputs; all other columns are known ahead.
    """
    seq_len, n = batch.enc_x.shape[1], min(forecast.shape[1], batch.enc_x.shape[1])
    positions = torch.tensor(list(targets), device=batch.enc_x.device)
    before, after = batch.enc_x.tensor_split([seq_len - n], dim=1)
    enc_x = torch.cat([before, after.index_copy(2, positions, forecast[:, -n:].to(after.dtype))], dim=1)
    label_len = batch.dec_x.shape[1] - batch.target.shape[1]
    dec_x = torch.cat([enc_x[:, seq_len - label_len :], batch.dec_x[:, label_len:]], dim=1)
    return batch._replace(enc_x=enc_x, dec_x=dec_x)


def recursive_forecast(
    forecast: Callable[[Batch], Float[Tensor, "b pred_len n"]],
    first: Float[Tensor, "b pred_len n"],
    windows: Windows,
    chosen: Int[Tensor, "b"],
    *,
    targets: Sequence[int],
    horizon: int,
) -> tuple[Float[Tensor, "b horizon n"], Float[Tensor, "b horizon n"]]:
    """Scaled recursive forecasts of `horizon` rows, and the actual values.

    Args:
        forecast: the model.
        first: its forecast for these windows.
        windows, chosen: the windows; each must be followed by enough rows for the horizon rounded up to a multiple of
            pred_len.
        targets: see `with_forecast_history`.
        horizon: rows to forecast.
    """
    actual = [windows.batch(chosen).target]
    rows, pred_len = first, first.shape[1]
    while rows.shape[1] < horizon:
        later = windows.shifted(rows.shape[1]).batch(chosen)
        actual.append(later.target)
        rows = torch.cat([rows, forecast(with_forecast_history(later, rows, targets))], dim=1)
    assert rows.shape[1] == pred_len * len(actual)
    return rows[:, :horizon], torch.cat(actual, dim=1)[:, :horizon]
