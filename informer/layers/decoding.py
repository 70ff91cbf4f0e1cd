"""Dynamic decoding: forecast the horizon step by step, each row from the rows before it.

y_i = decode([start token, y_1, ..., y_{i-1}, 0, ..., 0])_i. Zhou et al. 2021, section 5.3, compare this with their
generative decoder, which forecasts all rows in one pass.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

Decode = Callable[[Tensor, int], Tensor]
"""(decoder input [b dec_len c], number of horizon rows that hold forecasts) -> forecast of the whole horizon."""


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
    """Call `decode` once per `step` rows of the horizon and keep these rows; O(pred_len / step) passes.

    Args:
        decode: forecasts the whole horizon from the decoder input.
        dec_x: start token and horizon.
        label_len: rows of the start token.
        step: rows taken from each pass.
        targets: forecast columns of `dec_x`.
        point: converts a forecast to the values fed back: the median if it has quantiles.
        masks: mask columns of the targets in `dec_x`; they are 1 for values fed back.

    Returns:
        The forecast.
    """
    forecasts: list[Tensor] = []
    for first in range(0, dec_x.shape[1] - label_len, step):
        forecasts.append(decode(dec_x, first)[:, first : first + step])
        before, block, after = dec_x.tensor_split([label_len + first, label_len + first + step], dim=1)
        fed = block.index_copy(2, targets, point(forecasts[-1]).to(block.dtype))
        fed = fed.index_fill(2, torch.tensor(list(masks), device=fed.device), 1.0) if masks else fed
        dec_x = torch.cat([before, fed, after], dim=1)
    return torch.cat(forecasts, dim=1)
