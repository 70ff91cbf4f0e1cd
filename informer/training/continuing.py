"""A run that goes on for longer than it was first meant to: what may change, and what follows from it."""

from collections.abc import Collection
from dataclasses import replace

from informer.checkpoint.format import Checkpoint
from informer.config import conversion
from informer.config.schema import TrainConfig, check
from informer.config.training import Schedule
from informer.errors import InputError
from informer.models.base import ForecastModel, network_class
from informer.training.optim import learning_rate
from informer.training.run_dir import LENGTH
from informer.training.steps import n_steps


def extended(settings: TrainConfig, given: TrainConfig, named: Collection[str]) -> TrainConfig:
    """The configuration of a run with the values of `LENGTH` that the user names.

    Raises:
        InputError: a value out of range, or a run whose search is not over.
    """
    if settings.search:
        raise InputError("resume: the search of model=auto is not over; continue it first, without other keys")
    names = [key.partition(".")[2] for key in LENGTH if key in named]
    trainer = replace(settings.trainer, **{name: getattr(given.trainer, name) for name in names})
    return check(replace(settings, trainer=trainer))


def check_goes_on(settings: TrainConfig, last: Checkpoint | None) -> None:
    """Raise the InputError of a run that would end before another step.

    Args:
        settings: with the new length.
        last: the state that the run saved last; None: it has saved none.
    """
    if last is None or last.training is None:
        return
    progress, stopping, trainer = last.training["progress"], last.training["stopping"], settings.trainer
    waited = stopping["epochs_without_improvement"]
    limits = [
        ("max_epochs", trainer.max_epochs, progress["epoch"], "epochs that the run has"),
        ("max_steps", trainer.max_steps, progress["step"], "steps that the run has"),
        ("patience", trainer.patience, waited, "epochs since the lowest validation loss"),
    ]
    for name, limit, done, what in limits:
        if limit is not None and limit <= done:
            raise InputError(
                f"resume: the run would end at once: trainer.{name}={limit}, expected more than the {done} {what}; "
                f"add trainer.{name}={max(2 * done, 1)}"
            )


def note_of_length(settings: TrainConfig, last: Checkpoint, n_windows: int) -> str | None:
    """One line on what depends on the length of a run that has changed; None if nothing does.

    Args:
        settings: with the new length.
        last: the state that the run saved last.
        n_windows: training windows.
    """
    before = n_steps(conversion.from_plain(last.config).trainer, n_windows)
    now = n_steps(settings.trainer, n_windows)
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
    return f"{' and '.join(affected)}: depends on the total length, and goes on from step {last.step} of now {now}"
