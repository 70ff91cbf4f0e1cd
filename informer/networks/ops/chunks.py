"""How attention is cut into pieces, so that it takes memory linear in the length.

  map_rows     chunks of sequences and query rows, each with all keys or, causal, with those up to its last row
  map_slices   slices of rows and the keys that they can see
  map_gathers  batches of groups of gathered rows and keys

The backward pass computes each piece again (`recompute`), and adds its gradients in place into one array, since pieces
share keys. What fits into one piece is computed directly.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from informer.networks.ops import fast
from informer.networks.ops.fast import int_hint
from informer.networks.ops.recompute import as_before, over_pieces, remember

CAUSAL_CHUNKS = 8
"""Least number of chunks of a causal layer: each forms scores up to its last row, in total 9/16 of all scores."""


def rows_per_chunk(elements_per_row: int, n_rows: int, max_elements: int) -> int:
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


Reach = Callable[[int, int], slice]
"""Rows start..stop -> the keys that they can see."""


def _everything(start: int, stop: int) -> slice:
    return slice(None)


def map_rows(
    attend: Callable[..., Tensor],
    q: Tensor,
    *operands: Tensor,
    width: int,
    max_elements: int | None = None,
    causal: bool = False,
) -> Tensor:
    """`attend` over chunks of sequences and rows, `attend(q[lo:hi, :, start:stop], *operands[lo:hi], start)`, in place.

    Args:
        attend: maps (queries [g h c e], operands of the same sequences, index of the first row) to outputs [g h c d].
        q: queries [b h l e].
        operands: all other tensors that `attend` differentiates (keys, values, parameters); captured tensors get no
            gradient. Their first dimension is that of q, or q's is 1 and they are passed whole.
        width: elements of the largest array per query row and head.
        max_elements: largest size of a chunk, over batch and heads. None: one chunk up to `fast.whole()`, beyond that
            chunks of `fast.cached`.
        causal: whether rows only use operands up to their own position; `attend` then gets `operands[lo:hi, :, :stop]`,
            half of the work. Fewer rows than keys are the last ones, which start counts too.
    """
    n_rows, elements_per_row = q.shape[2], int_hint(q.shape[0] * q.shape[1] * width)
    if max_elements is None:
        max_elements = fast.whole() if elements_per_row * n_rows <= fast.whole() else fast.cached(q)
    # a graph is split by rows only, so that it works for any batch size
    n_batch = 1 if torch.compiler.is_compiling() else q.shape[0]
    group, step = chunk_sizes(n_batch, n_rows, elements_per_row // max(1, n_batch), max_elements, causal=causal)
    before = operands[0].shape[2] - n_rows if causal else 0

    def up_to(start: int, stop: int) -> slice:
        return slice(before + stop)

    def placed(*piece: Any) -> Tensor:
        return attend(*piece[:-1], before + piece[-1])

    cut: dict[str, Any] = {"step": step, "reach": up_to if causal else _everything}
    return map_slices(placed if before else attend, q, *operands, **cut, group=group if group < n_batch else None)


def map_slices(
    attend: Callable[..., Tensor],
    q: Tensor,
    *operands: Tensor,
    step: int,
    reach: Reach = _everything,
    group: int | None = None,
) -> Tensor:
    """`attend` over slices of `step` rows of `group` sequences (None: all) and the keys they can see, in place.

    Neighbouring slices share keys, whose gradients are added in place into one array. `attend` is as in `map_rows`.
    """
    if step >= q.shape[2] and group is None:
        return attend(q, *operands, 0)

    def cut(*operands: Tensor) -> Iterator[tuple[Any, ...]]:
        groups = [operands] if group is None else zip(*(x.split(group) for x in operands), strict=True)
        for each in groups:
            yield from _slices(*each, step=step, reach=reach)

    return over_pieces(attend, cut, q, *operands)


def _slices(q: Tensor, *operands: Tensor, step: int, reach: Reach) -> Iterator[tuple[Any, ...]]:
    for start in range(0, q.shape[2], step):
        rows = q[:, :, start : start + step]
        keys = reach(start, start + rows.shape[2])
        yield rows, *(x[:, :, keys] for x in operands), start


Attend = Callable[..., Tensor]
"""(rows [t r e], keys [t w e], values [t w d], then a slice of every index array) -> outputs [t r c]."""


def map_gathers(attend: Attend, q: Tensor, k: Tensor, v: Tensor, index: tuple[Tensor, ...], *, step: int) -> Tensor:
    """`attend` over batches of `step` groups, concatenated over groups.

    Args:
        attend: differentiates only its first three arguments.
        q, k, v: [n e], [n e], [n d].
        index: indices of a group's rows in q [t r] and of its keys in k and v [t w], then any further arrays [t *].
        step: groups per batch.
    """
    if not isinstance(index[0].shape[0], int):  # export for any batch size: a loop would fix the number of batches
        return attend(*_gather(q, k, v, index), *index)
    if torch.is_grad_enabled() and fast.are_on():
        return _Recomputed.apply(attend, step, index, q, k, v)
    return torch.cat([attend(*_gather(q, k, v, run), *run) for run in _runs(index, step)])


def _runs(index: tuple[Tensor, ...], step: int) -> Iterator[tuple[Tensor, ...]]:
    return zip(*(x.split(step) for x in index), strict=True)


def _gather(q: Tensor, k: Tensor, v: Tensor, run: tuple[Tensor, ...]) -> list[Tensor]:
    # index_select, because the gradient of q[index] is added one element at a time
    return [x.index_select(0, at.flatten()).unflatten(0, at.shape) for x, at in _located(q, k, v, run)]


def _located(q: Tensor, k: Tensor, v: Tensor, run: tuple[Tensor, ...]) -> list[tuple[Tensor, Tensor]]:
    return [(q, run[0]), (k, run[1]), (v, run[1])]


class _Recomputed(torch.autograd.Function):
    """`map_gathers` that stores only its inputs."""

    @staticmethod
    def forward(
        ctx: Any, attend: Attend, step: int, index: tuple[Tensor, ...], q: Tensor, k: Tensor, v: Tensor
    ) -> Tensor:
        ctx.attend, ctx.step, ctx.index = attend, step, index
        remember(ctx, q.device)
        ctx.save_for_backward(q, k, v)
        return torch.cat([attend(*_gather(q, k, v, run), *run) for run in _runs(index, step)])

    @staticmethod
    @fast.first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v = ctx.saved_tensors
        into_q, into_k, into_v = (torch.zeros_like(x) for x in (q, k, v))
        with as_before(ctx, grad.device):
            for run, grad_chunk in zip(_runs(ctx.index, ctx.step), grad.split(ctx.step), strict=True):
                leaves = [x.detach().requires_grad_() for x in _gather(q, k, v, run)]
                grads = torch.autograd.grad(ctx.attend(*leaves, *run), leaves, grad_chunk)
                for (total, at), part_grad in zip(_located(into_q, into_k, into_v, run), grads, strict=True):
                    total.index_add_(0, at.flatten(), part_grad.flatten(0, 1))
        return None, None, None, into_q, into_k, into_v
