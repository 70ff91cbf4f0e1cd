"""Encoder: attention layers with distilling between them, and a pyramid of such stacks (Informer, section 3.2)."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from informer.config.model import Shortening
from informer.layers.attention_layer import AttentionLayer
from informer.layers.distilling import distilled_length
from informer.layers.feed_forward import FeedForward
from informer.layers.global_tokens import GlobalTokens
from informer.layers.shortening import make_shortening
from informer.ops.checkpointing import run
from informer.ops.dropout import Dropout


def stack_lengths(seq_len: int, n_stacks: int, fractions: Sequence[float | int] | None) -> list[int]:
    """Rows that each stack reads: the given fractions of seq_len, rounded up; seq_len // 2^i if None.

    Distilling rounds up too: stacks of 3 layers on all rows and of 1 layer on 1/4 of them have equally many outputs.
    """
    if fractions is None:
        return [seq_len // 2**i for i in range(n_stacks)]
    return [math.ceil(seq_len * Fraction(str(fraction))) for fraction in fractions]


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

    def forward(
        self,
        x: Float[Tensor, "b l d"],
        memory: Float[Tensor, "b s d"] | None = None,
        mask: Bool[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "b l d"]:
        """Output of the layer; keys and values come from the rows in `mask` (None: all) of `memory` (None: x)."""
        x = self.norm1(x + self.dropout(self.attention(x, x if memory is None else memory, mask=mask)))
        return self.norm2(x + self.feed_forward(x))


@final
class EncoderStack(nn.Module):
    """Attention layers over the last `length` rows, with shortening in between, and a final LayerNorm.

    Args:
        make_layer: makes a layer from its index and its numbers of queries and keys.
        n_layers: number of attention layers.
        length: rows read.
        d_model: width of the rows.
        shortening: how the sequence is halved between layers.
        distil_norm: use BatchNorm in distilling.
        recompute: store only the input of every layer for the backward pass. Distilling is always stored, because
            recomputing it would update the statistics of BatchNorm twice.
        n_tokens: number of learned global tokens in front of the rows. They are not shortened and come first in the
            output.
    """

    def __init__(
        self,
        make_layer: Callable[[int, int, int], EncoderLayer],
        *,
        n_layers: int,
        length: int,
        d_model: int,
        shortening: Shortening,
        distil_norm: bool,
        recompute: bool,
        n_tokens: int = 0,
    ) -> None:
        super().__init__()
        self.length = length
        self.shortening = shortening
        self.recompute = recompute
        self.layers = nn.ModuleList()
        self.distils = nn.ModuleList()
        n_keys = length
        for i in range(n_layers):
            self.layers.append(make_layer(i, length, n_keys))
            if shortening is not Shortening.none and i < n_layers - 1:
                self.distils.append(make_shortening(shortening, d_model, norm=distil_norm))
                n_keys, length = length, distilled_length(length)
                if shortening is not Shortening.funnel:
                    n_keys = length
        self.norm = nn.LayerNorm(d_model)
        self.out_length = n_tokens + length
        self.globals = GlobalTokens(n_tokens, d_model) if n_tokens else None

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b n d"]:
        """Encode the last `length` rows of x into `out_length` rows."""
        x = x[:, -self.length :]
        if self.globals is not None:
            x = self.globals.before(x)
        memory: tuple[Tensor, ...] = ()
        for i, shorten in enumerate(self.distils):
            layer: Any = self.layers[i]
            received: tuple[Tensor, ...] = ()
            if self.shortening is Shortening.eliminate:
                received = (layer.attention.received(x, x),)
            x = run([layer], x, *memory, recompute=self.recompute)
            if self.shortening is Shortening.funnel:
                memory = (x,)
            x = self._shortened(shorten, x, *received)
        return self.norm(run(self.layers[len(self.distils) :], x, *memory, recompute=self.recompute))

    def _shortened(self, shorten: nn.Module, x: Tensor, *received: Tensor) -> Tensor:
        if self.globals is None:
            return shorten(x, *received)
        tokens, rows = self.globals.split(x)
        return torch.cat([tokens, shorten(rows, *(each[:, tokens.shape[1] :] for each in received))], dim=1)


@final
class Encoder(nn.Module):
    """Stacks over shorter and shorter ends of the input; their outputs are concatenated over time."""

    def __init__(self, stacks: Sequence[EncoderStack]) -> None:
        super().__init__()
        self.stacks = nn.ModuleList(stacks)
        self.out_length = sum(stack.out_length for stack in stacks)

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b n d"]:
        """[b l d] -> [b out_length d]."""
        return torch.cat([stack(x) for stack in self.stacks], dim=1)
