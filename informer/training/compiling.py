"""The network as compiled kernels; on a GPU as CUDA graphs, which spare the launches."""

import torch
from torch import nn

from informer.errors import InputError


def compile_model(model: nn.Module, device: torch.device) -> None:
    """Let the model's forward pass compile itself when it is first called; its parameters and their names stay.

    Raises:
        InputError: nothing can be compiled here.
    """
    try:
        torch.compile(lambda x: x.sin() + 1)(torch.zeros(2, device=device))
    except Exception as error:  # whatever a compiler may lack, torch wraps in types of its own
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"compile=true: expected a compiler that torch can use, found: {reason}; install one (g++, or triton for a "
            "GPU), or use compile=false"
        ) from error
    model.compile(mode="reduce-overhead" if device.type == "cuda" else None)
