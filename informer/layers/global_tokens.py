"""Learned global tokens in front of the rows, passed from layer to layer (Ainslie et al. 2020, "ETC").

The tokens of a stack are its first rows. Attention treats them differently (`informer.attention.global_local`), the
other parts of a layer treat them like any row, and they are not shortened.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn


@final
class GlobalTokens(nn.Module):
    """`n` learned tokens of width d_model, initialised from N(0, 1), the scale of rows after LayerNorm."""

    def __init__(self, n: int, d_model: int) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(n, d_model))

    def before(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b m d"]:
        """Put the tokens in front of the rows: m = n + l."""
        return torch.cat([self.tokens.to(x.dtype).expand(x.shape[0], -1, -1), x], dim=1)

    def split(self, x: Float[Tensor, "b m d"]) -> tuple[Float[Tensor, "b n d"], Float[Tensor, "b l d"]]:
        """Separate tokens and rows."""
        n = len(self.tokens)
        return x[:, :n], x[:, n:]
