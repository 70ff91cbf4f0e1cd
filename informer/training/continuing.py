"""Continue a run that was stopped, or one that is finished beyond its original length."""

import logging
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

from informer.checkpoint.format import Checkpoint
from informer.config import conversion
from informer.config.overrides import shell_command
from informer.config.schema import TrainConfig, check
from informer.config.training import Schedule
from informer.errors import InputError
from informer.models.base import ForecastModel, network_class
from informer.training.optim import learning_rate
from informer.training.run_dir import LENGTH, RunFolder
from informer.training.signals import Interrupted

log = logging.getLogger(__name__)


def extended(settings: TrainConfig, requested: TrainConfig, set_keys: Collection[str]) -> TrainConfig:
    """The configuration of a run with new values of the keys in `LENGTH`.

    Args:
        settings: saved configuration of the run.
        requested: configuration with the new values.
        set_keys: keys that the user set.

    Raises:
        InputError: a value out of range, or the run's search is not finished.
    """
    if settings.search:
        raise InputError("resume: the search of model=auto is not finished; continue it first, without other keys")
    names = [key.partition(".")[2] for key in LENGTH if key in set_keys]
    trainer = replace(settings.trainer, **{name: getattr(requested.trainer, name) for name in names})
    return check(replace(settings, trainer=trainer))


def check_goes_on(settings: TrainConfig, last: Checkpoint | None) -> None:
    """Raise an InputError if the run would end before another step.

    Args:
        settings: configuration with the new length.
        last: the run's last saved state; None: none was saved.
    """
    if last is None or last.training is None:
        return
    progress, stopping, trainer = last.training["progress"], last.training["stopping"], settings.trainer
    waited = stopping["epochs_without_improvement"]
    limits = [
        ("max_epochs", trainer.max_epochs, progress["epoch"], "epochs already done"),
        ("max_steps", trainer.max_steps, progress["step"], "steps already done"),
        ("patience", trainer.patience, waited, "epochs since the lowest validation loss"),
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
    now = settings.trainer.n_steps(n_windows)
    if now == before:
        return None
    affected = []
    if settings.optim.schedule is Schedule.cosine:
        rates = (learning_rate(settings.optim, epoch=last.epoch, done=last.step / total) for total in (before, now))
        affected.append("optim.schedule=cosine, whose rate changes from {:.2g} to {:.2g}".format(*rates))
    if network_class(settings.model).begin_step is not ForecastModel.begin_step:
        affected.append(f"the share of actual values that {settings.model.family} reads in training")
    if not affected:
        return None
    return f"{' and '.join(affected)}: depends on the total length, now {now} steps; continuing from step {last.step}"


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
