"""Learned tokens that summarise the whole sequence (the global side of ETC, Ainslie et al. 2020).

  U = softmax over j of e^-0.5 g_n.k_j      summary keys U k      summary values U v

The learned queries g replace the projected tokens of the paper's global input. Cost: O(L n_global).
"""

from abc import abstractmethod
from functools import partial

from torch import Tensor, nn

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.blocks import Piece, attend, columns
from informer.networks.attention.parameters import at_least
from informer.networks.ops.fast import normal


class SummaryAttention(Attention):
    """A mechanism whose rows attend to a few rows and to `n_global` learned summaries, in one softmax.

    `g` [h n e] starts from N(0, I), so that summaries read different keys; None without summaries.
    """

    CAUSAL = False
    CROSS = False

    def __init__(self, spec: AttentionSpec, n_global: int) -> None:
        super().__init__(spec)
        shape = spec.n_heads, at_least("n_global", n_global, 0), spec.d_head
        self.g = nn.Parameter(normal(*shape)) if n_global else None

    @abstractmethod
    def local_pieces(self, q: Tensor, k: Tensor, v: Tensor) -> list[Piece]:
        """Pieces of the softmax of scaled queries, without summaries."""

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """Local and summary keys in one softmax; dropout in training, except in the softmax of the summaries.

        Raises:
            ValueError: the length differs from the one for which random keys were drawn.
        """
        scaled = q * self.spec.d_head**-0.5
        pieces = self.local_pieces(scaled, k, v)
        if self.g is not None:
            reading = ((self.g.to(k.dtype) * self.spec.d_head**-0.5) @ k.transpose(-1, -2)).softmax(dim=-1)
            pieces.append(partial(columns, scaled, reading @ k, reading @ v, self.p))
        return attend(pieces, v.dtype)
