"""The pretrained network as a member of the weighted average that a model forecasts."""

from collections.abc import Mapping
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from informer.base.errors import InputError
from informer.networks.models.zero import each_column
from informer.networks.ops.zero_inputs import HISTORY, LEVELS
from informer.pretrained.weights import load


@final
class PretrainedMember:
    """Median forecasts of the pretrained network.

    Args:
        version: one of `informer.pretrained.weights.VERSIONS`.
        seasons: rows of the two seasons, 1 for none.
        offset: rows between the history and the horizon.
        weights: weights of the network, if it was trained further.

    Raises:
        InputError: weights of another network, or that are not finite numbers.
    """

    name, rows = "pretrained", HISTORY

    def __init__(
        self,
        version: str,
        seasons: tuple[int, int],
        *,
        offset: int = 0,
        weights: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.version, self.network, self.seasons, self.offset = version, load(version), seasons, offset
        self.is_tuned = weights is not None
        if weights is None:
            return
        expected = self.network.state_dict()
        if {name: x.shape for name, x in weights.items()} != {name: x.shape for name, x in expected.items()} or not all(
            x.dtype is torch.float32 and bool(x.isfinite().all()) for x in weights.values()
        ):
            raise InputError(f"checkpoint: member: expected finite weights of the network {version}, found others")
        self.network.load_state_dict(weights)

    @property
    def as_it_came(self) -> "PretrainedMember":
        """The same with the weights that come with the package."""
        return PretrainedMember(self.version, self.seasons, offset=self.offset) if self.is_tuned else self

    def __call__(self, history: Float[Tensor, "b t n"], horizon: int) -> Float[Tensor, "b horizon n"]:
        """Forecast of each column; see `informer.networks.forecast_model.Member`."""
        network = self.network.to(history.device)
        quantiles = each_column(network.predict, history, self.seasons, horizon, offset=self.offset)
        return quantiles[..., LEVELS.index(0.5)]
