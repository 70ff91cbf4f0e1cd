"""Optimiser and learning-rate schedule."""

import inspect
import math
from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor, nn

from informer.config.training import OptimConfig, Schedule


@final
class GuardedAdam(torch.optim.Adam):
    """Fused Adam that skips all steps from the first non-finite one on.

    Whether a step is finite is decided on the device, without synchronisation: the fused kernels skip a step if
    `found_inf` is 1, as for `torch.amp.GradScaler`.

    Args:
        params: parameters on one device.
        lr, weight_decay: see `torch.optim.Adam`.
    """

    def __init__(self, params: Iterable[nn.Parameter], *, lr: float, weight_decay: float) -> None:
        params = list(params)
        super().__init__(params, lr=lr, weight_decay=weight_decay, fused=True)
        self.found_inf = torch.zeros((), device=params[0].device)
        """1 from the first non-finite step on."""

    # torch keeps these methods out of compiled graphs, which imports its compiler, 800 modules, when they are called;
    # nothing here compiles an optimiser
    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    state_dict = inspect.unwrap(torch.optim.Adam.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Adam.load_state_dict)
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """See `torch.optim.Adam.step`."""
        return inspect.unwrap(torch.optim.Adam.step)(self, closure)

    def step_while_finite(self, *values: Tensor) -> None:
        """Make a step, unless one of `values`, now or in an earlier call, is not finite."""
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
    """Clip the gradient to `clip_norm`, if set; returns its Euclidean norm before clipping."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    if clip_norm is not None:
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), clip_norm, norm)
    return norm
