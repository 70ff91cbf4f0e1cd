"""Encoder: attention layers with distilling between them, and a pyramid of such stacks (Informer, section 3.2).

  X_(j+1) = MaxPool(ELU(Conv1d([X_j]_attention)))                 distilling, eq. 5: l rows become ceil(l / 2)
  memory  = concat over stacks i of stack_i(last L / 2^i rows)    the pyramid

Ways to shorten, `model.distil`; each halves the rows, rounding up:

  conv       circular Conv1d(3) -> BatchNorm -> ELU -> MaxPool(3, 2, 1): distilling; the authors' code has the
             BatchNorm, the paper's formula has not (`model.distil_norm=false`)
  max        MaxPool(3, 2, 1) only
  avg        mean of the same three rows; of two at both ends
  strided    circular Conv1d(3) with stride 2
  funnel     the queries of the next layer are means of two rows, its keys and values are all rows (Dai et al. 2020,
             "Funnel-Transformer", section 2.2)
  eliminate  the half of the rows that receive most attention in the layer before, summed over heads and queries, in
             their original order (Goyal et al. 2020, "PoWER-BERT", section 3); the selection has no gradient
  none       no shortening
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from informer.networks.attention.base import KeyMask, Memory, OutRows, Rows
from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.layers.feed_forward import FeedForward
from informer.networks.ops.dropout import Dropout
from informer.networks.ops.pooling import halve
from informer.networks.ops.products import Conv3
from informer.networks.ops.recompute import run


def distilled_length(length: int) -> int:
    """Rows after one distilling step: half, rounded up."""
    return (length + 1) // 2


@final
class Distil(nn.Module):
    """Halve the sequence: circular Conv1d(3) -> BatchNorm -> ELU -> MaxPool(3, stride 2, padding 1).

    The pool comes before the ELU: ELU is increasing, so the result is the same and only half of the rows need an ELU.

    Args:
        d_model: width of the rows.
        norm: use BatchNorm, as the authors' code does; the paper's formula has none.
    """

    def __init__(self, d_model: int, *, norm: bool = True) -> None:
        super().__init__()
        self.conv = Conv3(d_model, d_model)
        self.norm = RowNorm(d_model) if norm else None

    def forward(self, x: Rows, mask: Bool[Tensor, "b l"] | None = None) -> OutRows:
        """[b l d] -> [b ceil(l/2) d].

        With a mask of the rows that exist, others are zeros in the convolution, which then does not join both ends, and
        never in the maximum; a row of the output without rows is zero. `halved_mask` is the mask of the output.
        """
        if mask is not None:
            assert self.norm is None, "its statistics would include rows that do not exist"
            padded = F.pad(x * mask[..., None], (0, 0, 0, 1))
            rows = self.conv(padded)[:, :-1]
            rows = rows.masked_fill(~mask[..., None], torch.finfo(rows.dtype).min)
            return F.elu(halve(rows)) * halved_mask(mask)[..., None]
        rows = self.conv(x)
        if self.norm is not None:
            rows = self.norm(rows.flatten(0, 1)).view_as(rows)
        return F.elu(halve(rows), inplace=True)


def halved_mask(mask: Bool[Tensor, "b l"]) -> Bool[Tensor, "b n"]:
    """Which rows exist after distilling: those with a row that exists among the three under their maximum."""
    return F.max_pool1d(mask.float()[:, None], kernel_size=3, stride=2, padding=1)[:, 0] > 0


@final
class RowNorm(nn.BatchNorm1d):
    """BatchNorm over rows; a single row has no variance and is normalised by the running statistics."""

    def forward(self, x: Float[Tensor, "rows d"]) -> Float[Tensor, "rows d"]:
        """Normalise each feature."""
        if self.training and len(x) == 1:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x)


@final
class MaxPool(nn.Module):
    """Maximum of every second row and its neighbours."""

    def forward(self, x: Rows) -> OutRows:
        """[b l d] -> [b ceil(l/2) d]."""
        return halve(x)


@final
class OverRows(nn.Module):
    """A pool or convolution with stride 2, over the rows."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Rows) -> OutRows:
        """[b l d] -> [b ceil(l/2) d]."""
        return self.conv(x.transpose(1, 2)).transpose(1, 2)


