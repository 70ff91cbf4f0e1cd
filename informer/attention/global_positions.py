"""Positions that every row sees and whose rows see every key (Longformer, Big Bird)."""

from functools import partial

import torch
from torch import Tensor

from informer.attention.blocks import Allowed, Piece, attend, columns, positions


def evenly_spaced(length: int, count: int) -> Tensor:
    """The distinct values of round(linspace(0, length - 1, count)), ascending, int64; halves round to even."""
    # steps of at least 1 round to distinct positions; no more of them than positions there are
    return torch.linspace(0, length - 1, min(count, length), dtype=torch.float64).round().long()


def global_columns(q: Tensor, k: Tensor, v: Tensor, p: float, *, where: Tensor, near: Allowed, causal: bool) -> Piece:
    """The keys at positions `where`, less the pairs that `near` says another piece holds."""
    i, j = positions(q.shape[2], q.device), where.int()

    def kept(start: int, stop: int) -> Tensor:
        rows = i[start:stop, None]
        far = ~near(rows, j)
        return far & (j <= rows) if causal else far

    return partial(columns, q, k.index_select(2, where), v.index_select(2, where), p, kept=kept)


def with_global_rows(out: Tensor, q: Tensor, k: Tensor, v: Tensor, p: float, *, where: Tensor, causal: bool) -> Tensor:
    """`out` [b h l d] with its rows at positions `where` replaced by attention to all allowed keys."""
    j = positions(k.shape[2], q.device)

    def kept(start: int, stop: int) -> Tensor:
        return j <= where[start:stop, None]

    rows = partial(columns, q.index_select(2, where), k, v, p, kept=kept if causal else None)
    return out.index_copy(2, where, attend([rows], out.dtype))
