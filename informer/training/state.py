"""Everything that changes while a run goes on: saved and restored, a run goes on as if it had never stopped."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import nn

from informer.training.early_stopping import EarlyStopping
from informer.training.optim import GuardedAdam


@dataclass(kw_only=True, slots=True)
class Progress:
    """How far a run has come."""

    epoch: int = 0
    """Epochs that are finished, validation included."""
    step: int = 0
    """Optimiser steps, over all epochs."""
    n_seen: int = 0
    """Windows of the epoch under way that were learnt from."""
    loss_sum: float = 0.0
    """Sum of the training loss over those windows."""


@dataclass(kw_only=True, slots=True)
class State:
    """A run at some moment between two steps."""

    model: nn.Module
    optimizer: GuardedAdam
    stopping: EarlyStopping
    progress: Progress = field(default_factory=Progress)

    def training(self) -> dict[str, Any]:
        """All but the weights, in plain containers; torch's generators are part of it."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "stopping": vars(self.stopping),
            "progress": asdict(self.progress),
            "rng": {"cpu": torch.get_rng_state(), "cuda": _cuda_rng()},
        }

    def restore(self, training: Mapping[str, Any]) -> None:
        """Become the state that gave `training()`, torch's generators included; the model has its weights already."""
        self.optimizer.load_state_dict(training["optimizer"])
        vars(self.stopping).update(training["stopping"])
        self.progress = Progress(**training["progress"])
        torch.set_rng_state(training["rng"]["cpu"])
        if training["rng"]["cuda"] is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(training["rng"]["cuda"])


def _cuda_rng() -> torch.Tensor | None:
    return torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
