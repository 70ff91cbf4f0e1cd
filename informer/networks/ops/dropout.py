"""Dropout with few random numbers on the CPU.

On the CPU torch draws one number per element from a serial generator, which takes a fifth of a training step at the
paper's size. Here only the dropped elements are drawn: the numbers of kept elements between them are geometric, so an
array of n elements takes about p n draws, and a mask is the list of its dropped positions. The draws use torch's global
generator, so a seed makes runs reproducible. Without fast forms (`fast`) it is `torch.nn.functional.dropout`.
"""

import math
from typing import Any, final

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from informer.networks.ops import fast


def dropped(n: int, p: float) -> Int[Tensor, " m"]:
    """Increasing positions on the CPU, each of 0 ... n-1 with probability p (accurate to 2^-24), independently.

    With u uniform in [0, 1), floor(ln(1 - u) / ln(1 - p)) is k with probability (1 - p)^k p: the number of kept
    elements before the next dropped one.
    """
    batches: list[Tensor] = []
    end = -1
    while p > 0.0 and end < n - 1:
        expected = (n - 1 - end) * p
        n_drawn = int(expected + 6 * math.sqrt(expected)) + 8  # reaches n in all but one of 10^9 cases
        gaps = torch.rand(n_drawn).neg_().log1p_().div_(math.log1p(-p)).long()
        batches.append(gaps.add_(1).cumsum_(0).add_(end))
        end = int(batches[-1][-1])
    positions = torch.cat(batches) if batches else torch.empty(0, dtype=torch.int64)
    return positions[: int(torch.searchsorted(positions, n))].clone()


def zero_(x: Float[Tensor, " *shape"], positions: Int[Tensor, " m"]) -> Float[Tensor, " *shape"]:
    """Zero the elements of a contiguous array at `positions` of its flat form, in place."""
    x.view(-1).index_fill_(0, positions, 0)
    return x


def dropout(x: Float[Tensor, " *shape"], p: float) -> Float[Tensor, " *shape"]:
    """Zero each element with probability p and divide the others by 1 - p; return x itself for p = 0."""
    if p == 0.0:
        return x
    if not fast.on_cpu(x):
        return F.dropout(x, p)
    return _Dropped.apply(x, p)


def masked(x: Float[Tensor, " *shape"], positions: Int[Tensor, " m"], p: float) -> Float[Tensor, " *shape"]:
    """x / (1 - p), and zero at the dropped positions; the gradient has the same form."""
    scaled = torch.empty(x.shape, dtype=x.dtype)  # contiguous, whatever the strides of x
    return zero_(torch.mul(x, 1.0 / (1.0 - p), out=scaled), positions)


class _Dropped(torch.autograd.Function):
    """Stores the dropped positions for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        positions, ctx.p = dropped(x.numel(), p), p
        ctx.save_for_backward(positions)
        return masked(x, positions, p)

    @staticmethod
    @fast.first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (positions,) = ctx.saved_tensors
        return masked(grad, positions, ctx.p), None


def dropout_product(
    weights: Float[Tensor, "*batch l s"], values: Float[Tensor, "*batch s d"], p: float
) -> Float[Tensor, "*batch l d"]:
    """dropout(weights) @ values, without storing a masked copy of the weights for the backward pass."""
    if p == 0.0 or not fast.on_cpu(weights):
        return dropout(weights, p) @ values
    return _DroppedProduct.apply(weights, values, p)


class _DroppedProduct(torch.autograd.Function):
    """Stores its operands, which are stored anyway, and the dropped positions, which are zeroed again in backward."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, p: float) -> Tensor:
        positions, ctx.p = dropped(weights.numel(), p), p
        ctx.save_for_backward(weights, values, positions)
        return masked(weights, positions, p) @ values

    @staticmethod
    @fast.first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weights, values, positions = ctx.saved_tensors
        needs_weights, needs_values, _ = ctx.needs_input_grad
        grad_weights = grad_values = None
        # under autocast the product may have had lower precision than the operands
        if needs_weights:
            products = grad @ values.to(grad.dtype).transpose(-1, -2)
            grad_weights = masked(products.to(weights.dtype), positions, ctx.p)
        if needs_values:
            dropped = masked(weights, positions, ctx.p).to(grad.dtype)
            grad_values = (dropped.transpose(-1, -2) @ grad).to(values.dtype)
        return grad_weights, grad_values, None


@final
class Dropout(nn.Module):
    """`dropout` as a module."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, " *shape"]) -> Float[Tensor, " *shape"]:
        """Apply dropout in training; identity in eval."""
        return dropout(x, self.p if self.training else 0.0)
