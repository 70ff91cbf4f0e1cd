"""One run in several processes, as started by torchrun: each takes a share of every batch, all make the same step.

Gradients are averaged by DistributedDataParallel. Each process normalises its own share, with the running statistics of
the first one, so results differ from those of one process.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from informer.base.errors import InputError

OF_COLLECTIVES = ("gloo/", "Application timeout", "NCCL")
"""Words of the errors of gloo and nccl."""


class Processes(NamedTuple):
    """The processes of a run, seen from the one of this rank; rank 0 prints and writes."""

    rank: int = 0
    size: int = 1
    device: torch.device | None = None

    @classmethod
    @contextmanager
    def started(cls, device: torch.device, timeout_minutes: float) -> Iterator["Processes"]:
        """Join the processes started by torchrun (gloo on the CPU, nccl on GPUs); without torchrun there is one.

        Raises:
            InputError: another process ended, or did not answer within `timeout_minutes`.
        """
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            yield cls()
            return
        try:
            backend = "nccl" if device.type == "cuda" else "gloo"
            dist.init_process_group(backend, timeout=timedelta(minutes=timeout_minutes))
            yield cls(dist.get_rank(), dist.get_world_size(), device)
            dist.destroy_process_group()  # not after an error: it needs all processes
        except RuntimeError as error:  # a collective operation failed: the cause is in another process
            if not (isinstance(error, dist.DistError) or any(word in str(error) for word in OF_COLLECTIVES)):
                raise
            raise InputError(
                "another process of the run ended, or did not answer within trainer.collective_timeout_minutes="
                f"{timeout_minutes:g}; continue from what was saved last with resume=RUN_DIR"
            ) from error

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model as called in training steps."""
        return model if self.size == 1 else DistributedDataParallel(model)

    def share(self, windows: Tensor) -> Tensor:
        """This process's windows of a batch. All shares are equally long, so that all processes draw the same random
        numbers: if a batch cannot be divided evenly, some of its windows are in two shares."""
        length = -(-len(windows) // self.size)
        return windows[torch.arange(length * self.size, device=windows.device) % len(windows)][self.rank :: self.size]

    def sum(self, values: Tensor) -> Tensor:
        """The sum over processes."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def maximum(self, values: list[float]) -> list[float]:
        """Elementwise maximum over processes, known to all."""
        if self.size == 1:
            return values
        reduced = torch.tensor(values, device=self.device)
        dist.all_reduce(reduced, dist.ReduceOp.MAX)
        return reduced.tolist()

    def share_buffers(self, model: nn.Module) -> None:
        """Copy the running statistics of the first process."""
        for buffer in model.buffers() if self.size > 1 else ():
            dist.broadcast(buffer, 0)
