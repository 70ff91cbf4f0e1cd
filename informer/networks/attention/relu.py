"""Full attention with ReLU instead of the exponential.

  A = relu(s q_i.k_j) / (sum_j relu(s q_i.k_j) + 1e-6)        s = e^-0.5

Weights are exactly 0 for negative scores. Because of the 1e-6, rows sum to slightly less than 1, and a row without a
positive score is 0. There is no dropout, since these are not softmax weights.

Cost: O(l s) time over chunks of queries, O(l + s) memory plus one chunk. No parameters make it equal to another
mechanism.
"""

from typing import final

from torch import Tensor

from informer.networks.attention.base import Attention, Keys, Outputs, Queries, Values
from informer.networks.ops.chunks import map_rows

EPSILON = 1e-6


@final
class ReluAttention(Attention):
    """Weights proportional to the positive part of the score.

    Args:
        spec: sizes and options of the layer.
    """

    COST = "O(L^2) time, O(L) memory"
    LAST_ROWS = True

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """relu(s q k^T) v over the row sums."""
        return map_rows(self._attend, q, k, v, width=k.shape[2], causal=self.spec.causal)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
        positive = self.scaled_scores(q, k, start).relu()
        return (positive @ v) / (positive.sum(dim=-1, keepdim=True) + EPSILON)
