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
within a chunk that this would leave the range of exp, each half of every block of 2, 4, 8, .. positions has its own
unit instead: the largest value up to the border between key and row, so that no exponent is above 0 for any k. With
t_i = max(k_1, .., k_i), row 4 of a chunk of four reads

  key 4          exp(k_4 - t_4)
  key 3          exp(t_3 - t_4) exp(k_3 - t_3)                   border after 3, of the block 3 4
  keys 1 and 2   exp(t_2 - t_4) exp(k_j - t_2)                   border after 2, of the block 1 2 3 4
"""

from typing import Any, final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from informer.networks.attention.base import AttentionSpec, Keys, Matrix, Outputs, Queries, Values
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
from informer.networks.attention.linear import dense_weights, exp_key, softmax_over_features
from informer.networks.attention.parameters import choice
from informer.networks.attention.running_sums import running_max, running_sum

CALM = 40
"""Largest growth of the largest key within a chunk (as an exponent) for which one unit per chunk is enough."""


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

    def weights(self, q: Queries, k: Keys) -> Matrix:
        """softmax(q) softmax(k)^T; causal: row by row, or with exp(k) divided by row sums."""
        wide_q, wide_k = promote_half(q, k)
        if self._by_row:
            return dense_weights("exp", wide_q, wide_k, causal=True).to(q.dtype)
        mix = wide_q.softmax(dim=-1)
        if not self.spec.causal:
            return (mix @ wide_k.softmax(dim=2).transpose(-1, -2)).to(q.dtype)
        n_keys = k.shape[2]
        rows = [
            F.pad(
                torch.einsum("bhe,bhse->bhs", mix[:, :, i], wide_k[:, :, : i + 1].softmax(dim=2)), (0, n_keys - i - 1)
            )
            for i in range(n_keys)
        ]
        return torch.stack(rows, dim=2).to(q.dtype)

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
    length = q.shape[2]
    chunk = min(CHUNK, 1 << (length - 1).bit_length())
    total, start = state
    mix, k, v1 = fold(q.softmax(dim=-1), chunk), fold(k, chunk, float("-inf")), fold(F.pad(v, (0, 1), value=1.0), chunk)
    # Units cancel, so they take no gradient.
    ends = torch.maximum(running_max(k.detach().amax(dim=3), dim=2), start)
    borders = torch.cat([start, ends], dim=2)
    units = torch.maximum(borders[:, :, :-1], k.detach()[:, :, :, 0])
    # A graph being recorded cannot check the range, so it takes the general form.
    if torch.compiler.is_compiling():
        total, rows = _any_chunks(total, borders, mix, k, v1)
    elif bool((ends - units).max() < CALM):
        total, rows = _calm_chunks(total, borders, units, mix, k, v1)
    else:  # recomputed in the backward pass, because it has many factors
        total, rows = checkpoint(_any_chunks, total, borders, mix, k, v1, use_reentrant=False)
    return (total, ends[:, :, -1:]), (rows.flatten(2, 3)[:, :, :length],)


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
    """Like `_calm_chunks`, with one unit per half of each block."""
    tops, _ = running_tops(k, borders[:, :, :1])
    before, total = running_sums(total, (k - tops[..., -1:, :]).exp().transpose(-1, -2) @ v1, borders)
    from_border, itself, halves = (borders[:, :, :-1].unsqueeze(3) - tops).exp(), (k - tops).exp(), _halves(k, tops)
    share = mix / (from_border * before[..., -1].unsqueeze(3) + _inside_sums(itself, halves))
    return total, (share * from_border) @ before[..., :-1] + _inside_scores(share, itself, halves) @ v1[..., :-1]


Halves = list[tuple[Tensor, Tensor]]


def _halves(k: Tensor, tops: Tensor) -> Halves:
    """For blocks of 2, 4, .. positions: factors of rows in second halves and of keys in first halves [.. n half e]."""
    halves = []
    half = 1
    while half < k.shape[3]:
        k_first = k.unflatten(3, (-1, 2, half))[..., 0, :, :]
        top_first, top_second = tops.unflatten(3, (-1, 2, half)).unbind(dim=-3)
        border = top_first[..., -1:, :]
        halves.append(((border - top_second).exp(), (k_first - border).exp()))
        half *= 2
    return halves


def _inside_sums(itself: Tensor, halves: Halves) -> Tensor:
    """Sums over the chunk's keys up to each row [.. c e]."""
    sums = itself.unsqueeze(-2)
    for row, key in halves:
        first, second = sums.unflatten(-3, (-1, 2)).unbind(dim=-3)
        sums = torch.cat([first, second + row * key.sum(dim=-2, keepdim=True)], dim=-2)
    return sums.squeeze(-3)


def _inside_scores(share: Tensor, itself: Tensor, halves: Halves) -> Tensor:
    """The chunk's own block of A [.. c c]: the diagonal, then pairs across the halves of larger and larger blocks."""
    scores = (share * itself).sum(dim=-1)[..., None, None]
    for row, key in halves:
        half = row.shape[-2]
        across = (share.unflatten(-2, (-1, 2, half))[..., 1, :, :] * row) @ key.transpose(-1, -2)
        first, second = scores.unflatten(-3, (-1, 2)).unbind(dim=-3)
        scores = torch.cat([F.pad(first, (0, half)), torch.cat([across, second], dim=-1)], dim=-2)
    return scores.squeeze(-3)
