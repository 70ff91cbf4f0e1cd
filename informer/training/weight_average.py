"""Exponential moving average of the weights, which is validated, saved and used instead of them.

w_average <- d w_average + (1 - d) w after each step, with d = min(ema, (1 + n) / (10 + n)) after n steps, so that the
initial weights do not dominate a short run. B. Polyak and A. Juditsky, "Acceleration of Stochastic Approximation by
Averaging", 1992.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, final

import torch

from informer.checkpoint.weights import check_numbers, differing_shape
from informer.errors import InputError
from informer.models.base import ForecastModel

AVERAGE = "checkpoint: average of the weights"


@final
class WeightAverage:
    """A network with averaged weights and the buffers of the trained network.

    Args:
        model: the network being trained.
        ema: maximum decay d, below 1.
    """

    def __init__(self, model: ForecastModel, ema: float) -> None:
        self.model = deepcopy(model).requires_grad_(False)
        self._ema, self._steps = ema, 0

    @torch.no_grad()
    def update(self, model: ForecastModel) -> None:
        """Update the average after a step of `model`."""
        decay = min(self._ema, (1 + self._steps) / (10 + self._steps))
        for average, weight in zip(self.model.parameters(), model.parameters(), strict=True):
            average.lerp_(weight, 1 - decay)
        for averaged_buffer, buffer in zip(self.model.buffers(), model.buffers(), strict=True):
            averaged_buffer.copy_(buffer)
        self._steps += 1

    def state(self) -> dict[str, Any]:
        """State for a checkpoint."""
        return {"steps": self._steps, "weights": self.model.state_dict()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the average from `state()`.

        Raises:
            InputError: the state does not fit the network.
        """
        weights, steps, current = state["weights"], state["steps"], self.model.state_dict()
        if set(weights) != set(current) or differing_shape(weights, current):
            raise InputError(f"{AVERAGE}: expected the weights of the network, found others")
        check_numbers(current, weights)
        self.model.load_state_dict(weights)
        self._steps = steps
