"""A run from the first step to the last: `fit` tells it whole, `train_epoch` and `mean_loss` are its two verbs."""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from informer.data.pipeline import Data
from informer.data.windows import Windows
from informer.errors import InputError
from informer.inference.forecast import model_forecast
from informer.plots import plot_windows
from informer.training.early_stopping import EarlyStopping
from informer.training.loss import Loss
from informer.training.optim import OptimConfig, build_optimizer, gradient_norm, learning_rate, set_learning_rate
from informer.training.tracker import Tracker

log = logging.getLogger(__name__)

READ_EVERY = 20
"""Steps between two reads of the losses from the device; reading waits for the device to catch up."""


@dataclass(kw_only=True, slots=True)
class TrainerConfig:
    """The node `trainer`."""

    max_epochs: int = 6
    max_steps: int | None = None
    """Stop after so many steps, validated as after an epoch; null: no bound."""
    batch_size: int = 32
    eval_batch_size: int = 256
    """Windows a batch in validation and test; no result depends on it."""
    patience: int = 3
    """Epochs without a lower validation loss after which training stops."""

    def problems(self) -> list[str]:
        """Every value out of range, one sentence each."""
        values = {
            "max_epochs": self.max_epochs,
            "max_steps": 1 if self.max_steps is None else self.max_steps,
            "batch_size": self.batch_size,
            "eval_batch_size": self.eval_batch_size,
            "patience": self.patience,
        }
        return [f"trainer.{name}: expected at least 1, found {value}" for name, value in values.items() if value < 1]


class State(NamedTuple):
    """What `save` is given after an epoch."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    stopping: EarlyStopping
    epoch: int
    step: int
    is_best: bool


def n_steps(config: TrainerConfig, n_windows: int) -> int:
    """Optimiser steps of a run that is not stopped early."""
    steps = config.max_epochs * -(-n_windows // config.batch_size)
    return steps if config.max_steps is None else min(steps, config.max_steps)


def fit(
    model: nn.Module,
    data: Data,
    *,
    trainer: TrainerConfig,
    optim: OptimConfig,
    loss: Loss,
    seed: int,
    tracker: Tracker,
    save: Callable[[State], None],
) -> EarlyStopping:
    """Train until the epochs, the steps or the patience are used up.

    Args:
        model: updated in place; it ends with the last epoch's weights (`save` has seen the best).
        data: its training windows are learnt from, its validation windows choose the best epoch.
        seed: of the order of windows; epoch n shuffles by (seed, n) alone.
        tracker: takes curves and progress.
        save: called after each epoch.

    Raises:
        InputError: the loss is no longer finite.
    """
    optimizer = build_optimizer(optim, model)
    stopping = EarlyStopping(trainer.patience)
    last_step, step = n_steps(trainer, len(data.train)), 0
    for epoch in range(1, trainer.max_epochs + 1):
        started = time.perf_counter()
        rate = learning_rate(optim, epoch)
        set_learning_rate(optimizer, rate)
        order = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        train_loss, step, n_seen = train_epoch(
            model, data.train, optimizer, loss, tracker, order=order, step=step, last_step=last_step,
            batch_size=trainer.batch_size, clip_norm=optim.clip_norm,
        )  # fmt: skip
        trained_in = time.perf_counter() - started
        val_loss = mean_loss(model, data.val, loss, trainer.eval_batch_size)
        is_best = stopping.update(val_loss, epoch)
        row = {
            "train_loss": train_loss,
            "val_loss": val_loss,
            "lr": rate,
            "samples_per_second": n_seen / trained_in,
            "seconds": time.perf_counter() - started,
        }
        tracker.epoch(epoch, row, is_best=is_best)
        tracker.figure("val/forecast", picture(model, data), epoch)
        save(State(model, optimizer, stopping, epoch, step, is_best))
        if step >= last_step or stopping.should_stop:
            break
    if stopping.should_stop:
        log.info(
            f"stopped: no lower validation loss in {trainer.patience} epochs; best was epoch {stopping.best_epoch}"
        )
    return stopping


def train_epoch(
    model: nn.Module,
    windows: Windows,
    optimizer: torch.optim.Optimizer,
    loss: Loss,
    tracker: Tracker,
    *,
    order: torch.Generator,
    step: int,
    last_step: int,
    batch_size: int,
    clip_norm: float | None,
) -> tuple[float, int, int]:
    """One pass over the windows, or up to `last_step`: mean loss, step reached, windows seen."""
    model.train()
    unread: list[tuple[Tensor, Tensor, int]] = []
    total, n_seen = 0.0, 0
    for batch in windows.batches(batch_size, generator=order):
        value = loss(model_forecast(model, batch), batch.target)
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        unread.append((value.detach(), gradient_norm(model, clip_norm), len(batch.target)))
        optimizer.step()
        step += 1
        n_seen += len(batch.target)
        tracker.advance()
        if len(unread) == READ_EVERY or step == last_step or n_seen == len(windows):
            total += _read(unread, step, tracker)
            unread.clear()
        if step == last_step:
            break
    return total / n_seen, step, n_seen


def _read(unread: list[tuple[Tensor, Tensor, int]], step: int, tracker: Tracker) -> float:
    """Fetch losses and gradient norms of the steps up to `step`; the sum of the losses over windows."""
    losses, norms = (torch.stack(values).tolist() for values in list(zip(*unread, strict=True))[:2])
    for i, value in enumerate(losses):
        if not math.isfinite(value):
            raise InputError(
                f"step {step - len(losses) + 1 + i}: training loss is {value}; expected a finite number: "
                "lower optim.lr, set optim.clip_norm, or look for extreme values in the data"
            )
    tracker.steps(step, losses, norms)
    return sum(value * n for value, (_, _, n) in zip(losses, unread, strict=True))


@torch.inference_mode()
def mean_loss(model: nn.Module, windows: Windows, loss: Loss, batch_size: int) -> float:
    """Loss in eval mode, every window counting alike."""
    model.eval()
    sums = [
        loss(model_forecast(model, batch), batch.target) * len(batch.target) for batch in windows.batches(batch_size)
    ]
    return torch.stack(sums).sum().item() / len(windows)


@torch.inference_mode()
def picture(model: nn.Module, data: Data, n_windows: int = 3) -> Figure:
    """Forecast against truth for windows spread over the validation part, in scaled units."""
    model.eval()
    batch = data.val.batch(torch.linspace(0, len(data.val) - 1, n_windows).long())
    own = [data.inputs.index(name) for name in data.targets]
    history, predicted, actual = (
        x.float().cpu().numpy() for x in (batch.enc_x[:, :, own], model_forecast(model, batch), batch.target)
    )
    return plot_windows(history, predicted, actual, data.targets)
