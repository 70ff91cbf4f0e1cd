"""Matrix products and the convolution over three rows; the fast forms are those of `fast`."""

from typing import Any, final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from informer.networks.ops import fast


def product_dtype(x: Tensor) -> torch.dtype:
    """The dtype that products of x have: that of autocast where it is enabled, otherwise x's own."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def product(
    x: Float[Tensor, "*batch i"],
    weight: Float[Tensor, "o i"],
    bias: Float[Tensor, " o"] | None = None,
    *,
    out: Float[Tensor, "n o"] | None = None,
    room: Float[Tensor, "n o"] | None = None,
) -> Float[Tensor, "*batch o"]:
    """x weight^T + bias, for callers that compute the gradient themselves.

    If x has two axes, `out` receives the result; `room` receives it where that saves an array, so not with oneDNN.
    """
    if fast.with_onednn(x, weight):
        result = fast.onednn(x, weight, bias)
        return result if out is None else out.copy_(result)
    out = room if out is None else out
    if out is None:
        return F.linear(x, weight, bias)
    if bias is None:
        return torch.mm(x, weight.t(), out=out)
    return torch.addmm(bias, x, weight.t(), out=out)


def add_product_(total: Float[Tensor, "m o"], a: Float[Tensor, "m n"], b: Float[Tensor, "n o"]) -> Float[Tensor, "m o"]:
    """total += a b, where `total` may have more digits than a and b."""
    if total.dtype == a.dtype and not fast.with_onednn(a, b):
        return total.addmm_(a, b)
    return total.add_(product(a, b.t()))


@final
class OuterSum:
    """The sum of a^T b over blocks of rows, which may have more digits than a and b.

    oneDNN copies a transposed first operand, so the narrower one comes first, and the sum may be stored transposed.

    Args:
        like: has the shape [m o] and the dtype of the sum.
        dtype: of the operands.
    """

    def __init__(self, like: Float[Tensor, "m o"], dtype: torch.dtype) -> None:
        self._swaps = dtype == torch.float32 and fast.with_onednn(like) and like.shape[0] > like.shape[1]
        self._total = torch.zeros_like(like.t() if self._swaps else like, memory_format=torch.contiguous_format)

    def add(self, a: Float[Tensor, "n m"], b: Float[Tensor, "n o"]) -> None:
        """Add a^T b."""
        first, second = (b, a) if self._swaps else (a, b)
        add_product_(self._total, first.t(), second)

    def total(self) -> Float[Tensor, "m o"]:
        """The sum so far."""
        return self._total.t().contiguous() if self._swaps else self._total


class _OneDnnLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return fast.onednn(x, weight, bias)

    @staticmethod
    @fast.first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        rows = grad.reshape(-1, grad.shape[-1])
        needs_x, needs_weight, _ = ctx.needs_input_grad
        grad_x = fast.onednn(rows, weight.t()).view(x.shape) if needs_x else None
        grad_weight = fast.onednn(rows.t(), x.reshape(-1, x.shape[-1]).t()) if needs_weight else None
        return grad_x, grad_weight, rows.sum(0) if ctx.has_bias else None


def linear(
    x: Float[Tensor, "*batch i"], weight: Float[Tensor, "o i"], bias: Float[Tensor, " o"] | None = None
) -> Float[Tensor, "*batch o"]:
    """x weight^T + bias."""
    if fast.with_onednn(x, weight):
        return _OneDnnLinear.apply(x, weight, bias)
    return F.linear(x, weight, bias)


@final
class Linear(nn.Linear):
    """`torch.nn.Linear` with the same parameters and initial values, computed by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """[... in_features] -> [... out_features]."""
        return linear(x, self.weight, self.bias)


@final
class Conv3(nn.Module):
    """Convolution over time with kernel 3, as one matrix product.

    Row t sees rows t-1, t, t+1; the first and the last row are neighbours, as in the authors' code. Causal: row t sees
    rows t-2, t-1, t, with zeros before the first.
    """

    def __init__(self, in_features: int, out_features: int, *, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        conv = nn.Conv1d(in_features, out_features, kernel_size=3)
        self.weight, self.bias = conv.weight, conv.bias

    def forward(self, x: Float[Tensor, "b l i"]) -> Float[Tensor, "b l o"]:
        """Convolve along l."""
        weight = self.weight.transpose(1, 2).flatten(1)
        if self.causal:
            return linear(_taps(F.pad(x, (0, 0, 2, 0))), weight, self.bias)
        if fast.on_cpu(x):
            return _CircularProduct.apply(x, weight, self.bias, product_dtype(x))
        return linear(_taps(_circular(x)), weight, self.bias)


def _circular(x: Tensor) -> Tensor:
    """The rows with the last in front and the first behind."""
    return torch.cat((x[:, -1:], x, x[:, :1]), dim=1)


def _taps(around: Tensor) -> Tensor:
    """Three successive rows side by side, for each row but the outer two."""
    return around.unfold(1, 3, 1).transpose(2, 3).flatten(2).contiguous()  # flatten by itself keeps a view


class _CircularProduct(torch.autograd.Function):
    """`linear` of the taps, which take three times the memory of x and are recomputed in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.dtypes = x.dtype, weight.dtype
        x, weight, bias = (tensor.to(dtype) for tensor in (x, weight, bias))
        ctx.save_for_backward(x, weight)
        return product(_taps(_circular(x)), weight, bias)

    @staticmethod
    @fast.first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        x_dtype, weight_dtype = ctx.dtypes
        rows = grad.reshape(-1, grad.shape[-1])
        grad_weight = product(rows.t(), _taps(_circular(x)).flatten(0, 1).t())
        grad_x = None
        if ctx.needs_input_grad[0]:
            before, at, after = product(rows, weight.t()).view(*x.shape[:2], -1).split(x.shape[2], dim=-1)
            grad_x = torch.empty_like(x)
            torch.add(at[:, :-1], before[:, 1:], out=grad_x[:, :-1])
            torch.add(at[:, -1], before[:, 0], out=grad_x[:, -1])
            grad_x[:, 1:] += after[:, :-1]
            grad_x[:, 0] += after[:, -1]
            grad_x = grad_x.to(x_dtype)
        return grad_x, grad_weight.to(weight_dtype), rows.sum(0).to(weight_dtype), None
