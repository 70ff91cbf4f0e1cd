"""Dropout with cheap random numbers on the CPU.

On the CPU torch draws one number per element from a serial generator, which takes a fifth of a training step at the
paper's size. Here one 64-bit draw serves four elements with 16 bits each, so the probability is accurate to 2^-17. It
uses torch's global generator, so a seed makes runs reproducible. Other devices and compiled graphs use
`torch.nn.functional.dropout`.
"""

from typing import Any, final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_LEVELS = 1 << 16


def kept_mask(x: Float[Tensor, "*shape"], p: float) -> Bool[Tensor, "*shape"]:
    """Random mask on the CPU, True with probability 1 - p."""
    n = x.numel()
    words = torch.randint(-(2**63), 2**63 - 1, ((n + 3) // 4,), dtype=torch.int64)
    levels = words.view(torch.int16)[:n].view(x.shape)
    # min keeps at least one level: the next threshold would not fit into 16 bits
    return levels >= min(round(p * _LEVELS), _LEVELS - 1) - _LEVELS // 2


def dropout(x: Float[Tensor, "*shape"], p: float, training: bool) -> Float[Tensor, "*shape"]:
    """Zero each element with probability p and divide the others by 1 - p; return x itself outside training."""
    if p == 0.0 or not training:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p, training)
    return _Dropped.apply(x, p)


def masked(x: Float[Tensor, "*shape"], kept: Bool[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """x / (1 - p) where kept, else zero; the gradient has the same form."""
    scale = 1.0 / (1.0 - p)
    if x.element_size() == 2:  # multiplying by 0 or 1 takes two thirds of the time of `where`; slower in float32
        return x.mul(scale).view(torch.int16).mul_(kept.view(torch.int8)).view(x.dtype)
    return torch.where(kept, x, 0.0).mul_(scale)


class _Dropped(torch.autograd.Function):
    """Stores one byte per element for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        kept, ctx.p = kept_mask(x, p), p
        ctx.save_for_backward(kept)
        return masked(x, kept, p)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return masked(grad, kept, ctx.p), None


def dropout_product(
    weights: Float[Tensor, "*batch l s"], values: Float[Tensor, "*batch s d"], p: float, training: bool
) -> Float[Tensor, "*batch l d"]:
    """dropout(weights) @ values, without storing a masked copy of the weights for the backward pass."""
    if p == 0.0 or not training:
        return weights @ values
    if weights.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(weights, p, training) @ values
    return _DroppedProduct.apply(weights, values, p)


class _DroppedProduct(torch.autograd.Function):
    """Stores its operands, which are stored anyway, and one byte per weight; the mask is applied again in backward."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, p: float) -> Tensor:
        kept, ctx.p = kept_mask(weights, p), p
        ctx.save_for_backward(weights, values, kept)
        return masked(weights, kept, p) @ values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weights, values, kept = ctx.saved_tensors
        needs_weights, needs_values, _ = ctx.needs_input_grad
        grad_weights = grad_values = None
        # under autocast the product may have had lower precision than the operands
        if needs_weights:
            products = grad @ values.to(grad.dtype).transpose(-1, -2)
            grad_weights = masked(products.to(weights.dtype), kept, ctx.p)
        if needs_values:
            dropped = masked(weights, kept, ctx.p).to(grad.dtype)
            grad_values = (dropped.transpose(-1, -2) @ grad).to(values.dtype)
        return grad_weights, grad_values, None


@final
class Dropout(nn.Module):
    """`dropout` as a module."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply dropout in training; identity in eval."""
        return dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """Arguments for print(module)."""
        return f"p={self.p}"
