"""Dynamic decoding: a horizon forecast row after row, each row from the rows before it.

The ablation of the generative style decoder (Zhou et al. 2021, section 5.3), which gives all rows in one pass:
y_i = decode([start token, y_1, ..., y_{i-1}, 0, ..., 0])_i.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

Decode = Callable[[Tensor, int], Tensor]
"""From [b dec_len c], of whose horizon so many rows hold forecasts, to the forecast of the whole horizon."""


def step_by_step(
    decode: Decode,
    dec_x: Float[Tensor, "b dec_len c"],
    *,
    label_len: int,
    step: int,
    targets: Int[Tensor, "n"],
    point: Callable[[Tensor], Tensor],
    masks: Sequence[int] = (),
) -> Float[Tensor, "b pred_len n *q"]:
    """A pass of `decode` for every `step` rows of the horizon, of which it keeps those; O(pred_len / step) passes.

    Args:
        dec_x: start token and horizon; the start token of a pass ends with the forecasts of those before it.
        label_len: rows of the first start token.
        targets: columns of `dec_x` that are forecast.
        point: from a forecast to what is fed back: the median, where it has quantiles.
        masks: columns of `dec_x` that say what is observed of the targets: 1 for what is fed back.
    """
    forecasts: list[Tensor] = []
    for first in range(0, dec_x.shape[1] - label_len, step):
        forecasts.append(decode(dec_x, first)[:, first : first + step])
        before, own, after = dec_x.tensor_split([label_len + first, label_len + first + step], dim=1)
        fed = own.index_copy(2, targets, point(forecasts[-1]).to(own.dtype))
        fed = fed.index_fill(2, torch.tensor(list(masks), device=fed.device), 1.0) if masks else fed
        dec_x = torch.cat([before, fed, after], dim=1)
    return torch.cat(forecasts, dim=1)
