"""Full attention for short sequences, ProbSparse for long ones: the faster of the two at the layer's length.

  A = that of `prob` if min(l, s) >= crossover, else that of `full`

Both lengths matter: with few queries or few keys ProbSparse selects nearly all of them and also pays for the selection.

Cost: that of `full` below the crossover, O(L ln L) from there on.
"""

from typing import final

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.full import FullAttention
from informer.networks.attention.parameters import at_least
from informer.networks.attention.prob import ProbAttention

CROSSOVER = 256
"""Length from which ProbSparse, forward and backward, is faster than torch's fused full attention on CPUs, causal or
not; measured by `scripts/benchmark_attention.py --attn full prob --lengths 96 128 192 256 320`."""


@final
class AutoAttention(Attention):
    """`full` or `prob`, chosen when the layer is built.

    Args:
        spec: sizes and options of the layer; its lengths decide.
        crossover: use `prob` if the shorter length is at least this; the best value depends on the machine.
        factor: parameter of `prob`.
    """

    COST = "O(L ln L) from the crossover on, below it that of full"
    FULL_WHEN = {"crossover": 10**9}  # noqa: RUF012 (a class constant of the contract)

    def __init__(self, spec: AttentionSpec, *, crossover: int = CROSSOVER, factor: int = 5) -> None:
        super().__init__(spec)
        long = min(spec.len_q, spec.len_k) >= at_least("crossover", crossover, 1)
        # build both, so that an invalid factor is refused at any length
        prob = ProbAttention(spec, factor=factor)
        self.chosen = prob if long else FullAttention(spec)
        self.picked = "prob" if long else "full"

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """Attend with the chosen mechanism."""
        return self.chosen(q, k, v)
