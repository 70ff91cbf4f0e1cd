"""Attention of a few tokens and a long sequence, in four parts (Ainslie et al. 2020, "ETC", section 3).

  tokens   softmax of e^-0.5 [q k^T (g2g), q k^T (g2l)] over all tokens and all rows, together
  rows     softmax of e^-0.5 [q k^T (l2g), q k^T (l2l)] over all tokens and the rows nearby, together

The n tokens are the first rows. Which rows are nearby is defined by another mechanism (`etc`: a neighbourhood;
`bigbird_etc`: a window and random keys). If the four parts have separate projections, a query contains the features for
attending to tokens, then those for attending to rows; a key or value contains the features that tokens read, then those
that rows read.

Cost: O(L (radius + n) + n^2) time and memory. Without tokens it would be the mechanism that defines the pattern.
"""

from functools import partial
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from informer.attention.base import Attention, AttentionSpec
from informer.attention.blocks import Piece, attend, columns
from informer.attention.parameters import at_least


@runtime_checkable
class LocalPattern(Protocol):
    """A mechanism whose rows attend to a few rows in one softmax, and possibly to learned summaries."""

    n_summaries: int
    """Number of learned summaries; must be 0 here, because tokens take their place."""

    def local_pieces(self, q: Tensor, k: Tensor, v: Tensor, p: float) -> list[Piece]:
        """Pieces of the softmax of scaled queries, without summaries; `p` is the dropout probability."""
        ...

    def local_pattern(self, device: torch.device) -> Bool[Tensor, "*h l l"]:
        """Dense mask of the pairs in these pieces, for `weights`."""
        ...


@final
class GlobalLocalAttention(Attention):
    """The four parts g2g, g2l, l2g and l2l around the pattern of `local`.

    Args:
        spec: sizes and options of the layer, including tokens.
        local: a mechanism for the rows without the tokens.
        n_tokens: number of tokens, at least 1; they are the first rows of queries, keys and values.
        separate_features: whether queries, keys and values have separate features for tokens and rows, twice as
            many as in the spec.

    Raises:
        ValueError: `local` defines no pattern, or has summaries of its own.
    """

    CAUSAL = False
    CROSS = False
    COST = "O(L (radius + n_tokens) + n_tokens^2) time and memory"

    def __init__(
        self, spec: AttentionSpec, local: Attention, *, n_tokens: int, separate_features: bool = False
    ) -> None:
        super().__init__(spec)
        if not isinstance(local, LocalPattern):
            raise ValueError(f"expected attn=etc or attn=bigbird_etc with it, found {type(local).__name__}")
        if local.n_summaries:
            raise ValueError(f"expected attn.n_global=0 with it, whose place they take, found {local.n_summaries}")
        self.local = local
        self.n_tokens = at_least("n_tokens", n_tokens, 1)
        self.separate_features = separate_features

    def forward(
        self, q: Float[Tensor, "b h l e"], k: Float[Tensor, "b h l e"], v: Float[Tensor, "b h l d"]
    ) -> Float[Tensor, "b h l _"]:
        """One softmax for the tokens and one for the rows, with dropout on the weights in training."""
        n, p = self.n_tokens, self.spec.dropout if self.training else 0.0
        asks_tokens, asks_rows = self._sides(q * self.spec.d_head**-0.5)
        (for_tokens, k_for_rows), (v_for_tokens, v_for_rows) = self._sides(k), self._sides(v)
        tokens: list[Piece] = [
            partial(columns, asks_tokens[:, :, :n], for_tokens[:, :, :n], v_for_tokens[:, :, :n], p),
            partial(columns, asks_rows[:, :, :n], for_tokens[:, :, n:], v_for_tokens[:, :, n:], p),
        ]
        rows: list[Piece] = [
            partial(columns, asks_tokens[:, :, n:], k_for_rows[:, :, :n], v_for_rows[:, :, :n], p),
            *self.local.local_pieces(asks_rows[:, :, n:], k_for_rows[:, :, n:], v_for_rows[:, :, n:], p),
        ]
        return torch.cat([attend(tokens, v.dtype), attend(rows, v.dtype)], dim=2)

    def weights(self, q: Float[Tensor, "b h l e"], k: Float[Tensor, "b h l e"]) -> Float[Tensor, "b h l l"]:
        """The dense matrix; with separate projections its columns weigh the values for the row's side."""
        n = self.n_tokens
        (asks_tokens, asks_rows), (for_tokens, for_rows) = self._sides(q), self._sides(k)
        tokens = [
            _products(asks_tokens[:, :, :n], for_tokens[:, :, :n]),
            _products(asks_rows[:, :, :n], for_tokens[:, :, n:]),
        ]
        rows = [
            _products(asks_tokens[:, :, n:], for_rows[:, :, :n]),
            _products(asks_rows[:, :, n:], for_rows[:, :, n:]),
        ]
        scores = torch.cat([torch.cat(tokens, dim=-1), torch.cat(rows, dim=-1)], dim=2) * self.spec.d_head**-0.5
        pattern = self.local.local_pattern(q.device)
        allowed = torch.ones(*pattern.shape[:-2], *scores.shape[-2:], dtype=torch.bool, device=q.device)
        allowed[..., n:, n:] = pattern
        return scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)

    def _sides(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features for tokens, and features for rows."""
        if not self.separate_features:
            return x, x
        tokens, rows = x.chunk(2, dim=-1)
        return tokens, rows


def _products(q: Tensor, k: Tensor) -> Tensor:
    return torch.einsum("bhle,bhse->bhls", q, k)
