"""Inputs of refits: linear maps are fitted from saved moments, without the training rows."""

from pathlib import Path

from informer import checkpoint
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.paths import KEPT, resolve_latest
from informer.checkpoint.restore import restore_model
from informer.config import conversion
from informer.config.schema import TrainConfig
from informer.data.calendar import mark_fields
from informer.data.read.frequency import Frequency
from informer.errors import InputError
from informer.inference.rolling.refits import Refit
from informer.linear.features import cycles_of
from informer.linear.saved_fit import Reads
from informer.linear.shares import maps_of
from informer.models.base import ForecastModel
from informer.models.linear import Linear
from informer.training import update_state
from informer.training.linear_skip import is_closed_form

MANY = 1 << 40
"""Number of rows that contains every calendar cycle."""


def not_from_moments(maps: Linear | None, trained: TrainConfig) -> str | None:
    """Why linear maps cannot be refitted from moments; None if they can."""
    if maps is not None and maps.effects is not None:
        return "its linear maps have effects of columns, categories or holidays known ahead, which cannot be refitted"
    if trained.dataset.keeps_gaps:
        return "its data have missing values (dataset.fill=mask), for which no moments are saved"
    return None


def check_inputs(state: update_state.UpdateState, model: ForecastModel, checkpoint: Checkpoint) -> None:
    """Raise an InputError if the saved moments are for other inputs than those of the model."""
    maps, frequency = maps_of(model), Frequency.parse(checkpoint.frequency)
    if state.fit is None or maps is None:
        return
    features, fields = state.fit.features, mark_fields(frequency, checkpoint.calendar)
    cycles = cycles_of(fields, MANY, frequency.per_day)
    if features.fields != fields or features.recent not in (0, maps.recent) or not set(features.cycles) <= set(cycles):
        raise InputError(f"{KEPT}: its linear maps read other inputs than the model; put the run's own file back")


def refit_of(run: str | Path | None, every: int) -> Refit:
    """Settings of refits for rolling forecasts.

    Args:
        run: run directory; None: there is none.
        every: origins between two fits.

    Raises:
        InputError: `run` is not a run directory, has no saved moments, or its maps cannot be refitted from moments.
    """
    start, path = f"refit_every={every}", None if run is None else resolve_latest(run)
    if every < 1:
        raise InputError(f"refit_every: expected at least 1, found {every}")
    if path is None or not path.is_dir():
        raise InputError(f"{start}: expected the model of a run directory, found {run or 'none'}")
    saved = checkpoint.load(path)
    model, trained = restore_model(saved), conversion.from_plain(saved.config)
    maps, why = maps_of(model), None
    if maps is None:
        why = "it has no linear maps (model=linear, model=auto)"
    elif not is_closed_form(model, trained):
        why = "its linear maps were trained further"
    if why := why or not_from_moments(maps, trained):
        raise InputError(f"{start}: this model cannot be refitted: {why}; omit refit_every")
    reads = Reads.of(trained.sizes, n_series=len(saved.series), inputs=saved.inputs, targets=saved.targets)
    state = update_state.load(path, reads)
    if state is None or state.fit is None:
        raise InputError(
            f"{start}: {path} has no saved moments of its linear maps (trainer.keep=false, or more than 64 MiB); omit "
            "refit_every, or train again"
        )
    check_inputs(state, model, saved)
    return Refit(every, state.fit, state.repeated)
