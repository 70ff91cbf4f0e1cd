"""Top-k attention (Zhao et al. 2019, "Explicit Sparse Transformer", eq. 4-6).

  A = softmax over {j allowed : s q_i.k_j >= the k-th largest allowed score of row i}        s = e^-0.5

Keys that tie with the k-th are kept, and a row with fewer than k allowed keys keeps all of them; causal rows rank only
the keys j <= i. The selection has no gradient.

Cost: O(l s) time over chunks of queries, O(l + s) memory plus one chunk. Reduces to `full` for k >= s.
"""

from functools import partial
from typing import final

from torch import Tensor

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.parameters import at_least
from informer.networks.ops.chunks import map_rows
from informer.networks.ops.dropout import dropout_product


@final
class TopKAttention(Attention):
    """Softmax over each query's k best keys.

    Args:
        spec: sizes and options of the layer.
        k: number of keys per row; keys that tie with the last are added.
    """

    COST = "O(L^2) time, O(L) memory"
    LAST_ROWS = True
    FULL_WHEN = {"k": 10**6}  # noqa: RUF012 (a class constant of the contract)

    def __init__(self, spec: AttentionSpec, *, k: int = 16) -> None:
        super().__init__(spec)
        self.k = at_least("k", k, 1)

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """softmax over the best keys, times v, with dropout on the weights in training."""
        return map_rows(partial(self._attend, self.p), q, k, v, width=k.shape[2], causal=self.spec.causal)

    def _attend(self, p: float, q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
        scores = self.scaled_scores(q, k, start)
        best = scores.detach().topk(min(self.k, k.shape[2]), dim=-1, sorted=False).values
        scores = scores.masked_fill(scores < best.amin(dim=-1, keepdim=True), float("-inf"))
        return dropout_product(scores.softmax(dim=-1), v, p)
