"""Position-wise feed-forward part of a layer: linear -> activation -> dropout -> linear.

The hidden layer is four times as wide as the model, so storing it would take most of the memory of a training step. On
the CPU rows are processed in blocks, and the backward pass recomputes the hidden layer: for the first blocks from the
first product, for the others from the rows. So storage other than the rows is bounded, except for dropped positions.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from informer.networks.ops import fast
from informer.networks.ops.dropout import Dropout, dropout, dropped, zero_
from informer.networks.ops.products import Linear, OuterSum, linear, product, product_dtype

KEPT_BLOCKS = 2
"""Number of blocks whose first product is stored; for the others it is recomputed."""


_relu_backward = partial(torch.ops.aten.threshold_backward.grad_input, threshold=0)
FORMULAS: dict[str, tuple[Callable[..., Tensor], ...]] = {
    "gelu": (F.gelu, torch.ops.aten.gelu.out, torch.ops.aten.gelu_backward.grad_input),
    "relu": (F.relu, partial(torch.clamp, min=0), _relu_backward),
}
"""By name: an activation, the same into `out`, and the gradient of its input from that of its output, into
`grad_input`."""


@final
class FeedForward(nn.Module):
    """linear -> activation -> dropout -> linear, row by row."""

    def __init__(self, *, d_model: int, d_ff: int, activation: str, dropout: float) -> None:
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
    x: Float[Tensor, "b l d"], expand: nn.Linear, contract: nn.Linear, activation: str, p: float
) -> Float[Tensor, "b l d"]:
    """contract(dropout(activation(expand(x))))."""
    weights = expand.weight, expand.bias, contract.weight, contract.bias
    if not fast.on_cpu(x):
        inside = FORMULAS[activation][0](linear(x, *weights[:2]))
        return linear(dropout(inside, p), *weights[2:])
    rows = x.to(product_dtype(x)).flatten(0, 1)
    return _Blocks.apply(rows, *weights, activation, p).view(x.shape)


class _Blocks(torch.autograd.Function):
    """Stores the rows, the dropped positions, and the first product of the first blocks.

    The arrays of a block are allocated once. The factor 1 / (1 - p) of dropout is applied to smaller arrays than that
    of the inner width: to w2, and to the gradient of the output.
    """

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, activation: str, p: float
    ) -> Tensor:
        ctx.spans, ctx.formulas, ctx.scale = _spans(len(rows)), FORMULAS[activation][1:], 1.0 / (1.0 - p)
        activate, _ = ctx.formulas
        positions = _dropped_in(ctx.spans, len(w1), p)
        out = rows.new_empty(len(rows), len(w2))
        # one array for all blocks: many small arrays with different lifetimes would fragment the heap
        stored = rows.new_empty(ctx.spans[:KEPT_BLOCKS][-1].stop, len(w1))
        ctx.save_for_backward(rows, w1, b1, w2, stored, *positions)
        w1, b1, w2, b2 = (x.to(rows.dtype) for x in (w1, b1, w2 * ctx.scale, b2))
        inside = rows.new_empty(ctx.spans[0].stop, len(w1))
        for i, span in enumerate(ctx.spans):
            block = inside[: span.stop - span.start]
            expanded = product(rows[span], w1, b1, out=stored[span] if i < KEPT_BLOCKS else None, room=block)
            activate(expanded, out=block)
            product(zero_(block, positions[i]), w2, b2, out=out[span])
        return out

    @staticmethod
    @fast.first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (activate, backward), (rows, w1, b1, w2, stored, *positions) = ctx.formulas, ctx.saved_tensors
        grad_rows, scaled = torch.empty_like(rows), grad * ctx.scale
        # in the dtype of the parameters: sums over blocks would lose digits in bfloat16
        grad_w1, grad_w2, grad_b1 = OuterSum(w1, rows.dtype), OuterSum(w2, rows.dtype), torch.zeros_like(b1)
        grad_b2 = grad.sum(0).to(b1.dtype)
        w1, b1, w2 = (x.to(rows.dtype) for x in (w1, b1, w2))
        room, inside = (rows.new_empty(ctx.spans[0].stop, len(w1)) for _ in range(2))
        for i, span in enumerate(ctx.spans):
            n = span.stop - span.start
            expanded = stored[span] if i < KEPT_BLOCKS else product(rows[span], w1, b1, room=room[:n])
            activate(expanded, out=inside[:n])
            grad_w2.add(scaled[span], zero_(inside[:n], positions[i]))
            grad_inside = zero_(product(scaled[span], w2.t(), room=inside[:n]), positions[i])
            grad_expanded = backward(grad_inside, expanded, grad_input=grad_inside)
            grad_w1.add(grad_expanded, rows[span])
            grad_b1 += grad_expanded.sum(0)
            product(grad_expanded, w1.t(), out=grad_rows[span])
        return grad_rows, grad_w1.total(), grad_b1, grad_w2.total(), grad_b2, None, None


def _dropped_in(spans: list[slice], width: int, p: float) -> list[Tensor]:
    """Dropped positions of each block; one draw for all blocks, so that their size does not change it."""
    positions = dropped(spans[-1].stop * width, p)
    ends = torch.searchsorted(positions, torch.tensor([span.stop * width for span in spans[:-1]])).tolist()
    chunks = positions.tensor_split(ends)
    return [chunk - span.start * width for chunk, span in zip(chunks, spans, strict=True)]


def _spans(n_rows: int) -> list[slice]:
    """Blocks of rows of about equal size."""
    step = -(-n_rows // max(-(-n_rows // fast.block_rows()), 1)) or 1
    return [slice(start, min(start + step, n_rows)) for start in range(0, max(n_rows, 1), step)]
