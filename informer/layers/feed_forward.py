"""Position-wise feed-forward part of a layer: linear -> activation -> dropout -> linear.

The hidden layer is four times as wide as the model, so storing it would take most of the memory of a training step. On
the CPU rows are processed in blocks, and the backward pass recomputes the hidden layer: for the first blocks from the
first product, for the others from the rows. So storage other than the rows is bounded, except for one byte per element.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from informer.config.model import Activation
from informer.ops.dropout import Dropout, dropout, kept_mask, masked
from informer.ops.products import Linear, linear, product

BLOCK_ROWS = 2048
"""Rows per block; the hidden values of a block fit roughly into a processor's cache."""

KEPT_BLOCKS = 2
"""Number of blocks whose first product is stored; for the others it is recomputed."""


class _Formulas(NamedTuple):
    """An activation, and the gradient of its input from the gradient of its output and the input."""

    forward: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]


FORMULAS = {
    Activation.gelu: _Formulas(F.gelu, torch.ops.aten.gelu_backward),
    Activation.relu: _Formulas(F.relu, lambda grad, x: torch.ops.aten.threshold_backward(grad, x, 0)),
}


@final
class FeedForward(nn.Module):
    """linear -> activation -> dropout -> linear -> dropout, row by row."""

    def __init__(self, *, d_model: int, d_ff: int, activation: Activation, dropout: float) -> None:
        super().__init__()
        self.expand = Linear(d_model, d_ff)
        self.activation = activation
        self.contract = Linear(d_ff, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b l d"]:
        """Apply to each row."""
        p = self.dropout.p if self.training else 0.0
        return self.dropout(feed_forward(x, self.expand, self.contract, self.activation, p))


def feed_forward(
    x: Float[Tensor, "b l d"], expand: nn.Linear, contract: nn.Linear, activation: Activation, p: float
) -> Float[Tensor, "b l d"]:
    """contract(dropout(activation(expand(x)))); on the CPU differentiable only once."""
    weights = expand.weight, expand.bias, contract.weight, contract.bias
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        inside = FORMULAS[activation].forward(linear(x, *weights[:2]))
        return linear(dropout(inside, p, training=True), *weights[2:])
    if torch.is_autocast_enabled("cpu"):
        x = x.to(torch.get_autocast_dtype("cpu"))
    return _Blocks.apply(x.flatten(0, 1), *weights, FORMULAS[activation], p).view(x.shape)


class _Blocks(torch.autograd.Function):
    """Stores the rows, the dropout mask of each block, and the first product of the first blocks."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, formulas: _Formulas, p: float
    ) -> Tensor:
        ctx.weight_type = w1.dtype
        w1, b1, w2, b2 = (x.to(rows.dtype) for x in (w1, b1, w2, b2))
        spans = _spans(len(rows))
        out = rows.new_empty(len(rows), len(w2))
        # one array for all blocks: many small arrays with different lifetimes would fragment the heap
        kept = rows.new_empty(spans[:KEPT_BLOCKS][-1].stop, len(w1))
        mask = torch.empty(len(rows), len(w1), dtype=torch.bool) if p else None
        for i, span in enumerate(spans):
            expanded = product(rows[span], w1, b1)
            if i < KEPT_BLOCKS:
                kept[span] = expanded
            if mask is not None:
                mask[span] = kept_mask(expanded, p)
            out[span] = product(_inside(expanded, mask, span, formulas, p), w2, b2)
        ctx.save_for_backward(rows, w1, b1, w2, kept, mask)
        ctx.formulas, ctx.p = formulas, p
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, w1, b1, w2, kept, mask = ctx.saved_tensors
        grad_rows = torch.empty_like(rows)
        # in the dtype of the parameters: sums over blocks would lose digits in bfloat16
        grad_w1, grad_b1, grad_w2 = (torch.zeros_like(x, dtype=ctx.weight_type) for x in (w1, b1, w2))
        for i, span in enumerate(_spans(len(rows))):
            expanded = kept[span] if i < KEPT_BLOCKS else product(rows[span], w1, b1)
            grad_w2 += product(grad[span].t(), _inside(expanded, mask, span, ctx.formulas, ctx.p).t())
            grad_inside = product(grad[span], w2.t())
            if mask is not None:
                grad_inside = masked(grad_inside, mask[span], ctx.p)
            grad_expanded = ctx.formulas.backward(grad_inside, expanded)
            grad_w1 += product(grad_expanded.t(), rows[span].t())
            grad_b1 += grad_expanded.sum(0, dtype=ctx.weight_type)
            grad_rows[span] = product(grad_expanded, w1.t())
        return grad_rows, grad_w1, grad_b1, grad_w2, grad.sum(0, dtype=ctx.weight_type), None, None


def _inside(expanded: Tensor, mask: Tensor | None, span: slice, formulas: _Formulas, p: float) -> Tensor:
    activated = formulas.forward(expanded)
    return activated if mask is None else masked(activated, mask[span], p)


def _spans(n_rows: int) -> list[slice]:
    """Blocks of rows of about equal size."""
    step = -(-n_rows // max(-(-n_rows // BLOCK_ROWS), 1)) or 1
    return [slice(start, min(start + step, n_rows)) for start in range(0, max(n_rows, 1), step)]
