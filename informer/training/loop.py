"""Training from the first step to the last: `fit` runs epochs, an epoch runs `train_step`.

`Session` holds what a training run shares. `State` is all of it that persists between two steps: a saved and restored
run continues as if it had never stopped. A compiled network uses CUDA graphs on a GPU, which avoid launch overhead.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import inf, isinf
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from informer.base.errors import InputError, counted
from informer.base.start import Interrupted, StopRequest
from informer.checkpoint.format import Progress
from informer.config.training import TrainConfig
from informer.data.dataset import Data
from informer.data.windows import Windows
from informer.members.network import ForecastModel, model_output
from informer.training.curves import Tracker, track_epoch
from informer.training.optim import (
    autocast,
    build_loss,
    gradient_norm,
    learning_rate,
    mean_loss,
)
from informer.training.processes import Processes
from informer.training.state import State

log = logging.getLogger(__name__)


def check_compiler(device: torch.device) -> None:
    """Compile a small function.

    Raises:
        InputError: there is no usable compiler.
    """
    try:
        torch.compile(lambda x: x.sin() + 1)(torch.zeros(2, device=device))
    except Exception as error:  # torch raises its own types for compiler problems
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"compile=true: expected a compiler that torch can use, found: {reason}; install one (g++, or triton for a "
            "GPU), or use compile=false"
        ) from error


@final
class Compiled(nn.Module):
    """A network as called in training steps, compiled on its first call.

    Elsewhere, the network itself is called: compiling each batch size of validation and test takes longer than the
    time it saves. Parameters and their names are the network's.

    Args:
        network: a network, or its wrapper for distributed training.
        device: its device.
    """

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.module = getattr(network, "module", network)  # the name that torch's wrappers have
        mode = "reduce-overhead" if device.type == "cuda" else None
        # training has two batch sizes, the last batch of an epoch's being smaller: a graph for each is faster than
        # one for any size
        self.compiled = torch.compile(network, mode=mode, dynamic=False)

    def forward(self, *inputs: Any, **more: Any) -> Any:
        """The network's output."""
        return self.compiled(*inputs, **more)


Step = tuple[Tensor, Tensor, Tensor]
"""A finished step: the loss of this process's share and the gradient norm, which stay on the device to be read in bulk
without synchronisation, and the indices of its windows."""

READ_EVERY = 20
"""Steps between readings."""

NAMED = 3
"""Maximum number of windows listed."""


@final
class Session:
    """One training run, from its first step to its last.

    Args:
        settings: complete configuration of the run.
        state: what lasts from one step to the next, with the network on the device of the data.
        data: training windows for the steps, validation windows to choose the best epoch.
        tracker: receives curves and progress.
        stop: a request to save and to stop.
        save: writes the state, after each epoch, at regular intervals and on a stop request; the argument says whether
            the validation loss is the lowest so far.
        processes: they share every batch.
    """

    def __init__(
        self,
        settings: TrainConfig,
        state: State,
        data: Data,
        *,
        tracker: Tracker,
        stop: StopRequest,
        save: Callable[[bool], None] = lambda is_best: None,
        processes: Processes | None = None,
    ) -> None:
        self.settings, self.state, self.data, self.tracker = settings, state, data, tracker
        self.processes = processes or Processes()
        network = self.processes.wrap(state.model)
        # as called in training steps: compiled, and averaging gradients over processes, if so set
        self.network = Compiled(network, data.train.starts.device) if settings.compile else network
        has_gaps = not data.train.store.counts_equal
        self.loss = build_loss(settings.loss.of_steps, has_gaps=has_gaps)
        self.val_loss = build_loss(settings.loss, has_gaps=has_gaps)
        self._write, self._stop, self._signal = save, stop, 0
        self._saved_at = time.monotonic()
        self.validated_in = 0.0
        """Seconds of computing of the last validation."""
        self._ends_at = self.computed + 60.0 * (settings.trainer.max_minutes or inf)

    def is_due(self, *, together: bool) -> bool:
        """Whether to save now.

        Args:
            together: all processes call this at the same step; otherwise a run with several processes does not save.
        """
        if self.processes.size > 1 and not together:
            return False
        late = time.monotonic() - self._saved_at >= 60.0 * (self.settings.trainer.save_every_minutes or inf)
        requested, late_anywhere = self.processes.maximum([float(self._stop.signal), float(late)])
        self._signal = int(requested)
        return bool(requested or late_anywhere)

    def save(self, *, is_best: bool = False) -> None:
        """Save the state.

        Raises:
            Interrupted: the last call of `is_due` found a stop request.
        """
        self._write(is_best)
        self._saved_at = time.monotonic()
        if self._signal:
            raise Interrupted(self._signal)

    @property
    def is_late(self) -> bool:
        """Whether only validation fits into the time limit; a collective operation, which all processes call."""
        if isinf(self._ends_at):
            return False
        return bool(self.processes.maximum([float(self.computed + self.validated_in >= self._ends_at)])[0])

    @property
    def computed(self) -> float:
        """Seconds of computing: of the processor those of all threads, divided by their number, so that other processes
        change nothing."""
        if self.device.type == "cpu":
            return time.process_time() / torch.get_num_threads()
        return time.monotonic()

    @property
    def device(self) -> torch.device:
        """Device of data and model."""
        return self.data.train.starts.device

    @property
    def last_step(self) -> int:
        """The last step, unless the run stops early."""
        return self.settings.trainer.n_steps(len(self.data.train))

    @property
    def is_over(self) -> bool:
        """Whether no epoch is in progress or left."""
        progress = self.state.progress
        used_up = progress.epoch >= self.settings.trainer.max_epochs or progress.step >= self.last_step
        return progress.n_seen == 0 and (used_up or not self.state.has_patience or self.is_late)

    def rate(self, done: int) -> float:
        """Learning rate of the step after `done` steps, in the current epoch."""
        return learning_rate(self.settings.optim, epoch=self.state.progress.epoch + 1, done=done / self.last_step)


