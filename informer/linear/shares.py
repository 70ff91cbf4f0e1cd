"""Weights of the average that linear maps are part of, and how a model holds it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from informer.errors import InputError
from informer.models.base import ForecastModel
from informer.models.informer import Informer
from informer.models.linear import Linear


@final
@dataclass(frozen=True, slots=True)
class Shares:
    """Weights of the average; they add up to 1.

    Args:
        network, linear, naive: weight of each forecast; `network` is the whole model, linear part included.
    """

    network: float = 0.0
    linear: float = 1.0
    naive: float = 0.0

    def __post_init__(self) -> None:
        weights = (self.network, self.linear, self.naive)
        if not all(weight >= 0 for weight in weights) or abs(sum(weights) - 1) > 1e-6:
            raise InputError(f"combination: expected weights of at least 0 that add up to 1, found {weights}")

    def to_plain(self) -> dict[str, float]:
        """Return the weights as written to a checkpoint."""
        return {"network": self.network, "linear": self.linear, "naive": self.naive}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Shares":
        """Read the weights written by `to_plain`.

        Raises:
            InputError: other names, or values that are not floats.
        """
        names = ("network", "linear", "naive")
        if set(plain) != set(names) or not all(isinstance(weight, float) for weight in plain.values()):
            raise InputError(f"combination: expected the weights {', '.join(names)}, found {dict(plain)}")
        return cls(**plain)

    @property
    def in_words(self) -> str:
        """The weights, without those that are zero."""
        names = {"network": "network", "linear": "linear forecast", "naive": "seasonal naive"}
        return " + ".join(f"{weight:.0%} {names[name]}" for name, weight in self.to_plain().items() if weight)


def maps_of(model: ForecastModel) -> Linear | None:
    """Return the closed-form maps of a model: its linear part, or the model itself if it is `Linear`; None without."""
    if isinstance(model, Linear):
        return model
    return model.maps if isinstance(model, Informer) else None


@torch.no_grad()
def apply(model: ForecastModel, shares: Shares, repeated: Tensor | None) -> None:
    """Make the model forecast the average of itself, its linear maps and the seasonal naive."""
    maps = maps_of(model)
    assert maps is not None, "see TrainConfig.problems"
    if isinstance(model, Informer):
        for parameter in model.head.parameters():
            parameter.mul_(shares.network)
    if shares.naive:
        assert repeated is not None, "without a season, the naive forecast has no weight"
        for weight in (maps.own, maps.calendar, maps.others):
            weight.mul_(1 - shares.naive)
        if maps.varying is not None:  # which stays as it is when the maps are fitted again
            maps.varying.share.fill_(1 - shares.naive)
        maps.own[:, repeated, torch.arange(len(repeated))] += shares.naive
