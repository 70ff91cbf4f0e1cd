"""Optimiser and learning-rate schedule."""

from dataclasses import dataclass
from enum import Enum

import torch
from torch import nn


class Schedule(Enum):
    """halving: the rate of epoch n is lr / 2^(n-1), as in the paper's runs; constant: lr throughout."""

    halving = "halving"
    constant = "constant"


@dataclass(kw_only=True, slots=True)
class OptimConfig:
    """The node `optim`: Adam."""

    lr: float = 1e-4
    schedule: Schedule = Schedule.halving
    weight_decay: float = 0.0
    clip_norm: float | None = None
    """Largest gradient norm that reaches the optimiser; longer gradients are shortened to it."""

    def problems(self) -> list[str]:
        """Every value out of range, one sentence each."""
        found = []
        if not self.lr > 0:
            found.append(f"optim.lr: expected more than 0, found {self.lr}")
        if self.weight_decay < 0:
            found.append(f"optim.weight_decay: expected at least 0, found {self.weight_decay}")
        if self.clip_norm is not None and not self.clip_norm > 0:
            found.append(f"optim.clip_norm: expected more than 0 or null, found {self.clip_norm}")
        return found


def build_optimizer(config: OptimConfig, model: nn.Module) -> torch.optim.Adam:
    """Adam in one fused kernel over all parameters."""
    return torch.optim.Adam(model.parameters(), lr=config.lr, weight_decay=config.weight_decay, fused=True)


def learning_rate(config: OptimConfig, epoch: int) -> float:
    """The rate of `epoch`, counted from 1."""
    return config.lr * 0.5 ** (epoch - 1) if config.schedule is Schedule.halving else config.lr


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Every parameter group takes `rate`."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def gradient_norm(model: nn.Module, clip_norm: float | None) -> torch.Tensor:
    """Euclidean norm of the whole gradient, as it was before clipping to `clip_norm`."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    if clip_norm is not None:
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), clip_norm, norm)
    return norm
