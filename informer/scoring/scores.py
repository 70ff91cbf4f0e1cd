"""Scores of a model and its baselines on the same windows, in one pass: as table, JSON and CSV, and in one sentence."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64, Int
from rich.box import SIMPLE_HEAD
from rich.table import Table
from torch import Tensor

from informer.base.errors import InputError, counted, listed
from informer.base.files import csv_text, write_atomic
from informer.checkpoint.paths import BY_SERIES, REPORT
from informer.config.conversion import without_nan
from informer.data.dataset import Data
from informer.data.diagnosis import data_problems
from informer.data.panel import training_rows
from informer.data.store import row_blocks
from informer.data.windows import Batch, Windows
from informer.members.linear import effects_of
from informer.networks.forecast_model import ForecastModel, forecast_without_network, model_forecast, model_output
from informer.networks.models.base import point
from informer.read.frequency import Unit
from informer.scoring.baselines import FittedBaseline, best_seasonal_naive, fit_ridge
from informer.scoring.bootstrap import Interval, Winner, skill_interval, skill_of, verdict
from informer.scoring.intervals import (
    DECILES,
    MOST_RECENT,
    Baseline,
    Calibration,
    IntervalScores,
    Residuals,
    every_of,
    joined_errors,
    lag_of,
    model_quantiles,
    shortfalls,
    too_narrow,
)
from informer.scoring.metrics import (
    HEADINGS,
    METRICS,
    RELATIVE,
    ErrorMeans,
    Errors,
    Means,
    QuantileForecast,
    seasonal_scale,
    to_float64,
)

MOST_WORST = 5
"""Series named as the worst."""


def tidy_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """CSV text with a header; undefined and infinite values are empty cells."""
    return csv_text([header, *(without_nan(list(row)) for row in rows)])


def scores_table(
    keys: Sequence[str], rows: Sequence[tuple[Sequence[str], Mapping[str, float]]], own: str, title: str | None = None
) -> Table:
    """Overall scores as a table for the terminal.

    Args:
        keys: headings of the names of a row.
        rows: names of each row and its values by metric, in groups of equal first names if there are several names.
        own: the last name of the rows in bold.
        title: above the table.
    """
    # no rules between columns, so that nine columns fit into 80 characters
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    for key in keys:
        table.add_column(key)
    used = dict.fromkeys(metric for _, values in rows for metric in values)
    metrics = [name for name in [*HEADINGS, *(each for each in used if each not in HEADINGS | METRICS)] if name in used]
    for metric in metrics:
        other = f"in {metric.removeprefix('coverage')} %" if metric.startswith("coverage") else metric.upper()
        table.add_column(HEADINGS.get(metric, other), justify="right")
    for place, (names, values) in enumerate(rows):
        cells = (shown(values.get(metric, math.nan)) for metric in metrics)
        is_last = place + 1 == len(rows) or (len(keys) > 1 and rows[place + 1][0][0] != names[0])
        table.add_row(*names, *cells, style="bold" if names[-1] == own else None, end_section=is_last)
    return table


def shown(value: float) -> str:
    """A score: at most 8 characters for usual values, so that nine columns fit into 80: 12346 rather than 1.235e+04."""
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}".replace("e+", "e")


UNITS = ("scaled", "original")
ROW = ("model", "units", "column", "step", "metric", "value")
MAX_COLUMNS = 12
"""Maximum number of columns listed individually."""


@dataclass(kw_only=True)
class Evaluation:
    """Scores of a model and its baselines over the same windows.

    Args:
        model: name of the model.
        columns: names of the targets.
        errors: errors of the model and every baseline, by name.
        notes: how the baselines were fitted.
        intervals: scores of the model's intervals, by level in percent (`80`) or quantiles (`q10_q90`).
        quantiles: scores of the model's quantiles, by name.
        series: names of the series of a panel, in the order of the groups of `errors`; empty for a single series.
        breakdown: further errors as plain containers, see `Breakdown`.
        problems: problems of the data, one line each.
        residuals: errors of the model on these windows, or on evenly spaced ones.
        baselines: the baselines.
        block: number of neighbouring windows that overlap; block length of the bootstrap.
    """

    model: str
    columns: Sequence[str]
    errors: dict[str, Errors]
    notes: Sequence[str] = ()
    intervals: Mapping[str, Means] = field(default_factory=dict)
    quantiles: Mapping[str, Means] = field(default_factory=dict)
    series: Sequence[str] = ()
    breakdown: Mapping[str, Any] = field(default_factory=dict)
    problems: Sequence[str] = ()
    residuals: Residuals | None = None
    baselines: Sequence[Baseline] = ()
    block: int = 1

    @property
    def windows(self) -> int:
        """Number of windows scored."""
        return self.errors[self.model].scaled.windows

    @property
    def metric(self) -> str:
        """The metric, in scaled units, by which forecasters are compared."""
        return self.errors[self.model].metric

    @property
    def best_baseline(self) -> str:
        """The baseline with the lowest error."""
        return min((name for name in self.errors if name != self.model), key=self._error)

    @property
    def skill(self) -> float:
        """`skill_of` the model's error and that of the best baseline."""
        return skill_of(self._error(self.model), self._error(self.best_baseline))

    @cached_property  # seconds for many windows
    def noise(self) -> Interval:
        """95 % interval of the skill by a paired block bootstrap over windows; nan ends with too few windows."""
        errors = (self.errors[name].by_window() for name in (self.model, self.best_baseline))
        return skill_interval(*errors, block=self.block)

    @property
    def winner(self) -> Winner:
        """Outcome of the comparison with the best baseline."""
        return Winner.of(self.skill, self.noise)

    @property
    def verdict(self) -> str:
        """That outcome in words."""
        error, baseline = f"scaled {self.metric.upper()}", f"{self.best_baseline}, the best baseline"
        return verdict(error, baseline, self.skill, self.noise)

    @property
    def warning(self) -> str:
        """That intervals are too narrow; empty if they are not."""
        return too_narrow(shortfalls(self.intervals, self.columns))

    @property
    def mean_pinball(self) -> float:
        """Pinball loss over all quantiles, scaled; nan without quantiles."""
        losses = [means.overall()["pinball"] for means in self.quantiles.values()]
        return sum(losses) / len(losses) if losses else math.nan

    def by_series(self) -> pd.DataFrame:
        """One row per series of a panel, column and forecaster, the series with the highest error of the model first.

        Every observed value of a series has equal weight; a series without observed values is left out.

        Columns: series, column (`all`, and each of several), windows, model, mse_scaled, mae_scaled, mae (in data
        units), and for the model skill: 1 - error / error of the best baseline.
        """
        names = ["all", *(self.columns if len(self.columns) > 1 else [])]

        def means(of: ErrorMeans, metric: str) -> np.ndarray:
            overall = of.by_group(metric)[:, None]
            return np.hstack([overall, of.by_group(metric, columns=True)]) if len(names) > 1 else overall

        scaled = {
            name: {metric: means(x.scaled, metric) for metric in ("mse", "mae")} for name, x in self.errors.items()
        }
        rivals = np.min([values[self.metric] for name, values in scaled.items() if name != self.model], axis=0)
        own = scaled[self.model][self.metric]
        worst = np.argsort(-own[:, 0], kind="stable")
        shown = worst[~np.isnan(own[worst, 0])]
        with np.errstate(divide="ignore", invalid="ignore"):
            skill = 1 - own / rivals
        unknown = np.full_like(skill, np.nan)
        parts = [
            pd.DataFrame(
                {
                    "series": np.repeat(np.array(self.series, dtype=object)[shown], len(names)),
                    "column": np.tile(np.array(names, dtype=object), len(shown)),
                    "windows": np.repeat(each.scaled.group_windows.numpy()[shown], len(names)),
                    "model": name,
                    "mse_scaled": scaled[name]["mse"][shown].ravel(),
                    "mae_scaled": scaled[name]["mae"][shown].ravel(),
                    "mae": means(each.original, "mae")[shown].ravel(),
                    "skill": (skill if name == self.model else unknown)[shown].ravel(),
                }
            )
            for name, each in self.errors.items()
        ]
        table = pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)
        return table.replace([np.inf, -np.inf], np.nan)

    def worst_series(self) -> str:
        """One line: the series with the highest errors, and the number of series for which a baseline is better."""
        table = self.by_series()
        rows = table[(table["model"] == self.model) & (table["column"] == "all")]
        worst = rows[["series", f"{self.metric}_scaled"]].head(MOST_WORST).to_numpy()
        return (
            f"by series (metrics_by_series.csv): highest scaled {self.metric.upper()} for "
            f"{', '.join(f'{name} {error:.3g}' for name, error in worst)}; "
            f"a baseline is better for {int((rows['skill'] < 0).sum())} of {len(rows)}"
        )

    @property
    def remarks(self) -> list[str]:
        """Notes on the scores: how the baselines were fitted, width and coverage of intervals, what MAPE and MASE
        exclude."""
        sums = self.errors[self.model].original
        remarks = list(self.notes)
        if self.quantiles:
            quantile_scores = {name: means.overall() for name, means in self.quantiles.items()}
            losses = ", ".join(f"{name} {overall['pinball']:.3g}" for name, overall in quantile_scores.items())
            below = ", ".join(f"{name} {overall['coverage']:.1f} %" for name, overall in quantile_scores.items())
            remarks.append(f"pinball loss {self.mean_pinball:.4g} in scaled units ({losses}); not above: {below}")
        for name, interval in self.intervals.items():
            scores = interval.overall()
            what = f"intervals of {name} %" if name.isdigit() else f"quantiles {name.replace('_', ' to ')}"
            remarks.append(
                f"{what} cover {scores['coverage']:.1f} % of actual values ({self._by_column(interval)}), "
                f"{scores['width']:.3g} wide in scaled units"
            )
        if self.series:
            remarks.append(self.worst_series())
        if sums.zero_actuals:
            remarks.append(f"MAPE in original units excludes {sums.zero_actuals} actual values that are zero")
        no_mase = self.errors[self.model].no_mase
        if names := [
            name + (f" in {n} of {len(no_mase)} series" if len(no_mase) > 1 else "")
            for name, n in zip(self.columns, no_mase.sum(axis=0).tolist(), strict=True)
            if n
        ]:
            remarks.append(f"MASE is undefined for {', '.join(names)}: rows repeat exactly from season to season")
        return remarks

    def to_dict(self) -> dict[str, Any]:
        """All scores as plain containers."""
        return {
            "model": self.model,
            "windows": self.windows,
            "metric": self.metric,
            "best_baseline": self.best_baseline,
            "skill": self.skill,
            "skill_interval": list(self.noise),
            "verdict": self.verdict,
            "remarks": self.remarks,
            "warning": self.warning,
            "scores": {
                name: {units: self._means(getattr(errors, units)) for units in UNITS}
                for name, errors in self.errors.items()
            },
            "intervals": {name: self._means(means) for name, means in self.intervals.items()},
            "mean_pinball": self.mean_pinball,
            "quantiles": {name: self._means(means) for name, means in self.quantiles.items()},
            "breakdown": self.breakdown,
            "problems": self.problems,
        }

    def overall(self) -> dict[str, Any]:
        """The part of `to_dict` that fits on a screen: verdict, and errors and coverage over all test windows."""
        facts = ("model", "windows", "metric", "best_baseline", "skill", "verdict", "warning", "problems")
        return {name: getattr(self, name) for name in facts} | {
            "errors": {
                name: {units: getattr(errors, units).overall() for units in UNITS}
                for name, errors in self.errors.items()
            },
            "intervals": {name: means.overall() for name, means in self.intervals.items()},
        }

    def rows(self) -> Iterator[tuple[str, str, str, str | int, str, float]]:
        """Tidy rows (see `ROW`): over all, then per step (from 1), then per column."""
        for name, errors in self.errors.items():
            for units in UNITS:
                yield from self._rows(name, units, getattr(errors, units))
        for what, means in {**self.intervals, **self.quantiles}.items():
            yield from self._rows(self.model, "scaled", means, what if what.isdigit() else f"_{what}")

    def _rows(
        self, name: str, units: str, means: Means, suffix: str = ""
    ) -> Iterator[tuple[str, str, str, str | int, str, float]]:
        by_step, by_column = means.by_step(), means.by_column()
        for metric, value in means.overall().items():
            yield name, units, "all", "all", metric + suffix, value
            for step, each in enumerate(by_step[metric], start=1):
                yield name, units, "all", step, metric + suffix, each
            for column, each in zip(self.columns, by_column[metric], strict=True):
                yield name, units, column, "all", metric + suffix, each

    def to_csv(self) -> str:
        """`rows` with a header."""
        return tidy_csv(ROW, self.rows())

    def save(self, folder: str | Path) -> None:
        """Write `metrics.json`, `metrics.csv` and, for a panel, `metrics_by_series.csv` into `folder`."""
        metrics, rows = (Path(folder) / name for name in REPORT)
        write_atomic(metrics, json.dumps(without_nan(self.to_dict()), indent=2, allow_nan=False) + "\n")
        write_atomic(rows, self.to_csv())
        if self.series:
            write_atomic(Path(folder) / BY_SERIES, self.by_series().to_csv(index=False))

    def table(self) -> Table:
        """Overall scores, the model first, in scaled and in original units."""
        rows = []
        for units in UNITS:
            for name, errors in self.errors.items():
                overall = getattr(errors, units).overall()
                none = RELATIVE if units == "scaled" else ()
                rows.append(((units, name), {key: math.nan if key in none else overall[key] for key in overall}))
        title = f"{counted(self.windows, 'window')}, {counted(len(self.columns), 'column')}"
        return scores_table(("units", "model"), rows, self.model, title)

    def _error(self, name: str) -> float:
        return self.errors[name].scaled.overall()[self.metric]

    def _by_column(self, interval: Means) -> str:
        """Coverage of each column, or the range if there are more than MAX_COLUMNS."""
        covered = dict(zip(self.columns, interval.by_column()["coverage"], strict=True))
        covered = {name: share for name, share in covered.items() if not math.isnan(share)}  # without intervals
        ordered = sorted(covered, key=covered.__getitem__)
        names, between = (covered, ", ") if len(covered) <= MAX_COLUMNS else ((ordered[0], ordered[-1]), " to ")
        return between.join(f"{name} {covered[name]:.1f} %" for name in names)

    def _means(self, sums: Means) -> dict[str, Any]:
        by_column = sums.by_column()
        columns = [dict(zip(by_column, values, strict=True)) for values in zip(*by_column.values(), strict=True)]
        return {
            "overall": sums.overall(),
            "by_step": sums.by_step(),
            "by_column": dict(zip(self.columns, columns, strict=True)),
        }


