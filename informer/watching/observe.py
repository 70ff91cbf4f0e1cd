"""Forecasts from every origin since training, compared with actual values: errors, coverage, inputs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64

from informer.data.read.source import Series, column_values
from informer.data.store import build_store, with_columns
from informer.data.windows import Windows
from informer.errors import InputError
from informer.inference.baselines import bounded
from informer.inference.predictor import TrainedModel
from informer.inference.rolling.scores import baselines_before, moment_in
from informer.models.base import model_output, point
from informer.watching.drift import Drift, find_drift
from informer.watching.findings import Alarm, Findings, Moved, Period, skill_of, stability_index
from informer.watching.level import Level, find_shift

LEVEL = 80
"""Level in percent of the intervals whose coverage is monitored."""

MOST_TESTS = 64
"""Maximum number of drift tests; more columns of series are thinned evenly."""

PERIODS = 12
"""Maximum number of periods for which scores are shown."""

FEWEST_INPUTS = 50
"""Minimum number of rows before and after for a comparison of distributions."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Watched:
    """Scores of the forecasts of one series from every origin after training.

    Args:
        series: all rows.
        first: row of the first forecast value of the first origin.
        errors: scaled mean squared error of each origin, by forecaster.
        one_step: forecast - actual value of the first step, scaled.
        inside: share of actual values inside the interval; NaN without intervals.
    """

    series: Series
    first: int
    errors: dict[str, Float64[np.ndarray, "origins"]]
    one_step: Float64[np.ndarray, "origins n"]
    inside: Float64[np.ndarray, "origins"]

    @property
    def times(self) -> pd.DatetimeIndex:
        """Times of the first forecast value of each origin."""
        return self.series.timestamps[self.first : self.first + len(self.inside)]


@torch.inference_mode()
def observe(model: TrainedModel, panel: Sequence[Series], until: str, batch_size: int) -> list[Watched]:
    """Forecast each series from every origin, and score model and baselines.

    Args:
        model: trained on rows up to `until`.
        panel: series in the order of training, with rows before and after `until`.
        until: last time of training.
        batch_size: windows per batch.

    Raises:
        InputError: a series without an origin, or a forecast is not finite.
    """
    positions = model.columns.positions(model.columns.targets)
    firsts = [_first(model, series, until) for series in panel]
    pairs = list(zip(panel, firsts, strict=True))
    before = [replace(series, timestamps=series.timestamps[:n], values=series.values[:n]) for series, n in pairs]
    baselines = bounded(baselines_before(model, with_columns(before, model.columns.inputs)), model.model)
    calibration = model.scored.calibration
    has_intervals = calibration is not None and calibration.supports(LEVEL)
    series_watched = []
    for series, first in pairs:
        errors: dict[str, list[torch.Tensor]] = {
            name: [] for name in (model.model.family, *(b.name for b in baselines))
        }
        steps, inside = [], []
        for batch in _windows(model, series, first).batches(batch_size):
            forecast = point(model_output(model.model, batch), model.quantiles).double()
            actual = batch.units.standard(batch.target)
            scored = {model.model.family: forecast}
            scored |= {baseline.name: baseline(batch).double() for baseline in baselines}
            for name, values in scored.items():
                errors[name].append((batch.units.standard(values) - actual).square().mean(dim=(1, 2)))
            steps.append((forecast - batch.target)[:, 0])
            share = torch.full((len(forecast),), torch.nan, dtype=torch.float64)
            if calibration is not None and has_intervals:
                width = calibration.half_width(
                    LEVEL, batch.enc_x[:, :, positions], forecast.shape[1], batch.constant
                ).to(forecast)
                inside_cells = ((forecast - batch.target).abs() <= width).double()
                share = inside_cells.masked_fill(width.isinf(), torch.nan).nanmean(dim=(1, 2))
            inside.append(share.cpu())
        series_watched.append(
            Watched(
                series=series,
                first=first,
                errors={name: torch.cat(batches).cpu().numpy() for name, batches in errors.items()},
                one_step=torch.cat(steps).cpu().numpy(),
                inside=torch.cat(inside).numpy(),
            )
        )
        if not all(np.isfinite(values).all() for values in series_watched[-1].errors.values()):
            raise InputError(f"{series.name}: a forecast is not finite; look for extreme values in {series.name}")
    return series_watched


def _first(model: TrainedModel, series: Series, until: str) -> int:
    """Row of the first forecast value: the first after training with a full window before it."""
    row = int(series.timestamps.searchsorted(moment_in(until, series, "trained_until"), side="right"))
    first, needed = max(row, model.sizes.first), model.sizes.pred_len
    if len(series) - first < needed:
        raise InputError(
            f"{series.name}: expected at least pred_len={needed} rows after {until}, the end of training, and "
            f"{model.sizes.first} rows before them; found {max(len(series) - first, 0)}"
        )
    return first


