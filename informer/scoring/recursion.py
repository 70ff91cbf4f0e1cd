"""Recursive forecasts beyond pred_len: the model reads its own output as history."""

from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from informer.data.windows import Batch, Windows
from informer.networks.models.base import point


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


def passes(
    output: Callable[[Batch], Float[Tensor, "b pred_len n *q"]],
    windows: Windows,
    *,
    targets: Sequence[int],
    horizon: int,
    quantiles: Sequence[float] = (),
    within: Int[Tensor, " s"] | None = None,
) -> Iterator[tuple[Batch, Float[Tensor, "b pred_len n *q"]]]:
    """The batch and the scaled output of each pass of pred_len rows, as many as a horizon needs.

    Args:
        output: the model.
        windows: each must be followed by enough rows for the horizon rounded up to a multiple of pred_len.
        targets: see `with_forecast_history`.
        horizon: rows to forecast.
        quantiles: levels of the last axis of the output, if it has one.
        within: starts of the only windows that may be read; a pass of others has rows without meaning. None: all.
    """
    rows, every = list[Tensor](), torch.arange(len(windows))
    for done in range(0, horizon, windows.sizes.pred_len):
        later = windows.starts + done
        if within is not None:
            later = torch.where(torch.isin(later, within), later, windows.starts)
        batch = windows.at(later).batch(every)
        batch = with_forecast_history(batch, torch.cat(rows, dim=1), targets) if done else batch
        found = output(batch)
        rows.append(point(found, quantiles))
        yield batch, found