ForecastFunction = Callable[[Batch], Float[Tensor, "b pred_len n"]]
"""Scaled targets for a batch; must not use `batch.target` except for its shape. If it has a method `quantiles`, as
`Baseline`, these are scored too."""


START = "without the network"
"""Name of the forecast without the network's contribution: the linear start, if the model has one."""
EDGES = np.round(np.linspace(-3.0, 3.0, 61), 10)
"""Bin edges of the histogram of residuals, in scaled units; values outside are counted in the outer bins."""


FIELDS = {"hour": "hour", "weekday": "day_of_week", "month": "month"}
"""Fields of a timestamp by the name of the breakdown."""


@final
class Breakdown:
    """Scaled errors of forecasters by hour and weekday (by month for steps longer than a day) of the row that is
    forecast, and a histogram of the residuals of the first forecaster.

    Args:
        data: the data of the windows.
    """

    def __init__(self, data: Data) -> None:
        self._first, unit = data.sizes.first, data.frequency.unit
        days, below_day = (Unit.day, Unit.business_day), unit in (Unit.second, Unit.minute, Unit.hour)
        axes = ["hour"] if below_day else []
        axes.append("weekday" if below_day or unit in days else "month")
        self._slots = {
            axis: np.concatenate([np.asarray(getattr(each.timestamps, FIELDS[axis]), np.uint8) for each in data.panel])
            for axis in axes
        }
        self._means: dict[str, dict[str, Means]] = {axis: {} for axis in axes}
        self._counts = np.zeros(len(EDGES) - 1, dtype=np.int64)
        self._own: str | None = None

    def add(self, name: str, forecast: Float[Tensor, "b h n"], batch: Batch, starts: Int[Tensor, "b"]) -> None:
        """Add the forecast of some windows that begin at these rows of the store."""
        standard = [to_float64(batch.units.standard(values)).cpu() for values in (forecast, batch.target)]
        error = standard[0] - standard[1]
        self._own = self._own or name
        if name == self._own:
            known = error[~error.isnan()].numpy()
            self._counts += np.histogram(np.clip(known, EDGES[0], EDGES[-1]), bins=EDGES)[0]
        rows = starts.cpu().numpy()[:, None] + self._first + np.arange(error.shape[1])
        size = error.abs().nanmean(dim=2).reshape(-1, 1, 1), error.square().nanmean(dim=2).reshape(-1, 1, 1)
        for axis, slots in self._slots.items():
            means = self._means[axis].setdefault(name, Means(32))
            groups = torch.from_numpy(slots[rows].ravel().astype(np.int64))
            means.add({"mae": size[0], "mse": size[1]}, groups=groups)

    def to_dict(self) -> dict[str, Any]:
        """By axis the slots that occur, and by metric and forecaster one error for each; `residuals`: bin edges and
        counts."""
        by_time = {}
        for axis, by_name in self._means.items():
            used = np.flatnonzero(~np.isnan(next(iter(by_name.values())).by_group("mse")))
            by_metric = {
                metric: {name: means.by_group(metric)[used].tolist() for name, means in by_name.items()}
                for metric in ("mse", "mae")
            }
            by_time[axis] = {"slots": used.tolist()} | by_metric
        return {"by_time": by_time, "residuals": {"edges": EDGES.tolist(), "counts": self._counts.tolist()}}


