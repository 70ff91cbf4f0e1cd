"""Scores of rolling forecasts and of their baselines, over origins after the training rows."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from informer.checkpoint.restore import dims_in
from informer.config.lengths import WindowSizes
from informer.data.read.source import Series
from informer.data.store import build_store, with_columns
from informer.data.windows import Windows
from informer.errors import InputError, counted, listed
from informer.inference.baselines import FittedBaseline, bounded, fit_ridge
from informer.inference.coverage import IntervalScores
from informer.inference.evaluation import Evaluation
from informer.inference.predictor import TrainedModel
from informer.inference.quantile_forecasts import DECILES, CalibratedBaseline, calibrated, model_quantiles
from informer.inference.rolling.recursion import recursive_forecast
from informer.inference.season import seasonal_naive_for
from informer.linear.covariate_effects import fit_known
from informer.metrics import Errors, MaseScale, seasonal_scale

log = logging.getLogger(__name__)

VALIDATION = 0.2
"""Share of the windows before the first origin on which the baselines choose season and penalty."""

MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolling:
    """Settings of rolling forecasts.

    Args:
        horizon: rows to forecast from each origin; None: pred_len.
        stride: rows between origins; None: pred_len.
        start: first forecast time; None: after the training rows.
        levels: interval levels in percent.
        adaptive: widths follow the coverage at earlier origins; see `informer.inference.rolling.adaptive`.
    """

    horizon: int | None = None
    stride: int | None = None
    start: str | None = None
    levels: Sequence[int] = ()
    adaptive: bool = False

    def delay(self, model: TrainedModel) -> int:
        """Number of origins until all actual values of a forecast are known, for its first pred_len rows."""
        sizes = model.sizes
        within = min(model.check_horizon(self.horizon), sizes.pred_len)
        return -(-(sizes.offset + within) // (self.stride or sizes.pred_len))


def first_origin(model: TrainedModel, series: Series, start: str | None) -> int:
    """First row of the window of the first origin that is scored.

    Raises:
        InputError: `start` is not a date, or no forecast time is after it or after the training rows.
    """
    first_target = model.sizes.first
    if start is not None:
        row = int(series.timestamps.searchsorted(moment_in(start, series, "from")))
        if row >= len(series):
            raise InputError(f"from={start}: {series.name} ends at {series.timestamps[-1]}; choose an earlier date")
        return max(row - first_target, 0)
    until, trained_series = model.checkpoint.data.get("trained_until"), model.checkpoint.series
    if not isinstance(until, str) or (trained_series and series.name not in trained_series):
        return 0
    row = int(series.timestamps.searchsorted(moment_in(until, series, "trained_until"), side="right"))
    if row >= len(series):
        raise InputError(
            f"{series.name}: no row after the training rows, which end at {until}; to forecast training rows anyway, "
            f"set from={series.timestamps[min(first_target, len(series) - 1)]:%Y-%m-%d}"
        )
    return max(row - first_target, 0)


def log_begins(model: TrainedModel, panel: Sequence[Series], firsts: Sequence[int], start: str | None) -> None:
    """Log where forecasts start after the training rows, or, with `start`, that they include some; one line for all
    series alike."""
    until = model.checkpoint.data.get("trained_until")
    groups: dict[str, list[str]] = {}
    for series, first in zip(panel, firsts, strict=True):
        if not isinstance(until, str) or (model.checkpoint.series and series.name not in model.checkpoint.series):
            continue
        begin = series.timestamps[min(first + model.sizes.first, len(series) - 1)]
        is_seen = begin <= moment_in(until, series, "trained_until")
        if start is not None and is_seen:
            line = (
                f"rows up to {until} are training rows, where errors are too small (without from=, forecasts start "
                "after them)"
            )
        elif start is None and first:
            line = (
                f"forecasts start at {begin}, after the training rows, which end at {until} (from=DATE includes them)"
            )
        else:
            continue
        groups.setdefault(line, []).append(series.name)
    for line, names in groups.items():
        who = names[0] if len(names) == 1 else f"{len(names)} series ({listed(names, MOST_NAMED)})"
        log.info(f"{who}: {line}")


def too_few(series: Series, sizes: WindowSizes, needed: int, first: int, how: Rolling) -> str:
    """What a series lacks whose windows begin at row `first`.

    Args:
        needed: rows of a window and its horizon.
    """
    if len(series) < needed:
        blocks = (needed - sizes.first) // sizes.pred_len
        formula = "seq_len + model.offset" if sizes.offset else "seq_len"
        formula += " + pred_len" if blocks == 1 else f" + {blocks} pred_len"
        return f"{series.name}: expected at least {formula} = {needed} rows for one origin, found {len(series)}"
    after = f"from {how.start} on" if how.start else "after the training rows"
    other = "an earlier from=DATE" if how.start else "from=DATE, which also forecasts training rows"
    return (
        f"{series.name}: expected at least {counted(needed - sizes.first, 'row')} {after}, found "
        f"{max(len(series) - first - sizes.first, 0)}; give newer rows, or {other}"
    )


def moment_in(text: str, series: Series, setting: str) -> pd.Timestamp:
    """Parse a time into the time zone of the series, or without one if its times have none.

    Raises:
        InputError: `text` is not a date; names `setting`.
    """
    try:
        moment = pd.Timestamp(text)
    except ValueError as error:
        raise InputError(f"{setting}={text}: expected a date such as {series.timestamps[0]:%Y-%m-%d}") from error
    zone = series.timestamps.tz
    if zone is None:
        return moment if moment.tz is None else moment.tz_localize(None)
    return moment.tz_localize(zone, ambiguous=True, nonexistent="shift_forward") if moment.tz is None else moment


@final
class RollingScores:
    """Scores of the model's rolling forecasts and of baselines fitted on the rows before the first origin.

    The baselines' quantiles come from their errors on rows before the first origin. The deciles of a model
    without quantiles of its own are those of its calibration, which does not change: adaptive intervals are only those
    of `how.levels`.

    Args:
        model: the forecaster.
        panel: the series.
        firsts: first row of the window of each series' first origin.
        how: horizon, origins and intervals; intervals and quantiles are scored up to pred_len.
    """

    def __init__(self, model: TrainedModel, panel: Sequence[Series], firsts: Sequence[int], how: Rolling) -> None:
        self._model, self._columns = model, model.columns.targets
        self._within = min(model.check_horizon(how.horizon), model.sizes.pred_len)
        training = [
            replace(series, timestamps=series.timestamps[:end], values=series.values[:end])
            for series, end in zip(panel, (first + model.sizes.first for first in firsts), strict=True)
        ]
        narrow_training = with_columns(training, model.columns.inputs)
        early, later = _windows_before(model, narrow_training)
        self._baselines = _fitted(model, narrow_training, early, later)
        clipped, season = bounded(self._baselines, model.model), narrow_training[0].frequency.season
        calibrated_baselines = calibrated(clipped, [early], [later], season=season, levels=model.quantiles)
        self._calibrations = {each.name: each.calibration for each in calibrated_baselines}
        scale = _mase_scale(model, narrow_training)
        self._errors = {baseline.name: Errors(scale) for baseline in self._baselines}
        self._own = Errors(scale)
        horizon = model.check_horizon(how.horizon)
        self._block = -(-horizon // (how.stride or model.sizes.pred_len))  # origins whose forecasts share rows
        self._levels = model.quantiles or DECILES
        self._spread = IntervalScores(model.quantiles, model.calibration, how.levels)

    def add(
        self,
        output: Float[Tensor, "b pred_len n *q"],
        forecast: Float[Tensor, "b horizon n"],
        actual: Float[Tensor, "b horizon n"],
        windows: Windows,
        chosen: Int[Tensor, "b"],
        halves: Mapping[int, Float64[np.ndarray, "b within n"]],
    ) -> None:
        """Add windows.

        Args:
            output: output of the model.
            forecast: scaled forecast of the whole horizon.
            actual: scaled actual values.
            windows, chosen: the windows.
            halves: scaled half widths of intervals by level.
        """
        batch, positions = windows.batch(chosen), self._model.columns.positions(self._columns)
        history, within = batch.enc_x[:, :, positions], slice(self._within)
        quantiles = model_quantiles(self._model.model, output[:, within], self._model.calibration, history, batch.units)
        self._own.add(forecast, actual, batch.units, quantiles)
        tensors = {level: torch.from_numpy(half) for level, half in halves.items()}
        self._spread.add(output[:, within], actual[:, within], history, tensors, batch.units)
        for baseline in bounded(self._baselines, self._model.model):
            ahead, _ = recursive_forecast(
                baseline, baseline(batch), windows, chosen, targets=positions, horizon=actual.shape[1]
            )
            calibration = self._calibrations[baseline.name]
            quantiles = CalibratedBaseline(baseline, calibration, self._levels).quantiles(batch, ahead[:, within])
            self._errors[baseline.name].add(ahead, actual, batch.units, quantiles)

    def evaluation(self) -> Evaluation:
        """All scores."""
        name = self._model.model.family
        return Evaluation(
            model=name,
            columns=self._columns,
            errors={name: self._own, **self._errors},
            notes=tuple(baseline.note for baseline in bounded(self._baselines, self._model.model)),
            intervals=self._spread.intervals,
            quantiles=self._spread.quantiles,
            block=self._block,
        )


def baselines_before(model: TrainedModel, training: Sequence[Series]) -> list[FittedBaseline]:
    """A seasonal naive, and ridge if there are windows for training and validation before the first origin."""
    return _fitted(model, training, *_windows_before(model, training))


def _windows_before(model: TrainedModel, training: Sequence[Series]) -> tuple[Windows, Windows]:
    """Windows on which baselines are fitted, and on which season and penalty are chosen."""
    sizes = model.sizes
    store = build_store(
        training,
        scalers=[model.scaler.of(series.name, series.values[: sizes.seq_len]) for series in training],
        calendar=model.calendar,
        device=model.device,
        trained=model.checkpoint.series,
    )
    begins = np.cumsum([0, *map(len, training[:-1])])
    counts = [max(len(series) - sizes.rows + 1, 0) for series in training]
    early = [begin + np.arange(n - int(VALIDATION * n)) for begin, n in zip(begins, counts, strict=True)]
    later = [begin + np.arange(n - int(VALIDATION * n), n) for begin, n in zip(begins, counts, strict=True)]
    train, val = (
        Windows.of_columns(store, model.columns, starts=torch.from_numpy(np.concatenate(starts)), sizes=sizes)
        for starts in (early, later)
    )
    return train, val


def _fitted(model: TrainedModel, training: Sequence[Series], train: Windows, val: Windows) -> list[FittedBaseline]:
    positions = model.columns.positions(model.columns.targets)
    naive = seasonal_naive_for(training, model.columns, val if len(val) else train)
    if not len(train) or not len(val):
        return [naive]
    dims, lag = dims_in(model.checkpoint), training[0].frequency.season
    covariates = {"columns": dims.regressors, "marks": dims.holidays, "codes": dims.known_codes}
    effects = fit_known(train, val, positions, **covariates, lag=lag)
    return [naive, fit_ridge(train, val, positions, known=effects)]


def _mase_scale(model: TrainedModel, training: Sequence[Series]) -> MaseScale:
    """Denominators of MASE, over the rows before the first origin."""
    season, positions = training[0].frequency.season, model.columns.positions(model.columns.targets)

    def rows(*, scaled: bool) -> Iterator[Tensor]:
        for series in training:
            scaler = model.scaler.of(series.name, series.values[: model.sizes.seq_len])
            yield torch.from_numpy(np.array(scaler.standard(series.values) if scaled else series.values)[:, positions])

    return MaseScale(*(seasonal_scale(rows(scaled=scaled), season) for scaled in (True, False)))


def summary_lines(name: str, scores: Evaluation) -> list[str]:
    """Overall scores of a file's forecasts, and the verdict if there are baselines."""
    means = scores.errors[scores.model].scaled.overall()
    line = f"{name}: {counted(scores.windows, 'origin')}, MSE {means['mse']:.4g} and MAE {means['mae']:.4g}"
    mase = f", MASE {means['mase']:.4g}" if np.isfinite(means["mase"]) else ""
    verdict = [scores.verdict] if len(scores.errors) > 1 else []
    return [f"{line} in scaled units{mase}", *verdict, *filter(None, [scores.warning])]
