"""Projections around a mechanism: the only place where heads are split and merged."""

from typing import final

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from informer.attention.base import Attention
from informer.layers.linear import Linear


@final
class AttentionLayer(nn.Module):
    """Query, key, value and output projections around `attention`.

    Args:
        d_model: width of inputs and output.
        attention: the mechanism; its spec gives the number and width of heads.
        mix: merge the heads in transposed order, which interleaves time and heads, as the authors' decoder does.
    """

    def __init__(self, d_model: int, attention: Attention, *, mix: bool = False) -> None:
        super().__init__()
        self.n_heads = attention.spec.n_heads
        inner = self.n_heads * attention.spec.d_head
        self.query = Linear(d_model, inner)
        self.key = Linear(d_model, inner)
        self.value = Linear(d_model, inner)
        self.out = Linear(inner, d_model)
        self.attention = attention
        self.mix = mix
        for name in attention.unread:  # or processes that share a batch would wait for gradients that never come
            self.get_submodule(name).requires_grad_(False)

    def split(self, x: Float[Tensor, "b l he"]) -> Float[Tensor, "b h l e"]:
        """Columns of a projection to heads."""
        return rearrange(x, "b l (h e) -> b h l e", h=self.n_heads)

    def merge(self, heads: Float[Tensor, "b h l e"]) -> Float[Tensor, "b l he"]:
        """Heads side by side; with `mix`, the block [h l e] of an item is read row after row instead."""
        if self.mix:
            return rearrange(heads, "b h l e -> b (h l e)").unflatten(1, (heads.shape[2], -1))
        return rearrange(heads, "b h l e -> b l (h e)")

    def forward(
        self, x: Float[Tensor, "b l d"], memory: Float[Tensor, "b s d"], n_last: int | None = None
    ) -> Float[Tensor, "b n d"]:
        """Rows of x attend to rows of memory; only the last `n_last` output rows are computed (None: all)."""
        q, k, v = self.split(self.query(x)), self.split(self.key(memory)), self.split(self.value(memory))
        merged = self.merge(self.attention(q, k, v))
        return self.out(merged if n_last is None else merged[:, -n_last:])