def _windows(model: TrainedModel, series: Series, first: int) -> Windows:
    panel = with_columns([series], model.columns.inputs)
    scaler = model.scaler.of(series.name, panel[0].values[: model.sizes.seq_len])
    store = build_store(
        panel, scalers=[scaler], calendar=model.calendar, device=model.device, trained=model.checkpoint.series
    )
    starts = torch.arange(first - model.sizes.first, len(series) - model.sizes.rows + 1)
    return Windows.of_columns(store, model.columns, starts=starts, sizes=model.sizes)


def findings(model: TrainedModel, series: Sequence[Watched]) -> Findings:
    """Summarize the scores of all series."""
    name, horizon, times = model.model.family, model.sizes.pred_len, _origin_times(series)
    errors = {key: _over_time(times, series, [member.errors[key] for member in series]) for key in series[0].errors}
    inside = [block for member in series for block in member.inside[::horizon]]
    calibration = model.scored.calibration
    has_intervals = calibration is not None and calibration.supports(LEVEL)
    return Findings(
        model=name,
        errors=errors,
        coverage=np.array(inside if has_intervals else []),
        level=LEVEL if has_intervals else None,
        horizon=horizon,
        alarms=_alarms(model, series),
        inputs=list(_inputs(model, series)),
        periods=list(_periods(name, times, series, errors)),
        levels=_levels(model, series),
    )


def _origin_times(series: Sequence[Watched]) -> pd.DatetimeIndex:
    """Times of the first forecast value of all origins of all series."""
    times = series[0].times
    for member in series[1:]:
        times = times.union(member.times)
    return times


def _over_time(
    times: pd.DatetimeIndex, series: Sequence[Watched], series_values: Sequence[Float64[np.ndarray, "_"]]
) -> Float64[np.ndarray, "origins"]:
    """Mean over the series that have an origin at each time."""
    table = np.full((len(series_values), len(times)), np.nan)
    for row, member, values in zip(table, series, series_values, strict=True):
        row[times.get_indexer(member.times)] = values
    return np.nanmean(table, axis=0)


def _channels(series: Sequence[Watched]) -> list[tuple[Watched, int]]:
    """Series and target columns to test."""
    channels = [(member, column) for member in series for column in range(member.one_step.shape[1])]
    return channels[:: -(-len(channels) // MOST_TESTS)]


def _alarms(model: TrainedModel, series: Sequence[Watched]) -> list[Alarm]:
    channels = _channels(series)
    return [
        _alarm(model, series, place, find_drift(place[0].one_step[:, place[1]], n_tests=len(channels)))
        for place in channels
    ]


def _levels(model: TrainedModel, series: Sequence[Watched]) -> list[Alarm]:
    """Compare the level of each target after training with that before."""
    channels, alarms = _channels(series), []
    for member, column in channels:
        values = column_values(member.series, [model.columns.targets[column]])[:, 0]
        shift = find_shift(
            values[: member.first], values[member.first :], season=member.series.frequency.season, n_tests=len(channels)
        )
        alarms.append(replace(_alarm(model, series, (member, column), shift), change=shift.change))
    return alarms


def _alarm(model: TrainedModel, series: Sequence[Watched], place: tuple[Watched, int], test: Drift | Level) -> Alarm:
    member, column = place
    return Alarm(
        series=member.series.name if len(series) > 1 else "",
        column=model.columns.targets[column],
        at="" if test.alarm is None else str(member.series.timestamps[member.first + test.alarm]),
        after=0 if test.alarm is None else test.alarm + 1,
        evidence=test.evidence,
        bound=test.bound,
    )


def _inputs(model: TrainedModel, series: Sequence[Watched]) -> Iterator[Moved]:
    """Compare the scaled distribution of each numeric column after training with that before."""
    scaled = []
    for member in series:
        rows = column_values(member.series, model.columns.inputs)
        scaled.append(model.scaler.of(member.series.name, rows[: model.sizes.seq_len]).transform(rows))
    for place, name in enumerate(model.columns.inputs):
        if name in model.checkpoint.categories:
            continue
        before = np.concatenate([rows[: member.first, place] for member, rows in zip(series, scaled, strict=True)])
        now = np.concatenate([rows[member.first :, place] for member, rows in zip(series, scaled, strict=True)])
        if min(len(before), len(now)) >= FEWEST_INPUTS:
            yield Moved(column=name, stability_index=stability_index(before, now))


def _periods(
    name: str, times: pd.DatetimeIndex, series: Sequence[Watched], errors: dict[str, np.ndarray]
) -> Iterator[Period]:
    n, inside_by_series = len(times), [member.inside for member in series]
    has_intervals = all(np.isfinite(values).all() for values in inside_by_series)
    inside = _over_time(times, series, inside_by_series) if has_intervals else np.full(n, np.nan)
    bounds = np.unique(np.linspace(0, n, min(PERIODS, n) + 1).round().astype(int))
    for a, b in pairwise(bounds):
        period_errors = {key: values[a:b] for key, values in errors.items()}
        yield Period(
            first=str(times[a]),
            last=str(times[b - 1]),
            origins=int(b - a),
            mse={key: float(values.mean()) for key, values in period_errors.items()},
            skill=skill_of(period_errors, name),
            coverage=float(inside[a:b].mean()),
        )
