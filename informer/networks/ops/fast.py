"""The one switch between the fast forms of this package and torch's own expressions.

    with fast.forms(on=False):
        loss = ...                  # torch's expressions everywhere; they can be differentiated any number of times

Fast forms are chosen here and nowhere else:

  oneDNN   on the CPU torch computes float32 products with its BLAS library. If that is Intel's MKL, it may use half of
           the vector unit of other makers' processors. oneDNN, also part of torch, uses all of it
           (`scripts/benchmark_training.py` prints both rates).
  blocks   on the CPU the feed-forward part runs in blocks of rows that stay in cache, pooling stores two bytes a
           maximum, and dropout draws only the dropped positions.
  pieces   attention is computed piece by piece, and the backward pass computes each piece again (`chunks`). Pieces are
           as large as a processor's cache on the CPU, and as large as memory allows on a GPU.

They have no second derivative and say so (`first_order`). Graphs that are compiled or exported contain torch's
expressions, in pieces where memory requires it.

This module is also the only one that uses private functions of torch, and those that torch imports its compiler for.
"""

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.nn.attention import SDPBackend, sdpa_kernel

WHOLE, CACHED, ROWS = 1 << 24, 1 << 21, 2048
"""Most elements of scores in memory at once (64 MiB in float32), elements of an array that stays in a processor's cache
between passes, and rows of a block whose hidden values stay there."""

EVERYTHING = 1 << 62


def is_intel(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor is Intel's, according to /proc/cpuinfo (Linux) or `platform`."""
    if not cpuinfo.exists():
        return "GenuineIntel" in platform.processor()
    with cpuinfo.open() as file:
        return "GenuineIntel" in file.read(4096)  # all cores have the same entry


HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
ONEDNN = HAS_ONEDNN and not (torch.backends.mkl.is_available() and is_intel())


class _Chosen:
    """The forms in use."""

    on, onednn, whole, cached, rows = True, ONEDNN, WHOLE, CACHED, ROWS


@contextmanager
def forms(
    *, on: bool = True, onednn: bool = ONEDNN, whole: int = WHOLE, cached: int = CACHED, rows: int = ROWS
) -> Iterator[None]:
    """Choose the forms of the forward passes in a block; a backward pass has the form of its forward pass.

    Args:
        on: whether fast forms are used at all.
        onednn: whether products on the CPU use oneDNN.
        whole, cached, rows: sizes of pieces, see `WHOLE`.
    """
    before = {name: getattr(_Chosen, name) for name in ("on", "onednn", "whole", "cached", "rows")}
    try:
        for name, value in zip(before, (on, onednn, whole, cached, rows), strict=True):
            setattr(_Chosen, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(_Chosen, name, value)


def are_on() -> bool:
    """Whether fast forms are used; never in a graph that is compiled or exported."""
    return _Chosen.on and not torch.compiler.is_compiling()


def on_cpu(x: Tensor) -> bool:
    """Whether the fast forms for the CPU are used for x."""
    return x.device.type == "cpu" and are_on()


def with_onednn(x: Tensor, *others: Tensor) -> bool:
    """Whether products of these operands use oneDNN: float32 on the CPU, without autocast."""
    single = all(operand.dtype == torch.float32 for operand in (x, *others))
    return _Chosen.onednn and single and x.numel() > 0 and not torch.is_autocast_enabled("cpu") and on_cpu(x)


def onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x weight^T + bias, computed by oneDNN."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def whole() -> int:
    """Most elements of scores in memory at once."""
    return _Chosen.whole if _Chosen.on else EVERYTHING


def cached(x: Tensor) -> int:
    """Elements of an array made from x that stays in a CPU's cache between passes; a GPU takes what memory allows."""
    return _Chosen.cached if _Chosen.on and x.device.type == "cpu" else whole()


def attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """torch's `scaled_dot_product_attention`: fused, which has no second derivative, or as an expression."""
    with nullcontext() if _Chosen.on else sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v, **options)


def block_rows() -> int:
    """Rows of a block whose hidden values stay in cache."""
    return _Chosen.rows


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """The backward pass of a fast form; it raises when torch would differentiate it too.

    `torch.autograd.function.once_differentiable` returns gradients without a graph there and only raises if they are
    reached, so a penalty on a gradient would add nothing.
    """

    @wraps(backward)
    def checked(ctx: Any, *gradients: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "second derivatives: the fast forms of informer.networks have none. Fix: compute the output in "
                "`with informer.networks.ops.fast.forms(on=False):`"
            )
        return backward(ctx, *gradients)

    return checked


def int_hint(size: int) -> int:
    """`size` as int; in a graph exported for any batch size its example value, so that decisions do not fix it."""
    return size if isinstance(size, int) else size.node.hint


outside_graphs = _disable_dynamo
"""Like the decorator `torch.compiler.disable`, but torch's compiler is only imported when the function is first called.
The public decorator imports it when a class is defined, which would delay every restoring of a network by seconds."""


def is_shape_only() -> bool:
    """Whether new tensors have no memory (the meta device). Their values do not matter, and products of them would make
    torch import its compiler."""
    return torch.get_default_device().type == "meta"


def normal(*shape: int, std: float = 1.0) -> Tensor:
    """Samples from N(0, std^2), drawn from torch's global generator."""
    return torch.empty(shape) if is_shape_only() else torch.randn(shape) * std
