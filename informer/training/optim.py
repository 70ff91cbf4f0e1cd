"""Optimiser and learning-rate schedule."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import final

import torch
from torch import Tensor, nn


class Schedule(Enum):
    """halving: the rate of epoch n is lr / 2^(n-1), as in the paper's runs; constant: lr throughout.

    cosine: from lr to 0 along half a cosine, step by step over the whole run.
    """

    halving = "halving"
    constant = "constant"
    cosine = "cosine"


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


@final
class GuardedAdam(torch.optim.Adam):
    """Adam in one fused kernel, which moves nothing from the first step on that is not finite.

    Whether a step is finite is decided on its device, nothing is fetched: the fused kernels leave everything as it is
    where `found_inf` is 1, as they do for `torch.amp.GradScaler`.

    Args:
        params: on one device.
        lr, weight_decay: as in `torch.optim.Adam`.
    """

    def __init__(self, params: Iterable[nn.Parameter], *, lr: float, weight_decay: float) -> None:
        params = list(params)
        super().__init__(params, lr=lr, weight_decay=weight_decay, fused=True)
        self.found_inf = torch.zeros((), device=params[0].device)
        """1 from the first step on that was not finite."""

    def step_while_finite(self, *values: Tensor) -> None:
        """A step, unless one of `values` is not finite or one was before."""
        finite = torch.stack(values).isfinite().all()
        self.found_inf = torch.where(finite, self.found_inf, torch.ones_like(self.found_inf))
        self.step()


def build_optimizer(config: OptimConfig, model: nn.Module) -> GuardedAdam:
    """Adam over all parameters that are to be learnt."""
    learnt = (p for p in model.parameters() if p.requires_grad)
    return GuardedAdam(learnt, lr=config.lr, weight_decay=config.weight_decay)


def learning_rate(config: OptimConfig, *, epoch: int, done: float) -> float:
    """The rate of a step of `epoch` (from 1), before which the share `done` of the run's steps lies."""
    factors = {
        Schedule.halving: 0.5 ** (epoch - 1),
        Schedule.constant: 1.0,
        Schedule.cosine: 0.5 * (1.0 + math.cos(math.pi * done)),
    }
    return config.lr * factors[config.schedule]


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
