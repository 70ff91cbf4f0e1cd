"""Softmax over a sparse pattern of keys without an [l, s] array, for the windowed and sparse mechanisms.

A pattern is split into disjoint pieces (a band around the row, a few columns, gathered keys), so that no pair counts
twice. A single piece is a plain softmax. If there are several, each returns partial sums [.. d+2] of its rows,

  sum_j x_j v_j  |  sum_j x_j  |  m        x_j = exp(score_j - m),  m the largest score of the row in this piece

and `attend` joins them into one softmax. For a row without keys in a piece, m is the lowest finite number, so the
piece has no weight; every row needs a key in some piece. The sums are at least float32 for any input type.

A band is cut into tiles in which `block` rows share one range of keys, which gives small dense products. Rows and keys
carry their positions, and a mechanism defines its mask as a predicate of positions. Of |i - j| <= 1 in blocks of two:

  rows 0 1   keys -1 0 1 2     of each product [2 4] the predicate keeps |i - j| <= 1,
  rows 2 3   keys  1 2 3 4     and the tile that j is a position of the sequence
"""

from collections.abc import Callable, Sequence
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor

from informer.networks.ops import fast
from informer.networks.ops.chunks import map_rows, map_slices, rows_per_chunk
from informer.networks.ops.dropout import dropout_product
from informer.networks.ops.fast import int_hint

Allowed = Callable[[Tensor, Tensor], Tensor]
"""(row positions i, key positions j), int32 and broadcastable -> boolean: whether row i may use key j in this piece."""

Softmax = Callable[[Tensor, Tensor, Tensor, Tensor | None, float], Tensor]
"""(scaled queries [.. m e], keys [.. w e], values [.. w d], allowed [.. m w] or None, dropout) -> [.. m d or d+2]."""

Piece = Callable[[Softmax], Tensor]
"""A part of a pattern, to be computed with the given softmax."""

MIN_BLOCK = 32
"""Least number of rows of a tile in narrow bands; smaller products are inefficient."""

MIN_ROWS = 64
"""Least number of rows of a tile in wide bands, if there are as many; with fewer, passes over keys and gradients would
dominate."""


def attend(pieces: Sequence[Piece], dtype: torch.dtype) -> Tensor:
    """One softmax over all pieces of the same rows: outputs [b h l d]."""
    if len(pieces) == 1:
        return pieces[0](_softmax).to(dtype)
    outputs = [piece(_partial) for piece in pieces]
    tops = [output[..., -1:].detach() for output in outputs]
    top = torch.stack(tops).amax(dim=0)
    total = reduce(torch.add, (output * (own - top).exp() for output, own in zip(outputs, tops, strict=True)))
    return (total[..., :-2] / total[..., -2:-1]).to(dtype)


def _scores(q: Tensor, k: Tensor, allowed: Tensor | None) -> Tensor:
    scores = q @ k.transpose(-1, -2)
    if allowed is None:
        return scores
    # The lowest finite number instead of -inf, so that a padded row without keys has no NaN in the backward pass.
    return scores.masked_fill_(~allowed, torch.finfo(scores.dtype).min)


def _softmax(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, p: float) -> Tensor:
    return dropout_product(_scores(q, k, allowed).softmax(dim=-1), v, p)


def _partial(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, p: float) -> Tensor:
    scores = _scores(q, k, allowed)
    # The shift cancels in `attend`, so no gradient flows through it.
    top = scores.detach().amax(dim=-1, keepdim=True)
    exps = (scores - top).exp_()
    dtype = torch.promote_types(exps.dtype, torch.float32)
    numerator = dropout_product(exps, v, p)
    return torch.cat([numerator.to(dtype), exps.sum(dim=-1, keepdim=True, dtype=dtype), top.to(dtype)], dim=-1)


