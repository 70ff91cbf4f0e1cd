"""The initial network of a run: random weights, a fitted linear part, another run's weights, or resumed."""

import logging
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch

from informer import checkpoint
from informer.base.errors import InputError, one_of
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.network import build_model
from informer.checkpoint.restore import restore_model, warm_start
from informer.config.training import SLOTS, TrainConfig
from informer.data.dataset import Data
from informer.members.baselines import fit_ridge
from informer.members.linear import MOST_WINDOWS, fit_model, held_out_blocks
from informer.members.network import ForecastModel
from informer.networks.layers.distribution_head import MOST_COUNT
from informer.networks.models.zero import ZeroConfig, ZeroNetwork
from informer.pretrained.weights import load
from informer.scoring.evaluate import scored_at_once
from informer.scoring.residuals import Residuals, joined_errors, residuals_of

log = logging.getLogger(__name__)

WINDOWS_EACH, MOST_OF_PANEL = 16, 8000
"""Windows of each series of a panel from which intervals are calibrated, and of all together."""


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
    if model.maps is None:
        return None
    if model.network is None:
        return fit_model(model.maps, data)
    # of windows minus their mean: with instance normalisation this is the fit on normalised windows whose squared
    # errors are weighted by their variance, so that the loss is that of the final forecasts
    ridge = fit_ridge(data.train, data.val, data.columns.positions(data.targets))
    with torch.no_grad():
        model.maps.weight[0] = ridge.weight.T
    return ridge.note


def calibration_errors(model: ForecastModel, settings: TrainConfig, data: Data) -> Residuals | None:
    """Errors for the calibration of intervals.

    Of linear maps that were not trained further, these are cross-validation errors on blocks of training and
    validation; otherwise errors on the calibration windows; None without either.

    Args:
        model: in eval mode.
        settings: configuration of the run.
    """
    if data.calibration is None and not settings.trainer.calibration:
        return None
    errors_of = residuals_of(data, scored_at_once(model, settings.trainer.eval_batch_size, data))
    n_blocks = settings.trainer.calibration_blocks
    if n_blocks and model.maps is not None and model.network is None and settings.trainer.max_steps == 0:
        most = max(MOST_WINDOWS, min(WINDOWS_EACH * len(data.panel), MOST_OF_PANEL)) // n_blocks
        fits = held_out_blocks(model.maps, data, n_blocks=n_blocks)
        of_maps = partial(ForecastModel, settings.model, model.dims)
        errors = joined_errors([errors_of(of_maps(maps=maps).eval(), held_out, most=most) for maps, held_out in fits])
    elif data.calibration:
        errors = errors_of(model, data.calibration)
    else:
        return None
    # without an error at some step of some target there are no intervals
    return errors if bool(errors.errors.isfinite().any(dim=0).all()) else None


def new_network(settings: TrainConfig, data: Data) -> ForecastModel:
    """A network with random weights from torch's generator, on the CPU.

    Raises:
        InputError: see `build_model`; or `series_embedding` for a single series, or counts that are none.
    """
    counts = product(data.panel, data.targets) if settings.loss.kind == "negative_binomial" else ()
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
    return build_model(settings.model, data.dims, **slots, quantiles=settings.loss.quantiles, loss=settings.loss.kind)


def initial_network(settings: TrainConfig, data: Data, last: Checkpoint | None) -> ForecastModel:
    """The network that training starts or continues from, with its frozen parts.

    Args:
        settings: configuration of the run.
        last: the run's last saved state; None: a new run, with weights of `init_from`, a fitted linear map, or random.

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
        slots = {slot: getattr(settings, slot) for slot in SLOTS}
        transfer = warm_start(model, checkpoint.load(Path(settings.init_from)), data, slots)
        log.info(f"init_from={settings.init_from}: {transfer}")
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
