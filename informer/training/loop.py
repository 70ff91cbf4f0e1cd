"""Training from the first step to the last: `fit` runs epochs, an epoch runs `train_step`.

`State` is all that persists between two steps: a saved and restored run continues as if it had never stopped.
"""

import logging
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from informer.data.windows import Windows
from informer.errors import counted
from informer.models.base import model_output
from informer.training.distributed import Processes
from informer.training.divergence import divergence, is_finite
from informer.training.loss import Loss, observed_share
from informer.training.optim import gradient_norm, set_learning_rate
from informer.training.precision import autocast
from informer.training.session import Session
from informer.training.state import Progress
from informer.training.stopping import EarlyStopping
from informer.training.tracking.curves import track_epoch
from informer.training.tracking.step_log import READ_EVERY, StepLog

log = logging.getLogger(__name__)


def fit(session: Session) -> EarlyStopping:
    """Train until the maximum of epochs or steps is reached, or patience runs out.

    The model ends with the last epoch's weights; the checkpointer has saved the best. A model with a fitted linear part
    is also validated before the first step, and may remain the best.

    Raises:
        InputError: the loss or a gradient is no longer finite; the weights are those before that step.
        Interrupted: a stop request; the state was saved.
    """
    stopping = session.state.stopping
    session.tracker.begin()
    if session.settings.model.is_fitted_first and stopping.start_loss is None:
        stopping.update(validate(session), epoch=0)
        session.tracker.start_loss(stopping.best_loss)
        session.checkpointer.save(session.state, is_best=True)
    while not session.is_over:
        run_epoch(session)
    if session.is_late:
        log.info(f"stopped: trainer.max_minutes={session.settings.trainer.max_minutes:.3g} used up")
    elif stopping.should_stop:
        log.info(
            f"stopped: no lower validation loss in {counted(stopping.patience, 'epoch')}; "
            f"best was epoch {stopping.best_epoch}"
        )
    return stopping


def run_epoch(session: Session) -> None:
    """Finish the current epoch, or run the next: train, validate, report, save."""
    state = session.state
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
    session.tracker.epoch(epoch, row, is_best=is_best)
    trainer = session.settings.trainer
    track_epoch(
        session.tracker, state.scored, session.data, epoch, extras=trainer.track_also,
        batch_size=trainer.eval_batch_size,
    )  # fmt: skip
    session.checkpointer.is_due(together=True)  # the result is ignored: an epoch is always saved
    session.checkpointer.save(state, is_best=is_best)


def window_order(windows: Windows, *, seed: int, epoch: int) -> Tensor:
    """Order of the windows in this epoch, the same on every device."""
    order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch))
    return order.to(windows.starts.device)


def train_epoch(session: Session) -> None:
    """Train for the rest of the epoch, or up to the last step or the time limit; updates the state."""
    progress, checkpointer, unread = session.state.progress, session.checkpointer, StepLog(session.processes)
    trainer, last_step = session.settings.trainer, session.last_step
    order = window_order(session.data.train, seed=session.settings.seed, epoch=progress.epoch + 1)
    order = order[: trainer.epoch_steps(len(order)) * trainer.batch_size]
    set_training_mode(session.state.model, trainer.freeze)
    while progress.n_seen < len(order) and progress.step < last_step:
        indices = order[progress.n_seen : progress.n_seen + trainer.batch_size]
        set_learning_rate(session.state.optimizer, session.rate(progress.step))
        unread.add(*train_step(session, indices), indices)
        progress.step += 1
        progress.n_seen += len(indices)
        session.tracker.advance()
        is_reading = progress.n_seen == len(order) or progress.step == last_step or len(unread) == READ_EVERY
        is_due = checkpointer.is_due(together=is_reading)
        if is_due or is_reading:
            _read(unread, session)
        if is_due:
            checkpointer.save(session.state)
        if is_reading and session.is_late:
            break


def set_training_mode(model: nn.Module, frozen: Sequence[str]) -> None:
    """Set training mode, except for frozen parts, which have no dropout and fixed statistics."""
    model.train()
    for name in frozen:
        model.get_submodule(name).eval()


def train_step(session: Session, indices: Tensor) -> tuple[Tensor, Tensor]:
    """One optimiser step, skipped if its loss or gradient is not finite.

    Returns:
        This process's part of the mean loss, and the norm of the whole gradient, both still on the device.
    """
    shard, n = session.processes.share(indices)
    batch = session.data.train.batch(shard)
    optimizer = session.state.optimizer
    optimizer.zero_grad(set_to_none=True)  # frees the old gradients before the activations of the forward pass
    model = session.state.model
    model.begin_step(session.state.progress.step / session.last_step)
    with autocast(session.settings.precision, session.device):
        output = model_output(session.network, batch, with_actual=model.LEARNS_FROM_ACTUAL).float()
    used = max(n, 1)  # a share without counted windows has no weight
    value = session.loss(output[:used], batch.target[:used]) * (n / len(indices))
    (value * session.processes.size).backward()  # gradients are averaged over processes
    norm = gradient_norm(session.state.model, session.settings.optim.clip_norm)
    optimizer.step_while_finite(value.detach(), norm)
    if session.state.average is not None:
        session.state.average.update(model)
    return value.detach(), norm


def validate(session: Session) -> float:
    """Mean loss over the validation windows."""

    def pause() -> None:
        if session.checkpointer.is_due(together=False):
            session.checkpointer.save(session.state)

    with autocast(session.settings.precision, session.device):
        return mean_loss(
            session.state.scored, session.data.val, session.val_loss, session.settings.trainer.eval_batch_size,
            processes=session.processes, pause=pause,
        )  # fmt: skip


@torch.inference_mode()
def mean_loss(
    model: nn.Module,
    windows: Windows,
    loss: Loss,
    batch_size: int,
    *,
    processes: Processes,
    pause: Callable[[], None] = lambda: None,
) -> float:
    """Loss in eval mode with equal weight per observed value; `pause` is called between batches.

    Each process evaluates some of the batches; the result is bit-identical for any number of processes.
    """
    model.eval()
    batches = torch.arange(len(windows)).split(batch_size)
    sums = torch.zeros(len(batches), device=windows.starts.device)
    counts = torch.zeros_like(sums)
    for i in range(processes.rank, len(batches), processes.size):
        batch = windows.batch(batches[i])
        counted = observed_share(batch.target) if windows.store.has_gaps else len(batches[i])
        counts[i] = counted
        sums[i] = loss(model_output(model, batch).float(), batch.target) * counted
        pause()
    n = processes.sum(counts).sum().item() if windows.store.has_gaps else len(windows)
    return processes.sum(sums).sum().item() / n


def _read(unread: StepLog, session: Session) -> None:
    """Fetch the steps since the last reading, for the curves and the epoch's mean loss."""
    progress = session.state.progress
    first = progress.step - len(unread) + 1
    records = unread.read()
    for step, record in enumerate(records, start=first):
        if not is_finite(record):
            rate = session.rate(step - 1)
            raise divergence(record, session.data, step=step, epoch=progress.epoch + 1, learning_rate=rate)
        # one by one, so that the sum does not depend on when steps are read
        progress.loss_sum += record.loss * len(record.windows)
    session.tracker.steps(first, records)
