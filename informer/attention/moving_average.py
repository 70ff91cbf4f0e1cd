"""Statistics of training batches kept in buffers, as in BatchNorm."""

import torch
import torch.distributed as dist
from torch import Tensor


def over_processes(x: Tensor) -> Tensor:
    """Sum of x over the processes of a run, so that all of them keep the same buffers."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        x = x.clone()
        dist.all_reduce(x)
    return x


def new_average(kept: Tensor, fresh: Tensor, momentum: float) -> Tensor:
    """momentum * kept + (1 - momentum) * fresh in the type of `kept`, which is not modified."""
    return torch.lerp(fresh.to(kept), kept, momentum)
