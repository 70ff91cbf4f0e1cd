"""Losses on scaled values."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import torch.nn.functional as F
from torch import Tensor

Loss = Callable[[Tensor, Tensor], Tensor]


class LossKind(Enum):
    """Mean over every forecast value: the squared error, the absolute error, or Huber's mixture of both (delta 1)."""

    mse = "mse"
    mae = "mae"
    huber = "huber"


@dataclass(kw_only=True, slots=True)
class LossConfig:
    """The node `loss`."""

    kind: LossKind = LossKind.mse


LOSSES: dict[LossKind, Loss] = {LossKind.mse: F.mse_loss, LossKind.mae: F.l1_loss, LossKind.huber: F.huber_loss}
