"""State of a run: everything that lasts from one step to the next.

It is saved between two steps, and a restored run continues as if it had never stopped.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from math import isfinite
from typing import Any, final

import torch
from torch import Tensor

from informer.base.errors import FileError, InputError, reason_of
from informer.checkpoint.format import Checkpoint, Progress
from informer.checkpoint.restore import check_numbers, differing_shape
from informer.config.training import TrainConfig
from informer.members.network import ForecastModel
from informer.training.optim import build_optimizer

STATE = "checkpoint: state"


@final
class State:
    """The network, its optimiser, the average of its weights, and what was done so far.

    The average is exponential: w_average <- d w_average + (1 - d) w after each step, with
    d = min(optim.ema, (1 + n) / (10 + n)) after n steps, so that the initial weights do not dominate a short run. It is
    validated, saved and used instead of the weights. B. Polyak and A. Juditsky, "Acceleration of Stochastic
    Approximation by Averaging", 1992.

    Args:
        settings: configuration of the run.
        model: the network, with the weights of `last`; updated in place.
        last: the last saved state, from which torch's generators are restored too; None: a new run.

    Raises:
        InputError: the state of `last` is invalid, or of another network.
    """

    def __init__(self, settings: TrainConfig, model: ForecastModel, last: Checkpoint | None = None) -> None:
        self.model, self.optimizer = model, build_optimizer(settings.optim, model)
        self.progress = Progress()
        self._patience, self._ema = settings.trainer.patience, settings.optim.ema
        self._average = deepcopy(model).requires_grad_(False) if self._ema else None
        if last is not None:
            self._restore(last)

    @property
    def scored(self) -> ForecastModel:
        """The network that is validated and saved as the model."""
        return self.model if self._average is None else self._average

    @property
    def has_patience(self) -> bool:
        """Whether the validation loss has improved within `trainer.patience` epochs."""
        return self.progress.waited < self._patience

    @torch.no_grad()
    def average(self) -> None:
        """Update the average of the weights after a step; its buffers are those of the network."""
        if self._average is None:
            return
        assert self._ema is not None, "there is an average"
        n = self.progress.n_averaged
        decay = min(self._ema, (1 + n) / (10 + n))
        for average, weight in zip(self._average.parameters(), self.model.parameters(), strict=True):
            average.lerp_(weight, 1 - decay)
        for averaged_buffer, buffer in zip(self._average.buffers(), self.model.buffers(), strict=True):
            averaged_buffer.copy_(buffer)
        self.progress.n_averaged += 1

    def validated(self, loss: float, epoch: int) -> bool:
        """Record the validation loss of `epoch` (from 1; 0: before the first step); True if it is the lowest so far.

        Raises:
            InputError: the loss is not finite.
        """
        if not isfinite(loss):
            raise InputError(
                f"epoch {epoch}: validation loss is {loss}; expected a finite number: "
                "lower optim.lr or look for extreme values in the data"
            )
        progress = self.progress
        if epoch == 0:
            progress.start_loss = loss
        is_best = loss < progress.best_loss
        if is_best:
            progress.best_loss, progress.best_epoch, progress.waited = loss, epoch, 0
        else:
            progress.waited += 1
        return is_best

    def tensors(self) -> dict[str, Tensor]:
        """The state except for weights and progress, torch's generators included."""
        moments = self.optimizer.state_dict()["state"]
        tensors = {f"optimizer.{i}.{name}": tensor for i, each in moments.items() for name, tensor in each.items()}
        if self._average is not None:
            tensors |= {f"average.{name}": tensor for name, tensor in self._average.state_dict().items()}
        tensors["generator.cpu"] = torch.get_rng_state()
        if torch.cuda.is_initialized():
            tensors["generator.cuda"] = torch.cuda.get_rng_state()
        return tensors

    def _restore(self, last: Checkpoint) -> None:
        parts: dict[str, dict[str, Tensor]] = {"optimizer": {}, "average": {}, "generator": {}}
        for name, tensor in last.state.items():
            part, _, rest = name.partition(".")
            if part not in parts:
                raise FileError(f"{STATE}.{name}: expected tensors of {', '.join(parts)}, found another")
            parts[part][rest] = tensor
        self.progress = last.progress.model_copy()
        # the settings of the optimiser are those of the configuration
        groups: Sequence[Mapping[str, Any]] = self.optimizer.state_dict()["param_groups"]
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        moments = _moments(parts["optimizer"], parameters)
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        expected = {} if self._average is None else self._average.state_dict()
        if differ := differing_shape(expected, parts["average"]):
            name, shape, found = differ
            raise FileError(f"{STATE}.average.{name}: expected {shape}, found {found}")
        check_numbers(expected, parts["average"])
        if self._average is not None:
            self._average.load_state_dict(parts["average"])
        try:
            torch.set_rng_state(parts["generator"].pop("cpu"))
            if (on_gpu := parts["generator"].pop("cuda", None)) is not None and torch.cuda.is_available():
                torch.cuda.set_rng_state(on_gpu)
        except (KeyError, RuntimeError, TypeError) as error:
            raise FileError(f"{STATE}.generator: expected those of torch, found {reason_of(error)}") from error


def _moments(saved: Mapping[str, Tensor], parameters: Sequence[Tensor]) -> dict[int, dict[str, Tensor]]:
    """The saved moments by parameter, checked; torch checks only their number."""
    moments: dict[int, dict[str, Tensor]] = {}
    for number, parameter in enumerate(parameters):
        shapes = {"step": torch.Size(), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}
        found = {kind: saved[f"{number}.{kind}"] for kind in shapes if f"{number}.{kind}" in saved}
        for kind, tensor in found.items():
            if len(found) < len(shapes) or tensor.shape != shapes[kind] or not tensor.is_floating_point():
                raise FileError(f"{STATE}.optimizer.{number}.{kind}: expected moments of the network, found others")
            if not tensor.isfinite().all() or (kind != "exp_avg" and bool((tensor < 0).any())):
                raise FileError(f"{STATE}.optimizer.{number}.{kind}: expected finite moments and counts, found others")
        if found:  # a parameter that no loss has reached has none
            moments[number] = found
    if sum(map(len, moments.values())) < len(saved):
        raise FileError(f"{STATE}.optimizer: expected moments of {len(parameters)} parameters, found others")
    return moments
