"""The initial network of a run: random weights, a fitted linear map, another run's weights, or resumed.

Fit the linear part of a model before its network is trained.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from informer import checkpoint
from informer.base.errors import InputError, one_of
from informer.build import build_model, dims_of
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.restore import Transfer, restore_model, warm_start
from informer.config.model import LinearSkip
from informer.config.training import SLOTS, TrainConfig
from informer.data.calendar import mark_fields
from informer.data.columns import Trained
from informer.data.dataset import Data
from informer.linear.maps import MOST_WINDOWS, fit_model, held_out_blocks
from informer.linear.moments import WindowRun
from informer.networks.forecast_model import ForecastModel
from informer.networks.models.linear import LinearMaps, maps_config
from informer.read.frequency import Frequency
from informer.scoring.baselines import RidgeForecast, fit_ridge
from informer.scoring.intervals import Residuals, joined_errors, residuals_of

log = logging.getLogger(__name__)


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
        assert model.maps is not None, "see TrainConfig.problems"
        model.maps.load_state_dict({name.removeprefix(MAPS): tensor for name, tensor in self.weights.items()})


def fit_skip(model: ForecastModel, settings: TrainConfig, data: Data) -> str | None:
    """Fit the linear part, if the configuration has one; returns a description of the fit."""
    config = settings.model
    if config.skip is LinearSkip.ridge:
        return fit_ridge_skip(model, data).note
    return None if model.maps is None else fit_model(model.maps, maps_config(config), data)


def refit(
    model: ForecastModel,
    settings: TrainConfig,
    data: Data,
    runs: Sequence[WindowRun],
    *,
    finish: Callable[[LinearMaps], None],
) -> None:
    """Fit the linear maps of a model, but not its network, on these windows, with the settings chosen in training.

    Args:
        finish: applied to the maps; the weight of the network in a combination is in its head already.
    """
    assert model.maps is not None, "see TrainConfig.problems"
    fit_model(model.maps, maps_config(settings.model), data, runs)
    finish(model.maps)


def calibration_errors(
    model: ForecastModel, settings: TrainConfig, data: Data, *, finish: Callable[[LinearMaps], None]
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
    maps, calibration, n_blocks = model.maps, data.calibration, settings.trainer.calibration_blocks
    if not n_blocks or maps is None or not is_closed_form(model, settings):
        return _enough(errors_of(model, calibration)) if calibration else None
    blocks = held_out_blocks(maps, maps_config(settings.model), data, n_blocks=n_blocks, finish=finish)
    errors = joined_errors(
        [
            errors_of(ForecastModel.of_maps(fitted), held_out, most=MOST_WINDOWS // n_blocks)
            for fitted, held_out in blocks
        ]
    )
    if calibration and model.network is not None:
        network_error, maps_error = (
            errors_of(forecaster, calibration).errors.nanmean() for forecaster in (model, ForecastModel.of_maps(maps))
        )
        if maps_error > 0:  # zero for constant columns
            errors = errors.scaled(float(network_error / maps_error))
    return _enough(errors)


def is_closed_form(model: ForecastModel, settings: TrainConfig) -> bool:
    """Whether the maps are as fitted, not trained further."""
    return model.network is not None or settings.trainer.max_steps == 0


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
    assert model.skip is not None, "a configuration with skip=ridge has one"
    with torch.no_grad():
        model.skip.weight.copy_(ridge.weight.T)
    return ridge


def new_network(settings: TrainConfig, data: Data) -> ForecastModel:
    """A network with random weights from torch's generator, on the CPU.

    Raises:
        InputError: see `build_model`; or `series_embedding` for a single series.
    """
    if settings.model.series_embedding and not data.trained_series:
        raise InputError("model.series_embedding: expected several series (dataset.series_col), found one")
    return build_model(settings.model, dims_of(data), **_slots(settings), quantiles=settings.loss.quantiles)


def begin_with(model: ForecastModel, settings: TrainConfig, data: Data, older: Checkpoint) -> Transfer:
    """Load the weights of a checkpoint into a new network; returns which were used. Errors as in `warm_start`."""
    older_marks = mark_fields(Frequency.parse(older.frequency), older.calendar)
    return warm_start(
        model,
        older,
        inputs=data.inputs,
        targets=data.targets,
        mark_sizes=dims_of(data).mark_sizes,
        same_calendar=mark_fields(data.frequency, data.calendar) == older_marks,
        slots=_slots(settings),
        trained=Trained(data.trained_series, data.categories, data.masked),
    )


def _slots(settings: TrainConfig) -> dict[str, Any]:
    return {slot: getattr(settings, slot) for slot in SLOTS}


def initial_network(
    settings: TrainConfig, data: Data, last: Checkpoint | None, fitted: FittedMaps | None = None
) -> ForecastModel:
    """The network that training starts or continues from, with its frozen parts.

    Args:
        settings: configuration of the run.
        last: the run's last saved state; None: a new run, with weights of `init_from`, a fitted linear map, or random.
        fitted: the linear maps, if already fitted.

    Raises:
        InputError: see `new_network`, `restore_model`, `warm_start` and `freeze`.
    """
    if last is not None:
        model = restore_model(last).train()
        model.non_negative = ()  # only forecasts are clipped, not outputs in training
        freeze(model, settings.trainer.freeze)
        return model
    model = new_network(settings, data)
    if settings.init_from is not None:
        transfer = begin_with(model, settings, data, checkpoint.load(Path(settings.init_from)))
        log.info(f"init_from={settings.init_from}: {transfer}")
    elif fitted is not None:
        fitted.give(model)
        log.info(fitted.note)
    elif note := fit_skip(model, settings, data):
        log.info(note)
    freeze(model, settings.trainer.freeze)
    return model


def freeze(model: ForecastModel, names: Sequence[str]) -> None:
    """Exclude these parts from training: no gradients here, eval mode in `set_training_mode`.

    Raises:
        InputError: no such module, or no module is left to train.
    """
    for name in names:
        if name not in model.parts:
            raise one_of("module in trainer.freeze", name, list(model.parts))
        model.parts[name].requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"trainer.freeze: expected a module left to train, found all of them: {', '.join(names)}")
