"""Attention of a few tokens and a long sequence, in four parts (Ainslie et al. 2020, "ETC", section 3).

  tokens   softmax of e^-0.5 [q k^T (g2g), q k^T (g2l)] over all tokens and all rows, together
  rows     softmax of e^-0.5 [q k^T (l2g), q k^T (l2l)] over all tokens and the rows nearby, together

The n tokens are the first rows. Which rows are nearby is defined by another mechanism (`etc`: a neighbourhood;
`bigbird_etc`: a window and random keys).

Cost: O(L (radius + n) + n^2) time and memory. Without tokens it would be the mechanism that defines the pattern.
"""

from dataclasses import replace
from functools import partial
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from informer.networks.attention.base import Attention, AttentionSpec, Outputs, Queries
from informer.networks.attention.blocks import Piece, attend, columns
from informer.networks.attention.parameters import at_least
from informer.networks.attention.summary_tokens import SummaryAttention


@final
class GlobalLocalAttention(Attention):
    """The four parts g2g, g2l, l2g and l2l around the pattern of `local`.

    Args:
        spec: sizes and options of the layer, including tokens.
        local: a mechanism for the rows without the tokens.
        n_tokens: number of tokens, at least 1; they are the first rows of queries, keys and values.

    Raises:
        ValueError: `local` defines no pattern, or has summaries of its own.
    """

    CAUSAL = False
    CROSS = False
    COST = "O(L (radius + n_tokens) + n_tokens^2) time and memory"

    def __init__(self, spec: AttentionSpec, local: Attention, *, n_tokens: int) -> None:
        super().__init__(spec)
        if not isinstance(local, SummaryAttention):
            raise ValueError(f"expected attn=etc or attn=bigbird_etc with it, found {type(local).__name__}")
        if local.n_summaries:
            raise ValueError(f"expected attn.n_global=0 with it, whose place they take, found {local.n_summaries}")
        self.local = local
        self.n_tokens = at_least("n_tokens", n_tokens, 1)

    def forward(self, q: Queries, k: Queries, v: Outputs) -> Outputs:
        """One softmax for the tokens and one for the rows, with dropout on the weights in training."""
        n = self.n_tokens
        q = q * self.spec.d_head**-0.5
        tokens: list[Piece] = [partial(columns, q[:, :, :n], k, v, self.p)]
        rows: list[Piece] = [
            partial(columns, q[:, :, n:], k[:, :, :n], v[:, :, :n], self.p),
            *self.local.local_pieces(q[:, :, n:], k[:, :, n:], v[:, :, n:]),
        ]
        return torch.cat([attend(tokens, v.dtype), attend(rows, v.dtype)], dim=2)

    def weights(self, q: Queries, k: Queries) -> Float[Tensor, "b h l l"]:
        """The dense matrix."""
        n = self.n_tokens
        scores = torch.einsum("bhle,bhse->bhls", q, k) * self.spec.d_head**-0.5
        pattern = self.local.local_pattern(q[:, :, n:])
        allowed = torch.ones(*pattern.shape[:-2], *scores.shape[-2:], dtype=torch.bool, device=q.device)
        allowed[..., n:, n:] = pattern
        return scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)


def with_tokens(local: Attention, n: int) -> GlobalLocalAttention:
    """Attention with n learned global tokens in front of the rows, which `local` attends.

    Raises:
        ValueError: `local` defines no rows nearby, or has tokens of its own.
    """
    spec = replace(local.spec, len_q=local.spec.len_q + n, len_k=local.spec.len_k + n)
    try:
        return GlobalLocalAttention(spec, local, n_tokens=n)
    except ValueError as error:
        raise ValueError(f"model.global_tokens: {error}") from error
