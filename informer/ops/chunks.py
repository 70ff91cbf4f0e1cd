"""Attention in linear memory, computed piece by piece: over chunks of sequences and rows, or over slices of rows and
the keys they can see.

The backward pass recomputes each chunk; otherwise autograd would store every chunk and nothing would be saved. A call
that fits in one chunk is computed directly, without recomputation.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from informer.ops.recompute import over_pieces

MAX_ELEMENTS = 1 << 24
"""Most elements of scores in memory at once: 64 MiB in float32."""
CACHED_ELEMENTS = 1 << 21
"""Elements of a chunk on the CPU, where arrays that stay in cache between passes are up to twice as fast."""
CAUSAL_CHUNKS = 8
"""Least number of chunks of a causal layer: each forms scores up to its last row, in total 9/16 of all scores."""


def int_hint(size: int) -> int:
    """`size` as int; in a graph exported for any batch size its example value, so that decisions do not fix it."""
    return size if isinstance(size, int) else size.node.hint


def rows_per_chunk(elements_per_row: int, n_rows: int, max_elements: int = MAX_ELEMENTS) -> int:
    """Number of query rows that fit into `max_elements`, at least one."""
    return max(1, min(n_rows, max_elements // max(1, int_hint(elements_per_row))))


def chunk_sizes(
    n_batch: int, n_rows: int, elements_per_row: int, max_elements: int, *, causal: bool
) -> tuple[int, int]:
    """Sequences and rows per chunk: all if they fit, otherwise as many rows as fit, then as many sequences.

    Chunks of rows must add up the gradients of their sequence's keys and values; chunks of sequences need not.

    Args:
        n_batch: number of sequences.
        n_rows: rows per sequence.
        elements_per_row: elements per row of one sequence.
        max_elements: largest number of elements of a chunk.
        causal: whether rows only use keys up to their own position.
    """
    if elements_per_row * n_rows * n_batch <= max_elements:
        return n_batch, n_rows
    step = rows_per_chunk(elements_per_row, -(-n_rows // CAUSAL_CHUNKS) if causal else n_rows, max_elements)
    return rows_per_chunk(elements_per_row * step, n_batch, max_elements), step


def map_rows(
    attend: Callable[..., Tensor],
    q: Tensor,
    *operands: Tensor,
    elements_per_row: int,
    max_elements: int | None = None,
    causal: bool = False,
) -> Tensor:
    """`attend(q[lo:hi, :, start:stop], start, *operands[lo:hi])` over chunks of sequences and rows, concatenated.

    Args:
        attend: maps (queries [g h c e], index of the first row, operands of the same sequences) to outputs [g h c d].
        q: queries [b h l e].
        operands: all other tensors that `attend` differentiates (keys, values, parameters); captured tensors get no
            gradient. Their first dimension is that of q, or q's is 1 and they are passed whole.
        elements_per_row: size of the largest array per query row, over batch and heads.
        max_elements: largest size of a chunk. None: one chunk up to MAX_ELEMENTS; beyond that, chunks of
            CACHED_ELEMENTS on the CPU.
        causal: whether `attend` uses only keys up to the last of its rows.
    """
    n_rows, elements_per_row = q.shape[2], int_hint(elements_per_row)
    if max_elements is None:
        in_one_chunk = q.is_cuda or elements_per_row * n_rows <= MAX_ELEMENTS
        max_elements = MAX_ELEMENTS if in_one_chunk else CACHED_ELEMENTS
    # a graph is split by rows only, so that it works for any batch size
    in_graph = torch.compiler.is_compiling() or not isinstance(q.shape[0], int)
    n_batch = 1 if in_graph else q.shape[0]
    group, step = chunk_sizes(n_batch, n_rows, elements_per_row // max(1, n_batch), max_elements, causal=causal)
    if group >= n_batch and step >= n_rows:
        return attend(q, 0, *operands)

    def cut(*operands: Tensor) -> Iterator[tuple[Any, ...]]:
        for first in range(0, n_batch, group):
            rows, *remaining = (x[first : first + group] if group < n_batch else x for x in operands)
            for start in range(0, n_rows, step):
                yield rows[:, :, start : start + step], *remaining, start

    def attend_piece(rows: Tensor, *remaining: Any) -> Tensor:
        *operands, start = remaining
        return attend(rows, start, *operands)

    return over_pieces(attend_piece, cut, q, *operands)


AttendSlice = Callable[[Tensor, Tensor, Tensor, int, int], Tensor]
"""(rows, keys, values, index of the first row, index of the first key) -> outputs [b h rows c]."""

Reach = Callable[[int, int], tuple[int, int]]
"""Rows start..stop -> the slice lo..hi of the keys that they can see."""


def map_slices(attend: AttendSlice, q: Tensor, k: Tensor, v: Tensor, *, step: int, reach: Reach) -> Tensor:
    """`attend` over slices of `step` rows and the keys they can see, concatenated over rows.

    Neighbouring slices share keys, whose gradients are added in place into one array.
    `attend` is differentiated only in its tensor arguments; captured tensors get no gradient.
    """
    if step >= q.shape[2] and reach(0, q.shape[2]) == (0, k.shape[2]):
        return attend(q, k, v, 0, 0)
    return over_pieces(attend, lambda q, k, v: _slices(q, k, v, step, reach), q, k, v)


def _slices(q: Tensor, k: Tensor, v: Tensor, step: int, reach: Reach) -> Iterator[tuple[Any, ...]]:
    for start in range(0, q.shape[2], step):
        stop = min(start + step, q.shape[2])
        lo, hi = reach(start, stop)
        yield q[:, :, start:stop], k[:, :, lo:hi], v[:, :, lo:hi], start, lo
