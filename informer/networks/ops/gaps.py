"""Missing values in windows: mask columns, and replacing missing values by the last observed ones."""

from collections.abc import Collection, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def carried(x: Float[Tensor, "b l c"], observed: Bool[Tensor, "b l c"]) -> Float[Tensor, "b l c"]:
    """Replace each missing value by the last observed one before it, else by the first one after it, else by 0.

    O(l log l): values move by 1, 2, 4, ... rows, so the graph has no loop over rows.
    """
    x = torch.where(observed, x, torch.zeros_like(x))
    for backwards in (False, True):
        x, observed = _moved(x, observed, backwards)
    return x


def _moved(x: Tensor, observed: Tensor, backwards: bool) -> tuple[Tensor, Tensor]:
    step, length = 1, x.shape[1]
    while step < length:
        values, shifted_observed = (_shifted(tensor, step, backwards) for tensor in (x, observed))
        x, observed = torch.where(observed, x, values), observed | shifted_observed
        step *= 2
    return x, observed


def _shifted(x: Tensor, step: int, backwards: bool) -> Tensor:
    blank = torch.zeros_like(x[:, :step])
    return torch.cat([x[:, step:], blank] if backwards else [blank, x[:, :-step]], dim=1)


def history_of(x: Float[Tensor, "b l c"]) -> Float[Tensor, "b l c"]:
    """`carried` for windows whose missing values are NaN; returns `x` itself if nothing is missing."""
    observed = ~x.isnan()
    return x if bool(observed.all()) else carried(x, observed)


def unmasked(x: Float[Tensor, "b l c"], masked: Sequence[int], masks: Sequence[int]) -> Float[Tensor, "b l c"]:
    """`carried` for network inputs, in which `masked` are columns with gaps and `masks` their mask columns."""
    if not masked:
        return x
    positions = torch.tensor(list(masked), device=x.device)
    return x.index_copy(2, positions, carried(x[:, :, list(masked)], x[:, :, list(masks)] > 0.5))


def weights_of(x: Float[Tensor, "b l c"], masked: Sequence[int], masks: Sequence[int]) -> Float[Tensor, "b l c"]:
    """1 for each observed value of network inputs, 0 for missing ones."""
    return torch.ones_like(x).index_copy(2, torch.tensor(list(masked), device=x.device), x[:, :, list(masks)])


def with_masks(
    enc_x: Float[Tensor, "b seq_len c"],
    dec_x: Float[Tensor, "b dec_len c"],
    masked: Sequence[int],
    *,
    known: Collection[int],
    label_len: int,
) -> tuple[Float[Tensor, "b seq_len k"], Float[Tensor, "b dec_len k"]]:
    """Network inputs from windows whose missing values are NaN.

    Columns with gaps in training get 0 for a missing value, and a mask column after all other columns that is 1 where
    the value is observed. In other columns a missing value is replaced by the last observed one.

    Args:
        enc_x, dec_x: values of encoder and decoder.
        masked: positions of the columns with a mask.
        known: positions of columns that are known over the horizon.
        label_len: rows of the start token.
    """
    masked = list(masked)
    enc_mask, dec_mask = (~x[:, :, masked].isnan() for x in (enc_x, dec_x))
    is_known = torch.tensor([position in known for position in masked], dtype=torch.bool, device=dec_x.device)
    dec_mask[:, label_len:] &= is_known  # zeros in the horizon are not observations
    enc = history_of(enc_x)
    dec = history_of(torch.cat([enc[:, enc.shape[1] - label_len :], dec_x[:, label_len:]], dim=1))
    return _with_mask(enc, enc_mask, masked), _with_mask(dec, dec_mask, masked)


def _with_mask(x: Tensor, observed: Tensor, positions: list[int]) -> Tensor:
    if not positions:
        return x
    zeroed = x[:, :, positions].masked_fill(~observed, 0.0)
    return torch.cat([x.index_copy(2, torch.tensor(positions, device=x.device), zeroed), observed.to(x.dtype)], dim=2)
