"""The initial network of a run: random weights, a fitted linear map, another run's weights, or resumed."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from informer import checkpoint
from informer.build import build_model, dims_of
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.restore import restore_model
from informer.checkpoint.warm_start import Transfer, warm_start
from informer.config.model import InformerConfig
from informer.config.schema import SLOTS, TrainConfig
from informer.data.calendar import mark_fields
from informer.data.categories import Trained
from informer.data.pipeline import Data
from informer.data.read.frequency import Frequency
from informer.errors import InputError, one_of
from informer.models.base import ForecastModel
from informer.training.linear_skip import FittedMaps, fit_skip

log = logging.getLogger(__name__)


def new_network(settings: TrainConfig, data: Data) -> ForecastModel:
    """A network with random weights from torch's generator, on the CPU.

    Raises:
        InputError: see `build_model`; or `series_embedding` for a single series.
    """
    if isinstance(settings.model, InformerConfig) and settings.model.series_embedding and not data.trained_series:
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


def freeze(model: nn.Module, names: Sequence[str]) -> None:
    """Exclude these top-level modules from training: no gradients here, eval mode in `set_training_mode`.

    Raises:
        InputError: no such module, or no module is left to train.
    """
    modules = [name for name, _ in model.named_children()]
    for name in names:
        if name not in modules:
            raise one_of("module in trainer.freeze", name, modules)
        model.get_submodule(name).requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"trainer.freeze: expected a module left to train, found all of them: {', '.join(names)}")
