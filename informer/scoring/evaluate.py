"""Forecasts of every window of a part, scored next to calibrated baselines, in one pass."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from informer.base.errors import ShortError, listed
from informer.data.dataset import Data
from informer.data.diagnosis import data_problems
from informer.data.panel import training_rows
from informer.data.store import row_blocks
from informer.data.windows import Batch, Windows
from informer.members.baselines import FittedBaseline, SeasonalNaive, best_seasonal_naive, fit_ridge
from informer.members.linear import effects_of
from informer.members.network import ForecastModel, at_least_zero, forecast_without_network, model_forecast
from informer.read.frequency import Unit
from informer.scoring.backtest import BATCH, DECILES, Member, backtest
from informer.scoring.intervals import REPORTED_LEVELS, Calibration
from informer.scoring.metrics import seasonal_scale
from informer.scoring.residuals import Sample, lag_of, residuals
from informer.scoring.scores import Scores

MAPS_CELLS = 1 << 19
"""Values in the windows that linear maps forecast at once."""
MOST_WINDOWS, MOST_VALUES, LEAST_WINDOWS = 2000, 1 << 20, 100
"""Windows on which baselines are calibrated: at most so many, or so many values in total, but not fewer than the third;
of more, evenly spaced ones are used."""
COMPARED_FOR_QUANTILES = 1 << 17
"""Number of errors from which the power of their variation is selected, which takes most of the time."""
START = "without the network"
"""Name of the forecast without the network's contribution: the linear start, if the model has one."""


def baseline(fitted: FittedBaseline, non_negative: Sequence[int] = ()) -> Member:
    """A fitted baseline, clipped at zero like the model next to it, so that clipping does not decide."""

    def clipped(batch: Batch) -> Tensor:
        return at_least_zero(fitted(batch), batch.units, non_negative)

    return Member(
        name=fitted.name,
        output=clipped if non_negative else fitted,
        positions=fitted.positions,
        non_negative=non_negative,
        note=f"{fitted.note}; not below zero where the model is not" if non_negative else fitted.note,
    )


def calibrated(
    fitted: FittedBaseline,
    fitted_on: Sequence[Windows],
    later: Sequence[Windows],
    *,
    season: int,
    non_negative: Sequence[int] = (),
    levels: Sequence[float] = (),
) -> Member:
    """A `baseline` with quantiles from its errors on windows that it was not fitted on: the later ones, and for the
    seasonal naive, whose season is all that is fitted, the others too.

    Args:
        fitted_on, later: windows of one store, on which ridge was fitted and not.
        season: usual season of the time step.
        levels: of the quantiles; by default DECILES.
    """
    member = baseline(fitted, non_negative)
    parts = [*fitted_on, *later] if isinstance(fitted, SeasonalNaive) else later
    if not sum(map(len, parts)):
        return member
    windows = parts[0].at(torch.cat([part.starts for part in parts]))
    most = MOST_VALUES // (windows.sizes.pred_len * len(member.positions))
    windows = windows.thinned(min(max(most, LEAST_WINDOWS), MOST_WINDOWS))
    lag = lag_of(season, windows.sizes.seq_len)
    errors = residuals(member.output, windows, batch_size=BATCH, lag=lag, targets=member.positions)
    return replace(member, calibration=errors.calibration(COMPARED_FOR_QUANTILES), levels=levels or DECILES)


def add_windows(
    scores: Scores,
    members: Sequence[Member],
    windows: Windows,
    data: Data,
    change: Float64[np.ndarray, "s n"],
    *,
    batch_size: int = 256,
    levels: Sequence[int] = (),
) -> Scores:
    """Add each member's forecasts of all windows of `data` to the scores; other arguments as of `backtest`.

    Raises:
        InputError: there are no windows.
    """
    if not len(windows):
        raise ShortError("evaluation: expected at least one window, found none; use more rows or a shorter seq_len")
    for member in members:
        of = partial(backtest, member, windows, data.panel, data.targets, change=change, batch_size=batch_size)
        for paths in of(levels=member.supported(levels)):
            scores.add(member.name, paths)
    return scores


def evaluate(
    forecast: Member,
    windows: Windows,
    data: Data,
    *,
    change: Float64[np.ndarray, "s n"] | None = None,
    batch_size: int = 256,
) -> Scores:
    """Scores of one member for the targets of `data` over windows of its panel.

    Args:
        change: see `training_scale`; None: MASE is left undefined.
    """
    scores = Scores(data.targets, [each.name for each in data.panel])
    change = np.full((len(data.panel), len(data.targets)), np.nan) if change is None else change
    return add_windows(scores, [forecast], windows, data, change, batch_size=batch_size)


def training_scale(data: Data) -> Float64[np.ndarray, "s n"]:
    """Denominators of MASE of each series and target: `mase_scale` of its training rows."""
    training, targets = training_rows(data.panel, data.splits), data.columns.positions(data.targets)
    return np.stack([mase_scale(series.values, data.frequency.season, targets) for series in training])


def mase_scale(rows: Float[np.ndarray, "_ c"], season: int, targets: Sequence[int]) -> Float64[np.ndarray, " n"]:
    """Denominators of MASE of the `targets` among the columns of a series."""
    scale = seasonal_scale((block[:, targets] for block in row_blocks(rows, shared=season)), season)
    return np.broadcast_to(scale, len(targets))


