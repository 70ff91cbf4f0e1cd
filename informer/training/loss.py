"""Losses on scaled values."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from informer.config.training import LossConfig, LossKind
from informer.metrics import pinball

Loss = Callable[[Tensor, Tensor], Tensor]


def build_loss(config: LossConfig) -> Loss:
    """A function from network output and actual values to one number."""
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