def fit(session: Session) -> Progress:
    """Train until the maximum of epochs or steps is reached, or patience runs out.

    The model ends with the last epoch's weights; the checkpointer has saved the best. A model with a fitted linear part
    is also validated before the first step, and may remain the best.

    Raises:
        InputError: the loss or a gradient is no longer finite; the weights are those before that step.
        Interrupted: a stop request; the state was saved.
    """
    state, progress = session.state, session.state.progress
    session.tracker.begin()
    if session.settings.model.is_fitted_first and progress.start_loss is None:
        state.validated(validate(session), epoch=0)
        session.tracker.start_loss(progress.best_loss)
        session.save(is_best=True)
    while not session.is_over:
        run_epoch(session)
    if session.is_late:
        log.info(f"stopped: trainer.max_minutes={session.settings.trainer.max_minutes:.3g} used up")
    elif not state.has_patience:
        log.info(
            f"stopped: no lower validation loss in {counted(session.settings.trainer.patience, 'epoch')}; "
            f"best was epoch {progress.best_epoch}"
        )
    return progress


def run_epoch(session: Session) -> None:
    """Finish the current epoch, or run the next: train, validate, report, save."""
    state, progress = session.state, session.state.progress
    epoch, already, started = progress.epoch + 1, progress.n_seen, time.perf_counter()
    rate = session.rate(progress.step)
    train_epoch(session)
    n_seen, loss_sum = progress.n_seen, progress.loss_sum
    trained_in = time.perf_counter() - started
    val_loss = validate(session)
    is_best = state.validated(val_loss, epoch)
    progress.epoch, progress.n_seen, progress.loss_sum = epoch, 0, 0.0
    row = {
        "train_loss": loss_sum / n_seen,
        "val_loss": val_loss,
        "lr": rate,
        "samples_per_second": (n_seen - already) / trained_in,
        "seconds": time.perf_counter() - started,
    }
    session.tracker.epoch(epoch, row, is_best=is_best)
    track_epoch(session.tracker, state.scored, session.data, epoch, session.settings.trainer)
    session.is_due(together=True)  # the result is ignored: an epoch is always saved
    session.save(is_best=is_best)


def window_order(windows: Windows, *, seed: int, epoch: int) -> Tensor:
    """Order of the windows in this epoch, the same on every device."""
    order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch))
    return order.to(windows.starts.device)


def train_epoch(session: Session) -> None:
    """Train for the rest of the epoch, or up to the last step or the time limit; updates the state."""
    state, progress = session.state, session.state.progress
    unread = list[Step]()
    trainer, last_step = session.settings.trainer, session.last_step
    order = window_order(session.data.train, seed=session.settings.seed, epoch=progress.epoch + 1)
    order = order[: trainer.epoch_steps(len(order)) * trainer.batch_size]
    set_training_mode(state.model, trainer.freeze)
    while progress.n_seen < len(order) and progress.step < last_step:
        indices = order[progress.n_seen : progress.n_seen + trainer.batch_size]
        for group in state.optimizer.param_groups:
            group["lr"] = session.rate(progress.step)
        unread.append((*train_step(session, indices), indices))
        progress.step += 1
        progress.n_seen += len(indices)
        session.tracker.advance()
        is_reading = progress.n_seen == len(order) or progress.step == last_step or len(unread) == READ_EVERY
        is_late = (is_reading or session.processes.size == 1) and session.is_late
        is_reading |= is_late
        is_due = session.is_due(together=is_reading)
        if is_due or is_reading:
            _read(unread, session)
        if is_due:
            session.save()
        if is_late:
            break