def axes_of(data: Data) -> list[str]:
    """Hour and weekday of the row that is forecast, or its month for steps longer than a day; see `Scores`."""
    unit = data.frequency.unit
    days, below_day = (Unit.day, Unit.business_day), unit in (Unit.second, Unit.minute, Unit.hour)
    return [*(["hour"] if below_day else []), "weekday" if below_day or unit in days else "month"]


def fit_baselines(data: Data) -> list[FittedBaseline]:
    """Fit the baselines on the training part; season and penalty are chosen on validation."""
    positions = data.columns.positions(data.targets)
    naive = best_seasonal_naive(training_rows(data.panel, data.splits), data.columns, data.val)
    return [naive, fit_ridge(data.train, data.val, positions, known=effects_of(data))]


def baselines_for(
    data: Data, model: ForecastModel | None = None, fitted: Sequence[FittedBaseline] | None = None
) -> list[Member]:
    """Baselines of `fit_baselines` calibrated on the windows of validation and calibration, see `calibrated`.

    Args:
        data: the data they are fitted on.
        model: they are clipped at zero where it is, and have quantiles of its levels; None: not clipped, deciles.
        fitted: fitted baselines; None: `fit_baselines(data)`.
    """
    later, season = [data.val] if data.calibration is None else [data.val, data.calibration], data.frequency.season
    places, levels = ((), ()) if model is None else (model.non_negative, model.quantiles)
    return [
        calibrated(each, [data.train], later, season=season, non_negative=places, levels=levels)
        for each in (fit_baselines(data) if fitted is None else fitted)
    ]


def compare(
    forecast: Member, data: Data, *, batch_size: int = 256, baselines: Sequence[Member] | None = None
) -> Scores:
    """Scores of a member with its intervals, and of the baselines, on the test part.

    Args:
        baselines: None: those of `fit_baselines`, without quantiles.
    """
    baselines = [baseline(fitted) for fitted in fit_baselines(data)] if baselines is None else baselines
    names = [each.name for each in data.panel]
    scores = Scores(data.targets, names, block=data.sizes.pred_len, axes=axes_of(data))
    scores.baselines, scores.notes = baselines, [*(each.note for each in baselines), *_notes(data)]
    add = partial(add_windows, scores, windows=data.test, data=data, change=training_scale(data), batch_size=batch_size)
    add([forecast], levels=REPORTED_LEVELS)
    return add(baselines)


def _notes(data: Data) -> Iterator[str]:
    """A note if targets are constant, and if roots of targets are modelled."""
    if note := data.scaler.constant_note(data.columns):
        yield note
    positions = data.columns.positions(data.targets)
    for root in data.scaler.roots(positions):
        names = [name for name, place in zip(data.targets, positions, strict=True) if data.scaler.root(place) == root]
        yield (
            f"fitted to the {root} of {listed(names)} (scaler.transform), whose fluctuations depend less on the level; "
            "forecasts, intervals and errors are of the values themselves"
        )


def scored_at_once(model: ForecastModel, batch_size: int, data: Data) -> int:
    """Windows per batch when a model is scored: `batch_size`, which bounds the memory of a network, or more of maps
    alone, whose batch costs as much however small it is."""
    if model.network is not None:
        return batch_size
    return max(batch_size, MAPS_CELLS // (data.sizes.rows * len(data.inputs)))


def score(
    model: ForecastModel,
    data: Data,
    *,
    batch_size: int,
    calibration: Calibration | None = None,
    baselines: Sequence[Member] | None = None,
    sample: Sample | None = None,
) -> Scores:
    """Score the model, its intervals and quantiles, and the baselines on the test part; sets eval mode.

    Args:
        model, data: the model and the data of its run.
        batch_size: windows per batch, see `scored_at_once`.
        calibration: calibration of the model's intervals, if any.
        baselines: see `baselines_for`, which is called without them.
        sample: gets the forecasts.

    Raises:
        InputError: a part without windows.
    """
    model.eval()
    batch_size = scored_at_once(model, batch_size, data)
    baselines = baselines_for(data, model) if baselines is None else baselines
    member = Member.of_model(model, calibration, DECILES)
    member = member if sample is None else sample.of(member)
    scores = compare(member, data, batch_size=batch_size, baselines=baselines)
    adds = adds_to_a_start(model, data.test)
    scores.further = {"is_idle": adds is False}
    if adds:
        start = evaluate(without_network(model), data.test, data, batch_size=batch_size)
        by_step = start.values(START, "scaled", "step")
        scores.further[START] = {metric: by_step[metric].tolist() for metric in ("mse", "mae")}
    scores.problems = data_problems(data)
    return scores


def without_network(model: ForecastModel) -> Member:
    """The forecast that a model's network starts from."""
    return replace(Member.of_model(model), name=START, output=partial(forecast_without_network, model), quantiles=())


@torch.inference_mode()
def adds_to_a_start(model: ForecastModel, windows: Windows) -> bool | None:
    """Whether the network changes the forecast that it starts from (an untrained head is zero), of the first of the
    windows; None if it starts from zero, or there is no network."""
    probe = windows.batch(torch.tensor([0]))
    if model.network is None or not bool(((start := forecast_without_network(model, probe)) != 0).any()):
        return None
    return bool((start != model_forecast(model, probe)).any())
