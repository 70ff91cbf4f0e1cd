"""Learned tokens that summarise the whole sequence (the global side of ETC, Ainslie et al. 2020).

  U = softmax over j of e^-0.5 g_n.k_j      summary keys U k      summary values U v

The learned queries g replace the projected tokens of the paper's global input. Cost: O(L n_global).
"""

from abc import abstractmethod
from functools import partial

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Matrix, Outputs, Queries, Values
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

    @abstractmethod
    def local_pattern(self, q: Tensor) -> Bool[Tensor, "*h l l"]:
        """Dense mask of the pairs in these pieces, for `weights`."""

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

    def weights(self, q: Queries, k: Keys) -> Matrix:
        """P_local + P_global U."""
        g = q.new_empty(q.shape[1], 0, q.shape[3]) if self.g is None else self.g.to(k.dtype)
        scale = q.shape[-1] ** -0.5
        reading = torch.softmax(torch.einsum("hne,bhse->bhns", g, k) * scale, dim=-1)
        summary_keys = torch.einsum("bhns,bhse->bhne", reading, k)
        near = torch.einsum("bhle,bhse->bhls", q, k).masked_fill(~self.local_pattern(q), float("-inf"))
        far = torch.einsum("bhle,bhne->bhln", q, summary_keys)
        joint = torch.softmax(torch.cat([near, far], dim=-1) * scale, dim=-1)
        p_local, p_global = joint.split([k.shape[2], g.shape[1]], dim=-1)
        return p_local + p_global @ reading
