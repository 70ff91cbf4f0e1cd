"""State of a run: after saving and restoring it, the run continues as if it had never stopped."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from informer.errors import InputError, reason_of
from informer.models.base import ForecastModel
from informer.training.optim import GuardedAdam
from informer.training.stopping import EarlyStopping
from informer.training.weight_average import WeightAverage


@dataclass(kw_only=True, slots=True)
class Progress:
    """Progress of a run."""

    epoch: int = 0
    """Finished epochs, validation included."""
    step: int = 0
    """Optimiser steps over all epochs."""
    n_seen: int = 0
    """Windows of the current epoch that were trained on."""
    loss_sum: float = 0.0
    """Sum of the training loss over these windows."""


@dataclass(kw_only=True, slots=True)
class State:
    """State of a run between two steps."""

    model: ForecastModel
    optimizer: GuardedAdam
    stopping: EarlyStopping
    progress: Progress = field(default_factory=Progress)
    average: WeightAverage | None = None
    """Moving average of the weights (`optim.ema`)."""

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
            "progress": asdict(self.progress),
            "rng": {"cpu": torch.get_rng_state(), "cuda": _cuda_rng()},
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
        self.progress = Progress(**training["progress"])
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


def _cuda_rng() -> torch.Tensor | None:
    return torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
