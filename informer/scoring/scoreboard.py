"""Scores of forecasts compared with baselines: overall, by step and by series, with intervals of the differences."""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from informer.config.plain import without_nan
from informer.errors import counted
from informer.files import write_atomic
from informer.inference.bootstrap import Interval, skill_interval
from informer.scoring import metrics
from informer.scoring.baselines import naive2, ridge, seasonal_naive, seasonal_naive_quantiles
from informer.scoring.units import Units

OWN, NAIVE, NAIVE2 = "forecast", "seasonal naive", "naive2"
ROW = ("forecaster", "series", "column", "step", "metric", "value")
HEADINGS = {"mse": "MSE", "mae": "MAE", "mase": "MASE", "smape": "sMAPE %", "owa": "OWA", "wql": "WQL"}
DIFFERENCES = ("mse", "mase")
WRITTEN = ("scores.json", "scores.csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Skill compared with a baseline: 1 - error / error of the baseline.

    Args:
        baseline: name of the baseline.
        metric: name of the metric.
        skill: positive if the forecast is better.
        interval: 95 % interval of the skill, by paired bootstrap.
    """

    baseline: str
    metric: str
    skill: float
    interval: Interval

    @property
    def sentence(self) -> str:
        """One sentence for the reader."""
        name = self.metric.upper()
        if math.isnan(self.interval.low):
            return f"{name}: {100 * self.skill:+.1f} % skill against {self.baseline}; too few values for an interval"
        ends = f"{100 * self.interval.low:+.1f} % to {100 * self.interval.high:+.1f} %"
        verdict = "may be due to chance" if self.interval.contains_zero else "better" if self.skill > 0 else "worse"
        return f"{name}: {100 * self.skill:+.1f} % skill against {self.baseline}, 95 % interval {ends}: {verdict}"


@dataclass(slots=True, kw_only=True)
class Scoreboard:
    """Scores by forecaster, then by metric.

    Args:
        overall: one value per metric.
        by_step: one value per step ahead.
        by_series: one value per series and column, in the order of `names`.
        names: pairs of series and column.
        differences: skill compared with each baseline.
        notes: remarks for the reader.
    """

    overall: dict[str, dict[str, float]]
    by_step: dict[str, dict[str, list[float]]]
    by_series: dict[str, dict[str, list[float]]]
    names: Sequence[tuple[str, str]]
    differences: list[Difference]
    notes: list[str] = field(default_factory=list)

    def rows(self) -> Iterator[tuple[str, str, str, str | int, str, float]]:
        """Tidy rows (see `ROW`)."""
        for name, by_metric in self.overall.items():
            for metric, value in by_metric.items():
                yield name, "all", "all", "all", metric, value
                for step, each in enumerate(self.by_step[name][metric], start=1):
                    yield name, "all", "all", step, metric, each
                for (series, column), each in zip(self.names, self.by_series[name][metric], strict=True):
                    yield name, series, column, "all", metric, each

    def to_csv(self) -> str:
        """`rows` with a header; undefined values are empty cells."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(ROW)
        writer.writerows((*keys, "" if math.isnan(value) else value) for *keys, value in self.rows())
        return text.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Overall scores, scores by step, and differences, as plain containers for JSON."""
        values = {
            "overall": self.overall,
            "by_step": self.by_step,
            "differences": [
                {
                    "baseline": each.baseline,
                    "metric": each.metric,
                    "skill": each.skill,
                    "low": each.interval.low,
                    "high": each.interval.high,
                }
                for each in self.differences
            ],
            "notes": self.notes,
        }
        return cast(dict[str, Any], without_nan(values))

    def save(self, folder: Path) -> None:
        """Write scores.json and scores.csv."""
        for name, content in zip(WRITTEN, (self._to_json(), self.to_csv()), strict=True):
            write_atomic(folder / name, content)

    def _to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def table(self) -> Table:
        """Table of the overall scores, the forecast first."""
        metric_names = list(dict.fromkeys(metric for by_metric in self.overall.values() for metric in by_metric))
        table = Table(box=SIMPLE_HEAD, padding=0)
        table.add_column("forecaster")
        for metric in metric_names:
            table.add_column(HEADINGS.get(metric, metric.replace("coverage", "in ") + " %"), justify="right")
        for name, by_metric in self.overall.items():
            cells = (_shown(by_metric.get(metric, math.nan)) for metric in metric_names)
            table.add_row(name, *cells, style="bold" if name == OWN else "")
        return table


def score_units(units: Units, season: int) -> Scoreboard:
    """Score forecasts, and baselines on the same cells.

    Args:
        units: forecasts with actual values and histories.
        season: rows per season of the histories.
    """
    notes = list(units.notes)
    forecasts = _forecasts(units, season, notes)
    scales = np.array([metrics.mase_scale(history, season) for history in units.histories])
    if np.isnan(scales).any():
        notes.append(f"MASE is undefined for {counted(int(np.isnan(scales).sum()), 'forecast')}: a constant history")
    # baselines are scored in the cells in which the forecast has an actual value
    actual = np.where(np.isnan(units.forecast), np.nan, units.actual)
    cells = {name: metrics.point_cells(values, actual, scales) for name, values in forecasts.items()}
    quantiles = _quantiles(units, season, forecasts[NAIVE], actual, notes)
    names = list(dict.fromkeys(units.names))
    place = {name: i for i, name in enumerate(names)}
    owners = np.array([place[name] for name in units.names])
    overall, by_step, by_series = (
        _averaged(units, actual, cells, quantiles, mean)
        for mean in (
            lambda values: _mean(values.reshape(1, -1)),
            lambda values: _mean(values.T),
            lambda values: _grouped(values, owners, len(names)),
        )
    )
    return Scoreboard(
        overall={name: {metric: values[0] for metric, values in scores.items()} for name, scores in overall.items()},
        by_step=by_step,
        by_series=by_series,
        names=names,
        differences=_differences(cells),
        notes=notes,
    )


def _forecasts(units: Units, season: int, notes: list[str]) -> dict[str, np.ndarray]:
    """Forecasts by name, including baselines; adds remarks about them to `notes`."""
    steps = units.forecast.shape[1]
    forecasts = {OWN: units.forecast, NAIVE: seasonal_naive(units.histories, season, steps)}
    fitted = ridge(units.histories, season, steps)
    if fitted is None:
        notes.append("no ridge baseline: a history is too short for it, or too little is observed")
    else:
        forecasts["ridge"], note = fitted
        notes.append(note)
    forecasts[NAIVE2] = naive2(units.histories, season, steps)
    return forecasts


def _quantiles(
    units: Units, season: int, naive: np.ndarray, actual: np.ndarray, notes: list[str]
) -> dict[str, dict[float, np.ndarray]]:
    """Quantiles by forecaster and level: those of the forecast, and of the seasonal naive in the same cells."""
    own = metrics.quantile_forecasts(units.forecast, units.bands)
    if not own:
        return {}
    found, is_short = seasonal_naive_quantiles(units.histories, season, naive, list(own)), np.zeros(len(naive), bool)
    for level, values in found.items():
        is_scored = ~np.isnan(own[level] + actual)
        is_short |= (is_scored & np.isnan(values)).any(axis=1)
        found[level] = np.where(is_scored, values, np.nan)
    if is_short.any():
        notes.append(
            f"no WQL of the seasonal naive: the history of {counted(int(is_short.sum()), 'forecast')} is too short for "
            "quantiles of these levels"
        )
        return {OWN: own}
    return {OWN: own, NAIVE: found}


def _averaged(
    units: Units,
    actual: np.ndarray,
    cells: Mapping[str, Mapping[str, np.ndarray]],
    quantiles: Mapping[str, Mapping[float, np.ndarray]],
    mean: metrics.Mean,
) -> dict[str, dict[str, list[float]]]:
    """Every metric of every forecaster, one value per group."""
    means = {name: {metric: mean(values) for metric, values in by_metric.items()} for name, by_metric in cells.items()}
    for name, by_metric in means.items():
        by_metric["owa"] = metrics.owa(by_metric, means[NAIVE2])
        if name == OWN:
            by_metric |= _coverage(units, actual, mean)
        if name in quantiles:
            by_metric["wql"] = metrics.weighted_quantile_loss(quantiles[name], actual, mean)
    return {name: {metric: each.tolist() for metric, each in by_metric.items()} for name, by_metric in means.items()}


def _coverage(units: Units, actual: np.ndarray, mean: metrics.Mean) -> dict[str, np.ndarray]:
    """Coverage of each interval."""
    return {
        f"coverage{level}": mean(metrics.inside_cells(units.bands[f"lo{level}"], units.bands[f"hi{level}"], actual))
        for level in metrics.levels_of(list(units.bands))
    }


def _differences(cells: Mapping[str, Mapping[str, np.ndarray]]) -> list[Difference]:
    """Skill compared with each baseline; resamples units, or blocks of steps if there is only one unit."""
    differences = []
    for name in (each for each in cells if each not in (OWN, NAIVE2)):
        for metric in DIFFERENCES:
            model_cells, baseline_cells = cells[OWN][metric], cells[name][metric]
            if len(model_cells) > 1:
                pair, block = (_mean(model_cells), _mean(baseline_cells)), 1
            else:
                pair, block = (model_cells[0], baseline_cells[0]), math.isqrt(model_cells.shape[1])
            valid = ~(np.isnan(pair[0]) | np.isnan(pair[1]))
            errors, baseline_errors = (each[valid] for each in pair)
            if not len(errors) or baseline_errors.mean() == 0:
                continue
            skill = 1.0 - float(errors.mean() / baseline_errors.mean())
            differences.append(
                Difference(
                    baseline=name,
                    metric=metric,
                    skill=skill,
                    interval=skill_interval(errors, baseline_errors, block=block),
                )
            )
    return differences


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean of each row without NaN; NaN if all values are NaN."""
    observed = ~np.isnan(values)
    counts = observed.sum(axis=1)
    sums = np.where(observed, values, 0.0).sum(axis=1)
    return np.divide(sums, counts, out=np.full(len(values), np.nan), where=counts > 0)


def _grouped(values: np.ndarray, owners: np.ndarray, n: int) -> np.ndarray:
    observed = ~np.isnan(values)
    sums = np.bincount(owners, weights=np.where(observed, values, 0.0).sum(axis=1), minlength=n)
    counts = np.bincount(owners, weights=observed.sum(axis=1), minlength=n)
    return np.divide(sums, counts, out=np.full(n, np.nan), where=counts > 0)


def _shown(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4g}"
