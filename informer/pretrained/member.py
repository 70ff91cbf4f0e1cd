"""The pretrained network as a member of the weighted average that a model forecasts."""

from typing import final

from jaxtyping import Float
from torch import Tensor

from informer.networks.models.zero import HISTORY, LEVELS, each_column
from informer.pretrained.weights import load


@final
class PretrainedMember:
    """Median forecasts of the pretrained network.

    Args:
        version: one of `informer.pretrained.weights.VERSIONS`.
        seasons: rows of the two seasons, 1 for none.
        offset: rows between the history and the horizon.
    """

    name, rows = "pretrained", HISTORY

    def __init__(self, version: str, seasons: tuple[int, int], *, offset: int = 0) -> None:
        self.network, self.seasons, self.offset = load(version), seasons, offset

    def __call__(self, history: Float[Tensor, "b t n"], horizon: int) -> Float[Tensor, "b horizon n"]:
        """Forecast of each column; see `informer.networks.forecast_model.Member`."""
        network = self.network.to(history.device)
        quantiles = each_column(network.predict, history, self.seasons, horizon, offset=self.offset)
        return quantiles[..., LEVELS.index(0.5)]
