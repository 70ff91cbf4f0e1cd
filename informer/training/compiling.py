"""Compile the network; on a GPU as CUDA graphs, which avoid launch overhead."""

from typing import Any, final

import torch
from torch import nn

from informer.errors import InputError


def check_compiler(device: torch.device) -> None:
    """Compile a small function.

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


@final
class Compiled(nn.Module):
    """A network as called in training steps, compiled on its first call.

    Elsewhere, the network itself is called: compiling each batch size of validation and test takes longer than the
    time it saves. Parameters and their names are the network's.

    Args:
        network: a network, or its wrapper for distributed training.
        device: its device.
    """

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.module = getattr(network, "module", network)  # the name that torch's wrappers have
        mode = "reduce-overhead" if device.type == "cuda" else None
        # training has two batch sizes, the last batch of an epoch's being smaller: a graph for each is faster than
        # one for any size
        self.compiled = torch.compile(network, mode=mode, dynamic=False)

    def forward(self, *inputs: Any) -> Any:
        """The network's output."""
        return self.compiled(*inputs)
