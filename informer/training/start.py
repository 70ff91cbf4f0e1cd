"""The initial network of a run: random weights, a fitted linear map, another run's weights, or resumed.

Fit the linear part of a model before its network is trained.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from informer import checkpoint
from informer.base.errors import InputError, one_of
from informer.build import build_model, dims_of
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.restore import restore_model, warm_start
from informer.config.model import LinearSkip
from informer.config.training import SLOTS, LossKind, TrainConfig
from informer.data.calendar import mark_fields
from informer.data.columns import Trained
from informer.data.dataset import Data
from informer.data.windows import Windows
from informer.linear.maps import MOST_WINDOWS, fit_model, held_out_blocks
from informer.networks.forecast_model import ForecastModel, Member
from informer.networks.layers.distribution_head import MOST_COUNT
from informer.networks.models.linear import LinearMaps, maps_config
from informer.networks.models.zero import ZeroConfig, ZeroNetwork
from informer.pretrained.member import PretrainedMember
from informer.pretrained.weights import load
from informer.read.frequency import Frequency
from informer.scoring.baselines import RidgeForecast, fit_ridge
from informer.scoring.intervals import Residuals, joined_errors, residuals_of
from informer.scoring.scores import scored_at_once

log = logging.getLogger(__name__)

WINDOWS_EACH, MOST_OF_PANEL = 16, 8000
"""Windows of each series of a panel from which intervals are calibrated, and of all together."""


class FittedMaps(NamedTuple):
    """Closed-form maps of a network, fitted on its training windows.

    Args:
        weights: tensors by their names in the maps.
        note: description of the fit.
    """

    weights: Mapping[str, Tensor]
    note: str

    def give(self, model: ForecastModel) -> None:
        """Load the weights into the maps of a model."""
        assert model.maps is not None, "see TrainConfig.problems"
        model.maps.load_state_dict(self.weights)


def fit_skip(model: ForecastModel, settings: TrainConfig, data: Data) -> str | None:
    """Fit the linear part, or load weights that come trained, if the configuration has them; returns a description."""
    config = settings.model
    if isinstance(model.network, ZeroNetwork) and isinstance(config, ZeroConfig) and config.weights is not None:
        try:
            model.network.zero.load_state_dict(load(config.weights).state_dict())
        except RuntimeError as error:
            raise InputError(
                f"model.weights={config.weights}: expected the sizes of these weights, found others; leave the widths "
                "and layers as they are, or set model.weights=null for random weights"
            ) from error
        return f"weights {config.weights}, trained on generated series"
    if config.skip is LinearSkip.ridge:
        return fit_ridge_skip(model, data).note
    return None if model.maps is None else fit_model(model.maps, maps_config(config), data)


def calibration_errors(
    model: ForecastModel, settings: TrainConfig, data: Data, *, finish: Callable[[LinearMaps], None]
) -> Residuals | None:
    """Errors for the calibration of intervals.

    If the model has linear maps that were not trained further, these are cross-validation errors on blocks of training
    and validation; otherwise errors on the calibration windows; None without either. A network, and a pretrained one
    that was trained further, has no out-of-sample errors on blocks it was trained on, so the errors of the maps are
    multiplied by the ratio of mean errors, model to maps, on the calibration windows.

    Args:
        model: in eval mode.
        settings: configuration of the run.
        finish: applied to maps after each fit.
    """
    if data.calibration is None and not settings.trainer.calibration:
        return None
    errors_of = residuals_of(data, scored_at_once(model, settings.trainer.eval_batch_size, data))
    maps, calibration, n_blocks = model.maps, data.calibration, settings.trainer.calibration_blocks
    if n_blocks and maps is not None and is_closed_form(model, settings):
        most = max(MOST_WINDOWS, min(WINDOWS_EACH * len(data.panel), MOST_OF_PANEL))
        fits = fits_on_blocks(model, maps, settings, data, finish=finish)
        errors = joined_errors([errors_of(fitted, held_out, most=most // n_blocks) for fitted, held_out in fits])
        learnt = any(isinstance(member, PretrainedMember) and member.is_tuned for _, member in model.members)
        if calibration and (model.network is not None or learnt):
            network_error, maps_error = (
                errors_of(forecaster, calibration).errors.nanmean()
                for forecaster in (model, ForecastModel.of_maps(maps, as_they_came(model.members)))
            )
            if maps_error > 0:  # zero for constant columns
                errors = errors.scaled(float(network_error / maps_error))
    elif calibration:
        errors = errors_of(model, calibration)
    else:
        return None
    # without an error at some step of some target there are no intervals
    return errors if bool(errors.errors.isfinite().any(dim=0).all()) else None


def fits_on_blocks(
    model: ForecastModel, maps: LinearMaps, settings: TrainConfig, data: Data, *, finish: Callable[[LinearMaps], None]
) -> Iterator[tuple[ForecastModel, Windows]]:
    """The maps of a model, fitted without each block of the rows before the test part, and the block's windows.

    Every block yields the same maps, with new weights; the arguments are those of `calibration_errors`. A pretrained
    network that was trained further has seen the blocks: here it is the one that came.
    """
    n_blocks, members = settings.trainer.calibration_blocks, as_they_came(model.members)
    for fitted, held_out in held_out_blocks(maps, maps_config(settings.model), data, n_blocks=n_blocks, finish=finish):
        yield ForecastModel.of_maps(fitted, members), held_out


def as_they_came(members: Sequence[tuple[float, Member]]) -> list[tuple[float, Member]]:
    """The members without what the pretrained network has learnt in this run."""
    return [
        (weight, member.as_it_came if isinstance(member, PretrainedMember) else member) for weight, member in members
    ]


def held_out_fits(
    model: ForecastModel, settings: TrainConfig, data: Data, *, finish: Callable[[LinearMaps], None]
) -> Iterator[tuple[ForecastModel, Windows]]:
    """Windows before the test part with a model that was not fitted on them: `fits_on_blocks` of maps without a
    network, and the model itself on the validation part otherwise."""
    blocks, maps = settings.trainer.calibration_blocks, model.maps
    if blocks and maps is not None and model.network is None and is_closed_form(model, settings):
        yield from fits_on_blocks(model, maps, settings, data, finish=finish)
    else:
        parts = [part.starts for part in (data.val, data.calibration) if part is not None]
        yield model, data.val.at(torch.cat(parts))


def is_closed_form(model: ForecastModel, settings: TrainConfig) -> bool:
    """Whether the maps are as fitted, not trained further."""
    return model.network is not None or settings.trainer.max_steps == 0


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
        InputError: see `build_model`; or `series_embedding` for a single series, or counts that are none.
    """
    counts = product(data.panel, data.targets) if settings.loss.kind is LossKind.negative_binomial else ()
    for series, name in counts:  # 0, 1, 2, ..., MOST_COUNT
        values = series.values[:, series.columns.index(name)]
        wrong = ~np.isnan(values) & ~((values >= 0) & (values <= MOST_COUNT) & (values % 1 == 0))
        if wrong.any():
            at = wrong.argmax()
            raise InputError(
                f"{series.name}, column {name}, {series.timestamps[at]}: loss=negative_binomial expects counts from 0 "
                f"to {MOST_COUNT:,}, found {values[at]:g}; use loss=student_t or normal"
            )
    if settings.model.series_embedding and not data.trained_series:
        raise InputError("model.series_embedding: expected several series (dataset.series_col), found one")
    slots = {slot: getattr(settings, slot) for slot in SLOTS}
    return build_model(
        settings.model, dims_of(data), **slots, quantiles=settings.loss.quantiles, loss=settings.loss.kind
    )


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
        older = checkpoint.load(Path(settings.init_from))
        older_marks = mark_fields(Frequency.parse(older.frequency), older.calendar)
        transfer = warm_start(
            model,
            older,
            inputs=data.inputs,
            targets=data.targets,
            mark_sizes=dims_of(data).mark_sizes,
            same_calendar=mark_fields(data.frequency, data.calendar) == older_marks,
            slots={slot: getattr(settings, slot) for slot in SLOTS},
            trained=Trained(data.trained_series, data.categories, data.masked),
        )
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
