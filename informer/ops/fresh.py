"""Initial tensors of a network, also when it is built only for its shapes."""

import torch
from torch import Tensor


def is_shape_only() -> bool:
    """Whether new tensors have no memory (the meta device). Their values do not matter, and products of them would make
    torch import its compiler."""
    return torch.get_default_device().type == "meta"


def normal(*shape: int, std: float = 1.0) -> Tensor:
    """Samples from N(0, std^2), drawn from torch's global generator."""
    return torch.empty(shape) if is_shape_only() else torch.randn(shape) * std