@final
class Eliminate(nn.Module):
    """Keeps the rows that received most attention; among equals the first."""

    def forward(self, x: Rows, received: Float[Tensor, "b l"]) -> OutRows:
        """[b l d] -> [b ceil(l/2) d]."""
        n, length = distilled_length(x.shape[1]), x.shape[1]
        least = received.topk(n, dim=1).values[:, -1:]  # of operations that ONNX has, so no stable sorting
        above, equal = received > least, received == least
        kept = above | (equal & (equal.cumsum(dim=1) <= n - above.sum(dim=1, keepdim=True)))
        places = torch.where(kept, torch.arange(length, device=x.device), length - 1)
        index = places.topk(n, dim=1, largest=False).values
        # not take_along_dim, which fixes the number of windows of a graph
        return x.gather(1, index.unsqueeze(-1).expand(-1, -1, x.shape[2]))


def make_shortening(kind: str, d_model: int, *, norm: bool) -> nn.Module:
    """A module of any kind but `none`, [b l d] -> [b ceil(l/2) d], with BatchNorm if `norm`; that of `eliminate` also
    takes the attention received by each row."""
    kinds: dict[str, Callable[[], nn.Module]] = {
        "conv": lambda: Distil(d_model, norm=norm),
        "max": MaxPool,
        # means at the ends are of the rows that exist
        "avg": lambda: OverRows(nn.AvgPool1d(3, 2, 1, count_include_pad=False)),
        "strided": lambda: OverRows(nn.Conv1d(d_model, d_model, 3, 2, 1, padding_mode="circular")),
        "funnel": lambda: OverRows(nn.AvgPool1d(2, 2, ceil_mode=True, count_include_pad=False)),
        "eliminate": Eliminate,
    }
    return kinds[kind]()


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

    def forward(self, x: Rows, memory: Memory | None = None, mask: KeyMask | None = None) -> Rows:
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
        norm: use BatchNorm in `conv`.
        recompute: store only the input of every layer for the backward pass. Distilling is always stored, because
            recomputing it would update the statistics of BatchNorm twice.
        n_tokens: number of learned global tokens in front of the rows, which are not shortened and come first in the
            output (Ainslie et al. 2020, "ETC"); `informer.networks.attention.global_local` attends to them.
    """

    def __init__(
        self,
        make_layer: Callable[[int, int, int], EncoderLayer],
        *,
        n_layers: int,
        length: int,
        d_model: int,
        shortening: str,
        norm: bool,
        recompute: bool,
        n_tokens: int = 0,
    ) -> None:
        super().__init__()
        self.length, self.n_tokens = length, n_tokens
        self.shortening = shortening
        self.recompute = recompute
        self.layers = nn.ModuleList()
        self.distils = nn.ModuleList()
        n_keys = length
        for i in range(n_layers):
            self.layers.append(make_layer(i, length, n_keys))
            if shortening != "none" and i < n_layers - 1:
                self.distils.append(make_shortening(shortening, d_model, norm=norm))
                n_keys, length = length, distilled_length(length)
                if shortening != "funnel":
                    n_keys = length
        self.norm = nn.LayerNorm(d_model)
        self.out_length = n_tokens + length
        # from N(0, 1), the scale of rows after LayerNorm
        self.tokens = nn.Parameter(torch.randn(n_tokens, d_model)) if n_tokens else None

    def forward(self, x: Rows) -> OutRows:
        """Encode the last `length` rows of x into `out_length` rows."""
        x = x[:, -self.length :]
        if self.tokens is not None:
            x = torch.cat([self.tokens.to(x.dtype).expand(x.shape[0], -1, -1), x], dim=1)
        memory: tuple[Tensor, ...] = ()
        for i, shorten in enumerate(self.distils):
            layer: Any = self.layers[i]
            received: tuple[Tensor, ...] = ()
            if self.shortening == "eliminate":
                received = (layer.attention.received(x, x),)
            x = run([layer], x, *memory, recompute=self.recompute)
            if self.shortening == "funnel":
                memory = (x,)
            tokens, rows = x[:, : self.n_tokens], x[:, self.n_tokens :]
            rows = shorten(rows, *(each[:, self.n_tokens :] for each in received))
            x = torch.cat([tokens, rows], dim=1) if self.n_tokens else rows
        return self.norm(run(self.layers[len(self.distils) :], x, *memory, recompute=self.recompute))


@final
class Encoder(nn.Module):
    """Stacks over shorter and shorter ends of the input; their outputs are concatenated over time."""

    def __init__(self, stacks: Iterable[EncoderStack]) -> None:
        super().__init__()
        built = [*stacks]
        self.stacks = nn.ModuleList(built)
        self.out_length = sum(stack.out_length for stack in built)

    def forward(self, x: Rows) -> OutRows:
        """[b l d] -> [b out_length d]."""
        return torch.cat([stack(x) for stack in self.stacks], dim=1)
