"""Efficient attention (Shen et al. 2018, "Efficient Attention: Attention with Linear Complexities", eq. 3).

  A = softmax_e(q) softmax_s(k)^T        queries over their features, keys over positions

It is also the double attention of A2-Nets (Chen et al. 2018): gather by softmax_s(k), distribute by softmax_e(q).
Causal, the softmax over positions ends at the row:

  A_ij = sum_c softmax(q_i)_c exp(k_jc) / sum_{j' <= i} exp(k_j'c)

Cost: O(l e^2) time, causal or not, and O(l) memory. No parameters make it equal to full attention.

The causal form works relative to top_ic, the largest k_jc so far. exp(k_jc - top_ic) falls apart into a factor of the
key and one of the row, exp(k_jc - unit_c) exp(unit_c - top_ic), which makes the sums products of matrices. Between
chunks the unit is top at their border; inside a chunk it is top at its first row. Where top rises so much in a chunk
that these would leave the range of exp, each half of every block of 2, 4, 8, .. positions has its own unit instead: a
border between key and row, so that both factors are at most 1 whatever the range of k.
"""

from typing import final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from informer.attention.base import Attention
from informer.attention.kernels import CHUNK, State, fold, running_sums, running_tops, scan, working

CALM = 40
"""Rise of the largest key within a chunk, in units of e, up to which one unit serves the chunk."""


@final
class EfficientAttention(Attention):
    """Values pooled by e softmaxes over positions, mixed by each query's softmax over features."""

    COST = "O(L e^2) time, O(L) memory"

    def forward(
        self, q: Float[Tensor, "b h l e"], k: Float[Tensor, "b h s e"], v: Float[Tensor, "b h s d"]
    ) -> Float[Tensor, "b h l d"]:
        """softmax_e(q) (softmax_s(k)^T v)."""
        dtype = v.dtype
        q, k, v = working(q, k, v)
        if not self.spec.causal:
            return (q.softmax(dim=-1) @ (k.softmax(dim=2).transpose(-1, -2) @ v)).to(dtype)
        b, h, _, e = k.shape
        empty = k.new_zeros(b, h, e, v.shape[-1] + 1), k.new_full((b, h, 1, e), float("-inf"))
        _, (out,) = scan(_causal_step, empty, q, k, v, width=e)
        return out.to(dtype)

    def weights(self, q: Float[Tensor, "b h l e"], k: Float[Tensor, "b h s e"]) -> Float[Tensor, "b h l s"]:
        """softmax(q) softmax(k)^T, for causal rows one after the other."""
        wide_q, wide_k = working(q, k)
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


def _causal_step(state: State, q: Tensor, k: Tensor, v: Tensor) -> tuple[State, tuple[Tensor, ...]]:
    """One segment, after keys whose sums of exp(k_jc) [v_j, 1] are given in units of the largest exp(k_jc)."""
    length = q.shape[2]
    chunk = min(CHUNK, 1 << (length - 1).bit_length())
    total, start = state
    mix, k, v = fold(q.softmax(dim=-1), chunk), fold(k, chunk, float("-inf")), fold(v, chunk)
    tops, borders = running_tops(k, start)
    sums = (k - tops[..., -1:, :]).exp().transpose(-1, -2) @ F.pad(v, (0, 1), value=1.0)
    before, total = running_sums(total, sums, borders)

    reach = (borders[:, :, :-1].unsqueeze(3) - tops).exp()
    inside = _calm_chunks if _is_calm(tops) else _any_chunks
    share, scores = inside(mix, k, tops, reach * before[..., -1].unsqueeze(3))
    rows = (share * reach) @ before[..., :-1] + scores @ v
    return (total, borders[:, :, -1:]), (rows.flatten(2, 3)[:, :, :length],)


def _is_calm(tops: Tensor) -> bool:
    """Whether one unit serves a whole chunk: top rises by less than half of what exp takes in float32.

    A graph that is being recorded cannot ask; it takes the form that always serves.
    """
    return not torch.compiler.is_compiling() and bool((tops[..., -1, :] - tops[..., 0, :]).max() < CALM)


def _calm_chunks(mix: Tensor, k: Tensor, tops: Tensor, z_before: Tensor) -> tuple[Tensor, Tensor]:
    """mix over its normalisers [.. c e] and the chunk's own block of A [.. c c], both factors in one unit a chunk."""
    unit = tops[..., :1, :]
    row, key = (unit - tops).exp(), (k - unit).exp()
    share = mix / (z_before + row * key.cumsum(dim=-2))
    return share, ((share * row) @ key.transpose(-1, -2)).tril()


def _any_chunks(mix: Tensor, k: Tensor, tops: Tensor, z_before: Tensor) -> tuple[Tensor, Tensor]:
    """The same, with a unit for each half of each block."""
    itself = (k - tops).exp()
    halves = _halves(k, tops)
    share = mix / (z_before + _inside_sums(itself, halves))
    return share, _inside_scores(share, itself, halves)


Halves = list[tuple[Tensor, Tensor]]


def _halves(k: Tensor, tops: Tensor) -> Halves:
    """For blocks of 2, 4, .. positions: factors of rows in second halves and of keys in first halves [.. n half e]."""
    found = []
    half = 1
    while half < k.shape[3]:
        k_first = k.unflatten(3, (-1, 2, half))[..., 0, :, :]
        top_first, top_second = tops.unflatten(3, (-1, 2, half)).unbind(dim=-3)
        border = top_first[..., -1:, :]
        found.append(((border - top_second).exp(), (k_first - border).exp()))
        half *= 2
    return found


def _inside_sums(itself: Tensor, halves: Halves) -> Tensor:
    """Sums over the chunk's keys up to each row [.. c e]."""
    sums = itself.unsqueeze(-2)
    for row, key in halves:
        first, second = sums.unflatten(-3, (-1, 2)).unbind(dim=-3)
        sums = torch.cat([first, second + row * key.sum(dim=-2, keepdim=True)], dim=-2)
    return sums.squeeze(-3)


def _inside_scores(share: Tensor, itself: Tensor, halves: Halves) -> Tensor:
    """The chunk's own block of A [.. c c]: the diagonal, then pairs across the halves of ever larger blocks."""
    scores = (share * itself).sum(dim=-1)[..., None, None]
    for row, key in halves:
        half = row.shape[-2]
        across = (share.unflatten(-2, (-1, 2, half))[..., 1, :, :] * row) @ key.transpose(-1, -2)
        first, second = scores.unflatten(-3, (-1, 2)).unbind(dim=-3)
        scores = torch.cat([F.pad(first, (0, half)), torch.cat([across, second], dim=-1)], dim=-2)
    return scores.squeeze(-3)
