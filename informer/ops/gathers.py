"""Attention over gathered groups of rows and keys, recomputed in the backward pass.

Groups share rows and keys. Autograd would create a gradient as long as the sequence for every batch of groups and sum
these; here they are added in place into one array, and a batch is small enough to stay in cache.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from informer.ops.recompute import as_before, remember

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
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
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
    @once_differentiable
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
