"""LogSparse attention: keys at exponentially growing distances (Li et al. 2019).

  A_ij = softmax of e^-0.5 q_i.k_j over |i - j| <= window and |i - j| in {0, 1, 2, 4, 8, ...}      causal: j <= i

Cost: O(L (log L + window)) time and memory. With window >= L - 1 it equals `full`.
"""

from functools import partial
from typing import final

import torch
from torch import Tensor

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.blocks import Piece, attend, band, gathered, positions
from informer.networks.attention.parameters import at_least

NEAR = 64
"""Largest distance for which a band is used: its small dense products are faster than gathering keys."""


@final
class LogSparseAttention(Attention):
    """Softmax over keys at distances that are powers of two, and over a window.

    Args:
        spec: sizes and options of the layer.
        window: use all keys up to this distance |i - j|, in steps.
    """

    CROSS = False
    COST = "O(L (log(L) + window)) time and memory"
    FULL_WHEN = {"window": 10**6}  # noqa: RUF012 (a class constant of the contract)

    def __init__(self, spec: AttentionSpec, *, window: int = 0) -> None:
        super().__init__(spec)
        # Positions have 32 bits; a longer window changes nothing.
        self.window = min(at_least("window", window, 0), spec.len_k)

    def _near(self, i: Tensor, j: Tensor) -> Tensor:
        distance = (i - j).abs()
        # n & (n - 1) clears the lowest set bit: 0 for 0 and powers of two.
        return (distance <= self.window) | (distance & (distance - 1) == 0)

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """A band and gathered keys in one softmax, with dropout on the weights in training."""
        q = q * self.spec.d_head**-0.5
        reach = max(self.window, NEAR)
        right = 0 if self.spec.causal else reach
        pieces: list[Piece] = [partial(band, q, k, v, self.p, left=reach, right=right, allowed=self._near)]
        far = [1 << t for t in range((q.shape[2] - 1).bit_length()) if 1 << t > reach]
        if far:
            pieces.append(partial(gathered, q, k, v, self.p, index=self._far_keys(far, q)))
        return attend(pieces, v.dtype)

    def _far_keys(self, distances: list[int], q: Tensor) -> Tensor:
        """Positions [h l r] of the keys at these distances, -1 beyond the ends."""
        offsets = torch.tensor([-d for d in distances] + ([] if self.spec.causal else distances), device=q.device)
        keys = positions(q.shape[2], q.device)[:, None] + offsets
        return torch.where(keys < q.shape[2], keys, -1).expand(q.shape[1], -1, -1)
