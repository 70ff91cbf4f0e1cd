"""Learned tokens that go from layer to layer in front of the rows (Ainslie et al. 2020, "ETC": the global input).

The tokens of a stack are its first rows: attention treats them apart (`informer.attention.global_local`), every other
part of a layer as any row, and shortening passes them by.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from informer.ops.products import Linear


@final
class GlobalTokens(nn.Module):
    """`n` learned tokens, each d_model wide, from N(0, 1) as LayerNorm leaves the rows."""

    def __init__(self, n: int, d_model: int) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(n, d_model))

    def before(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b m d"]:
        """The tokens, then the rows: m = n + l."""
        return torch.cat([self.tokens.to(x.dtype).expand(x.shape[0], -1, -1), x], dim=1)

    def split(self, x: Float[Tensor, "b m d"]) -> tuple[Float[Tensor, "b n d"], Float[Tensor, "b l d"]]:
        """Tokens and rows."""
        n = len(self.tokens)
        return x[:, :n], x[:, n:]


@final
class SidedLinear(nn.Module):
    """Projections of tokens and of rows, each towards tokens and towards rows: four instead of one.

    Args:
        n_tokens: the first rows.
        d_model: width of a row.
        inner: width of one projection over all heads; of each head the features towards tokens come first.
    """

    def __init__(self, n_tokens: int, d_model: int, inner: int) -> None:
        super().__init__()
        self.n_tokens = n_tokens
        self.of_tokens = Linear(d_model, 2 * inner)
        self.of_rows = Linear(d_model, 2 * inner)

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b l e"]:
        """Features of tokens and rows, 2 * inner."""
        n = self.n_tokens
        return torch.cat([self.of_tokens(x[:, :n]), self.of_rows(x[:, n:])], dim=1)
