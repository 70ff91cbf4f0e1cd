"""Extended transformer construction, global-local attention (Ainslie et al. 2020, "ETC").

  U = softmax_j(e^-0.5 g_n.k_j)                 n_global learned queries g read the whole sequence
  P = softmax of e^-0.5 q_i.[k_j, (U k)_n] over the keys |i - j| <= radius and all summaries, together
  A = P_local + P_global U                      summary n has the value (U v)_n

Cost: O(L (radius + n_global)) time and memory. Without summaries and with radius >= L - 1 it equals `full`. There is
no causal form: a summary contains the future.
"""

from functools import partial
from typing import final

from torch import Tensor

from informer.networks.attention.base import AttentionSpec
from informer.networks.attention.blocks import Piece, band
from informer.networks.attention.parameters import at_least
from informer.networks.attention.summary_tokens import SummaryAttention


@final
class ETCAttention(SummaryAttention):
    """Softmax over a neighbourhood and the summaries of the sequence.

    Args:
        spec: sizes and options of the layer.
        radius: largest distance |i - j| of a local pair, in steps.
        n_global: number of summaries.
    """

    COST = "O(L (radius + n_global)) time and memory"
    FULL_WHEN = {"radius": 10**6, "n_global": 0}  # noqa: RUF012 (a class constant of the contract)

    def __init__(self, spec: AttentionSpec, *, radius: int = 16, n_global: int = 4) -> None:
        super().__init__(spec, n_global)
        self.radius = at_least("radius", radius, 0)

    def local_pieces(self, q: Tensor, k: Tensor, v: Tensor) -> list[Piece]:
        """See `SummaryAttention`."""
        return [partial(band, q, k, v, self.p, left=self.radius, right=self.radius)]
