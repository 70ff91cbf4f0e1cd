"""Longformer: a sliding window with optional dilation, and a few global positions (Beltagy et al. 2020).

  A_ij = softmax of e^-0.5 q_i.k_j over j in {i + d t : |t| <= window // 2} and over the global columns
  rows at global positions see all keys           causal: each set restricted to j <= i

d is the dilation of the head. The global positions are round(linspace(0, L - 1, n_global)) or a given list. The
paper's global tokens have their own projections; here they share those of the layer.
Cost: O(L (window + n_global)) time and memory. With window // 2 >= L - 1 and dilation 1 it equals `full`.
"""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import final

import torch
from torch import Tensor

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.blocks import Piece, attend, band
from informer.networks.attention.global_positions import global_columns, place_globals, with_global_rows
from informer.networks.attention.parameters import at_least


@final
class LongformerAttention(Attention):
    """Softmax over a dilated window and the global positions.

    Args:
        spec: sizes and options of the layer.
        window: size of the window, window // 2 keys on either side of the row; one number, or one per layer of a stack
            (the last for further layers), which in the paper grow from layer to layer.
        dilation: distance of neighbouring keys in the window; one number, or one per head.
        n_global: number of global positions, evenly spaced from the first to the last.
        global_positions: explicit global positions instead of evenly spaced ones; negative values count from the end.
    """

    CROSS = False
    COST = "O(L (window + n_global)) time and memory"
    FULL_WHEN = {"window": 10**7}  # noqa: RUF012 (a class constant of the contract)

    where: Tensor

    def __init__(
        self,
        spec: AttentionSpec,
        *,
        window: int | Sequence[int] = 32,
        dilation: int | Sequence[int] = 1,
        n_global: int = 0,
        global_positions: Sequence[int] | None = None,
    ) -> None:
        super().__init__(spec)
        self.reach = _of_layer(window, spec.layer_index) // 2
        self.dilations = _per_head(dilation, spec.n_heads)
        self.register_buffer("where", place_globals(spec.len_k, n_global, global_positions), persistent=False)

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """Windowed and global softmax attention, with dropout on the weights in training.

        Raises:
            ValueError: the length differs from the one for which the global positions were placed.
        """
        if len(self.where):
            self.check_lengths(q, k)
        scaled = q * self.spec.d_head**-0.5
        runs = [(dilation, len([*heads])) for dilation, heads in groupby(self.dilations)]
        parts = (x.split([n for _, n in runs], dim=1) for x in (scaled, k, v))
        out = torch.cat([self._heads(run[0], *heads) for run, *heads in zip(runs, *parts, strict=True)], dim=1)
        if not len(self.where):
            return out
        return with_global_rows(out, scaled, k, v, self.p, where=self.where, causal=self.spec.causal)

    def _heads(self, dilation: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Rows of successive heads with the same dilation, without global rows."""
        causal = self.spec.causal
        # Positions have 32 bits; larger numbers change nothing beyond the length.
        dilation = min(dilation, k.shape[2])
        reach = min(self.reach, k.shape[2])

        def near(i: Tensor, j: Tensor) -> Tensor:
            return ((i - j).abs() <= reach * dilation) & ((i - j) % dilation == 0)

        right = 0 if causal else reach
        pieces: list[Piece] = [partial(band, q, k, v, self.p, left=reach, right=right, dilation=dilation)]
        if len(self.where):
            pieces.append(global_columns(q, k, v, self.p, where=self.where, near=near, causal=causal))
        return attend(pieces, v.dtype)


def _of_layer(window: int | Sequence[int], layer: int) -> int:
    """The window of a layer; Beltagy et al. 2020, section 3.1."""
    if not isinstance(window, Sequence) or isinstance(window, str):
        return at_least("window", window, 0)
    if not window:
        raise ValueError("window: expected a number for each layer, found []")
    return [at_least("window", each, 0) for each in window][min(layer, len(window) - 1)]


def _per_head(dilation: int | Sequence[int], n_heads: int) -> tuple[int, ...]:
    if not isinstance(dilation, Sequence):
        return (at_least("dilation", dilation, 1),) * n_heads
    if len(dilation) != n_heads:
        raise ValueError(f"dilation: expected one number or one for each of {n_heads} heads, found {list(dilation)}")
    return tuple(at_least(f"dilation[{h}]", value, 1) for h, value in enumerate(dilation))
