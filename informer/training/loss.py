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


def build_loss(config: LossConfig, *, has_gaps: bool = False) -> Loss:
    """A loss function of network output and actual values; with `has_gaps`, missing actual values (NaN) are ignored."""
    losses: dict[LossKind, Loss] = {
        LossKind.mse: F.mse_loss,
        LossKind.mae: F.l1_loss,
        LossKind.huber: F.huber_loss,
        LossKind.spectral: partial(spectral, alpha=config.alpha),
        LossKind.quantile: partial(mean_pinball, levels=config.quantiles),
    }
    return partial(observed_loss, loss=losses[config.kind]) if has_gaps else losses[config.kind]


def observed_loss(
    output: Float[Tensor, "b pred_len n *q"], actual: Float[Tensor, "b pred_len n"], *, loss: Loss
) -> Float[Tensor, ""]:
    """`loss` over forecasts whose actual value is observed. The spectral loss needs all rows of a horizon, so it is an
    error with gaps (see `TrainConfig.problems`)."""
    observed = ~actual.isnan()
    if bool(observed.all()):
        return loss(output, actual)
    return loss(output[observed][:, None, None], actual[observed][:, None, None])


def observed_share(actual: Float[Tensor, "b pred_len n"]) -> float:
    """Number of windows of a batch, each weighted by the share of its actual values that is observed."""
    return float((~actual.isnan()).sum()) / actual[0].numel()


def spectral(
    forecast: Float[Tensor, "b pred_len n"], actual: Float[Tensor, "b pred_len n"], *, alpha: float
) -> Float[Tensor, ""]:
    """MAE plus alpha times the mean size of the error's Fourier coefficients over the horizon.

    The coefficients are less correlated than the errors of neighbouring steps. H. Wang et al., "FreDF: Learning to
    Forecast in the Frequency Domain", ICLR 2025, equation 4. They are scaled by 1 / sqrt(pred_len), so that alpha has
    the same effect for every horizon.
    """
    return F.l1_loss(forecast, actual) + alpha * torch.fft.rfft(forecast - actual, dim=1, norm="ortho").abs().mean()


def mean_pinball(
    quantiles: Float[Tensor, "b pred_len n q"], actual: Float[Tensor, "b pred_len n"], *, levels: Sequence[float]
) -> Float[Tensor, ""]:
    """Mean over levels and values of `pinball`."""
    losses = [pinball(values, actual, level).mean() for values, level in zip(quantiles.unbind(-1), levels, strict=True)]
    return torch.stack(losses).mean()
