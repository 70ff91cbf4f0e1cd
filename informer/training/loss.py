"""Losses on scaled values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from informer.quantiles import level_problem, pinball

Loss = Callable[[Tensor, Tensor], Tensor]


class LossKind(Enum):
    """Mean over every forecast value: the squared error, the absolute error, Huber's mixture of both (delta 1), or the
    pinball loss of quantiles."""

    mse = "mse"
    mae = "mae"
    huber = "huber"
    quantile = "quantile"


@dataclass(kw_only=True, slots=True)
class LossConfig:
    """The node `loss`."""

    kind: LossKind = LossKind.mse
    quantiles: list[float] = field(default_factory=list)
    """Levels that a model forecasts which is trained by kind=quantile; the median is its point forecast."""

    def problems(self) -> list[str]:
        """Every value out of range, one sentence each."""
        if self.kind is LossKind.quantile:
            problem = level_problem(self.quantiles)
            return [f"loss.quantiles: {problem}"] if problem else []
        if self.quantiles:
            return [f"loss.quantiles: expected loss=quantile beside it, found loss.kind={self.kind.value}"]
        return []


def build_loss(config: LossConfig) -> Loss:
    """From what the network gives and the actual values to one number."""
    losses: dict[LossKind, Loss] = {
        LossKind.mse: F.mse_loss,
        LossKind.mae: F.l1_loss,
        LossKind.huber: F.huber_loss,
        LossKind.quantile: partial(mean_pinball, levels=config.quantiles),
    }
    return losses[config.kind]


def mean_pinball(
    quantiles: Float[Tensor, "b pred_len n q"], actual: Float[Tensor, "b pred_len n"], *, levels: Sequence[float]
) -> Float[Tensor, ""]:
    """Mean over levels and values of `pinball`."""
    parts = [pinball(part, actual, level).mean() for part, level in zip(quantiles.unbind(-1), levels, strict=True)]
    return torch.stack(parts).mean()
