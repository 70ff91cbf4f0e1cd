"""Tensors that a network begins with, when it is built and when only its shapes are asked for."""

import torch
from torch import Tensor


def is_shape_only() -> bool:
    """Tensors made now have no memory (the meta device): values are of no use, and products of such tensors make torch
    import its compiler."""
    return torch.get_default_device().type == "meta"


def normal(*shape: int, std: float = 1.0) -> Tensor:
    """From N(0, std^2), by torch's global generator."""
    return torch.empty(shape) if is_shape_only() else torch.randn(shape) * std
