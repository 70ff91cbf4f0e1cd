"""State of a run: after saving and restoring it, the run continues as if it had never stopped.

It is saved between two steps, and on request the run stops there; a finished run continues beyond its first length.
"""

import logging
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from informer.base.errors import InputError, reason_of
from informer.base.start import Interrupted, StopRequest
from informer.checkpoint.format import Checkpoint
from informer.config import conversion
from informer.config.overrides import shell_command
from informer.config.training import Schedule, TrainConfig
from informer.networks.forecast_model import ForecastModel
from informer.networks.models.base import Network, network_class
from informer.training.folder import RunFolder
from informer.training.optim import EarlyStopping, GuardedAdam, WeightAverage, learning_rate
from informer.training.processes import Processes

log = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class State:
    """State of a run between two steps."""

    model: ForecastModel
    optimizer: GuardedAdam
    stopping: EarlyStopping
    average: WeightAverage | None = None
    """Moving average of the weights (`optim.ema`)."""
    epoch: int = 0
    """Finished epochs, validation included."""
    step: int = 0
    """Optimiser steps over all epochs."""
    n_seen: int = 0
    """Windows of the current epoch that were trained on."""
    loss_sum: float = 0.0
    """Sum of the training loss over these windows."""

    @property
    def scored(self) -> ForecastModel:
        """The network that is validated and saved as the model."""
        return self.model if self.average is None else self.average.model

    def training(self) -> dict[str, Any]:
        """The state except the weights, including torch's generators, in plain containers."""
        average = {} if self.average is None else {AVERAGE: self.average.state()}
        return average | {
            "optimizer": self.optimizer.state_dict(),
            "stopping": vars(self.stopping),
            "progress": {name: getattr(self, name) for name in PARTS["progress"]},
            "rng": {
                "cpu": torch.get_rng_state(),
                "cuda": torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None,
            },
        }

    def restore(self, training: Mapping[str, Any]) -> None:
        """Restore the state from `training()`, including torch's generators; the model must have its weights already.

        Raises:
            InputError: the state is invalid, or of another network.
        """
        check_training(training)
        if (self.average is not None) != (AVERAGE in training):
            raise InputError(f"{STATE}: expected the entry {AVERAGE} if and only if optim.ema is set")
        self.continue_optimizer(training)
        vars(self.stopping).update(training["stopping"] | {"patience": self.stopping.patience})
        for name, value in training["progress"].items():
            setattr(self, name, value)
        if self.average is not None:
            self.average.restore(training[AVERAGE])
        try:
            torch.set_rng_state(training["rng"]["cpu"])
            if training["rng"]["cuda"] is not None and torch.cuda.is_available():
                torch.cuda.set_rng_state(training["rng"]["cuda"])
        except RuntimeError as error:
            raise InputError(f"{STATE}: rng: {reason_of(error)}") from error

    def continue_optimizer(self, training: Mapping[str, Any]) -> None:
        """Load the optimiser's moments, but not its settings, which are those of the configuration.

        Raises:
            InputError: the moments are of another network.
        """
        groups = self.optimizer.state_dict()["param_groups"]
        moments = _checked_moments(training["optimizer"], self.optimizer)
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})


STATE = "checkpoint: state of training"
EVENTS = "events"
"""Entry of `Checkpoint.training`: position of each sink, by its kind."""
PARTS: dict[str, dict[str, Any]] = {
    "optimizer": {"state": dict, "param_groups": list},
    "stopping": {
        "patience": int,
        "start_loss": float | None,
        "best_loss": float,
        "best_epoch": int,
        "epochs_without_improvement": int,
    },
    "progress": {"epoch": int, "step": int, "n_seen": int, "loss_sum": float},
    "rng": {"cpu": Tensor, "cuda": Tensor | None},
}
"""Entries of the training state, and their types."""
AVERAGE = "average"
"""Additional entry of a run with `optim.ema`."""


def check_training(training: Mapping[str, Any]) -> None:
    """Check a training state, as far as possible without the network.

    Raises:
        InputError: an entry is missing, unknown, of another type or below zero.
    """
    sections = PARTS | ({AVERAGE: {"steps": int, "weights": dict}} if AVERAGE in training else {})
    _check_entries("", training, {**dict.fromkeys(sections, object), EVENTS: dict})
    for name, position in training[EVENTS].items():
        if not isinstance(position, int) or isinstance(position, bool) or position < 0:
            raise InputError(f"{STATE}: {EVENTS}: {name}: found {position!r:.40}")
    for name, entries in sections.items():
        _check_entries(f"{name}: ", training[name], entries)
    for name, generator in training["rng"].items():
        if generator is not None and (generator.dtype is not torch.uint8 or generator.ndim != 1):
            raise InputError(f"{STATE}: rng: {name}: expected the state of a generator, found {generator.dtype}")


def _check_entries(where: str, section: Any, expected: Mapping[str, Any]) -> None:
    if not isinstance(section, Mapping) or set(section) != set(expected):
        raise InputError(f"{STATE}: {where}expected the entries {', '.join(expected)}, found others")
    for name, hint in expected.items():
        value = section[name]
        is_below = isinstance(value, int | float) and not value >= 0  # or nan
        if isinstance(value, bool) or not isinstance(value, hint) or is_below:
            raise InputError(f"{STATE}: {where}{name}: found {value!r:.40}")


def _checked_moments(saved: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> dict[int, dict[str, Tensor]]:
    """The saved moments, checked against the optimiser's parameters; torch checks only their number."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    moments = saved["state"]
    if not set(moments) <= set(range(len(parameters))):
        raise InputError(f"{STATE}: optimizer: expected moments of {len(parameters)} parameters, found others")
    for number, parameter_moments in moments.items():
        shapes = {"step": torch.Size(), **dict.fromkeys(("exp_avg", "exp_avg_sq"), parameters[number].shape)}
        where = f"{STATE}: optimizer: parameter {number}"
        if not isinstance(parameter_moments, dict) or set(parameter_moments) != set(shapes):
            raise InputError(f"{where}: expected {', '.join(shapes)}, found others")
        for name, shape in shapes.items():
            value = parameter_moments[name]
            if not isinstance(value, Tensor) or value.shape != shape or not value.is_floating_point():
                raise InputError(f"{where}: {name}: expected numbers of shape {tuple(shape)}, found others")
            if not value.isfinite().all() or (name != "exp_avg" and bool((value < 0).any())):
                raise InputError(f"{where}: {name}: expected finite moments and counts, found others")
    return dict(moments)


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
    network = network_class(settings.model)
    if network is not None and network.begin_step is not Network.begin_step:
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
