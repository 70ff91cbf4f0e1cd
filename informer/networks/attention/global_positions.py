"""Positions to which every row attends and which attend to every key (Longformer, Big Bird)."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from informer.networks.attention.blocks import Allowed, Piece, attend, columns, positions
from informer.networks.attention.parameters import at_least
from informer.networks.ops.fast import is_shape_only


def place_globals(length: int, n_global: int, global_positions: Sequence[int] | None) -> Tensor:
    """The global positions, ascending, int64: the given ones (negative values count from the end), or evenly spaced.

    Raises:
        ValueError: a count below 0, or a position outside of the sequence.
    """
    count = at_least("n_global", n_global, 0)
    if global_positions is None:
        return evenly_spaced(length, count)
    if isinstance(global_positions, str) or not isinstance(global_positions, Sequence):
        raise ValueError(f"global_positions: expected a list of positions, found {global_positions!r}")
    for position in global_positions:
        if not isinstance(position, int) or isinstance(position, bool) or not -length <= position < length:
            raise ValueError(
                f"global_positions: expected whole numbers from {-length} to {length - 1} in a layer of {length} rows, "
                f"found {position!r}"
            )
    return torch.tensor(sorted({position % length for position in global_positions}), dtype=torch.int64)


def evenly_spaced(length: int, count: int) -> Tensor:
    """The distinct values of round(linspace(0, length - 1, count)), ascending, int64; halves round to even."""
    if is_shape_only():
        return torch.empty(min(count, length), dtype=torch.int64)
    # steps of at least 1 round to distinct positions, and there are at most `length` of them
    return torch.linspace(0, length - 1, min(count, length), dtype=torch.float64).round().long()


def global_columns(q: Tensor, k: Tensor, v: Tensor, p: float, *, where: Tensor, near: Allowed, causal: bool) -> Piece:
    """The keys at positions `where`, without the pairs for which `near` is true (they are in another piece)."""
    i, j = positions(q.shape[2], q.device), where.int()

    def allowed(start: int, stop: int) -> Tensor:
        rows = i[start:stop, None]
        far = ~near(rows, j)
        return far & (j <= rows) if causal else far

    return partial(columns, q, k.index_select(2, where), v.index_select(2, where), p, allowed=allowed)


def with_global_rows(out: Tensor, q: Tensor, k: Tensor, v: Tensor, p: float, *, where: Tensor, causal: bool) -> Tensor:
    """`out` [b h l d] with its rows at positions `where` replaced by attention to all allowed keys."""
    j = positions(k.shape[2], q.device)

    def allowed(start: int, stop: int) -> Tensor:
        return j <= where[start:stop, None]

    rows = partial(columns, q.index_select(2, where), k, v, p, allowed=allowed if causal else None)
    return out.index_copy(2, where, attend([rows], out.dtype))
