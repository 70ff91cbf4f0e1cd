"""Additive attention (Bahdanau, Cho & Bengio 2014, "Neural Machine Translation by Jointly Learning to Align and
Translate", appendix A.1.2), without its own projections: the layer's query and key projections play W_a and U_a.

  A = softmax_j(w_h . tanh(q_i + k_j))        w_h learned, one vector of length e per head

Cost: O(l s e) time, the most expensive mechanism: every pair needs e sigmoids. Memory is O(l + s) plus one chunk.
Reduces to the uniform mean of the allowed values for w = 0.
"""

from functools import partial
from typing import final

from torch import Tensor, nn

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.ops.chunks import map_rows
from informer.networks.ops.dropout import dropout_product
from informer.networks.ops.fast import normal


@final
class AdditiveAttention(Attention):
    """Scores from a learned vector and the tanh of the sum of query and key.

    The vector, `weight` [h e], is initialised from N(0, 1/e), so that scores are of order 1.

    Args:
        spec: sizes and options of the layer.
    """

    COST = "O(L^2 e) time, O(L) memory"
    LAST_ROWS = True

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__(spec)
        self.weight = nn.Parameter(normal(spec.n_heads, spec.d_head, std=spec.d_head**-0.5))

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """softmax(w . tanh(q + k)) v, with dropout on the weights in training."""
        # tanh(x) = 2 sigmoid(2 x) - 1; softmax cancels the constant, and sigmoid is several times faster than tanh
        q, k, weight = 2 * q, 2 * k, (2 * self.weight.to(q.dtype)).expand(q.shape[0], -1, -1)[:, :, None]
        # keys innermost: the product with w then runs along rows of s elements instead of e
        k, width = k.transpose(-1, -2).contiguous().transpose(-1, -2), k.shape[2] * k.shape[3]
        return map_rows(partial(self._attend, self.p), q, k, v, weight, width=width, causal=self.spec.causal)

    def _attend(self, p: float, q: Tensor, k: Tensor, v: Tensor, weight: Tensor, start: int) -> Tensor:
        hidden = (q.unsqueeze(4) + k.transpose(-1, -2).unsqueeze(2)).sigmoid_()
        scores = self.hide_future((weight.unsqueeze(3) @ hidden).squeeze(3), start)
        return dropout_product(scores.softmax(dim=-1), v, p)
