"""A run from the first step to the last: `fit` tells it whole, `train_epoch` and `train_step` are its verbs.

Between two steps nothing is known but `State`: what is saved there and restored goes on as if it had never stopped.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from informer.data.pipeline import Data
from informer.data.windows import Windows
from informer.errors import counted
from informer.inference.network import model_output
from informer.training.config import TrainerConfig, epoch_steps, n_steps
from informer.training.distributed import Processes
from informer.training.divergence import divergence, is_finite
from informer.training.early_stopping import EarlyStopping
from informer.training.freezing import set_training_mode
from informer.training.keeper import Keeper, Save
from informer.training.loss import Loss
from informer.training.optim import OptimConfig, build_optimizer, gradient_norm, learning_rate, set_learning_rate
from informer.training.precision import Precision
from informer.training.signals import StopRequest
from informer.training.state import Progress, State
from informer.training.step_log import READ_EVERY, StepLog
from informer.training.tracker import Tracker
from informer.training.validation import mean_loss, picture

log = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class Session:
    """What the verbs of a run share: what is learnt, from what, and how."""

    state: State
    network: nn.Module
    """The state's model as training calls it; several processes average its gradients."""
    data: Data
    device: torch.device
    trainer: TrainerConfig
    optim: OptimConfig
    loss: Loss
    precision: Precision
    seed: int
    tracker: Tracker
    keeper: Keeper
    processes: Processes

    @property
    def last_step(self) -> int:
        """Where the run ends if it is not stopped early."""
        return n_steps(self.trainer, len(self.data.train))

    def rate(self, done: int) -> float:
        """Learning rate of the step that comes after `done` steps, in the present epoch."""
        return learning_rate(self.optim, epoch=self.state.progress.epoch + 1, done=done / self.last_step)

    @property
    def is_over(self) -> bool:
        """No epoch is under way and none is to come."""
        progress = self.state.progress
        used_up = progress.epoch >= self.trainer.max_epochs or progress.step >= self.last_step
        return progress.n_seen == 0 and (used_up or self.state.stopping.should_stop)


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
    precision: Precision,
    processes: Processes,
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
        precision: of the products.
        processes: that share every batch.
        resumed: what `State.training` gave when the model's weights were saved; None: a new run.

    Raises:
        InputError: the loss or a gradient is no longer finite; the weights are those before that step.
        Interrupted: the run was asked to stop, and has saved itself.
    """
    state = State(model=model, optimizer=build_optimizer(optim, model), stopping=EarlyStopping(trainer.patience))
    if resumed is not None:
        state.restore(resumed)
    device = data.train.starts.device
    session = Session(
        state=state, network=processes.wrap(model), data=data, device=device, trainer=trainer, optim=optim, loss=loss,
        precision=precision, seed=seed, tracker=tracker, processes=processes,
        keeper=Keeper(save, every_minutes=trainer.save_every_minutes, stop=stop, processes=processes, device=device),
    )  # fmt: skip
    tracker.begin()
    if starts_fitted and state.stopping.start_loss is None:
        state.stopping.update(validate(session), epoch=0)
        log.info(f"validation loss before the first step: {state.stopping.best_loss:.5f}")
        session.keeper.keep(state, is_best=True)
    while not session.is_over:
        epoch, already, started = state.progress.epoch + 1, state.progress.n_seen, time.perf_counter()
        rate = session.rate(state.progress.step)
        train_epoch(session)
        step, n_seen, loss_sum = state.progress.step, state.progress.n_seen, state.progress.loss_sum
        trained_in = time.perf_counter() - started
        val_loss = validate(session)
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
        if processes.is_main:
            tracker.figure("val/forecast", picture(model, data), epoch)
        session.keeper.is_due(together=True)  # whether or not: an epoch is always kept
        session.keeper.keep(state, is_best=is_best)
    if state.stopping.should_stop:
        log.info(
            f"stopped: no lower validation loss in {counted(trainer.patience, 'epoch')}; "
            f"best was epoch {state.stopping.best_epoch}"
        )
    return state.stopping


def window_order(windows: Windows, *, seed: int, epoch: int) -> Tensor:
    """Numbers of the windows in the order that this epoch learns from them, the same on every device."""
    order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch))
    return order.to(windows.starts.device)


def train_epoch(session: Session) -> None:
    """The rest of an epoch, or the steps up to the last; moves the state on."""
    progress, keeper, unread = session.state.progress, session.keeper, StepLog(session.processes)
    order = window_order(session.data.train, seed=session.seed, epoch=progress.epoch + 1)
    order = order[: epoch_steps(session.trainer, len(order)) * session.trainer.batch_size]
    set_training_mode(session.state.model, session.trainer.freeze)
    while progress.n_seen < len(order) and progress.step < session.last_step:
        indices = order[progress.n_seen : progress.n_seen + session.trainer.batch_size]
        set_learning_rate(session.state.optimizer, session.rate(progress.step))
        unread.add(*train_step(session, indices), indices)
        progress.step += 1
        progress.n_seen += len(indices)
        session.tracker.advance()
        is_end = progress.n_seen == len(order) or progress.step == session.last_step
        is_reading = is_end or len(unread) == READ_EVERY
        is_due = keeper.is_due(together=is_reading)
        if is_due or is_reading:
            _read(unread, session)
        if is_due:
            keeper.keep(session.state)


def train_step(session: Session, indices: Tensor) -> tuple[Tensor, Tensor]:
    """One step of the optimiser, unless it is not finite.

    Returns:
        This process's part of the mean loss, and the norm of the whole gradient, both still on the device.
    """
    own, n = session.processes.share(indices)
    batch = session.data.train.batch(own)
    optimizer = session.state.optimizer
    optimizer.zero_grad(set_to_none=True)  # before the forward pass: old gradients need not lie beside its activations
    with session.precision.context(session.device):
        output = model_output(session.network, batch).float()
    used = max(n, 1)  # a share with none that count weighs nothing
    value = session.loss(output[:used], batch.target[:used]) * (n / len(indices))
    (value * session.processes.size).backward()  # gradients are averaged over processes
    norm = gradient_norm(session.state.model, session.optim.clip_norm)
    optimizer.step_while_finite(value.detach(), norm)
    return value.detach(), norm


def validate(session: Session) -> float:
    """Mean loss over the validation windows."""

    def pause() -> None:
        if session.keeper.is_due(together=False):
            session.keeper.keep(session.state)

    with session.precision.context(session.device):
        return mean_loss(
            session.state.model, session.data.val, session.loss, session.trainer.eval_batch_size,
            processes=session.processes, pause=pause,
        )  # fmt: skip


def _read(unread: StepLog, session: Session) -> None:
    """Fetch the steps up to the present one, for the curves and the epoch's mean loss."""
    progress = session.state.progress
    first = progress.step - len(unread) + 1
    records = unread.read()
    for step, record in enumerate(records, start=first):
        if not is_finite(record):
            rate = session.rate(step - 1)
            raise divergence(record, session.data, step=step, epoch=progress.epoch + 1, learning_rate=rate)
        # one by one: the sum must not depend on when it was read
        progress.loss_sum += record.loss * len(record.windows)
    session.tracker.steps(first, records)
