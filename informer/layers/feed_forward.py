"""The position-wise part of a layer: linear -> activation -> dropout -> linear.

Its inside is four times as wide as the model and would be most of what a training step keeps. On the CPU a block of
rows goes through it at a time, and the backward pass computes activation and dropout again from what the first product
gave and a byte an element; the products themselves are not repeated.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NamedTuple, final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from informer.attention.dropout import Dropout, dropout, kept_mask, masked
from informer.layers.linear import Linear, linear, product

BLOCK_ROWS = 2048
"""Rows at a time: what they need inside stays within a processor's cache, roughly."""


class Activation(Enum):
    """Nonlinearity of the feed-forward blocks."""

    gelu = "gelu"
    relu = "relu"


class _Formulas(NamedTuple):
    """An activation, and the gradient of its input from that of its output and its input."""

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
        """Transform each row."""
        p = self.dropout.p if self.training else 0.0
        return self.dropout(feed_forward(x, self.expand, self.contract, self.activation, p))


def feed_forward(
    x: Float[Tensor, "b l d"], expand: nn.Linear, contract: nn.Linear, activation: Activation, p: float
) -> Float[Tensor, "b l d"]:
    """contract(dropout(activation(expand(x)))), differentiable once on the CPU."""
    weights = expand.weight, expand.bias, contract.weight, contract.bias
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        inside = FORMULAS[activation].forward(linear(x, *weights[:2]))
        return linear(dropout(inside, p, training=True), *weights[2:])
    if torch.is_autocast_enabled("cpu"):
        x = x.to(torch.get_autocast_dtype("cpu"))
    return _Blocks.apply(x.flatten(0, 1), *weights, FORMULAS[activation], p).view(x.shape)


class _Blocks(torch.autograd.Function):
    """Keeps the rows, and of each block what the first product gave and where dropout kept it."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, formulas: _Formulas, p: float
    ) -> Tensor:
        ctx.weight_type = w1.dtype
        w1, b1, w2, b2 = (x.to(rows.dtype) for x in (w1, b1, w2, b2))
        out, kept = rows.new_empty(len(rows), len(w2)), []
        for block, result in _blocks(rows, out):
            expanded = product(block, w1, b1)
            mask = kept_mask(expanded, p) if p else None
            result.copy_(product(_inside(expanded, mask, formulas, p), w2, b2))
            kept += [expanded, mask]
        ctx.save_for_backward(rows, w1, w2, *kept)
        ctx.formulas, ctx.p = formulas, p
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, w1, w2, *kept = ctx.saved_tensors
        grad_rows = torch.empty_like(rows)
        # in the parameters' own type: sums over blocks would lose digits in bfloat16
        grad_w1, grad_b1, grad_w2 = (torch.zeros_like(x, dtype=ctx.weight_type) for x in (w1, w1[:, 0], w2))
        for i, (block, grad_out, grad_in) in enumerate(_blocks(rows, grad, grad_rows)):
            expanded, mask = kept[2 * i : 2 * i + 2]
            grad_w2 += product(grad_out.t(), _inside(expanded, mask, ctx.formulas, ctx.p).t())
            grad_inside = product(grad_out, w2.t())
            if mask is not None:
                grad_inside = masked(grad_inside, mask, ctx.p)
            grad_expanded = ctx.formulas.backward(grad_inside, expanded)
            grad_w1 += product(grad_expanded.t(), block.t())
            grad_b1 += grad_expanded.sum(0, dtype=ctx.weight_type)
            grad_in.copy_(product(grad_expanded, w1.t()))
        return grad_rows, grad_w1, grad_b1, grad_w2, grad.sum(0, dtype=ctx.weight_type), None, None


def _inside(expanded: Tensor, mask: Tensor | None, formulas: _Formulas, p: float) -> Tensor:
    activated = formulas.forward(expanded)
    return activated if mask is None else masked(activated, mask, p)


def _blocks(*rows: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same blocks of rows of each, all about as long."""
    n = max(-(-len(rows[0]) // BLOCK_ROWS), 1)
    return zip(*(x.chunk(n) for x in rows), strict=True)
