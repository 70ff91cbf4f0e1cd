"""Helpers to build a network without importing torch's compiler, which takes seconds."""

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

outside_graphs = _disable_dynamo
"""Like the decorator `torch.compiler.disable`, but torch's compiler is only imported when the function is first called.
The public decorator imports it when a class is defined, which would delay every restoring of a network."""


def is_shape_only() -> bool:
    """Whether new tensors have no memory (the meta device). Their values do not matter, and products of them would make
    torch import its compiler."""
    return torch.get_default_device().type == "meta"


def normal(*shape: int, std: float = 1.0) -> Tensor:
    """Samples from N(0, std^2), drawn from torch's global generator."""
    return torch.empty(shape) if is_shape_only() else torch.randn(shape) * std
