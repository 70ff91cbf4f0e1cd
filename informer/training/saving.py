"""When a run is saved: at regular intervals, and on a stop request; and whether a stopped run can be continued."""

import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import final

from informer.base.errors import InputError
from informer.base.start import Interrupted, StopRequest
from informer.checkpoint.format import Checkpoint
from informer.config import conversion
from informer.config.overrides import shell_command
from informer.config.training import Schedule, TrainConfig
from informer.networks.models.base import Network, network_class
from informer.training.folder import RunFolder
from informer.training.optim import learning_rate
from informer.training.processes import Processes
from informer.training.state import State

log = logging.getLogger(__name__)


Save = Callable[[State, bool], None]
"""Saves the state; the flag says whether its validation loss is the lowest so far."""


@final
class Checkpointer:
    """Saves at regular intervals and on a stop request.

    Args:
        save: writes the state.
        every_minutes: interval between saves; None: only on a stop request.
        stop: the stop request.
        processes: processes of the run, which must agree; None: this one alone.
        clock: time in seconds.
    """

    def __init__(
        self,
        save: Save,
        *,
        every_minutes: float | None,
        stop: StopRequest,
        processes: Processes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._save = save
        self._stop = stop
        self._seconds = None if every_minutes is None else 60.0 * every_minutes
        self.processes = processes or Processes()
        self.clock = clock
        self._saved_at = clock()
        self._signal = 0

    def is_due(self, *, together: bool) -> bool:
        """Whether to save now.

        Args:
            together: all processes call this at the same step; otherwise a run with several processes does not save.
        """
        if self.processes.size > 1 and not together:
            return False
        late = self._seconds is not None and self.clock() - self._saved_at >= self._seconds
        requested, late_anywhere = self.processes.maximum([float(self._stop.signal), float(late)])
        self._signal = int(requested)
        return bool(requested or late_anywhere)

    def save(self, state: State, *, is_best: bool = False) -> None:
        """Save the state.

        Raises:
            Interrupted: the last call of `is_due` found a stop request.
        """
        self._save(state, is_best)
        self._saved_at = self.clock()
        if self._signal:
            raise Interrupted(self._signal)


def check_goes_on(settings: TrainConfig, last: Checkpoint | None) -> None:
    """Raise an InputError if the run would end before another step.

    Args:
        settings: configuration with the new length.
        last: the run's last saved state; None: none was saved.
    """
    if last is None:
        return
    progress, trainer = last.progress, settings.trainer
    limits = [
        ("max_epochs", trainer.max_epochs, progress.epoch, "epochs already done"),
        ("max_steps", trainer.max_steps, progress.step, "steps already done"),
        ("patience", trainer.patience, progress.waited, "epochs since the lowest validation loss"),
    ]
    for name, limit, completed, what in limits:
        if limit is not None and limit <= completed:
            raise InputError(
                f"resume: the run would end at once: trainer.{name}={limit}, expected more than the {completed} "
                f"{what}; set trainer.{name}={max(2 * completed, 1)}"
            )


def note_of_length(settings: TrainConfig, last: Checkpoint, n_windows: int) -> str | None:
    """Message about settings that depend on the changed length of a run; None if there are none.

    Args:
        settings: configuration with the new length.
        last: the run's last saved state.
        n_windows: number of training windows.
    """
    before = conversion.from_plain(last.config).trainer.n_steps(n_windows)
    now, progress = settings.trainer.n_steps(n_windows), last.progress
    if now == before:
        return None
    affected = []
    if settings.optim.schedule is Schedule.cosine:
        totals = (before, now)
        rates = (learning_rate(settings.optim, epoch=progress.epoch, done=progress.step / n) for n in totals)
        affected.append("optim.schedule=cosine, whose rate changes from {:.2g} to {:.2g}".format(*rates))
    network = network_class(settings.model)
    if network is not None and network.begin_step is not Network.begin_step:
        affected.append(f"the share of actual values that {settings.model.family} reads in training")
    if not affected:
        return None
    done = f"now {now} steps; continuing from step {progress.step}"
    return f"{' and '.join(affected)}: depends on the total length, {done}"


@contextmanager
def resumable(folder: RunFolder) -> Iterator[None]:
    """Ctrl-C where no step can be completed first, as while scoring: the run keeps what it saved, and says so."""
    try:
        yield
    except KeyboardInterrupt:
        if not folder.contains_run or folder.is_finished:
            raise
        interrupted = Interrupted(signal.SIGINT)
        log.info(f"{interrupted}; continue with: {shell_command('train', ('resume', folder.path))}")
        raise interrupted from None