def set_training_mode(model: ForecastModel, frozen: Sequence[str]) -> None:
    """Set training mode, except for frozen parts, which have no dropout and fixed statistics."""
    model.train()
    for name in frozen:
        model.parts[name].eval()


def train_step(session: Session, indices: Tensor) -> tuple[Tensor, Tensor]:
    """One optimiser step, skipped if its loss or gradient is not finite.

    Returns:
        The mean loss of this process's share, and the norm of the whole gradient, both still on the device.
    """
    batch = session.data.train.batch(session.processes.share(indices))
    optimizer = session.state.optimizer
    optimizer.zero_grad(set_to_none=True)  # frees the old gradients before the activations of the forward pass
    model = session.state.model
    network = model.network
    if network is not None:
        network.begin_step(session.state.progress.step / session.last_step)
    learns = network is not None and network.LEARNS_FROM_ACTUAL
    with autocast(session.settings.precision, session.device):
        output = model_output(session.network, batch, with_actual=learns, for_loss=True).float()
    value = session.loss(output, *batch.actual)
    value.backward()
    norm = gradient_norm(session.state.model, session.settings.optim.clip_norm)
    optimizer.step_while_finite(value.detach(), norm)
    session.state.average()
    return value.detach(), norm


def validate(session: Session) -> float:
    """Mean loss over the validation windows."""

    def pause() -> None:
        if session.is_due(together=False):
            session.save()

    model, began = session.state.scored.eval(), session.computed
    session.processes.share_buffers(model)
    with autocast(session.settings.precision, session.device):
        loss = mean_loss(
            partial(model_output, model, for_loss=True), session.data.val, session.val_loss,
            session.settings.trainer.eval_batch_size, processes=session.processes, pause=pause,
        )  # fmt: skip
    session.validated_in = session.computed - began
    return loss


def divergence(session: Session, step: int, loss: float, norm: float, windows: Tensor) -> InputError:
    """The error that stops a run: the step, what is not finite, and its windows, most extreme first.

    Args:
        step: the first step that was not finite, counted from 1; the weights are those before it.
        loss, norm: its loss and gradient norm.
        windows: indices of its training windows.
    """
    data, rate, epoch = session.data, session.rate(step - 1), session.state.progress.epoch + 1
    batch = data.train.batch(windows)
    magnitudes = (x.abs().nan_to_num(0.0, posinf=math.inf).amax(dim=(1, 2)) for x in (batch.enc_x, batch.target))
    peaks = torch.maximum(*magnitudes)
    most = peaks.argsort(descending=True)[:NAMED]
    ends, named = np.cumsum([len(series) for series in data.panel]), list[str]()
    for start, peak in zip(
        data.train.starts[windows.to(most.device)][most].tolist(), peaks[most].tolist(), strict=True
    ):
        i = int(np.searchsorted(ends, start, side="right"))
        # rows counted from the series' end
        first, last = (data.panel[i].timestamps[row - ends[i]] for row in (start, start + data.sizes.rows - 1))
        named.append(f"{first} to {last} (up to {peak:.3g})")
    named += [f"{len(windows) - NAMED} more"] if len(windows) > NAMED else []
    what = f"gradient norm is {norm}" if math.isfinite(loss) else f"training loss is {loss}"
    return InputError(
        f"step {step} (epoch {epoch}, learning rate {rate:.3g}): {what}, expected a finite number; "
        f"its {len(windows)} windows, those with the largest scaled values first: {data.provenance.path.name} "
        f"{', '.join(named)}; lower optim.lr, set optim.clip_norm, or look for extreme values there"
    )


def _read(unread: list[Step], session: Session) -> None:
    """Fetch the steps since the last reading, for the curves and the epoch's mean loss, and forget them."""
    progress = session.state.progress
    first = progress.step - len(unread) + 1
    losses, norms, windows = zip(*unread, strict=True)
    means = session.processes.sum(torch.stack(losses) / session.processes.size)
    records = list(zip(means.tolist(), torch.stack(norms).tolist(), strict=True))
    unread.clear()
    for step, ((loss, norm), indices) in enumerate(zip(records, windows, strict=True), start=first):
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise divergence(session, step, loss, norm, indices)
        # one by one, so that the sum does not depend on when steps are read
        progress.loss_sum += loss * len(indices)
    session.tracker.steps(first, records)
