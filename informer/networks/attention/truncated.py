"""Truncated self-attention: each row sees only its neighbourhood.

  A_ij = softmax over |i - j| <= window of e^-0.5 q_i.k_j        causal: 0 <= i - j <= window

Cost: O(L window) time and memory. With window >= L - 1 it equals `full`.
"""

from functools import partial
from typing import final

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.blocks import attend, band
from informer.networks.attention.parameters import at_least


@final
class TruncatedAttention(Attention):
    """Softmax over the keys within `window` steps.

    Args:
        spec: sizes and options of the layer.
        window: largest distance |i - j|, in steps.
    """

    CROSS = False
    COST = "O(L window) time and memory"
    FULL_WHEN = {"window": 10**6}  # noqa: RUF012 (a class constant of the contract)

    def __init__(self, spec: AttentionSpec, *, window: int = 24) -> None:
        super().__init__(spec)
        self.window = at_least("window", window, 0)

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """Banded softmax attention, with dropout on the weights in training."""
        right = 0 if self.spec.causal else self.window
        scaled = q * self.spec.d_head**-0.5
        return attend([partial(band, scaled, k, v, self.p, left=self.window, right=right)], v.dtype)
