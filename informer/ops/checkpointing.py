"""Layers whose activations are recomputed in the backward pass instead of being stored, in one of two ways.

Checkpointing (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost") stores the input of every layer.
Reversible residuals (Kitaev et al. 2020, "Reformer", section 3) store only the output of a stack of layers: two streams
start equal, each branch f (attention, feed-forward) maps (a, b) to (b, a + f(b)), and the input is recovered from the
result as (a, b) = (b' - f(a'), a'). The stack returns the mean of its two streams.

Both replay a branch with the random numbers, autocast state and buffers of its forward pass.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from informer.config.model import Recompute
from informer.ops.recompute import as_before, remember


class Branch(NamedTuple):
    """One residual branch of a layer."""

    layer: nn.Module
    """Module with the parameters and buffers."""
    forward: Callable[..., Tensor]
    """(x, operands of the stack) -> the term added to the other stream."""


def run(layers: Iterable[Any], x: Float[Tensor, "b l d"], *operands: Any, recompute: Recompute) -> Tensor:
    """Apply layers in order; each takes (x, operands), and its `branches()` are its reversible form."""
    if recompute is Recompute.stretches:
        return reversible([branch for layer in layers for branch in layer.branches()], x, *operands)
    for layer in layers:
        x = checkpointed(layer, x, *operands) if recompute is Recompute.layers else layer(x, *operands)
    return x


def checkpointed(layer: Any, *operands: Any) -> Tensor:
    """`layer(*operands)`, storing only the operands."""
    if not torch.is_grad_enabled():
        return layer(*operands)
    if torch.compiler.is_compiling():  # tracing does not support custom contexts
        return checkpoint(layer, *operands, use_reentrant=False)
    buffers = _Buffers(layer)
    return checkpoint(layer, *operands, use_reentrant=False, context_fn=lambda: (nullcontext(), buffers))


def reversible(branches: Sequence[Branch], x: Float[Tensor, "b l d"], *operands: Tensor) -> Float[Tensor, "b l d"]:
    """Apply branches to x in two streams and return the mean; a compiled or exported graph stores activations.

    Differentiable once, in x, in `operands` and in the parameters of the branches' layers.
    """
    if not branches:
        return x
    if torch.compiler.is_compiling():
        a, b = _streams(branches, x, operands)
    else:
        parameters = dict.fromkeys(p for branch in branches for p in branch.layer.parameters())
        a, b = _Reversible.apply(branches, len(operands), x, *operands, *parameters)
    return (a + b) / 2


def _streams(branches: Sequence[Branch], x: Tensor, operands: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    a, b = x, x
    for branch in branches:
        a, b = b, a + branch.forward(b, *operands)
    return a, b


class _Reversible(torch.autograd.Function):
    """`_streams` that stores only its two results and the state needed to replay each branch."""

    @staticmethod
    def forward(
        ctx: Any, branches: Sequence[Branch], n_operands: int, x: Tensor, *inputs: Tensor
    ) -> tuple[Tensor, Tensor]:
        operands, ctx.parameters = inputs[:n_operands], inputs[n_operands:]
        ctx.moments = []
        a, b = x, x
        for branch in branches:
            ctx.moments.append(_Moment(branch, x.device))
            a, b = b, a + branch.forward(b, *operands)
        ctx.save_for_backward(a, b, *operands)
        return a, b

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_a: Tensor, grad_b: Tensor) -> tuple[Tensor | None, ...]:
        a, b, *operands = ctx.saved_tensors
        leaves = [x.detach().requires_grad_(need) for x, need in zip(operands, ctx.needs_input_grad[3:], strict=False)]
        totals: dict[Tensor, Tensor | None] = {x: None for x in (*leaves, *ctx.parameters) if x.requires_grad}
        for moment in reversed(ctx.moments):
            before = a.detach().requires_grad_()
            with moment.again():
                added = moment.branch.forward(before, *leaves)
            grad_input, *grads = torch.autograd.grad(added, [before, *totals], grad_b, allow_unused=True)
            for (x, total), grad in zip(totals.items(), grads, strict=True):
                if grad is not None:
                    totals[x] = grad if total is None else total + grad
            a, b = b - added.detach(), a
            grad_a, grad_b = grad_b, grad_a + grad_input
        return None, None, grad_a + grad_b, *(totals.get(x) for x in (*leaves, *ctx.parameters))


class _Moment:
    """The state of a branch just before its forward pass."""

    def __init__(self, branch: Branch, device: torch.device) -> None:
        self.branch, self.device, self.context = branch, device, SimpleNamespace()
        remember(self.context, device)
        self.buffers = _Buffers(branch.layer)

    @contextmanager
    def again(self) -> Iterator[None]:
        """Context with autograd enabled and the state restored."""
        with as_before(self.context, self.device), self.buffers:
            yield


class _Buffers(AbstractContextManager[None]):
    """Context that restores the current buffers of `layer`, which may be replaced but not modified in place."""

    def __init__(self, layer: nn.Module) -> None:
        self.kept = [(module._buffers, dict(module._buffers)) for module in layer.modules() if module._buffers]

    def __enter__(self) -> None:
        self.newest: list[dict[str, Tensor | None]] = [dict(buffers) for buffers, _ in self.kept]
        for buffers, saved in self.kept:
            buffers.update(saved)

    def __exit__(self, *exception: object) -> None:
        for (buffers, _), newest in zip(self.kept, self.newest, strict=True):
            buffers.update(newest)