def band(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    p: float,
    softmax: Softmax,
    *,
    left: int,
    right: int,
    dilation: int = 1,
    allowed: Allowed | None = None,
) -> Tensor:
    """Keys i + dilation * t, -left <= t <= right, as far as `allowed` permits (None: all).

    Args:
        q, k, v: scaled queries, keys and values [b h l .] of self-attention.
        p: dropout probability.
        softmax: passed in by `attend`.
        left, right: reach before and after the row, in units of dilation.
        dilation: distance between neighbouring keys.
        allowed: mask of the pairs in the band.
    """
    dilation = min(dilation, q.shape[2])
    class_len = -(-q.shape[2] // dilation)
    left, right = min(left, class_len - 1), min(right, class_len - 1)

    def near(i: Tensor, j: Tensor) -> Tensor:
        keep = (j - i >= -left * dilation) & (j - i <= right * dilation)
        return keep if allowed is None else keep & allowed(i, j)

    reach = left + right
    in_cache = fast.cached(q) // (int_hint(q[:, :, 0, 0].numel()) * dilation * max(1, reach))
    block = max(MIN_BLOCK, min(reach, max(MIN_ROWS, in_cache)))
    if block + reach >= class_len:
        return strided_groups(q, k, v, p, softmax, dilation=dilation, allowed=near)
    return tiles(q, k, v, p, softmax, block=block, left=left, right=right, dilation=dilation, allowed=near)


def tiles(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    p: float,
    softmax: Softmax,
    *,
    allowed: Allowed,
    block: int,
    left: int = 0,
    right: int = 0,
    dilation: int = 1,
) -> Tensor:
    """Tiles of `block` rows with distance `dilation`, and the keys from `left` before the first to `right` after the
    last row."""
    n_keys, width, span = k.shape[2], left + block + right, block * dilation

    def run(q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
        rows, first = q.shape[2], reach(start, start).start
        end = start + -(-rows // span) * span
        begin, finish = start - left * dilation, end + right * dilation  # of the keys
        place = torch.arange(begin, finish, dtype=torch.int32, device=q.device)[None, None, :, None]
        i = _runs(place[:, :, start - begin : end - begin], block, block, dilation)[0, 0]
        j = _runs(place, width, block, dilation)[0, 0].transpose(-1, -2)
        keep = allowed(i, j) & (j >= 0) & (j < n_keys)
        padding = (0, 0, first - begin, finish - first - k.shape[2])
        k, v = (_runs(F.pad(x, padding), width, block, dilation) for x in (k, v))
        out = softmax(_runs(F.pad(q, (0, 0, 0, end - start - rows)), block, block, dilation), k, v, keep, p)
        return out.unflatten(2, (dilation, -1)).permute(0, 1, 3, 4, 2, 5).flatten(2, 4)[:, :, :rows]

    def reach(start: int, stop: int) -> slice:
        return slice(max(0, start - left * dilation), min(n_keys, stop + right * dilation))

    per_span = q[:, :, 0, 0].numel() * span * width
    step = span * rows_per_chunk(per_span, -(-q.shape[2] // span), fast.cached(q))
    return map_slices(run, q, k, v, step=step, reach=reach)


def _runs(x: Tensor, width: int, block: int, dilation: int) -> Tensor:
    """[b h t*dilation c] -> windows [b h dilation*n width c] of each residue class, one every `block` rows."""
    classes = x.unflatten(2, (-1, dilation)).transpose(2, 3)
    return classes.unfold(3, width, block).transpose(-1, -2).flatten(2, 3)


def strided_groups(
    q: Tensor, k: Tensor, v: Tensor, p: float, softmax: Softmax, *, allowed: Allowed, dilation: int = 1
) -> Tensor:
    """All keys that are a multiple of `dilation` away."""
    length = k.shape[2]
    q, k, v = (F.pad(x, (0, 0, 0, -length % dilation)).unflatten(2, (-1, dilation)) for x in (q, k, v))
    place = positions(k.shape[2] * dilation, k.device).view(-1, dilation).t()  # [dilation t]

    def run(q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
        i, j = place[:, start : start + q.shape[2], None], place[:, None]
        q, k, v = (x.transpose(2, 3) for x in (q, k, v))
        return softmax(q, k, v, allowed(i, j) & (j < length), p).transpose(2, 3)

    return map_rows(run, q, k, v, width=k.shape[2] * dilation).flatten(2, 3)[:, :, :length]


def columns(
    q: Tensor, k: Tensor, v: Tensor, p: float, softmax: Softmax, *, allowed: Callable[[int, int], Tensor] | None = None
) -> Tensor:
    """Every row with a few keys [b h g e], all of them or those allowed by allowed(start, stop) [rows g]."""

    def run(q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
        return softmax(q, k, v, None if allowed is None else allowed(start, start + q.shape[2]), p)

    return map_rows(run, q, k, v, width=k.shape[2])


def gathered(q: Tensor, k: Tensor, v: Tensor, p: float, softmax: Softmax, *, index: Tensor) -> Tensor:
    """The keys at index [h l r] of each row; a negative index means no key."""
    heads = torch.arange(q.shape[1], device=q.device)[:, None, None]

    def run(q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
        selected = index[:, start : start + q.shape[2]]
        k, v = (x[:, heads, selected.clamp(min=0)] for x in (k, v))
        return softmax(q.unsqueeze(3), k, v, selected[:, :, None] >= 0, p).squeeze(3)

    # Grows with the size of k, because the gradient of each slice is an array as large as k.
    most = max(fast.whole(), 2 * int_hint(k.numel()))
    return map_slices(run, q, k, v, step=rows_per_chunk(q[:, :, 0].numel() * index.shape[-1], q.shape[2], most))


def positions(length: int, device: torch.device) -> Tensor:
    """0, 1, .., length - 1 as row or key positions."""
    return torch.arange(length, dtype=torch.int32, device=device)
