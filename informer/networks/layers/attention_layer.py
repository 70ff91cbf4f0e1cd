"""Projections around an attention mechanism; the only place where heads are split and merged."""

from typing import final

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from informer.networks.attention.base import Attention, KeyMask, Keys, Memory, OutRows, Rows
from informer.networks.ops import fast
from informer.networks.ops.chunks import rows_per_chunk
from informer.networks.ops.products import Linear


@final
class AttentionLayer(nn.Module):
    """Query, key, value and output projections around `attention`.

    Args:
        d_model: width of inputs and output.
        attention: mechanism; its spec gives the number and width of heads.
        mix: merge the heads in transposed order, which interleaves time and heads, as in the authors' decoder.
        project_values: if False, rows of the memory are used as values and their weighted sum is the output; the total
            width of all heads must then be d_model.
        gate: multiply what the heads return by sigmoid(W x + b) of the row x that asks, element by element, before the
            output projection (Qiu et al. 2025, "Gated Attention for Large Language Models").
    """

    def __init__(
        self,
        d_model: int,
        attention: Attention,
        *,
        mix: bool = False,
        project_values: bool = True,
        gate: bool = False,
    ) -> None:
        super().__init__()
        self.n_heads = attention.spec.n_heads
        inner = self.n_heads * attention.spec.d_head
        self.query = Linear(d_model, inner)
        self.key = Linear(d_model, inner)
        self.value = Linear(d_model, inner) if project_values else nn.Identity()
        self.out = Linear(inner, d_model) if project_values else nn.Identity()
        self.gate = Linear(d_model, inner) if gate else None
        self.attention = attention
        self.mix = mix
        for name in attention.unread:  # otherwise distributed training would wait for gradients that never arrive
            self.get_submodule(name).requires_grad_(False)

    def split(self, x: Float[Tensor, "b l he"]) -> Float[Tensor, "b h l e"]:
        """Split a projection into heads."""
        return rearrange(x, "b l (h e) -> b h l e", h=self.n_heads)

    def merge(self, heads: Float[Tensor, "b h l e"]) -> Float[Tensor, "b l he"]:
        """Concatenate heads; with `mix`, read the block [h l e] of an item row by row instead."""
        if self.mix:
            return rearrange(heads, "b h l e -> b (h l e)").unflatten(1, (heads.shape[2], -1))
        return rearrange(heads, "b h l e -> b l (h e)")

    def forward(self, x: Rows, memory: Memory, n_last: int | None = None, mask: KeyMask | None = None) -> OutRows:
        """Attend from rows of x to the rows of memory in `mask` (None: all), and project the last `n_last` rows (None:
        all) to the output.

        Raises:
            ValueError: a mask, and the mechanism takes none.
        """
        return self.attend(x, *self.memory_heads(memory), n_last, mask)

    def memory_heads(self, memory: Memory) -> tuple[Keys, Keys]:
        """Keys and values of a memory, for calls of `attend` that share it."""
        return self.split(self.key(memory)), self.split(self.value(memory))

    def attend(
        self, x: Rows, keys: Keys, values: Keys, n_last: int | None = None, mask: KeyMask | None = None
    ) -> OutRows:
        """Like `forward`, with the keys and values of `memory_heads`."""
        if mask is not None and not self.attention.KEY_MASK:
            raise ValueError(f"{type(self.attention).__name__} takes no mask of keys: choose full attention")
        masks = () if mask is None else (mask,)
        if n_last is not None and self.attention.LAST_ROWS and not self.mix:  # which merges heads over all rows
            x = x[:, -n_last:]
        merged = self.merge(self.attention(self.split(self.query(x)), keys, values, *masks))
        if n_last is not None:
            x, merged = x[:, -n_last:], merged[:, -n_last:]
        return self.out(merged if self.gate is None else merged * self.gate(x).sigmoid())

    @torch.no_grad()
    def received(self, x: Rows, memory: Memory) -> Float[Tensor, "b s"]:
        """Attention that each row of memory receives, summed over heads and queries: column sums in eval mode."""
        q, k = self.split(self.query(x)), self.split(self.key(memory))
        if torch.compiler.is_compiling():  # splits would fix the number of windows in the graph
            return self.attention.weights(q, k).sum(dim=(1, 2))
        step = rows_per_chunk(self.n_heads * q.shape[2] * k.shape[2], len(q), fast.whole())
        pairs = zip(q.split(step), k.split(step), strict=True)
        return torch.cat([self.attention.weights(*pair).sum(dim=(1, 2)) for pair in pairs])
