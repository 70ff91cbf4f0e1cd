"""Compile the network; on a GPU as CUDA graphs, which avoid launch overhead."""

import torch
from torch import nn

from informer.errors import InputError


def compile_model(model: nn.Module, device: torch.device) -> None:
    """Compile the model's forward pass on its first call; parameters and their names are unchanged.

    Raises:
        InputError: there is no usable compiler.
    """
    try:
        torch.compile(lambda x: x.sin() + 1)(torch.zeros(2, device=device))
    except Exception as error:  # torch raises its own types for compiler problems
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"compile=true: expected a compiler that torch can use, found: {reason}; install one (g++, or triton for a "
            "GPU), or use compile=false"
        ) from error
    model.compile(mode="reduce-overhead" if device.type == "cuda" else None)
