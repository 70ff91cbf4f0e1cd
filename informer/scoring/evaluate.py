"""Forecasts of every window of a part, scored next to the baselines, in one pass."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from informer.base.errors import InputError, listed
from informer.data.dataset import Data
from informer.data.diagnosis import data_problems
from informer.data.panel import training_rows
from informer.data.store import row_blocks
from informer.data.windows import Batch, DataUnits, Windows
from informer.members.baselines import FittedBaseline, best_seasonal_naive, fit_ridge
from informer.members.linear import effects_of
from informer.members.network import ForecastModel, forecast_without_network, model_forecast, model_output
from informer.networks.models.base import point
from informer.read.frequency import Unit
from informer.read.series import Series
from informer.scoring.forecasts import Forecasts, Matrix, keys_of
from informer.scoring.intervals import REPORTED_LEVELS, Calibration
from informer.scoring.metrics import seasonal_scale
from informer.scoring.quantiles import DECILES, Baseline, QuantileForecast, band_cells, model_quantiles
from informer.scoring.residuals import MOST_RECENT, Residuals, every_of, joined_errors, lag_of
from informer.scoring.scores import Scores

AT_ONCE = 1 << 17
"""Values that are scored at once: what a processor's cache holds, as each is read many times."""
MAPS_CELLS = 1 << 19
"""Values in the windows that linear maps forecast at once."""
START = "without the network"
"""Name of the forecast without the network's contribution: the linear start, if the model has one."""

ForecastFunction = Callable[[Batch], Float[Tensor, "b pred_len n"]]
"""Scaled targets for a batch; must not use `batch.target` except for its shape. What it has as methods is scored too:
`quantiles`, as `Baseline` has, and `bands`, of its last batch, see `band_cells`."""


def paths_of(
    forecast: Float[Tensor, "b h n"],
    actual: Float[Tensor, "b h n"],
    units: DataUnits,
    *,
    columns: Sequence[str],
    series: Sequence[str],
    times: np.ndarray,
    change: Float64[np.ndarray, "b n"],
    quantiles: Mapping[float, Float[Tensor, "b steps n"]] | None = None,
) -> Forecasts:
    """Forecasts of windows, a path for each of their columns, from scaled values.

    Args:
        forecast, actual: scaled values.
        units: of each window.
        columns: names of the targets.
        series: name of each window's series.
        times: of each window's steps [b h], or their rows; the first one stands for the origin.
        change: see `Forecasts.change`.
        quantiles: scaled values by level.
    """
    whole = units.untransformed_scale is None
    scale = units.scale if units.untransformed_scale is None else units.untransformed_scale
    return Forecasts(
        keys=keys_of(series, columns, times[:, 0]),
        times=times.repeat(len(columns), axis=0),
        mean=matrix(_original(forecast, units)),
        actual=matrix(_original(actual, units)),
        levels={level: matrix(units.original(values)) for level, values in (quantiles or {}).items()},
        center=units.center.cpu().numpy().ravel() if whole else np.zeros(1),
        scale=scale.cpu().numpy().ravel(),
        change=change.ravel(),
    )


def matrix(values: Float[Tensor, "b h n"]) -> Matrix:
    """Values of windows as those of paths, a path for each column."""
    return values.cpu().double().transpose(1, 2).flatten(0, 1).numpy()


def _original(scaled: Float[Tensor, "b h n"], units: DataUnits) -> Float64[Tensor, "b h n"]:
    # A zero in the data is rounding noise after conversion from float32 scaled values, and MAPE would divide by it.
    values = units.unscaled(scaled)
    noise = 4 * torch.finfo(torch.float32).eps * units.center[:, None].abs()
    return units.untransformed(values.masked_fill(values.abs() <= noise, 0.0))


