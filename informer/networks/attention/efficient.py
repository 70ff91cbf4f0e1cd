"""Efficient attention (Shen et al. 2018, "Efficient Attention: Attention with Linear Complexities", eq. 3).

  A = softmax_e(q) softmax_s(k)^T        queries over their features, keys over positions

It equals the double attention of A2-Nets (Chen et al. 2018): gather by softmax_s(k), distribute by softmax_e(q).
In the causal form the softmax over positions ends at the row:

  A_ij = sum_c softmax(q_i)_c exp(k_jc) / sum_{j' <= i} exp(k_j'c)                           normaliser=feature
  A_ij = sum_c softmax(q_i)_c exp(k_jc) / sum_{j' <= i} sum_c softmax(q_i)_c exp(k_j'c)      normaliser=row

The first keeps a softmax for each feature; the second is linear attention (see `linear`) with f = exp for keys and the
softmax for queries, the causal form of linear-attention-transformer. Without causal masking both are eq. 3.

Cost: O(l e^2) time, causal or not, and O(l) memory; `step` is the recurrent form of causal layers. No parameters make
it equal to full attention.

The causal form of normaliser=feature exponentiates k_jc - unit_c, so that its sums are matrix products. Between chunks
unit_c is the largest k_jc so far; inside a chunk it is the largest up to the chunk's first row. If keys grow so much
within a chunk that this would leave the range of exp, chunks are short, and in them each pair of a row and a key has
the unit of its row, t_i = max(k_1, .., k_i): no exponent is above 0 for any k. Row 3 of the chunk of rows 2 and 3 reads

  keys 2 and 3    exp(k_j - t_3)
  key 1           exp(t_1 - t_3) exp(k_1 - t_1)         from the sum before the chunk, whose unit is t_1
"""

from typing import Any, final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from informer.networks.attention.base import AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.kernels import (
    CHUNK,
    FeatureMap,
    KernelAttention,
    State,
    fold,
    promote_half,
    running_sums,
    running_tops,
    scan,
)
from informer.networks.attention.linear import exp_key, softmax_over_features
from informer.networks.attention.parameters import choice
from informer.networks.attention.running_sums import running_max, running_sum

CALM, SHORT = 40, 16
"""Largest growth of the largest key within a chunk (as an exponent) for which one unit per chunk is enough; rows of a
chunk where it is not."""


@final
class EfficientAttention(KernelAttention):
    """Values pooled by e softmaxes over positions, mixed by each query's softmax over features.

    Args:
        spec: sizes and options of the layer.
        normaliser: what a causal weight is divided by: `feature`, for each feature a sum over the keys so far, or
            `row`, one sum per row.
    """

    COST = "O(L e^2) time, O(L) memory"

    def __init__(self, spec: AttentionSpec, *, normaliser: str = "feature") -> None:
        super().__init__(spec)
        self.normaliser = choice("normaliser", normaliser, ("feature", "row"))

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """softmax_e(q) (softmax_s(k)^T v)."""
        dtype = v.dtype
        if self._by_row:
            return super().forward(q, k, v)
        q, k, v = promote_half(q, k, v)
        if not self.spec.causal:
            return (q.softmax(dim=-1) @ (k.softmax(dim=2).transpose(-1, -2) @ v)).to(dtype)
        b, h, _, e = k.shape
        empty = k.new_zeros(b, h, e, v.shape[-1] + 1), k.new_full((b, h, 1, e), float("-inf"))
        _, (out,) = scan(_causal_step, empty, q, k, v, width=e)
        return out.to(dtype)

    @property
    def _by_row(self) -> bool:
        """Whether there is one normaliser per row (causal only)."""
        return self.spec.causal and self.normaliser == "row"

    def maps(self) -> tuple[FeatureMap, FeatureMap]:
        """f for queries and for keys, with one normaliser per row."""
        return softmax_over_features, exp_key

    def empty_state(self, shape: tuple[int, int], d: int, device: torch.device | str | None) -> Any:
        """See `KernelAttention`; with a normaliser per feature: sums of exp(k_jc - unit_c) v_j [b h e d] and of
        exp(k_jc - unit_c) [b h e], and the largest k_jc so far, unit_c [b h e]."""
        if self._by_row:
            return super().empty_state(shape, d, device)
        e = self.spec.d_head
        sums, units = torch.zeros(*shape, e, d, device=device), torch.full((*shape, e), float("-inf"), device=device)
        return sums, torch.zeros(*shape, e, device=device), units

    def step(
        self, state: Any, q_t: Float[Tensor, "b h e"], k_t: Float[Tensor, "b h e"], v_t: Float[Tensor, "b h d"]
    ) -> tuple[Float[Tensor, "b h d"], Any]:
        """The row of the next position, and the state after it."""
        if self._by_row:
            return super().step(state, q_t, k_t, v_t)
        q, k, v = promote_half(q_t, k_t, v_t)
        s, z, before = state
        unit = torch.maximum(before, k.detach())  # cancels, so it needs no gradient
        decay, fk = (before - unit).exp(), (k - unit).exp()
        s, z = s * decay.unsqueeze(-1) + fk.unsqueeze(-1) * v.unsqueeze(-2), z * decay + fk
        # The largest key has feature 1, so z is at least 1.
        return ((q.softmax(dim=-1) / z).unsqueeze(-2) @ s).squeeze(-2).to(v_t.dtype), (s, z, unit)