@torch.inference_mode()
def evaluate_all(
    forecasts: Mapping[str, ForecastFunction],
    windows: Windows,
    *,
    mase_scale: Float[np.ndarray, "s n"],
    batch_size: int = 256,
    breakdown: Breakdown | None = None,
) -> dict[str, Errors]:
    """Errors of each forecaster over all windows, in one pass; the batch size affects speed and memory only.

    Args:
        forecasts: functions from a batch to scaled targets, by name; a model must already be in eval mode. Quantiles
            of those that have any are scored too.
        windows: windows to forecast.
        mase_scale: see `training_scale`.
        batch_size: windows per batch.
        breakdown: is given every forecast.

    Raises:
        InputError: there are no windows.
    """
    if not len(windows):
        raise InputError("evaluation: expected at least one window, found none; use more rows or a shorter seq_len")
    errors = {name: Errors(mase_scale) for name in forecasts}
    for indices in torch.arange(len(windows), device=windows.starts.device).split(batch_size):
        batch, series = windows.batch(indices), windows.series(indices)
        for name, forecast in forecasts.items():
            ahead = forecast(batch)
            quantiles = forecast.quantiles(batch, ahead) if hasattr(forecast, "quantiles") else None
            errors[name].add(ahead, batch.target, batch.units, quantiles, series)
            if breakdown is not None:
                breakdown.add(name, ahead, batch, windows.starts[indices])
    return errors


