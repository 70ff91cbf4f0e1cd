"""Optimiser and learning-rate schedule."""

import math
from collections.abc import Iterable
from typing import final

import torch
from torch import Tensor, nn

from informer.config.training import OptimConfig, Schedule


@final
class GuardedAdam(torch.optim.Adam):
    """Fused Adam that changes nothing from the first non-finite step on.

    Whether a step is finite is decided on the device, without synchronisation: the fused kernels change nothing if
    `found_inf` is 1, as for `torch.amp.GradScaler`.

    Args:
        params: on one device.
        lr, weight_decay: as in `torch.optim.Adam`.
    """

    def __init__(self, params: Iterable[nn.Parameter], *, lr: float, weight_decay: float) -> None:
        params = list(params)
        super().__init__(params, lr=lr, weight_decay=weight_decay, fused=True)
        self.found_inf = torch.zeros((), device=params[0].device)
        """1 from the first non-finite step on."""

    def step_while_finite(self, *values: Tensor) -> None:
        """A step, unless one of `values` is not finite or one was before."""
        finite = torch.stack(values).isfinite().all()
        self.found_inf = torch.where(finite, self.found_inf, torch.ones_like(self.found_inf))
        self.step()


def build_optimizer(config: OptimConfig, model: nn.Module) -> GuardedAdam:
    """Adam over all trainable parameters."""
    learnt = (p for p in model.parameters() if p.requires_grad)
    return GuardedAdam(learnt, lr=config.lr, weight_decay=config.weight_decay)


def learning_rate(config: OptimConfig, *, epoch: int, done: float) -> float:
    """Learning rate in `epoch` (from 1), after the share `done` of the run's steps."""
    factors = {
        Schedule.halving: 0.5 ** (epoch - 1),
        Schedule.constant: 1.0,
        Schedule.cosine: 0.5 * (1.0 + math.cos(math.pi * done)),
    }
    return config.lr * factors[config.schedule]


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the rate of every parameter group."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def gradient_norm(model: nn.Module, clip_norm: float | None) -> torch.Tensor:
    """Euclidean norm of the whole gradient, before clipping to `clip_norm`."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    if clip_norm is not None:
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), clip_norm, norm)
    return norm
