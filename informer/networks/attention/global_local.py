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

from informer.networks.attention.base import Attention, Outputs, Queries
from informer.networks.attention.blocks import Piece, attend, columns
from informer.networks.attention.summary_tokens import SummaryAttention


@final
class GlobalLocalAttention(Attention):
    """The four parts g2g, g2l, l2g and l2l around the pattern of `local`.

    Args:
        local: a mechanism for the rows without the tokens.
        n_tokens: number of tokens, at least 1; they are the first rows of queries, keys and values, before those of
            `local`.

    Raises:
        ValueError: `local` defines no pattern, or has summaries of its own.
    """

    CAUSAL = False
    CROSS = False
    COST = "O(L (radius + n_tokens) + n_tokens^2) time and memory"

    def __init__(self, local: Attention, *, n_tokens: int) -> None:
        super().__init__(replace(local.spec, len_q=local.spec.len_q + n_tokens, len_k=local.spec.len_k + n_tokens))
        if not isinstance(local, SummaryAttention):
            found = f"attn=etc or attn=bigbird_etc with it, found {type(local).__name__}"
            raise ValueError(f"model.global_tokens: expected {found}")
        if local.g is not None:
            found = f"attn.n_global=0 with it, whose place they take, found {local.g.shape[1]}"
            raise ValueError(f"model.global_tokens: expected {found}")
        self.local, self.n_tokens = local, n_tokens

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
