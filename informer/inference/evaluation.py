"""Scores of a model and its baselines as table, JSON and CSV, with a one-sentence verdict."""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64
from rich.box import SIMPLE_HEAD
from rich.table import Table

from informer.checkpoint.paths import BY_SERIES, REPORT
from informer.config.plain import without_nan
from informer.errors import counted, signed_percent, skill_text
from informer.files import write_atomic
from informer.inference.bootstrap import FEWEST_BLOCKS, Interval, Winner, skill_interval
from informer.inference.by_series import MOST_WORST, by_series, worst_series
from informer.inference.coverage import Means, shortfalls, too_narrow
from informer.metrics import METRICS, PERCENT, WQL, Errors, ErrorSums

UNITS = ("scaled", "original")
ROW = ("model", "units", "column", "step", "metric", "value")
MAX_COLUMNS = 12
"""Maximum number of columns listed individually."""


@dataclass(kw_only=True, slots=True)
class Evaluation:
    """Scores of a model and its baselines over the same windows.

    Args:
        model: name of the model.
        columns: names of the targets.
        errors: errors of the model and every baseline, by name.
        notes: how the baselines were fitted.
        intervals: scores of the model's intervals, by level in percent (`80`) or quantiles (`q10_q90`).
        quantiles: scores of the model's quantiles, by name.
        series: names of the series of a panel; empty for a single series.
        owners: index in `series` of each window's series.
        block: number of neighbouring windows that overlap; block length of the bootstrap.
    """

    model: str
    columns: Sequence[str]
    errors: dict[str, Errors]
    notes: Sequence[str] = ()
    intervals: Mapping[str, Means] = field(default_factory=dict)
    quantiles: Mapping[str, Means] = field(default_factory=dict)
    series: Sequence[str] = ()
    owners: Int64[np.ndarray, "windows"] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    block: int = 1
    _noise: Interval | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def windows(self) -> int:
        """Number of windows scored."""
        return self.errors[self.model].scaled.windows

    @property
    def best_baseline(self) -> str:
        """The baseline with the lowest scaled MSE."""
        return min((name for name in self.errors if name != self.model), key=self._mse)

    @property
    def skill(self) -> float:
        """1 - MSE(model) / MSE(best baseline), scaled: 1 is perfect, 0 no better, below 0 worse.

        -inf when the baseline makes no error and the model does; nan when the model's forecasts are not finite.
        """
        model, baseline = self._mse(self.model), self._mse(self.best_baseline)
        if baseline == 0.0:
            return 0.0 if model == 0.0 else math.nan if math.isnan(model) else -math.inf
        return 1.0 - model / baseline

    @property
    def noise(self) -> Interval:
        """95 % interval of the skill by a paired block bootstrap over windows; nan ends with too few windows."""
        if self.windows < FEWEST_BLOCKS * self.block:
            return Interval(math.nan, math.nan)
        if self._noise is None:  # seconds for many windows
            weights = self.errors[self.model].shares()  # every observed value has equal weight
            model_errors, baseline_errors = (
                weights * self.errors[name].by_window()[:, 0] for name in (self.model, self.best_baseline)
            )
            self._noise = skill_interval(model_errors, baseline_errors, block=self.block)
        return self._noise

    @property
    def winner(self) -> Winner:
        """Outcome of the comparison with the best baseline."""
        return Winner.of(self.skill, self.noise)

    @property
    def verdict(self) -> str:
        """Which forecaster wins, and by how much."""
        model, rival, skill = self._mse(self.model), self.best_baseline, self.skill
        if not math.isfinite(model):
            return f"{self.model} makes forecasts that are not finite: use {rival} (scaled MSE {self._mse(rival):.4g})."
        figures = f"scaled MSE {model:.4g} against {self._mse(rival):.4g}"
        winner = self.winner
        if winner is Winner.neither:
            return f"{self.model} is as good as {rival}, the better baseline: {figures}."
        if winner is Winner.noise:
            low, high = map(signed_percent, self.noise)
            return (
                f"{self.model} is as good as {rival}, the better baseline, within noise: {figures}, "
                f"{skill_text(skill)} (95 % interval of the skill {low} to {high})."
            )
        if winner is Winner.few:
            return (
                f"{self.model} against {rival}, the better baseline: {figures}, {skill_text(skill)}, which "
                f"{counted(self.windows, 'test window')} cannot decide: too few."
            )
        if winner is Winner.model:
            return f"{self.model} beats {rival}, the better baseline: {figures}, {skill_text(skill)}."
        more = skill_text(skill) if math.isfinite(skill) else "which makes no error"
        return f"{self.model} LOSES to {rival}, the better baseline: {figures}, {more}. Prefer {rival} here."

    @property
    def warning(self) -> str:
        """That intervals are too narrow; empty if they are not."""
        return too_narrow(shortfalls(self.intervals, self.columns))

    @property
    def mean_pinball(self) -> float:
        """Pinball loss over all quantiles, scaled; nan without quantiles."""
        losses = [means.overall()["pinball"] for means in self.quantiles.values()]
        return sum(losses) / len(losses) if losses else math.nan

    @property
    def worst_series(self) -> list[str]:
        """Series of a panel with the highest scaled MSE of the model, the worst first."""
        table = by_series(self.errors, self.series, self.owners, self.model)
        return table[table["model"] == self.model]["series"].head(MOST_WORST).tolist()

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
            remarks.append(worst_series(self.errors, self.series, self.owners, self.model))
        if sums.zero_actuals:
            remarks.append(f"MAPE in original units excludes {sums.zero_actuals} actual values that are zero")
        if sums.no_mase:
            names = ", ".join(self.columns[place] for place in sums.no_mase)
            remarks.append(f"MASE is undefined for {names}: training rows repeat exactly from season to season")
        return remarks

    def to_dict(self) -> dict[str, Any]:
        """All scores as plain containers for JSON; undefined and infinite values are None."""
        return without_nan(
            {
                "model": self.model,
                "windows": self.windows,
                "best_baseline": self.best_baseline,
                "skill": self.skill,
                "skill_interval": list(self.noise),
                "verdict": self.verdict,
                "remarks": self.remarks,
                "warning": self.warning,
                "scores": {
                    name: {units: self._scores(getattr(errors, units)) for units in UNITS}
                    for name, errors in self.errors.items()
                },
                "intervals": {name: self._means(means) for name, means in self.intervals.items()},
                "mean_pinball": self.mean_pinball,
                "quantiles": {name: self._means(means) for name, means in self.quantiles.items()},
            }
        )

    def rows(self) -> Iterator[tuple[str, str, str, str | int, str, float]]:
        """Tidy rows (see `ROW`): over all, then per step (from 1), then per column."""
        for name, errors in self.errors.items():
            for units in UNITS:
                sums: ErrorSums = getattr(errors, units)
                overall, by_step, by_column = sums.overall(), sums.by_step(), sums.by_column()
                for metric in overall:
                    yield name, units, "all", "all", metric, overall[metric]
                    for step, value in enumerate(by_step[metric], start=1):
                        yield name, units, "all", step, metric, value
                    for column, value in zip(self.columns, by_column[metric], strict=True):
                        yield name, units, column, "all", metric, value

        for what, means in {**self.intervals, **self.quantiles}.items():
            steps, columns = means.by_step(), means.by_column()
            for metric, value in means.overall().items():
                name = f"{metric}{what}" if what.isdigit() else f"{metric}_{what}"
                yield self.model, "scaled", "all", "all", name, value
                for step, value in enumerate(steps[metric], start=1):
                    yield self.model, "scaled", "all", step, name, value
                for column, value in zip(self.columns, columns[metric], strict=True):
                    yield self.model, "scaled", column, "all", name, value

    def to_csv(self) -> str:
        """`rows` with a header; undefined and infinite values are empty cells."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(ROW)
        writer.writerows((*keys, without_nan(value)) for *keys, value in self.rows())
        return text.getvalue()

    def save(self, folder: str | Path) -> None:
        """Write `metrics.json`, `metrics.csv` and, for a panel, `metrics_by_series.csv` into `folder`."""
        metrics, rows = (Path(folder) / name for name in REPORT)
        write_atomic(metrics, json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n")
        write_atomic(rows, self.to_csv())
        if self.series:
            table = by_series(self.errors, self.series, self.owners, self.model)
            write_atomic(Path(folder) / BY_SERIES, table.to_csv(index=False))

    def table(self) -> Table:
        """Overall scores, the model first, in scaled and in original units."""
        title = f"{counted(self.windows, 'window')}, {counted(len(self.columns), 'column')}"
        # no rules between columns, so that nine columns fit into 80 characters
        table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
        for heading in ("units", "model"):
            table.add_column(heading)
        has_quantiles = any(WQL in errors.scaled.overall() for errors in self.errors.values())
        metrics = (*METRICS, WQL) if has_quantiles else METRICS
        for metric in metrics:
            table.add_column(_heading(metric), justify="right")
        for units in UNITS:
            for name, errors in self.errors.items():
                overall = getattr(errors, units).overall()
                style = "bold" if name == self.model else None
                none = PERCENT if units == "scaled" else ()
                cells = (
                    "-" if metric in none or metric not in overall else _shown(overall[metric]) for metric in metrics
                )
                table.add_row(units, name, *cells, style=style, end_section=name == list(self.errors)[-1])
        return table

    def _mse(self, name: str) -> float:
        return self.errors[name].scaled.overall()["mse"]

    def _by_column(self, interval: Means) -> str:
        """Coverage of each column, or the range if there are more than MAX_COLUMNS."""
        covered = dict(zip(self.columns, interval.by_column()["coverage"], strict=True))
        covered = {name: share for name, share in covered.items() if not math.isnan(share)}  # without intervals
        ordered = sorted(covered, key=covered.__getitem__)
        names, between = (covered, ", ") if len(covered) <= MAX_COLUMNS else ((ordered[0], ordered[-1]), " to ")
        return between.join(f"{name} {covered[name]:.1f} %" for name in names)

    def _scores(self, sums: ErrorSums) -> dict[str, Any]:
        return self._means(sums) | {"zero_actuals": sums.zero_actuals}

    def _means(self, sums: Means | ErrorSums) -> dict[str, Any]:
        by_column = sums.by_column()
        columns = [dict(zip(by_column, values, strict=True)) for values in zip(*by_column.values(), strict=True)]
        return {
            "overall": sums.overall(),
            "by_step": sums.by_step(),
            "by_column": dict(zip(self.columns, columns, strict=True)),
        }


def _heading(metric: str) -> str:
    percent = {"mape": "MAPE %", "smape": "sMAPE %"}
    return percent.get(metric, metric.upper())


def _shown(value: float) -> str:
    """At most 8 characters for usual values, so that nine columns fit into 80: 12346 rather than 1.235e+04."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}".replace("e+", "e")
