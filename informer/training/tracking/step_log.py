"""Log of steps: losses and gradient norms stay on the device and are read in bulk, to avoid synchronisation."""

from typing import NamedTuple, final

import torch
from torch import Tensor

from informer.training.distributed import Processes

READ_EVERY = 20
"""Steps between readings."""


class StepRecord(NamedTuple):
    """A finished step."""

    loss: float
    """Mean over its windows."""
    gradient_norm: float
    windows: Tensor
    """Indices of its windows."""


@final
class StepLog:
    """The steps since the last reading.

    Args:
        processes: each has a part of every loss.
    """

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._losses: list[Tensor] = []
        self._norms: list[Tensor] = []
        self._windows: list[Tensor] = []

    def __len__(self) -> int:
        return len(self._losses)

    def add(self, loss: Tensor, gradient_norm: Tensor, windows: Tensor) -> None:
        """Record a step, with this process's part of its loss, without synchronisation."""
        self._losses.append(loss)
        self._norms.append(gradient_norm)
        self._windows.append(windows)

    def read(self) -> list[StepRecord]:
        """Fetch the recorded steps, oldest first, and clear them."""
        if not self._losses:
            return []
        total_losses = self._processes.sum(torch.stack(self._losses))
        losses, norms = torch.stack([total_losses, torch.stack(self._norms)]).tolist()
        records = [StepRecord(*record) for record in zip(losses, norms, self._windows, strict=True)]
        self._losses, self._norms, self._windows = [], [], []
        return records