def evaluate(
    forecast: ForecastFunction, windows: Windows, *, mase_scale: Float[np.ndarray, "s n"], batch_size: int = 256
) -> Errors:
    """Errors of one forecaster; see `evaluate_all`."""
    return evaluate_all({"": forecast}, windows, mase_scale=mase_scale, batch_size=batch_size)[""]


def training_scale(data: Data) -> Float64[np.ndarray, "s n"]:
    """Denominators of MASE of each series and target: `mase_scale` of its training rows."""
    training, targets = training_rows(data.panel, data.splits), data.columns.positions(data.targets)
    return np.stack([mase_scale(series.values, data.frequency.season, targets) for series in training])


def mase_scale(rows: Float[np.ndarray, "_ c"], season: int, targets: Sequence[int]) -> Float64[np.ndarray, "n"]:
    """Denominators of MASE of the `targets` among the columns of a series."""
    scale = seasonal_scale((block[:, targets] for block in row_blocks(rows, shared=season)), season)
    return np.broadcast_to(scale, len(targets))


def fit_baselines(data: Data) -> list[FittedBaseline]:
    """Fit the baselines on the training part; season and penalty are chosen on validation."""
    positions = data.columns.positions(data.targets)
    return [best_seasonal_naive(data), fit_ridge(data.train, data.val, positions, known=effects_of(data))]


