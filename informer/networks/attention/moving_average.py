"""Moving averages of training batches kept in buffers, as in BatchNorm."""

import torch
import torch.distributed as dist
from torch import Tensor


def over_processes(x: Tensor) -> Tensor:
    """Sum of x over all processes, so that their buffers stay equal."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        x = x.clone()
        dist.all_reduce(x)
    return x


def new_average(average: Tensor, value: Tensor, momentum: float) -> Tensor:
    """momentum * average + (1 - momentum) * value in the dtype of `average`, which is not modified."""
    return torch.lerp(value.to(average), average, momentum)
