"""Quadratic attention in linear memory: rows are computed a chunk of queries at a time.

The backward pass recomputes each chunk instead of keeping it (otherwise autograd would hold every chunk and nothing
would be saved). A call that fits in one chunk is computed plainly, with nothing recomputed.
"""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from informer.attention.recompute import over_pieces

MAX_ELEMENTS = 1 << 24
"""Elements of scores alive at once: 64 MiB in float32."""
CACHED_ELEMENTS = 1 << 21
"""Elements of a chunk on the CPU, where arrays that stay in its cache between passes are up to twice as fast."""


def known(size: int) -> int:
    """`size`; in a graph that is exported for any batch, the size of its example, so that no decision binds it."""
    return size if isinstance(size, int) else size.node.hint


def rows_per_chunk(elements_per_row: int, n_rows: int, max_elements: int = MAX_ELEMENTS) -> int:
    """How many query rows fit into `max_elements`, at least one."""
    return max(1, min(n_rows, max_elements // max(1, known(elements_per_row))))


def map_rows(
    attend: Callable[..., Tensor],
    q: Tensor,
    *operands: Tensor,
    elements_per_row: int,
    max_elements: int | None = None,
) -> Tensor:
    """`attend(q[:, :, start:stop], start, *operands)` for consecutive chunks of queries, concatenated over rows.

    Args:
        attend: maps (queries [b h c e], index of the first of them, operands) to outputs [b h c d].
        q: queries [b h l e].
        operands: every other tensor that `attend` differentiates (keys, values, parameters): one that it captures
            instead gets no gradient.
        elements_per_row: size of the largest array that one query row gives rise to, over batch and heads.
        max_elements: the bound that decides the chunk length; None means one chunk up to MAX_ELEMENTS, and beyond that,
            on the CPU, chunks of CACHED_ELEMENTS.
    """
    n_rows = q.shape[2]
    if max_elements is None:
        whole = q.is_cuda or known(elements_per_row) * n_rows <= MAX_ELEMENTS
        max_elements = MAX_ELEMENTS if whole else CACHED_ELEMENTS
    step = rows_per_chunk(elements_per_row, n_rows, max_elements)
    if step >= n_rows:
        return attend(q, 0, *operands)

    def cut(q: Tensor, *operands: Tensor) -> Iterator[tuple[Any, ...]]:
        return ((q[:, :, start : start + step], *operands, start) for start in range(0, n_rows, step))

    def attend_piece(rows: Tensor, *rest: Any) -> Tensor:
        *operands, start = rest
        return attend(rows, start, *operands)

    return over_pieces(attend_piece, cut, q, *operands)
