"""Extended transformer construction, global-local attention (Ainslie et al. 2020, "ETC").

  U = softmax_j(e^-0.5 g_n.k_j)                 n_global learned queries g read the whole sequence
  P = softmax of e^-0.5 q_i.[k_j, (U k)_n] over the keys |i - j| <= radius and all summaries, together
  A = P_local + P_global U                      summary n has the value (U v)_n

Cost: O(L (radius + n_global)) time and memory. Without summaries and with radius >= L - 1 it equals `full`. There is
no causal form: a summary contains the future.
"""

from functools import partial
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from informer.networks.attention.base import Attention, AttentionSpec
from informer.networks.attention.blocks import Piece, attend, band, columns
from informer.networks.attention.parameters import at_least
from informer.networks.attention.summary_tokens import Summary, summary_weights


@final
class ETCAttention(Attention):
    """Softmax over a neighbourhood and the summaries of the sequence.

    Args:
        spec: sizes and options of the layer.
        radius: largest distance |i - j| of a local pair, in steps.
        n_global: number of summaries.
    """

    CAUSAL = False
    CROSS = False
    COST = "O(L (radius + n_global)) time and memory"
    FULL_WHEN = {"radius": 10**6, "n_global": 0}  # noqa: RUF012 (a class constant of the contract)

    def __init__(self, spec: AttentionSpec, *, radius: int = 16, n_global: int = 4) -> None:
        super().__init__(spec)
        self.radius = at_least("radius", radius, 0)
        self.n_summaries = at_least("n_global", n_global, 0)
        self.summary = Summary(spec, n_global) if n_global else None

    def forward(
        self, q: Float[Tensor, "b h l e"], k: Float[Tensor, "b h s e"], v: Float[Tensor, "b h s d"]
    ) -> Float[Tensor, "b h l d"]:
        """Local and summary keys in one softmax; dropout in training, except in the softmax of the summaries."""
        scaled = q * self.spec.d_head**-0.5
        pieces = self.local_pieces(scaled, k, v, self.p)
        if self.summary is not None:
            summary_k, summary_v = self.summary(k, v)
            pieces.append(partial(columns, scaled, summary_k, summary_v, self.p))
        return attend(pieces, v.dtype)

    def weights(self, q: Float[Tensor, "b h l e"], k: Float[Tensor, "b h s e"]) -> Float[Tensor, "b h l s"]:
        """P_local + P_global U."""
        g = q.new_empty(q.shape[1], 0, q.shape[3]) if self.summary is None else self.summary.g
        return summary_weights(q, k, g, _near(q.shape[2], self.radius, q.device))

    def local_pieces(self, q: Tensor, k: Tensor, v: Tensor, p: float) -> list[Piece]:
        """See `informer.networks.attention.global_local.LocalPattern`."""
        return [partial(band, q, k, v, p, left=self.radius, right=self.radius)]

    def local_pattern(self, device: torch.device) -> Tensor:
        """See `informer.networks.attention.global_local.LocalPattern`."""
        return _near(self.spec.len_q, self.radius, device)


def _near(length: int, radius: int, device: torch.device) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool, device=device).triu(-radius).tril(radius)