@torch.inference_mode()
def add_windows(
    scores: Scores,
    forecasts: Mapping[str, ForecastFunction],
    windows: Windows,
    *,
    change: Float64[np.ndarray, "s n"],
    batch_size: int = 256,
    times: np.ndarray | None = None,
) -> Scores:
    """Add each forecaster's forecasts of all windows, in one pass; the batch size affects speed and memory only.

    Args:
        scores: they are added to it; its series are those of the windows' store.
        forecasts: functions from a batch to scaled targets, by name; a model must already be in eval mode.
        windows: windows to forecast.
        change: see `training_scale`.
        batch_size: windows per batch.
        times: of each row of the store; None: their numbers.

    Raises:
        InputError: there are no windows.
    """
    if not len(windows):
        raise InputError("evaluation: expected at least one window, found none; use more rows or a shorter seq_len")
    steps = windows.sizes.first + np.arange(windows.sizes.pred_len)
    for indices in torch.arange(len(windows), device=windows.starts.device).split(batch_size):
        batch, series = windows.batch(indices), windows.series(indices).cpu().numpy()
        rows = windows.starts[indices].cpu().numpy()[:, None] + steps
        when = rows if times is None else times[rows]
        few = max(AT_ONCE // batch.target[0].numel(), 1)
        for name, forecast in forecasts.items():
            ahead = forecast(batch)
            quantiles = forecast.quantiles(batch, ahead) if hasattr(forecast, "quantiles") else None
            bands = forecast.bands(batch) if hasattr(forecast, "bands") else {}
            for first in range(0, len(ahead), few):
                some = slice(first, first + few)
                paths = paths_of(
                    ahead[some], batch.target[some], batch.units.mapped(itemgetter(some)), columns=scores.columns,
                    series=[scores.series[place] for place in series[some]], times=when[some],
                    change=change[series[some]], quantiles=None if quantiles is None else dict(quantiles(some)),
                )  # fmt: skip
                scores.add(name, paths, cells_of(bands, some))
    return scores


def cells_of(
    bands: Mapping[str, Mapping[str, Float[Tensor, "b h n"]]], windows: slice = slice(None)
) -> dict[str, dict[str, Matrix]]:
    """The result of `band_cells` for `Scores.add`, of these windows."""
    return {units: {name: matrix(each[windows]) for name, each in cells.items()} for units, cells in bands.items()}


def evaluate(
    forecast: ForecastFunction,
    windows: Windows,
    data: Data,
    *,
    change: Float64[np.ndarray, "s n"] | None = None,
    batch_size: int = 256,
) -> Scores:
    """Scores of one forecaster of the targets of `data` over windows of its panel.

    Args:
        change: see `training_scale`; None: MASE is left undefined.
    """
    unknown = np.full((len(data.panel), len(data.targets)), np.nan)
    scores = Scores(data.targets, [each.name for each in data.panel])
    return add_windows(
        scores, {"": forecast}, windows, change=unknown if change is None else change, batch_size=batch_size
    )


def training_scale(data: Data) -> Float64[np.ndarray, "s n"]:
    """Denominators of MASE of each series and target: `mase_scale` of its training rows."""
    training, targets = training_rows(data.panel, data.splits), data.columns.positions(data.targets)
    return np.stack([mase_scale(series.values, data.frequency.season, targets) for series in training])


def mase_scale(rows: Float[np.ndarray, "_ c"], season: int, targets: Sequence[int]) -> Float64[np.ndarray, " n"]:
    """Denominators of MASE of the `targets` among the columns of a series."""
    scale = seasonal_scale((block[:, targets] for block in row_blocks(rows, shared=season)), season)
    return np.broadcast_to(scale, len(targets))


def local_times(panel: Sequence[Series]) -> np.ndarray:
    """Times of all rows of a store, without time zones."""
    return np.concatenate([each.timestamps.tz_localize(None).to_numpy().astype("M8[us]") for each in panel])


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
) -> list[Baseline]:
    """Baselines of `fit_baselines` calibrated on the windows of validation and calibration, see `Baseline.calibrated`.

    Args:
        data: the data they are fitted on.
        model: they are clipped at zero where it is, and have quantiles of its levels; None: not clipped, deciles.
        fitted: fitted baselines; None: `fit_baselines(data)`.
    """
    later = [data.val] if data.calibration is None else [data.val, data.calibration]
    places, levels = ((), ()) if model is None else (model.non_negative, model.quantiles)
    return [
        Baseline(each, places, levels=levels or DECILES).calibrated([data.train], later, season=data.frequency.season)
        for each in (fit_baselines(data) if fitted is None else fitted)
    ]


