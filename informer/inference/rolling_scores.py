"""Which origins of rolling forecasts are scored, next to which baselines: those of rows that training did not see."""

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
from informer.data.read.source import Series
from informer.data.store import build_store, narrowed
from informer.data.windows import Windows
from informer.errors import InputError, counted
from informer.inference.baselines import RidgeForecast, RidgeRefit, SeasonalNaive, fit_ridge
from informer.inference.coverage import IntervalScores
from informer.inference.evaluation import Evaluation
from informer.inference.predictor import TrainedModel
from informer.inference.recursion import go_on
from informer.inference.season import seasonal_naive_for
from informer.linear.known import fit_known
from informer.metrics import Errors, MaseScale, seasonal_scale

log = logging.getLogger(__name__)

VALIDATION = 0.2
"""Share of the windows before the first origin that the baselines choose season and penalty on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolling:
    """Settings of rolling forecasts.

    Args:
        horizon: rows to forecast from each origin; None: pred_len.
        stride: rows between origins; None: pred_len.
        start: first forecast time; None: after the rows that the model was trained on.
        levels: of intervals, in percent.
        adaptive: their widths follow the coverage that they had at earlier origins; see `informer.inference.adaptive`.
    """

    horizon: int | None = None
    stride: int | None = None
    start: str | None = None
    levels: Sequence[int] = ()
    adaptive: bool = False

    def delay(self, model: TrainedModel) -> int:
        """Origins until the last actual value of a forecast, up to pred_len rows of it, is known."""
        sizes = model.sizes
        within = min(model.check_horizon(self.horizon), sizes.pred_len)
        return -(-(sizes.offset + within) // (self.stride or sizes.pred_len))


def first_origin(model: TrainedModel, series: Series, start: str | None) -> int:
    """First row of the window of the first origin that is scored; logged where origins are left out.

    Raises:
        InputError: `start` is no date, or every forecast time is before it, or among the rows of training.
    """
    first_target = model.sizes.first
    if start is not None:
        row = int(series.timestamps.searchsorted(moment_in(start, series, "from")))
        if row >= len(series):
            raise InputError(f"from={start}: {series.name} ends at {series.timestamps[-1]}; choose an earlier date")
        return max(row - first_target, 0)
    until, known = model.checkpoint.data.get("trained_until"), model.checkpoint.series
    if not isinstance(until, str) or (known and series.name not in known):
        return 0
    row = int(series.timestamps.searchsorted(moment_in(until, series, "trained_until"), side="right"))
    if row >= len(series):
        raise InputError(
            f"{series.name}: the model was trained on rows up to {until}, and no row is later; to forecast rows of "
            f"training anyway, set from={series.timestamps[min(first_target, len(series) - 1)]:%Y-%m-%d}"
        )
    first = max(row - first_target, 0)
    if first:
        log.info(
            f"{series.name}: forecasts begin at {series.timestamps[first + first_target]}; earlier rows, up to "
            f"{until}, are of training and are left out (from=DATE includes them)"
        )
    return first


def moment_in(text: str, series: Series, setting: str) -> pd.Timestamp:
    """A time in the zone of the series, or without one like its times."""
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

    Args:
        model: the forecaster.
        panel: the series.
        firsts: first row of the window of the first origin of each.
        how: intervals are scored up to pred_len.
    """

    def __init__(self, model: TrainedModel, panel: Sequence[Series], firsts: Sequence[int], how: Rolling) -> None:
        self._model, self._columns = model, model.columns.targets
        self._within = min(model.check_horizon(how.horizon), model.sizes.pred_len)
        training = [
            replace(one, timestamps=one.timestamps[:end], values=one.values[:end])
            for one, end in zip(panel, (first + model.sizes.first for first in firsts), strict=True)
        ]
        kept = narrowed(training, model.columns.inputs)
        self._baselines = baselines_before(model, kept)
        self._ridge: RidgeRefit | None = None
        scale = _mase_scale(model, kept)
        self._errors = {one.name: Errors(scale) for one in self._baselines}
        self._own = Errors(scale)
        horizon = model.check_horizon(how.horizon)
        self._block = -(-horizon // (how.stride or model.sizes.pred_len))  # origins whose forecasts share rows
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
        """Add windows: the model's output, its final forecast, the actual values and half widths of intervals."""
        batch, positions = windows.batch(chosen), self._model.columns.positions(self._columns)
        self._own.add(forecast, actual, center=batch.center, scale=batch.scale)
        history, within = batch.enc_x[:, :, positions], slice(self._within)
        tensors = {level: torch.from_numpy(half) for level, half in halves.items()}
        self._spread.add(output[:, within], actual[:, within], history, tensors)
        for one in self._baselines:
            ahead, _ = go_on(one, one(batch), windows, chosen, targets=positions, horizon=actual.shape[1])
            self._errors[one.name].add(ahead, actual, center=batch.center, scale=batch.scale)

    def refit(self, later: Windows) -> None:
        """Fit ridge on these windows and those of the calls before, with the penalty that it has."""
        for place, one in enumerate(self._baselines):
            if isinstance(one, RidgeForecast):
                self._ridge = self._ridge or RidgeRefit(replace(one, note=f"{one.note}; fitted again as the model"))
                self._baselines[place] = self._ridge(later)

    def evaluation(self) -> Evaluation:
        """All scores."""
        name = self._model.model.family
        return Evaluation(
            model=name,
            columns=self._columns,
            errors={name: self._own, **self._errors},
            notes=tuple(one.note for one in self._baselines),
            intervals=self._spread.intervals,
            quantiles=self._spread.quantiles,
            block=self._block,
        )


def baselines_before(model: TrainedModel, training: Sequence[Series]) -> list[SeasonalNaive | RidgeForecast]:
    """A seasonal naive, and ridge where the rows suffice for it; none without a window before the first origin."""
    sizes, positions = model.sizes, model.columns.positions(model.columns.targets)
    store = build_store(
        training,
        scalers=[model.scaler.of(one.name, one.values[: sizes.seq_len]) for one in training],
        calendar=model.calendar,
        device=model.device,
        known=model.checkpoint.series,
    )
    begins = np.cumsum([0, *map(len, training[:-1])])
    counts = [max(len(one) - sizes.rows + 1, 0) for one in training]
    early = [begin + np.arange(n - int(VALIDATION * n)) for begin, n in zip(begins, counts, strict=True)]
    later = [begin + np.arange(n - int(VALIDATION * n), n) for begin, n in zip(begins, counts, strict=True)]
    train, val = (
        Windows.of_columns(store, model.columns, starts=torch.from_numpy(np.concatenate(part)), sizes=sizes)
        for part in (early, later)
    )
    naive = seasonal_naive_for(training, model.columns, val if len(val) else train)
    if not len(train) or not len(val):
        return [naive]
    dims, lag = dims_in(model.checkpoint), training[0].frequency.season
    known = fit_known(train, val, positions, columns=dims.regressors, marks=dims.holidays, lag=lag)
    return [naive, fit_ridge(train, val, positions, known=known)]


def _mase_scale(model: TrainedModel, training: Sequence[Series]) -> MaseScale:
    """Denominators of MASE over the rows before the first origin."""
    season, positions = training[0].frequency.season, model.columns.positions(model.columns.targets)

    def rows(*, scaled: bool) -> Iterator[Tensor]:
        for one in training:
            scaler = model.scaler.of(one.name, one.values[: model.sizes.seq_len])
            yield torch.from_numpy(np.array(scaler.transform(one.values) if scaled else one.values)[:, positions])

    return MaseScale(*(seasonal_scale(rows(scaled=scaled), season) for scaled in (True, False)))


def summary_lines(name: str, scores: Evaluation) -> list[str]:
    """How good the forecasts of a file are."""
    found = scores.errors[scores.model].scaled.overall()
    line = f"{name}: {counted(scores.windows, 'origin')}, MSE {found['mse']:.4g} and MAE {found['mae']:.4g}"
    mase = f", MASE {found['mase']:.4g}" if np.isfinite(found["mase"]) else ""
    return [f"{line} in scaled units{mase}", *([scores.verdict] if len(scores.errors) > 1 else [])]
