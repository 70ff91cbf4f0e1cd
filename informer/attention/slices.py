"""Attention over consecutive rows and the slice of keys that they reach, recomputed in the backward pass.

Rows of neighbouring slices share keys. Autograd would give every slice of the keys a gradient as long as the keys and
add them up; here the slices' gradients are added in place into one array, and a slice is small enough to stay in cache.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

Attend = Callable[[Tensor, Tensor, Tensor, int, int], Tensor]
"""(rows, keys, values, index of the first row, index of the first key) to outputs [b h rows c]."""

Reach = Callable[[int, int], tuple[int, int]]
"""Rows start..stop to the slice lo..hi of the keys that they reach."""


def map_slices(attend: Attend, q: Tensor, k: Tensor, v: Tensor, *, step: int, reach: Reach) -> Tensor:
    """`attend` over runs of `step` rows and the keys they reach, concatenated over rows.

    `attend` differentiates its tensor arguments alone: a tensor that it captures gets no gradient.
    """
    if step >= q.shape[2] and reach(0, q.shape[2]) == (0, k.shape[2]):
        return attend(q, k, v, 0, 0)
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        return _Recomputed.apply(attend, step, reach, q, k, v)
    return torch.cat([_call(attend, piece) for piece in _pieces(q, k, v, step, reach)], dim=2)


def _pieces(q: Tensor, k: Tensor, v: Tensor, step: int, reach: Reach) -> Iterator[tuple[Any, ...]]:
    for start in range(0, q.shape[2], step):
        stop = min(start + step, q.shape[2])
        lo, hi = reach(start, stop)
        yield q[:, :, start:stop], k[:, :, lo:hi], v[:, :, lo:hi], start, lo


def _call(attend: Attend, piece: tuple[Any, ...]) -> Tensor:
    """One slice where autograd is off or a compiler traces: tracing follows `checkpoint`, not `_Recomputed`."""
    return checkpoint(attend, *piece, use_reentrant=False) if torch.is_grad_enabled() else attend(*piece)


class _Recomputed(torch.autograd.Function):
    """`map_slices` that keeps its inputs alone."""

    @staticmethod
    def forward(ctx: Any, attend: Attend, step: int, reach: Reach, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.attend, ctx.step, ctx.reach = attend, step, reach
        ctx.random = _random_state(q.device)
        kind = q.device.type
        ctx.autocast = {"enabled": torch.is_autocast_enabled(kind), "dtype": torch.get_autocast_dtype(kind)}
        ctx.save_for_backward(q, k, v)
        return torch.cat([attend(*piece) for piece in _pieces(q, k, v, step, reach)], dim=2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v = ctx.saved_tensors
        into_q, into_k, into_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        pieces = _pieces(q, k, v, ctx.step, ctx.reach)
        totals = _pieces(into_q, into_k, into_v, ctx.step, ctx.reach)
        autocast = torch.autocast(grad.device.type, **ctx.autocast)
        with torch.random.fork_rng([grad.device] if grad.is_cuda else []), torch.enable_grad(), autocast:
            _set_random_state(ctx.random, grad.device)
            for (*tensors, start, first), (*sums, _, _) in zip(pieces, totals, strict=True):
                leaves = [x.detach().requires_grad_() for x in tensors]
                out = ctx.attend(*leaves, start, first)
                grads = torch.autograd.grad(out, leaves, grad[:, :, start : start + out.shape[2]])
                for total, part in zip(sums, grads, strict=True):
                    total.add_(part)
        return None, None, None, into_q, into_k, into_v


def _random_state(device: torch.device) -> Tensor:
    """Of the generator that dropout on `device` draws from."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_random_state(state: Tensor, device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
