"""Forecasts from every origin since training, compared with actual values: errors, coverage, inputs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float64

from informer.data.read.source import Series
from informer.data.store import build_store, narrowed
from informer.data.windows import Windows
from informer.errors import InputError
from informer.inference.baselines import bounded
from informer.inference.predictor import TrainedModel
from informer.inference.rolling_scores import baselines_before, moment_in
from informer.models.base import model_output, point
from informer.watching.drift import find_drift
from informer.watching.findings import Alarm, Findings, Moved, Period, skill_of
from informer.watching.inputs import ks_distance, stability_index

LEVEL = 80
"""Percent: of the intervals whose coverage is watched."""

MOST_TESTS = 64
"""Columns of series whose errors are tested, spread evenly."""

PERIODS = 12
"""Parts of the time that scores are shown for."""

FEWEST_INPUTS = 50
"""Rows before and after, without which distributions are not compared."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Watched:
    """One series with the forecasts of every origin after training.

    Args:
        series: all of its rows.
        first: row of the first value that is forecast from the first origin.
        errors: mean squared error of each origin, scaled, by forecaster.
        one_step: forecast less actual value of the first step, scaled.
        inside: share of actual values within the interval; NaN without intervals.
    """

    series: Series
    first: int
    errors: dict[str, Float64[np.ndarray, "origins"]]
    one_step: Float64[np.ndarray, "origins n"]
    inside: Float64[np.ndarray, "origins"]


@torch.inference_mode()
def watched(model: TrainedModel, panel: Sequence[Series], until: str, batch_size: int) -> list[Watched]:
    """The forecasts of each series.

    Args:
        model: trained on rows up to `until`.
        panel: in the order of training, with rows before and after that time.
        batch_size: windows at once.

    Raises:
        InputError: a series without an origin.
    """
    positions = model.columns.positions(model.columns.targets)
    firsts = [_first(model, series, until) for series in panel]
    pairs = list(zip(panel, firsts, strict=True))
    before = [replace(one, timestamps=one.timestamps[:n], values=one.values[:n]) for one, n in pairs]
    baselines = bounded(baselines_before(model, narrowed(before, model.columns.inputs)), model.model)
    level = LEVEL if model.calibration is not None and model.calibration.holds(LEVEL) else None
    half = None if level is None or model.calibration is None else model.calibration.half_width(level)
    found = []
    for series, first in pairs:
        errors: dict[str, list[torch.Tensor]] = {
            name: [] for name in (model.model.family, *(b.name for b in baselines))
        }
        steps, inside = [], []
        for batch in _windows(model, series, first).batches(batch_size):
            forecast = point(model_output(model.model, batch), model.quantiles).double()
            errors[model.model.family].append((forecast - batch.target).square().mean(dim=(1, 2)))
            for one in baselines:
                errors[one.name].append((one(batch).double() - batch.target).square().mean(dim=(1, 2)))
            steps.append((forecast - batch.target)[:, 0])
            share = torch.full((len(forecast),), torch.nan, dtype=torch.float64)
            if half is not None and model.calibration is not None:
                width = half.to(forecast) * model.calibration.unit(batch.enc_x[:, :, positions]).to(forecast)
                share = ((forecast - batch.target).abs() <= width).double().mean(dim=(1, 2))
            inside.append(share.cpu())
        found.append(
            Watched(
                series=series,
                first=first,
                errors={name: torch.cat(parts).cpu().numpy() for name, parts in errors.items()},
                one_step=torch.cat(steps).cpu().numpy(),
                inside=torch.cat(inside).numpy(),
            )
        )
        if not all(np.isfinite(part).all() for part in found[-1].errors.values()):
            raise InputError(f"{series.name}: a forecast is not finite; look for extreme values in {series.name}")
    return found


def _first(model: TrainedModel, series: Series, until: str) -> int:
    """Row of the first value after training that a window forecasts."""
    row = int(series.timestamps.searchsorted(moment_in(until, series, "trained_until"), side="right"))
    first, needed = max(row, model.sizes.first), model.sizes.pred_len
    if len(series) - first < needed:
        raise InputError(
            f"{series.name}: expected at least pred_len={needed} rows after {until}, the last of training, with "
            f"{model.sizes.first} rows before them; found {max(len(series) - first, 0)}"
        )
    return first


