"""Decoder: masked self-attention, cross-attention to the encoder, feed-forward (Informer, section 3.3).

Dynamic decoding: forecast the horizon step by step, each row from the rows before it.

y_i = decode([start token, y_1, ..., y_{i-1}, 0, ..., 0])_i. Zhou et al. 2021, section 5.3, compare this with their
generative decoder, which forecasts all rows in one pass.
"""

from collections.abc import Callable, Sequence
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.layers.feed_forward import FeedForward
from informer.networks.ops.dropout import Dropout
from informer.networks.ops.recompute import run

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


def last_rows(x: Float[Tensor, "b l d"], n: int | None) -> Float[Tensor, "b n d"]:
    """The last n rows; all rows if n is None."""
    return x if n is None else x[:, -n:]


@final
class DecoderLayer(nn.Module):
    """Self-attention, cross-attention and feed-forward, each followed by add and LayerNorm."""

    def __init__(
        self,
        self_attention: AttentionLayer,
        cross_attention: AttentionLayer,
        feed_forward: FeedForward,
        *,
        d_model: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "b l d"],
        memory: Float[Tensor, "b s d"],
        n_last: int | None = None,
        mask: Bool[Tensor, "b l"] | None = None,
        memory_mask: Bool[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "b n d"]:
        """The last `n_last` output rows (None: all); earlier rows only serve as keys and values of self-attention.

        `mask` and `memory_mask` are the rows of x and of the memory that are keys (None: all).
        """
        x = self.norm1(last_rows(x, n_last) + self.dropout(self.self_attention(x, x, n_last, mask)))
        x = self.norm2(x + self.dropout(self.cross_attention(x, memory, mask=memory_mask)))
        return self.norm3(x + self.feed_forward(x))


@final
class Decoder(nn.Module):
    """Decoder layers and a final LayerNorm; the last layer computes only the rows of the forecast."""

    def __init__(self, layers: Sequence[DecoderLayer], *, d_model: int, pred_len: int, recompute: bool) -> None:
        super().__init__()
        self.recompute = recompute
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(d_model)
        self.pred_len = pred_len

    def forward(self, x: Float[Tensor, "b l d"], memory: Float[Tensor, "b s d"]) -> Float[Tensor, "b pred_len d"]:
        """[b label_len+pred_len d] -> [b pred_len d]."""
        x = run(self.layers[:-1], x, memory, recompute=self.recompute)
        return self.norm(run(self.layers[-1:], x, memory, self.pred_len, recompute=self.recompute))