def _causal_step(state: State, q: Tensor, k: Tensor, v: Tensor) -> tuple[State, tuple[Tensor, ...]]:
    """One segment, after keys whose sums of exp(k_jc) [v_j, 1] are given in units of the largest exp(k_jc)."""
    length, (total, start) = q.shape[2], state
    mix, v1 = q.softmax(dim=-1), F.pad(v, (0, 1), value=1.0)

    def cut(chunk: int) -> tuple[Tensor, ...]:
        """The largest keys before each chunk and after the last, which cancel and take no gradient, and the chunks."""
        folded = fold(mix, chunk), fold(k, chunk, float("-inf")), fold(v1, chunk)
        ends = torch.maximum(running_max(folded[1].detach().amax(dim=3), dim=2), start)
        return torch.cat([start, ends], dim=2), *folded

    borders, mixes, keys, values = cut(min(CHUNK, length))
    units = torch.maximum(borders[:, :, :-1], keys.detach()[:, :, :, 0])
    # A graph being recorded cannot check the range, so it takes the general form.
    if torch.compiler.is_compiling():
        total, rows = _any_chunks(total, *cut(SHORT))
    elif bool((borders[:, :, 1:] - units).max() < CALM):
        total, rows = _calm_chunks(total, borders, units, mixes, keys, values)
    else:  # recomputed in the backward pass, because it has a factor for each pair and feature
        total, rows = checkpoint(_any_chunks, total, *cut(SHORT), use_reentrant=False)
    return (total, borders[:, :, -1:]), (rows.flatten(2, 3)[:, :, :length],)


def _calm_chunks(
    total: Tensor, borders: Tensor, units: Tensor, mix: Tensor, k: Tensor, v1: Tensor
) -> tuple[Tensor, Tensor]:
    """Sums after the segment, and its rows, with one unit per chunk [b h n e]; the rows' factors cancel."""
    key = (k - units.unsqueeze(3)).exp()
    to_end, from_border = ((units - borders[:, :, 1:]).exp(), (borders[:, :, :-1] - units).exp())
    before, total = running_sums(total, key.transpose(-1, -2) @ v1 * to_end.unsqueeze(4), borders)
    before = before * from_border.unsqueeze(4)
    share = mix / (before[..., -1].unsqueeze(3) + running_sum(key, dim=3))
    return total, share @ before[..., :-1] + (share @ key.transpose(-1, -2)).tril() @ v1[..., :-1]


def _any_chunks(total: Tensor, borders: Tensor, mix: Tensor, k: Tensor, v1: Tensor) -> tuple[Tensor, Tensor]:
    """Like `_calm_chunks`, with one unit per row."""
    tops, _ = running_tops(k, borders[:, :, :1])
    before, total = running_sums(total, (k - tops[..., -1:, :]).exp().transpose(-1, -2) @ v1, borders)
    from_border = (borders[:, :, :-1].unsqueeze(3) - tops).exp()
    up_to = k.new_ones(k.shape[3], k.shape[3]).tril().unsqueeze(2)
    inside = (k.unsqueeze(3) - tops.unsqueeze(4)).clamp(max=0).exp() * up_to  # [b h n row key e]
    share = mix / (from_border * before[..., -1].unsqueeze(3) + inside.sum(dim=4))
    scores = (inside @ share.unsqueeze(5)).squeeze(5)
    return total, (share * from_border) @ before[..., :-1] + scores @ v1[..., :-1]
