"""The linear part that is fitted before the network is trained."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from informer.config.model import LinearSkip, ModelConfig
from informer.config.schema import TrainConfig
from informer.data.pipeline import Data
from informer.inference.baselines import RidgeForecast, fit_ridge
from informer.inference.intervals import Calibration, Residuals, joined, lag_of, residuals
from informer.linear.fold import fit_model
from informer.linear.residuals import held_out_blocks
from informer.linear.shares import maps_of
from informer.models.base import ForecastModel
from informer.models.linear import Linear, LinearModelConfig

MAPS = "maps."
"""How the names of the tensors of skip=maps begin."""


def fit_skip(model: ForecastModel, settings: TrainConfig, data: Data) -> str | None:
    """Fit what forecasts before the first step, if the configuration has any; returns what was fitted, in words."""
    config = settings.model
    if config.skip is LinearSkip.ridge:
        return fit_ridge_skip(model, data).note
    maps = maps_of(model)
    if maps is None:
        return None
    return fit_model(maps, offered(config), data)


def offered(config: ModelConfig) -> LinearModelConfig:
    """What the closed-form fit of a model offers."""
    return config if isinstance(config, LinearModelConfig) else LinearModelConfig(maps=config.maps)


def calibrated(
    model: ForecastModel, settings: TrainConfig, data: Data, *, finish: Callable[[ForecastModel], None]
) -> Calibration | None:
    """Intervals of a model in eval mode, from `calibration_errors`; None without."""
    found = calibration_errors(model, settings, data, finish=finish)
    return None if found is None else found.calibration()


def calibration_errors(
    model: ForecastModel, settings: TrainConfig, data: Data, *, finish: Callable[[ForecastModel], None]
) -> Residuals | None:
    """Errors that intervals come from: on blocks of training and validation where the model has linear maps that were
    not trained further, else on the rows that are kept for it; None without.

    What a network adds to the maps is not known on blocks that it was trained on: there the errors are those of the
    maps, times the ratio of the model's errors to theirs on the rows that are kept.

    Args:
        finish: what maps get after they are fitted.
    """
    if data.calibration is None and not settings.trainer.calibration:
        return None
    errors_of = partial(
        residuals,
        batch_size=settings.trainer.eval_batch_size,
        lag=lag_of(data.frequency.season, data.sizes.seq_len),
        targets=data.columns.positions(data.targets),
    )
    maps, own, n_blocks = maps_of(model), data.calibration, settings.trainer.calibration_blocks
    if not n_blocks or maps is None or (isinstance(model, Linear) and settings.trainer.max_steps != 0):
        return _enough(errors_of(model, own)) if own else None
    blocks = held_out_blocks(maps, offered(settings.model), data, n_blocks=n_blocks, finish=finish)
    found = joined([errors_of(fitted, held) for fitted, held in blocks])
    if own and model is not maps:
        whole, of_maps = (errors_of(one, own).errors.nanmean() for one in (model, maps))
        if of_maps > 0:  # maps without an error, as on constant columns, have no ratio
            found = replace(found, errors=found.errors * (whole / of_maps))
    return _enough(found)


def _enough(found: Residuals) -> Residuals | None:
    """None where some step of some target has no error, since nothing of it is observed."""
    return found if bool(found.errors.isfinite().any(dim=0).all()) else None


def start_of(model: ForecastModel) -> Mapping[str, Tensor]:
    """The tensors of a network that `fit_skip` fitted."""
    return {name: part for name, part in model.state_dict().items() if name.startswith(MAPS)}


def fit_ridge_skip(model: ForecastModel, data: Data) -> RidgeForecast:
    """Give the network's linear skip the weight of ridge regression, [pred_len seq_len]; returns what was fitted.

    Fitted on windows minus their mean. With instance normalisation this is the fit on normalised windows whose squared
    errors are weighted by their variance, so that the loss is that of the final forecasts.
    """
    ridge = fit_ridge(data.train, data.val, data.columns.positions(data.targets))
    weight = model.linear_skip()
    assert weight is not None, "a configuration with skip=ridge has one"
    with torch.no_grad():
        weight.copy_(ridge.weight.T)
    return ridge
