"""One run in several processes, as started by torchrun: each takes a share of every batch, all make the same step.

All shares have equal length, so that all processes draw the same random numbers for shared decisions, such as the keys
that ProbSparse samples. If a batch cannot be divided evenly, a share is padded with windows that count neither in the
loss nor in the statistics of BatchNorm.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from inspect import signature
from typing import Any, final

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.parallel import DistributedDataParallel

from informer.base.errors import InputError

log = logging.getLogger(__name__)


@final
class Processes:
    """The processes of a run, seen from one of them.

    Args:
        rank: rank of this process; 0 writes the run directory.
        size: number of processes.
        device: device of the run, which several processes also use for their communication.
    """

    def __init__(self, rank: int = 0, size: int = 1, device: torch.device | None = None) -> None:
        self.rank, self.size, self._device = rank, size, device
        self.counted = 1.0
        """Fraction of the current share that counts; the rest is padding."""

    @classmethod
    @contextmanager
    def started(cls, device: torch.device, timeout_minutes: float = 10.0) -> Iterator["Processes"]:
        """Join the processes started by torchrun (gloo on the CPU, nccl on GPUs); a single process without torchrun.

        Args:
            device: device of the run.
            timeout_minutes: how long a process waits for the others.

        Raises:
            InputError: another process ended, or did not respond in time.
        """
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            yield cls()
            return
        # restarted processes use the store of those that ended, which still contains their addresses
        shares_store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True)
        if is_elastic() and shares_store and os.environ.get("RANK") == "0":
            log.warning(
                "torchrun --max-restarts: restarted processes would read the addresses of processes that ended; set "
                "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 for torchrun"
            )
        try:
            timeout = timedelta(minutes=timeout_minutes)
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timeout)
            yield cls(dist.get_rank(), size, device)
            dist.destroy_process_group()  # not after an error: it needs all processes
        except RuntimeError as error:
            # a collective operation failed: the cause is in another process
            if not (isinstance(error, dist.DistError) or "gloo/" in str(error) or "NCCL" in str(error)):
                raise
            raise InputError(
                "another process of the run ended, or did not answer within trainer.collective_timeout_minutes="
                f"{timeout_minutes:g}; continue from what was saved last with resume=RUN_DIR"
            ) from error

    @property
    def is_main(self) -> bool:
        """Whether this process prints and writes."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model as called in training: gradients are averaged over processes, BatchNorm sees whole batches."""
        if self.size == 1:
            return model
        for module in model.modules():
            for name, child in module.named_children():
                if isinstance(child, nn.BatchNorm1d):
                    setattr(module, name, WholeBatchNorm(child, self))
        # all processes have the same buffers; torch 2.13 renamed the option that copies them, and warns about the old
        # name
        names = ("forward_sync_buffers", "broadcast_buffers")
        option = next(name for name in names if name in signature(DistributedDataParallel).parameters)
        copying: dict[str, Any] = {option: False}
        return DistributedDataParallel(model, **copying)

    def share(self, windows: Tensor) -> tuple[Tensor, int]:
        """This process's part of a batch, padded to the common length, and the number of windows that count."""
        length = -(-len(windows) // self.size)
        shard = windows[self.rank * length : (self.rank + 1) * length]
        self.counted = len(shard) / length
        return torch.cat([shard, windows[:1].expand(length - len(shard))]), len(shard)

    def sum(self, values: Tensor) -> Tensor:
        """The sum over processes."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def maximum(self, values: list[float]) -> list[float]:
        """Elementwise maximum over processes, known to all."""
        if self.size == 1:
            return values
        reduced = torch.tensor(values, device=self._device)
        dist.all_reduce(reduced, dist.ReduceOp.MAX)
        return reduced.tolist()


def is_elastic() -> bool:
    """Whether torchrun may restart the processes of the run (`torchrun --max-restarts`).

    Whether it did is not known: machines may have different restart counts.
    """
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0


class _Sum(torch.autograd.Function):
    """The sum over processes; its gradient is also summed over processes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _Sum.forward(ctx, grad)


@final
class WholeBatchNorm(nn.BatchNorm1d):
    """BatchNorm with the mean and variance of the whole batch, over all processes; on any device.

    Args:
        norm: layer whose parameters and statistics it uses.
        processes: processes that share the batch.
    """

    def __init__(self, norm: nn.BatchNorm1d, processes: Processes) -> None:
        super().__init__(norm.num_features, eps=norm.eps, momentum=norm.momentum)
        self.weight, self.bias = norm.weight, norm.bias
        self.running_mean, self.running_var = norm.running_mean, norm.running_var
        self.num_batches_tracked = norm.num_batches_tracked
        self.processes = processes

    def forward(self, x: Float[Tensor, "rows d"]) -> Float[Tensor, "rows d"]:
        """Normalise; in training with the statistics of all processes' rows."""
        if not self.training:
            return super().forward(x)
        wide = x.float()
        rows = wide[: round(len(x) * self.processes.counted)]
        sums = _Sum.apply(torch.cat([rows.sum(0), rows.new_full((1,), len(rows))]))
        n = sums[-1].detach()
        mean = sums[:-1] / n
        squares = _Sum.apply((rows - mean).square().sum(0))
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.running_mean.lerp_(mean.detach(), self.momentum)
        self.running_var.lerp_(squares.detach() / (n - 1).clamp(min=1), self.momentum)
        self.num_batches_tracked.add_(1)
        return ((wide - mean) * torch.rsqrt(squares / n + self.eps) * self.weight + self.bias).to(x.dtype)
