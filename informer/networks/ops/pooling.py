"""MaxPool(3, stride 2, padding 1) over rows, which stores little."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from informer.networks.ops import fast


def halve(x: Float[Tensor, "b l d"]) -> Float[Tensor, "b n d"]:
    """Maximum of every second row and its neighbours."""
    # on a GPU torch's backward pass adds in any order
    if not (fast.are_on() and (fast.on_cpu(x) or torch.are_deterministic_algorithms_enabled())):
        return F.max_pool1d(x.transpose(1, 2), kernel_size=3, stride=2, padding=1).transpose(1, 2)
    return _MaxPool.apply(x)


class _MaxPool(torch.autograd.Function):
    """Stores two bytes per maximum: where it came from. torch stores all rows and eight bytes per maximum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        at, between = x[:, ::2], x[:, 1::2]
        n_before, n_after = at.shape[1] - 1, between.shape[1]
        out = at.clone()
        torch.maximum(at[:, 1:], between[:, :n_before], out=out[:, 1:])
        torch.maximum(out[:, :n_after], between, out=out[:, :n_after])
        # ties go to the first row, as in torch
        ctx.save_for_backward(between[:, :n_before] == out[:, 1:], at == out)
        ctx.length = x.shape[1]
        return out

    @staticmethod
    @fast.first_order
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        was_before, was_at = ctx.saved_tensors
        to_before = grad[:, 1:] * was_before
        remaining = grad.clone()
        remaining[:, 1:] -= to_before
        grad_x = grad.new_empty(len(grad), ctx.length, grad.shape[2])
        at, between = grad_x[:, ::2], grad_x[:, 1::2]
        n_before, n_after = to_before.shape[1], between.shape[1]
        torch.mul(remaining, was_at, out=at)
        torch.sub(remaining[:, :n_after], at[:, :n_after], out=between)
        between[:, :n_before] += to_before
        return grad_x
