"""Distilling: halves the sequence between encoder layers (Informer, section 3.2, eq. 5)."""

from typing import Any, final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from informer.ops.products import CircularConv3


def distilled_length(length: int) -> int:
    """Rows after one distilling step: half, rounded up."""
    return (length + 1) // 2


@final
class Distil(nn.Module):
    """Halve the sequence: circular Conv1d(3) -> BatchNorm -> ELU -> MaxPool(3, stride 2, padding 1).

    The pool comes before the ELU: ELU is increasing, so the result is the same and only half of the rows need an ELU.

    Args:
        d_model: width of the rows.
        norm: use BatchNorm, as the authors' code does; the paper's formula has none.
    """

    def __init__(self, d_model: int, *, norm: bool = True) -> None:
        super().__init__()
        self.conv = CircularConv3(d_model, d_model)
        self.norm = RowNorm(d_model) if norm else None

    def forward(self, x: Float[Tensor, "b l d"], mask: Bool[Tensor, "b l"] | None = None) -> Float[Tensor, "b n d"]:
        """[b l d] -> [b ceil(l/2) d].

        With a mask of the rows that exist, other rows count as zeros in the convolution, which then does not join both
        ends, and never in the maximum; a row of the output without rows is zero. `halved_mask` is the mask of the
        output.

        Raises:
            ValueError: a mask and BatchNorm, whose statistics would include rows that do not exist.
        """
        if mask is not None:
            if self.norm is not None:
                raise ValueError("distilling with a mask needs norm=False")
            padded = F.pad(x * mask[..., None], (0, 0, 0, 1))
            rows = self.conv(padded)[:, :-1]
            rows = rows.masked_fill(~mask[..., None], torch.finfo(rows.dtype).min)
            return F.elu(halve(rows)) * halved_mask(mask)[..., None]
        rows = self.conv(x)
        if self.norm is not None:
            rows = self.norm(rows.flatten(0, 1)).view_as(rows)
        return F.elu(halve(rows), inplace=True)


def halved_mask(mask: Bool[Tensor, "b l"]) -> Bool[Tensor, "b n"]:
    """Which rows exist after distilling: those with a row that exists among the three under their maximum."""
    return F.max_pool1d(mask.float()[:, None], kernel_size=3, stride=2, padding=1)[:, 0] > 0


@final
class RowNorm(nn.BatchNorm1d):
    """BatchNorm over rows; a single row has no variance and is normalised by the running statistics."""

    def forward(self, x: Float[Tensor, "rows d"]) -> Float[Tensor, "rows d"]:
        """Normalise each feature."""
        if self.training and len(x) == 1:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x)


def halve(x: Float[Tensor, "b l d"]) -> Float[Tensor, "b n d"]:
    """Maximum of every second row and its neighbours; on the CPU differentiable only once."""
    repeatable = x.device.type == "cpu" or torch.are_deterministic_algorithms_enabled()  # torch adds in any order
    if torch.compiler.is_compiling() or not repeatable:
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
    @once_differentiable
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