def compare(
    forecast: ForecastFunction,
    windows: Windows,
    *,
    data: Data,
    name: str = "informer",
    batch_size: int = 256,
    baselines: Sequence[Baseline] | None = None,
    breakdown: Breakdown | None = None,
) -> Evaluation:
    """Compare a forecaster with baselines on the same windows.

    Args:
        forecast: the model, in eval mode.
        windows: windows to score on, usually `data.test`.
        data: its training part fits the baselines and the denominators of MASE, its validation part selects season
            and penalty.
        name: name of the model in the report.
        batch_size: windows per batch.
        baselines: baselines, whose quantiles are scored if they are calibrated; None: `fit_baselines(data)`.
        breakdown: see `evaluate_all`.

    Raises:
        InputError: a part without windows.
    """
    baselines = [Baseline(fitted) for fitted in fit_baselines(data)] if baselines is None else baselines
    series = [each.name for each in data.panel] if len(data.panel) > 1 else []
    errors = evaluate_all(
        {name: forecast} | {each.name: each for each in baselines},
        windows,
        mase_scale=training_scale(data),
        batch_size=batch_size,
        breakdown=breakdown,
    )
    return Evaluation(
        model=name,
        columns=data.targets,
        errors=errors,
        notes=(*(baseline.note for baseline in baselines), *_notes(data)),
        series=series,
        baselines=baselines,
        block=data.sizes.pred_len,
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
    """A network as a forecaster: scores its intervals and quantiles, and keeps errors of evenly spaced windows."""

    def __init__(self, model: ForecastModel, data: Data, calibration: Calibration | None) -> None:
        self.model, self.calibration = model, calibration
        self.spread = IntervalScores(model.quantiles, calibration)
        self._targets = data.columns.positions(data.targets)
        self._every = every_of(data.test, MOST_RECENT)
        self._kept = data.test.at(data.test.starts[:: self._every])
        self._lag = lag_of(data.frequency.season, data.sizes.seq_len)
        self._seen, self._residuals = 0, list[Residuals]()
        self._output = torch.empty(0)

    def __call__(self, batch: Batch) -> Float[Tensor, "b pred_len n"]:
        self._output, history = model_output(self.model, batch), batch.enc_x[:, :, self._targets]
        self.spread.add(self._output, batch.target, history, units=batch.units, series=batch.series)
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

    @property
    def residuals(self) -> Residuals:
        """Errors of at most MOST_RECENT windows."""
        return joined_errors(self._residuals).over(self._kept)


MAPS_CELLS = 1 << 19
"""Values in the windows that linear maps forecast at once."""


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
) -> Evaluation:
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
    batch_size = scored_at_once(model, batch_size, data)
    own, breakdown = _Scored(model, data, calibration), Breakdown(data)
    evaluation = compare(
        own, data.test, data=data, name=model.family, batch_size=batch_size, breakdown=breakdown,
        baselines=baselines_for(data, model) if baselines is None else baselines,
    )  # fmt: skip
    parts = breakdown.to_dict()
    adds = adds_to_a_start(model, data.test)
    parts["is_idle"] = adds is False
    if adds:
        scale = np.full((len(data.panel), len(data.targets)), np.nan)
        start = evaluate(partial(forecast_without_network, model), data.test, mase_scale=scale, batch_size=batch_size)
        by_step = start.scaled.by_step()
        parts[START] = {metric: by_step[metric] for metric in ("mse", "mae")}
    return replace(
        evaluation, intervals=own.spread.intervals, quantiles=own.spread.quantiles, breakdown=parts,
        problems=data_problems(data), residuals=own.residuals,
    )  # fmt: skip


@torch.inference_mode()
def adds_to_a_start(model: ForecastModel, windows: Windows) -> bool | None:
    """Whether the network changes the forecast that it starts from (an untrained head is zero), of the first of the
    windows; None if it starts from zero, or there is no network."""
    probe = windows.batch(torch.tensor([0]))
    if model.network is None or not bool(((start := forecast_without_network(model, probe)) != 0).any()):
        return None
    return bool((start != model_forecast(model, probe)).any())


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
