"""Recomputing in the backward pass what would take too much memory to store (Chen et al. 2016, "Training Deep Nets with
Sublinear Memory Cost").

Whole layers (`run`): only the input of a layer is stored, and the layer is replayed with the random numbers, autocast
state and buffers of its forward pass.

Pieces of one layer (`over_pieces`): autograd would store every piece, and `torch.utils.checkpoint` would create a
gradient as long as the sequence for every piece. Here outputs and gradients are written in place, each into one array.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from informer.networks.ops import fast


def run(layers: Iterable[Any], x: Float[Tensor, "b l d"], *operands: Any, recompute: bool) -> Tensor:
    """Apply layers in order, each to (x, operands); with `recompute` only x is stored for the backward pass."""
    for layer in layers:
        x = checkpointed(layer, x, *operands) if recompute else layer(x, *operands)
    return x


def checkpointed(layer: Any, *operands: Any) -> Tensor:
    """`layer(*operands)`, storing only the operands."""
    if not torch.is_grad_enabled():
        return layer(*operands)
    if torch.compiler.is_compiling():  # tracing does not support custom contexts
        return checkpoint(layer, *operands, use_reentrant=False)
    buffers = _Buffers(layer)
    return checkpoint(layer, *operands, use_reentrant=False, context_fn=lambda: (nullcontext(), buffers))


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


Cut = Callable[..., Iterator[tuple[Any, ...]]]
"""Operands -> for every piece, a view of each operand, then the numbers that `attend` takes.

The views of the first operand, the queries, are disjoint, cover it completely and keep its last dimension whole.
"""


def over_pieces(attend: Callable[..., Tensor], cut_pieces: Cut, q: Tensor, *operands: Tensor) -> Tensor:
    """Apply `attend` to every piece that `cut_pieces` makes of (q, operands) and write each result to its rows of q.

    In a compiled graph `cut_pieces` must return consecutive ranges of q's rows (dimension 2), from first to last.
    `attend` is differentiated once and only in its tensor arguments; captured tensors get no gradient. The backward
    pass replays draws from torch's global generator and the autocast state.
    """
    if fast.are_on():
        return _Recomputed.apply(attend, cut_pieces, q, *operands)
    # tracing follows `checkpoint`, not `_Recomputed`
    pieces = cut_pieces(q, *operands)
    if torch.is_grad_enabled():
        return torch.cat([checkpoint(attend, *piece, use_reentrant=False) for piece in pieces], dim=2)
    return torch.cat([attend(*piece) for piece in pieces], dim=2)


class _Recomputed(torch.autograd.Function):
    """`over_pieces` that stores only its operands."""

    @staticmethod
    def forward(ctx: Any, attend: Callable[..., Tensor], cut: Cut, *operands: Tensor) -> Tensor:
        device = operands[0].device
        ctx.attend, ctx.cut = attend, cut
        remember(ctx, device)
        ctx.save_for_backward(*operands)
        return _put_together(attend, cut, *operands)

    @staticmethod
    @fast.first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        operands, needs_grad, device = ctx.saved_tensors, ctx.needs_input_grad[2:], grad.device
        totals = [torch.zeros_like(x) if need else x for x, need in zip(operands, needs_grad, strict=True)]
        pieces = zip(ctx.cut(*operands), ctx.cut(*totals), ctx.cut(grad, *operands[1:]), strict=True)
        with as_before(ctx, device):
            for piece, sums, (grad_piece, *_) in pieces:
                leaves = [x.detach().requires_grad_(need) for x, need in zip(piece, needs_grad, strict=False)]
                out = ctx.attend(*leaves, *piece[len(leaves) :])
                _add_gradients(out, grad_piece, leaves, sums)
        return None, None, *(total if need else None for total, need in zip(totals, needs_grad, strict=True))


def remember(ctx: Any, device: torch.device) -> None:
    """Store the random state and autocast of a forward pass in its context."""
    # mechanisms may draw numbers on the CPU whatever the device
    ctx.random = torch.get_rng_state()
    ctx.random_on_device = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    ctx.autocast = torch.get_autocast_dtype(device.type), torch.is_autocast_enabled(device.type)


@contextmanager
def as_before(ctx: Any, device: torch.device) -> Iterator[None]:
    """Restore what `remember` stored and enable autograd, for recomputing in the backward pass."""
    cuda = device.type == "cuda"
    with (
        torch.random.fork_rng([device] if cuda else []),
        torch.autocast(device.type, *ctx.autocast),
        torch.enable_grad(),
    ):
        torch.set_rng_state(ctx.random)
        if cuda:
            torch.cuda.set_rng_state(ctx.random_on_device, device)
        yield


def _put_together(attend: Callable[..., Tensor], cut: Cut, q: Tensor, *operands: Tensor) -> Tensor:
    """Outputs of all pieces, written into one array."""
    pieces = cut(q, *operands)
    first = attend(*next(pieces))
    n_batch = q.shape[0] if q.shape[0] > 1 else first.shape[0]  # queries of one sequence may serve many values
    out = first.new_empty(n_batch, first.shape[1], q.shape[2], *first.shape[3:])
    targets = (target for target, *_ in cut(out, *operands))
    next(targets).copy_(first)
    for target, piece in zip(targets, pieces, strict=True):
        target.copy_(attend(*piece))
    return out


def _add_gradients(out: Tensor, grad: Tensor, leaves: list[Tensor], sums: tuple[Any, ...]) -> None:
    """Add the gradient of every leaf that requires one to its slot in `sums`."""
    required = [(leaf, total) for leaf, total in zip(leaves, sums, strict=False) if leaf.requires_grad]
    gradients = torch.autograd.grad(out, [leaf for leaf, _ in required], grad, allow_unused=True)
    for (_, total), gradient in zip(required, gradients, strict=True):
        if gradient is not None:
            total.add_(gradient)
