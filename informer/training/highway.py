"""The linear map that is fitted before the network is trained."""

import torch
from torch import nn

from informer.data.pipeline import Data
from informer.inference.baselines import RidgeForecast, fit_ridge


def fit_highway(weight: nn.Parameter, data: Data) -> RidgeForecast:
    """Put the weight of ridge regression, [pred_len seq_len], in its place; gives what was fitted.

    On windows less their mean. With instance normalisation that is the fit on normalised windows in which a window's
    squared error counts times its own variance, so that the loss is that of the forecasts themselves.
    """
    ridge = fit_ridge(data.train, data.val, data.columns.positions(data.targets))
    set_highway(weight, ridge)
    return ridge


@torch.no_grad()
def set_highway(weight: nn.Parameter, ridge: RidgeForecast) -> None:
    """Put what was fitted in its place."""
    weight.copy_(ridge.weight.T)
