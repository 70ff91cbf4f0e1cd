"""Full attention for short sequences, ProbSparse for long ones: whichever is faster at the length of the layer.

  A = that of `prob` where min(l, s) >= crossover, else that of `full`

Both lengths count: with few queries, or few keys, ProbSparse takes nearly all of them, and scoring comes on top.

Cost: that of `full` below the crossover, O(L ln L) from it on.
"""

from typing import final

from jaxtyping import Float
from torch import Tensor

from informer.attention.base import Attention, AttentionSpec
from informer.attention.checks import at_least
from informer.attention.full import FullAttention
from informer.attention.prob import ProbAttention

CROSSOVER = 256
"""Length from which ProbSparse's forward and backward pass is ahead of torch's fused full attention, causal or not, on
CPUs: `scripts/benchmark_attention.py --attn full prob --lengths 96 128 192 256 320`."""


@final
class AutoAttention(Attention):
    """`full` or `prob`, chosen when the layer is built.

    Args:
        spec: facts of the layer; its lengths choose.
        crossover: shorter length of queries and keys from which it is `prob`; another machine may want another.
        factor: of `prob`.
    """

    COST = "O(L ln L) from the crossover on, below it that of full"
    FULL_WHEN = {"crossover": 10**9}  # noqa: RUF012 (a class constant of the contract)

    def __init__(self, spec: AttentionSpec, *, crossover: int = CROSSOVER, factor: int = 5) -> None:
        super().__init__(spec)
        long = min(spec.len_q, spec.len_k) >= at_least("crossover", crossover, 1)
        # both are made, so that a bad factor is refused at any length
        prob = ProbAttention(spec, factor=factor)
        self.chosen = prob if long else FullAttention(spec)
        self.picked = "prob" if long else "full"

    def forward(
        self, q: Float[Tensor, "b h l e"], k: Float[Tensor, "b h s e"], v: Float[Tensor, "b h s d"]
    ) -> Float[Tensor, "b h l d"]:
        """Attend by the mechanism chosen."""
        return self.chosen(q, k, v)

    def weights(self, q: Float[Tensor, "b h l e"], k: Float[Tensor, "b h s e"]) -> Float[Tensor, "b h l s"]:
        """The matrix of the mechanism chosen."""
        return self.chosen.weights(q, k)
