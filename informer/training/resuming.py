"""Whether and how a stopped run is continued: its settings, its data, and what will differ."""

import logging
import signal
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from informer.base.errors import InputError
from informer.base.start import Interrupted
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.paths import LAST
from informer.config.fields import check
from informer.config.overrides import shell_command
from informer.config.training import TrainConfig
from informer.data.dataset import Data
from informer.data.recorded import find_again
from informer.networks.models.base import Network, network_class
from informer.training.folder import LENGTH, RunFolder
from informer.training.optim import learning_rate

log = logging.getLogger(__name__)


def settings_to_resume(
    folder: RunFolder, last: Checkpoint | None, requested: TrainConfig, set_keys: Collection[str]
) -> TrainConfig:
    """The configuration of a stopped run, with the user's changes and the location of its data.

    Args:
        folder: run directory.
        last: the last saved state, or None.
        requested, set_keys: see `resume`.

    Raises:
        InputError: files of the run are damaged or belong to another run, its data are missing, or a value is out of
            range.
    """
    settings = folder.settings()
    if last is not None:
        folder.check_own(settings, last, LAST)
    if length := [key.partition(".")[2] for key in LENGTH if key in set_keys]:
        trainer = replace(settings.trainer, **{name: getattr(requested.trainer, name) for name in length})
        settings = check(replace(settings, trainer=trainer))
        check_goes_on(settings, last)
    if "device" in set_keys:
        settings = replace(settings, device=requested.device)
    if "init_from" in set_keys:
        settings = replace(settings, init_from=requested.init_from)
    elif settings.init_from is not None and last is None:
        raise InputError(
            f"resume={folder.path}: the run has saved nothing yet and begins with the weights of another; "
            "name them again: init_from=RUN"
        )
    path = (requested if "dataset.path" in set_keys else settings).dataset.path
    dataset, data_dir = find_again(
        replace(settings.dataset, path=path),
        folder.recorded(last),
        named=requested.data_dir if "data_dir" in set_keys else None,
        default=requested.data_dir,
        can_differ=False,
    )
    return replace(settings, dataset=dataset, data_dir=data_dir)


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


def check_same_data(data: Data, last: Checkpoint) -> None:
    """Raise an InputError if the data are not those that the run began with."""
    if last.dims != data.dims:
        raise InputError(f"resume: expected data that fit the network of {LAST}, found others")
    if data.provenance.sha256 != last.data.sha256:
        raise InputError(
            f"resume: expected the data that the run began with, {data.provenance.path} has changed since "
            f"(sha256 {last.data.sha256[:12]}..., now {data.provenance.sha256[:12]}...); start a new run"
        )


def note_of_length(settings: TrainConfig, last: Checkpoint, n_windows: int) -> str | None:
    """Message about settings that depend on the changed length of a run; None if there are none.

    Args:
        settings: configuration with the new length.
        last: the run's last saved state.
        n_windows: number of training windows.
    """
    before = last.settings.trainer.n_steps(n_windows)
    now, progress = settings.trainer.n_steps(n_windows), last.progress
    if now == before:
        return None
    affected = []
    if settings.optim.schedule == "cosine":
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


def note_of_threads(began: Mapping[str, Any], threads: int) -> str | None:
    """Message if the run began, or was continued, with another number of threads, which changes the rounding of sums.

    Args:
        began: content of run.json.
        threads: number of threads of this process.
    """
    before = [each.get("threads") for each in (began, *began.get("resumed", []))]
    other = next((number for number in before if number not in (None, threads)), None)
    if other is None:
        return None
    return (
        f"resume: the run began with {other} threads, and continues with {threads}: results will differ in their last "
        f"bits from those of an uninterrupted run; set OMP_NUM_THREADS={other} to keep them equal"
    )


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