def _windows(model: TrainedModel, series: Series, first: int) -> Windows:
    kept = narrowed([series], model.columns.inputs)
    scaler = model.scaler.of(series.name, kept[0].values[: model.sizes.seq_len])
    store = build_store(
        kept, scalers=[scaler], calendar=model.calendar, device=model.device, known=model.checkpoint.series
    )
    starts = torch.arange(first - model.sizes.first, len(series) - model.sizes.rows + 1)
    return Windows.of_columns(store, model.columns, starts=starts, sizes=model.sizes)


def findings(model: TrainedModel, found: Sequence[Watched]) -> Findings:
    """What follows from them."""
    name, horizon = model.model.family, model.sizes.pred_len
    errors = {key: _over_time([one.errors[key] for one in found]) for key in found[0].errors}
    inside = [block for one in found for block in one.inside[::horizon]]
    has_intervals = model.calibration is not None and model.calibration.holds(LEVEL)
    return Findings(
        model=name,
        errors=errors,
        coverage=np.array(inside if has_intervals else []),
        level=LEVEL if has_intervals else None,
        horizon=horizon,
        alarms=_alarms(model, found),
        inputs=list(_inputs(model, found)),
        periods=list(_periods(name, found, errors)),
    )


def _over_time(parts: Sequence[Float64[np.ndarray, "_"]]) -> Float64[np.ndarray, "origins"]:
    """Mean over series at each origin, from the last one backwards: series end at one time."""
    longest = max(map(len, parts))
    table = np.full((len(parts), longest), np.nan)
    for row, part in zip(table, parts, strict=True):
        row[longest - len(part) :] = part
    return np.nanmean(table, axis=0)


def _alarms(model: TrainedModel, found: Sequence[Watched]) -> list[Alarm]:
    channels = [(one, column) for one in found for column in range(one.one_step.shape[1])]
    channels = channels[:: -(-len(channels) // MOST_TESTS)]
    made = []
    for one, column in channels:
        drift = find_drift(one.one_step[:, column], n_tests=len(channels))
        at = "" if drift.alarm is None else str(one.series.timestamps[one.first + drift.alarm])
        made.append(
            Alarm(
                series=one.series.name if len(found) > 1 else "",
                column=model.columns.targets[column],
                at=at,
                after=0 if drift.alarm is None else drift.alarm + 1,
                evidence=drift.evidence,
                bound=drift.bound,
            )
        )
    return made


def _inputs(model: TrainedModel, found: Sequence[Watched]) -> Iterator[Moved]:
    """Distributions of the columns of numbers, scaled, after training and before."""
    codes = model.checkpoint.categories
    for place, name in enumerate(model.columns.inputs):
        if name in codes:
            continue
        parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        for one in found:
            rows = narrowed([one.series], model.columns.inputs)[0].values
            scaled = model.scaler.of(one.series.name, rows[: model.sizes.seq_len]).transform(rows)[:, place]
            parts[0].append(scaled[: one.first])
            parts[1].append(scaled[one.first :])
        before, now = (np.concatenate(part) for part in parts)
        if min(len(before), len(now)) >= FEWEST_INPUTS:
            yield Moved(column=name, stability_index=stability_index(before, now), ks_distance=ks_distance(before, now))


def _periods(name: str, found: Sequence[Watched], errors: dict[str, np.ndarray]) -> Iterator[Period]:
    longest = max(found, key=lambda one: len(one.inside))
    n = len(errors[name])
    inside = _over_time([one.inside for one in found]) if np.isfinite(longest.inside).all() else np.full(n, np.nan)
    bounds = np.unique(np.linspace(0, n, min(PERIODS, n) + 1).round().astype(int))
    for a, b in pairwise(bounds):
        part = {key: own[a:b] for key, own in errors.items()}
        yield Period(
            first=str(longest.series.timestamps[longest.first + a]),
            last=str(longest.series.timestamps[longest.first + b - 1]),
            origins=int(b - a),
            mse={key: float(own.mean()) for key, own in part.items()},
            skill=skill_of(part, name),
            coverage=float(inside[a:b].mean()),
        )
