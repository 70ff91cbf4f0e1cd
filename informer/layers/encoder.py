"""Encoder: attention layers with distilling between them, and the pyramid of such stacks (Informer, section 3.2)."""

from collections.abc import Callable, Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from informer.attention.dropout import Dropout
from informer.layers.attention_layer import AttentionLayer
from informer.layers.distil import Distil, distilled_length
from informer.layers.feed_forward import FeedForward
from informer.layers.recompute import Branch, Recompute, run


@final
class EncoderLayer(nn.Module):
    """Self-attention, add, LayerNorm, feed-forward, add, LayerNorm."""

    def __init__(self, attention: AttentionLayer, feed_forward: FeedForward, *, d_model: int, dropout: float) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b l d"]:
        """One layer."""
        x = self.norm1(x + self._attend(x))
        return self.norm2(x + self.feed_forward(x))

    def branches(self) -> list[Branch]:
        """Attention and feed-forward for reversible layers: LayerNorm comes first, or nothing could be undone."""
        return [
            Branch(self, lambda x: self._attend(self.norm1(x))),
            Branch(self, lambda x: self.feed_forward(self.norm2(x))),
        ]

    def _attend(self, x: Tensor) -> Tensor:
        return self.dropout(self.attention(x, x))


@final
class EncoderStack(nn.Module):
    """`n_layers` layers over the last `length` rows, distilled between layers, and a final LayerNorm.

    Args:
        make_layer: makes layer i for inputs of a given length.
        n_layers: number of attention layers.
        length: rows it reads.
        d_model: width.
        distil: halve the sequence between layers.
        recompute: what the backward pass computes again; distilling steps are always kept, as BatchNorm counts them.
    """

    def __init__(
        self,
        make_layer: Callable[[int, int], EncoderLayer],
        *,
        n_layers: int,
        length: int,
        d_model: int,
        distil: bool,
        recompute: Recompute,
    ) -> None:
        super().__init__()
        self.length = length
        self.recompute = recompute
        self.layers = nn.ModuleList()
        self.distils = nn.ModuleList()
        for i in range(n_layers):
            self.layers.append(make_layer(i, length))
            if distil and i < n_layers - 1:
                self.distils.append(Distil(d_model))
                length = distilled_length(length)
        self.norm = nn.LayerNorm(d_model)
        self.out_length = length

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b n d"]:
        """Encode the last `length` rows of x into `out_length` rows."""
        x = x[:, -self.length :]
        for i, distil in enumerate(self.distils):
            x = distil(run(self.layers[i : i + 1], x, recompute=self.recompute))
        return self.norm(run(self.layers[len(self.distils) :], x, recompute=self.recompute))


@final
class Encoder(nn.Module):
    """Stacks over ever shorter ends of the input, their outputs concatenated over time."""

    def __init__(self, stacks: Sequence[EncoderStack]) -> None:
        super().__init__()
        self.stacks = nn.ModuleList(stacks)
        self.out_length = sum(stack.out_length for stack in stacks)

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b n d"]:
        """[b l d] -> [b out_length d]."""
        return torch.cat([stack(x) for stack in self.stacks], dim=1)
