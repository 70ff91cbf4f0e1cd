"""Fit the linear part of a model before its network is trained."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from informer.config.model import LinearSkip
from informer.config.schema import TrainConfig
from informer.data.pipeline import Data
from informer.inference.baselines import RidgeForecast, fit_ridge
from informer.inference.intervals import Residuals, joined, residuals_of
from informer.linear.fold import fit_model
from informer.linear.residuals import MOST_WINDOWS, held_out_blocks
from informer.linear.shares import maps_of
from informer.models.base import ForecastModel
from informer.models.linear import Linear, maps_config

MAPS = "maps."
"""Prefix of the tensor names of skip=maps."""


class FittedMaps(NamedTuple):
    """Closed-form maps of a network, fitted on its training windows.

    Args:
        weights: tensors by their names in a network with maps.
        note: description of the fit.
    """

    weights: Mapping[str, Tensor]
    note: str

    def give(self, model: ForecastModel) -> None:
        """Load the weights into a network with maps, or into the maps themselves."""
        maps = maps_of(model)
        assert maps is not None, "see TrainConfig.problems"
        maps.load_state_dict({name.removeprefix(MAPS): tensor for name, tensor in self.weights.items()})


def fit_skip(model: ForecastModel, settings: TrainConfig, data: Data) -> str | None:
    """Fit the linear part, if the configuration has one; returns a description of the fit."""
    config = settings.model
    if config.skip is LinearSkip.ridge:
        return fit_ridge_skip(model, data).note
    maps = maps_of(model)
    if maps is None:
        return None
    return fit_model(maps, maps_config(config), data)


def calibration_errors(
    model: ForecastModel, settings: TrainConfig, data: Data, *, finish: Callable[[ForecastModel], None]
) -> Residuals | None:
    """Errors for the calibration of intervals.

    If the model has linear maps that were not trained further, these are cross-validation errors on blocks of training
    and validation; otherwise errors on the calibration windows; None without either. A network has no out-of-sample
    errors on blocks it was trained on, so the errors of its maps are multiplied by the ratio of mean errors, model to
    maps, on the calibration windows.

    Args:
        model: in eval mode.
        settings: configuration of the run.
        finish: applied to maps after each fit.
    """
    if data.calibration is None and not settings.trainer.calibration:
        return None
    errors_of = residuals_of(data, settings.trainer.eval_batch_size)
    maps, calibration, n_blocks = maps_of(model), data.calibration, settings.trainer.calibration_blocks
    if not n_blocks or maps is None or not is_closed_form(model, settings):
        return _enough(errors_of(model, calibration)) if calibration else None
    blocks = held_out_blocks(maps, maps_config(settings.model), data, n_blocks=n_blocks, finish=finish)
    errors = joined([errors_of(fitted, held_out, most=MOST_WINDOWS // n_blocks) for fitted, held_out in blocks])
    if calibration and model is not maps:
        network_error, maps_error = (
            errors_of(forecaster, calibration).errors.nanmean() for forecaster in (model, maps)
        )
        if maps_error > 0:  # zero for constant columns
            errors = errors.scaled(float(network_error / maps_error))
    return _enough(errors)


def is_closed_form(model: ForecastModel, settings: TrainConfig) -> bool:
    """Whether the maps are as fitted, not trained further."""
    return not isinstance(model, Linear) or settings.trainer.max_steps == 0


def _enough(errors: Residuals) -> Residuals | None:
    """None if a step of some target is never observed, so has no error."""
    return errors if bool(errors.errors.isfinite().any(dim=0).all()) else None


def start_of(model: ForecastModel) -> Mapping[str, Tensor]:
    """The tensors of a network's linear maps."""
    return {name: tensor for name, tensor in model.state_dict().items() if name.startswith(MAPS)}


def fit_ridge_skip(model: ForecastModel, data: Data) -> RidgeForecast:
    """Set the network's linear skip, [pred_len seq_len], to the weight of ridge regression; returns the fit.

    Fitted on windows minus their mean. With instance normalisation this is the fit on normalised windows whose squared
    errors are weighted by their variance, so that the loss is that of the final forecasts.
    """
    ridge = fit_ridge(data.train, data.val, data.columns.positions(data.targets))
    weight = model.linear_skip()
    assert weight is not None, "a configuration with skip=ridge has one"
    with torch.no_grad():
        weight.copy_(ridge.weight.T)
    return ridge
