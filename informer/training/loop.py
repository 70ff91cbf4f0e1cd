"""A run from the first step to the last: `fit` tells it whole, `train_epoch` and `train_step` are its verbs.

Between two steps nothing is known but `State`: what is saved there and restored goes on as if it had never stopped.
"""

import logging
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from informer.data.pipeline import Data
from informer.data.windows import Batch, Windows
from informer.inference.forecast import model_forecast
from informer.training.config import TrainerConfig, n_steps
from informer.training.divergence import divergence, is_finite
from informer.training.early_stopping import EarlyStopping
from informer.training.keeper import Keeper, Save
from informer.training.loss import Loss
from informer.training.optim import OptimConfig, build_optimizer, gradient_norm, learning_rate, set_learning_rate
from informer.training.signals import StopRequest
from informer.training.state import Progress, State
from informer.training.step_log import READ_EVERY, StepLog
from informer.training.tracker import Tracker
from informer.training.validation import mean_loss, picture

log = logging.getLogger(__name__)


def fit(
    model: nn.Module,
    data: Data,
    *,
    trainer: TrainerConfig,
    optim: OptimConfig,
    loss: Loss,
    seed: int,
    tracker: Tracker,
    save: Save,
    stop: StopRequest,
    starts_fitted: bool = False,
    resumed: Mapping[str, Any] | None = None,
) -> EarlyStopping:
    """Train until the epochs, the steps or the patience are used up.

    Args:
        model: updated in place; it ends with the last epoch's weights (`save` has seen the best).
        data: its training windows are learnt from, its validation windows choose the best epoch.
        seed: of the order of windows; epoch n shuffles by (seed, n) alone.
        tracker: takes curves and progress.
        save: writes the state, after each epoch, every `trainer.save_every_minutes`, and when asked to stop.
        stop: the signal that asks.
        starts_fitted: the model forecasts before the first step; it is validated then, and may stay the best.
        resumed: what `State.training` gave when the model's weights were saved; None: a new run.

    Raises:
        InputError: the loss or a gradient is no longer finite; the weights are those before that step.
        Interrupted: the run was asked to stop, and has saved itself.
    """
    state = State(model=model, optimizer=build_optimizer(optim, model), stopping=EarlyStopping(trainer.patience))
    if resumed is not None:
        state.restore(resumed)
    keeper = Keeper(save, every_minutes=trainer.save_every_minutes, stop=stop)
    last_step = n_steps(trainer, len(data.train))
    tracker.begin()
    if starts_fitted and resumed is None:
        state.stopping.update(mean_loss(model, data.val, loss, trainer.eval_batch_size, lambda: None), epoch=0)
        log.info(f"validation loss before the first step: {state.stopping.best_loss:.5f}")
        keeper.keep(state, is_best=True)
    while not _is_over(state, trainer, last_step):
        epoch, already, started = state.progress.epoch + 1, state.progress.n_seen, time.perf_counter()
        rate = learning_rate(optim, epoch=epoch, done=state.progress.step / last_step)
        train_epoch(
            state, data, loss, tracker, keeper, order=window_order(data.train, seed=seed, epoch=epoch),
            last_step=last_step, batch_size=trainer.batch_size, optim=optim,
        )  # fmt: skip
        step, n_seen, loss_sum = state.progress.step, state.progress.n_seen, state.progress.loss_sum
        trained_in = time.perf_counter() - started
        val_loss = mean_loss(model, data.val, loss, trainer.eval_batch_size, lambda: _keep_if_due(keeper, state))
        is_best = state.stopping.update(val_loss, epoch)
        state.progress = Progress(epoch=epoch, step=step)
        row = {
            "train_loss": loss_sum / n_seen,
            "val_loss": val_loss,
            "lr": rate,
            "samples_per_second": (n_seen - already) / trained_in,
            "seconds": time.perf_counter() - started,
        }
        tracker.epoch(epoch, row, is_best=is_best)
        tracker.figure("val/forecast", picture(model, data), epoch)
        keeper.keep(state, is_best=is_best)
    if state.stopping.should_stop:
        log.info(
            f"stopped: no lower validation loss in {trainer.patience} epochs; "
            f"best was epoch {state.stopping.best_epoch}"
        )
    return state.stopping


def _is_over(state: State, trainer: TrainerConfig, last_step: int) -> bool:
    """No epoch is under way and none is to come."""
    progress = state.progress
    used_up = progress.epoch >= trainer.max_epochs or progress.step >= last_step or state.stopping.should_stop
    return used_up and progress.n_seen == 0


def window_order(windows: Windows, *, seed: int, epoch: int) -> Tensor:
    """Numbers of the windows in the order that this epoch learns from them, the same on every device."""
    order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch))
    return order.to(windows.starts.device)


def train_epoch(
    state: State,
    data: Data,
    loss: Loss,
    tracker: Tracker,
    keeper: Keeper,
    *,
    order: Tensor,
    last_step: int,
    batch_size: int,
    optim: OptimConfig,
) -> None:
    """The rest of a pass over the windows, or the steps up to `last_step`; moves `state` on."""
    state.model.train()
    progress, unread = state.progress, StepLog()
    while progress.n_seen < len(order) and progress.step < last_step:
        indices = order[progress.n_seen : progress.n_seen + batch_size]
        rate = learning_rate(optim, epoch=progress.epoch + 1, done=progress.step / last_step)
        set_learning_rate(state.optimizer, rate)
        unread.add(*train_step(state, data.train.batch(indices), loss, optim.clip_norm), indices)
        progress.step += 1
        progress.n_seen += len(indices)
        tracker.advance()
        is_due = keeper.is_due
        if is_due or len(unread) == READ_EVERY or progress.n_seen == len(order) or progress.step == last_step:
            _read(unread, state, data, tracker, rate)
        if is_due:
            keeper.keep(state)


def train_step(state: State, batch: Batch, loss: Loss, clip_norm: float | None) -> tuple[Tensor, Tensor]:
    """One step of the optimiser, unless it is not finite: its loss and gradient norm, still on the device."""
    value = loss(model_forecast(state.model, batch), batch.target)
    state.optimizer.zero_grad(set_to_none=True)
    value.backward()
    norm = gradient_norm(state.model, clip_norm)
    state.optimizer.step_while_finite(value.detach(), norm)
    return value.detach(), norm


def _read(unread: StepLog, state: State, data: Data, tracker: Tracker, rate: float) -> None:
    """Fetch the steps up to the present one, for the curves and the epoch's mean loss."""
    first = state.progress.step - len(unread) + 1
    records = unread.read()
    for step, record in enumerate(records, start=first):
        if not is_finite(record):
            raise divergence(record, data, step=step, epoch=state.progress.epoch + 1, learning_rate=rate)
        # one by one: the sum must not depend on when it was read
        state.progress.loss_sum += record.loss * len(record.windows)
    tracker.steps(first, records)


def _keep_if_due(keeper: Keeper, state: State) -> None:
    if keeper.is_due:
        keeper.keep(state)
