"""Sparse Transformer: two factorised patterns of stride l (Child et al. 2019).

  strided   A1 = {j : i - l <= j <= i}                 A2 = {j : (i - j) mod l = 0}
  fixed     A1 = {j : floor(j / l) = floor(i / l)}     A2 = {j : j mod l >= l - c}

A row's softmax runs over e^-0.5 q_i.k_j for j in its set. Causal: each set restricted to j <= i; otherwise strided A1
is |i - j| <= l and the other sets are unchanged. A row with an empty set attends to itself.
Cost: O(L sqrt L) time and memory with the default l = round(sqrt L). heads=merge with l >= L equals `full`.
"""

import math
from functools import partial
from typing import final

import torch
from torch import Tensor

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.blocks import (
    MIN_BLOCK,
    Piece,
    attend,
    band,
    columns,
    positions,
    strided_groups,
    tiles,
)
from informer.networks.attention.parameters import at_least, choice
from informer.networks.ops import fast
from informer.networks.ops.fast import int_hint, is_shape_only


@final
class SparseAttention(Attention):
    """Softmax over one of the factorised patterns, or over their union.

    Args:
        spec: sizes and options of the layer.
        pattern: `strided` or `fixed`.
        stride: l, in steps; None means round(sqrt(len_k)).
        c: number of columns of each block that every row sees, for the fixed pattern only.
        heads: split: the first half of the heads (rounded up) uses A1, the rest A2; alternate: layers with an even
            index use A1, the others A2; merge: every head uses the union.
    """

    CROSS = False
    COST = "O(L sqrt(L)) time and memory"
    FULL_WHEN = {"stride": 10**6, "heads": "merge"}  # noqa: RUF012 (a class constant of the contract)

    where: Tensor

    def __init__(
        self, spec: AttentionSpec, *, pattern: str, stride: int | None = None, c: int = 1, heads: str = "split"
    ) -> None:
        super().__init__(spec)
        self.pattern = choice("pattern", pattern, ("strided", "fixed"))
        self.heads = choice("heads", heads, ("split", "alternate", "merge"))
        stride = round(math.sqrt(spec.len_k)) if stride is None else at_least("stride", stride, 1)
        width = min(at_least("c", c, 1), stride)
        self.register_buffer("where", _last_of_blocks(spec.len_k, stride, width), persistent=False)
        # A stride larger than the length changes nothing once the columns are placed.
        self.stride = min(stride, spec.len_k)
        self.n_lonely = _n_lonely(stride - width, spec) if self.pattern == "fixed" else 0

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """Factorised softmax attention, with dropout on the weights in training.

        Raises:
            ValueError: the length differs from the one for which the pattern was built.
        """
        self.check_lengths(q, k)
        q = q * self.spec.d_head**-0.5
        if self.heads == "merge":
            return attend([*self._first(q, k, v), *self._second(q, k, v)], v.dtype)
        n = self._n_first()
        halves = [(self._first, slice(0, n)), (self._second, slice(n, q.shape[1]))]
        return torch.cat(
            [attend(pieces(q[:, h], k[:, h], v[:, h]), v.dtype) for pieces, h in halves if h.start < h.stop], dim=1
        )

    def _n_first(self) -> int:
        """Number of heads, counted from the first, that use A1 if the sets are not merged."""
        if self.heads == "split":
            return (self.spec.n_heads + 1) // 2
        return 0 if self.spec.layer_index % 2 else self.spec.n_heads

    def _first(self, q: Tensor, k: Tensor, v: Tensor) -> list[Piece]:
        """A1."""
        stride, causal = self.stride, self.spec.causal
        if self.pattern == "strided":
            return [partial(band, q, k, v, self.p, left=stride, right=0 if causal else stride)]

        def same_block(i: Tensor, j: Tensor) -> Tensor:
            same = i // stride == j // stride
            return same & (j <= i) if causal else same

        if int_hint(q[:, :, 0, 0].numel()) * stride * stride > fast.whole():
            right = 0 if causal else stride - 1
            return [partial(band, q, k, v, self.p, left=stride - 1, right=right, allowed=same_block)]
        block = stride * max(1, MIN_BLOCK // stride)
        return [partial(tiles, q, k, v, self.p, allowed=same_block, block=block)]

    def _second(self, q: Tensor, k: Tensor, v: Tensor) -> list[Piece]:
        """A2; if both sets are merged, without the pairs of A1."""
        stride, causal, merge = self.stride, self.spec.causal, self.heads == "merge"

        def same_phase(i: Tensor, j: Tensor) -> Tensor:
            keep = (i - j).abs() > (stride if merge else -1)
            return keep & (j <= i) if causal else keep

        if self.pattern == "strided":
            return [partial(strided_groups, q, k, v, self.p, dilation=stride, allowed=same_phase)]
        i, j = positions(q.shape[2], q.device), self.where.int()

        def allowed(start: int, stop: int) -> Tensor:
            rows = i[start:stop, None]
            keep = rows // stride != j // stride if merge else (j >= 0).expand(stop - start, -1)
            return keep & (j <= rows) if causal else keep

        pieces: list[Piece] = []
        if len(self.where):
            k_seen, v_seen = k.index_select(2, self.where), v.index_select(2, self.where)
            pieces.append(partial(columns, q, k_seen, v_seen, self.p, allowed=allowed))
        if self.n_lonely and not merge:
            lonely = partial(band, q, k, v, self.p, left=0, right=0, allowed=lambda i, _: i < self.n_lonely)
            pieces.append(lonely)
        return pieces


def _last_of_blocks(length: int, stride: int, width: int) -> Tensor:
    """The positions j < length with j mod stride >= stride - width, ascending."""
    n_blocks, remainder = divmod(length, stride)
    count = n_blocks * width + max(0, remainder - (stride - width))
    if is_shape_only():
        return torch.empty(count, dtype=torch.int64)
    starts = torch.arange(n_blocks + 1)[:, None] * stride
    return (starts + torch.arange(stride - width, stride)).flatten()[:count]


def _n_lonely(first: int, spec: AttentionSpec) -> int:
    """Number of rows, counted from the first, that see no column, with columns from position `first`."""
    if first >= spec.len_k:
        return spec.len_q
    return first if spec.causal else 0