def compare(
    forecast: ForecastFunction,
    data: Data,
    *,
    name: str = "model",
    batch_size: int = 256,
    baselines: Sequence[Baseline] | None = None,
    axes: Sequence[str] = (),
) -> Scores:
    """Scores of a forecaster and the baselines on the test part.

    Args:
        forecast: its forecasts are scaled.
        data: the data whose test part is scored.
        name: name of the forecaster.
        batch_size: windows per batch.
        baselines: None: those of `fit_baselines`, without quantiles.
        axes: see `Scores`.
    """
    baselines = [Baseline(fitted) for fitted in fit_baselines(data)] if baselines is None else baselines
    scores = Scores(data.targets, [each.name for each in data.panel], block=data.sizes.pred_len, axes=axes)
    scores.baselines, scores.notes = baselines, [*(baseline.note for baseline in baselines), *_notes(data)]
    forecasts = {name: forecast} | {each.name: each for each in baselines}
    return add_windows(
        scores, forecasts, data.test, change=training_scale(data), batch_size=batch_size, times=local_times(data.panel)
    )


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


@final
class _Scored:
    """A network as a forecaster: with its intervals and quantiles, and errors of evenly spaced windows."""

    def __init__(self, model: ForecastModel, data: Data, calibration: Calibration | None) -> None:
        self.model, self.calibration = model, calibration
        self._levels = [level for level in REPORTED_LEVELS if calibration is not None and calibration.supports(level)]
        self._targets = data.columns.positions(data.targets)
        self._every = every_of(data.test, MOST_RECENT)
        self._kept = data.test.at(data.test.starts[:: self._every])
        self._lag = lag_of(data.frequency.season, data.sizes.seq_len)
        self._seen, self._residuals = 0, list[Residuals]()
        self._output = torch.empty(0)

    def __call__(self, batch: Batch) -> Float[Tensor, "b pred_len n"]:
        self._output, history = model_output(self.model, batch), batch.enc_x[:, :, self._targets]
        forecast = point(self._output, self.model.quantiles)
        chosen = slice(-self._seen % self._every, None, self._every)
        errors = Residuals.of(forecast[chosen], batch.target[chosen], history[chosen], self._lag, batch.series[chosen])
        self._residuals.append(errors)
        self._seen += len(forecast)
        return forecast

    def quantiles(self, batch: Batch, forecast: Float[Tensor, "b within n"]) -> QuantileForecast | None:
        """Quantiles of its last forecast."""
        history = batch.enc_x[:, :, self._targets]
        return model_quantiles(self.model, self._output, self.calibration, history, batch.units, batch.series)

    def bands(self, batch: Batch) -> dict[str, dict[str, Tensor]]:
        """What its intervals and quantiles of the last forecast are scored by."""
        halves = {
            level: self.calibration.half_width(
                level, batch.enc_x[:, :, self._targets], constant=batch.units.constant, series=batch.series
            )
            for level in self._levels
            if self.calibration is not None
        }
        return band_cells(self._output, batch.target, self.model.quantiles, halves, batch.units)

    @property
    def residuals(self) -> Residuals:
        """Errors of at most MOST_RECENT windows."""
        return joined_errors(self._residuals).over(self._kept)


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
    baselines: Sequence[Baseline] | None = None,
) -> Scores:
    """Score the model, its intervals and quantiles, and the baselines on the test part; sets eval mode.

    Args:
        model, data: the model and the data of its run.
        batch_size: windows per batch, see `scored_at_once`.
        calibration: calibration of the model's intervals, if any.
        baselines: see `baselines_for`, which is called without them.

    Raises:
        InputError: a part without windows.
    """
    model.eval()
    batch_size, own = scored_at_once(model, batch_size, data), _Scored(model, data, calibration)
    scores = compare(
        own, data, name=model.family, batch_size=batch_size, axes=axes_of(data),
        baselines=baselines_for(data, model) if baselines is None else baselines,
    )  # fmt: skip
    adds = adds_to_a_start(model, data.test)
    scores.further = {"is_idle": adds is False}
    if adds:
        start = evaluate(partial(forecast_without_network, model), data.test, data, batch_size=batch_size)
        by_step = start.values("", "scaled", "step")
        scores.further[START] = {metric: by_step[metric].tolist() for metric in ("mse", "mae")}
    scores.problems, scores.residuals = data_problems(data), own.residuals
    return scores


@torch.inference_mode()
def adds_to_a_start(model: ForecastModel, windows: Windows) -> bool | None:
    """Whether the network changes the forecast that it starts from (an untrained head is zero), of the first of the
    windows; None if it starts from zero, or there is no network."""
    probe = windows.batch(torch.tensor([0]))
    if model.network is None or not bool(((start := forecast_without_network(model, probe)) != 0).any()):
        return None
    return bool((start != model_forecast(model, probe)).any())
