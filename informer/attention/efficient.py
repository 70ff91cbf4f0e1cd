"""Efficient attention (Shen et al. 2018, "Efficient Attention: Attention with Linear Complexities", eq. 3).

  A = softmax_e(q) softmax_s(k)^T        queries over their features, keys over positions

It is also the double attention of A2-Nets (Chen et al. 2018): gather by softmax_s(k), distribute by softmax_e(q).
Causal, the softmax over positions ends at the row:

  A_ij = sum_c softmax(q_i)_c exp(k_jc) / sum_{j' <= i} exp(k_j'c)

Cost: O(l e^2) time, causal or not, and O(l) memory. No parameters make it equal to full attention.

The causal form exponentiates k_jc - unit_c, which makes its sums products of matrices. Between chunks unit_c is the
largest k_jc so far; inside a chunk it is the largest up to the chunk's first row. Where keys rise so much in a chunk
that this would leave the range of exp, each half of every block of 2, 4, 8, .. positions has its own unit instead, the
largest up to the border between key and row, so that no exponent is above 0 whatever the range of k.
"""

from typing import final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from informer.attention.base import Attention
from informer.attention.kernels import CHUNK, State, fold, running_sums, running_tops, scan, working
from informer.attention.masks import running_sum

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
    mix, k, v1 = fold(q.softmax(dim=-1), chunk), fold(k, chunk, float("-inf")), fold(F.pad(v, (0, 1), value=1.0), chunk)
    # Units cancel, so they take no gradient.
    ends = torch.maximum(k.detach().amax(dim=3).cummax(dim=2).values, start)
    borders = torch.cat([start, ends], dim=2)
    units = torch.maximum(borders[:, :, :-1], k.detach()[:, :, :, 0])
    # A graph that is being recorded cannot ask for the range, and takes the form that always serves.
    if torch.compiler.is_compiling():
        total, rows = _any_chunks(total, borders, mix, k, v1)
    elif bool((ends - units).max() < CALM):
        total, rows = _calm_chunks(total, borders, units, mix, k, v1)
    else:  # its many factors are not kept
        total, rows = checkpoint(_any_chunks, total, borders, mix, k, v1, use_reentrant=False)
    return (total, ends[:, :, -1:]), (rows.flatten(2, 3)[:, :, :length],)


def _calm_chunks(
    total: Tensor, borders: Tensor, units: Tensor, mix: Tensor, k: Tensor, v1: Tensor
) -> tuple[Tensor, Tensor]:
    """Sums after the segment and its rows, with one unit a chunk [b h n e]; the rows' factors cancel."""
    key = (k - units.unsqueeze(3)).exp()
    to_end, from_border = ((units - borders[:, :, 1:]).exp(), (borders[:, :, :-1] - units).exp())
    before, total = running_sums(total, key.transpose(-1, -2) @ v1 * to_end.unsqueeze(4), borders)
    before = before * from_border.unsqueeze(4)
    share = mix / (before[..., -1].unsqueeze(3) + running_sum(key, dim=3))
    return total, share @ before[..., :-1] + (share @ key.transpose(-1, -2)).tril() @ v1[..., :-1]


def _any_chunks(total: Tensor, borders: Tensor, mix: Tensor, k: Tensor, v1: Tensor) -> tuple[Tensor, Tensor]:
    """The same with a unit for each half of each block."""
    tops, _ = running_tops(k, borders[:, :, :1])
    before, total = running_sums(total, (k - tops[..., -1:, :]).exp().transpose(-1, -2) @ v1, borders)
    from_border, itself, halves = (borders[:, :, :-1].unsqueeze(3) - tops).exp(), (k - tops).exp(), _halves(k, tops)
    share = mix / (from_border * before[..., -1].unsqueeze(3) + _inside_sums(itself, halves))
    return total, (share * from_border) @ before[..., :-1] + _inside_scores(share, itself, halves) @ v1[..., :-1]


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
