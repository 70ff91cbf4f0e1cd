"""Evaluate a forecaster and two baselines on the same windows.

Scores of each series of a panel.

Scores of a model and its baselines as table, JSON and CSV, with a one-sentence verdict.
"""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int64
from rich.box import SIMPLE_HEAD
from rich.table import Table
from torch import Tensor

from informer.base.errors import InputError, counted, listed, signed_percent, skill_text
from informer.base.files import write_atomic
from informer.checkpoint.paths import BY_SERIES, REPORT
from informer.config.plain import without_nan
from informer.data.dataset import Data
from informer.data.store import row_blocks
from informer.data.windows import Batch, Windows
from informer.linear.maps import effects_of
from informer.networks.forecast_model import ForecastModel, model_output
from informer.networks.models.base import point
from informer.scoring.baselines import Baseline, FittedBaseline, best_seasonal_naive, bounded, fit_ridge
from informer.scoring.bootstrap import FEWEST_BLOCKS, Interval, Winner, skill_interval
from informer.scoring.intervals import (
    CalibratedBaseline,
    Calibration,
    IntervalScores,
    Means,
    calibrate,
    model_quantiles,
    shortfalls,
    too_narrow,
)
from informer.scoring.metrics import METRICS, PERCENT, WQL, Errors, ErrorSums, MaseScale, seasonal_scale

SCORES = ("mse_scaled", "mae_scaled", "mae")
MOST_WORST = 5
"""Series named as the worst."""


def by_series(
    errors: Mapping[str, Errors], series: Sequence[str], owners: Int64[np.ndarray, "windows"], model: str
) -> pd.DataFrame:
    """One row per series and forecaster, sorted by the model's scaled MSE, highest first.

    Every observed value of a series has equal weight; a series without observed values is left out.

    Columns: series, windows, model, mse_scaled, mae_scaled, mae (in data units, over all targets), and for the model
    skill: 1 - MSE / MSE of the series' best baseline.

    Args:
        errors: errors of the model and the baselines over the same windows, by name.
        series: names of the series.
        owners: index in `series` of each window's series.
        model: name of the model in `errors`.
    """
    counts = np.bincount(owners, minlength=len(series))
    shares = errors[model].shares()
    totals = np.bincount(owners, shares, len(series))
    observed = np.flatnonzero(totals)
    means = {}
    for name, forecaster_errors in errors.items():
        sums = [np.bincount(owners, shares * column, len(series)) for column in forecaster_errors.by_window().T]
        means[name] = np.stack(sums, axis=1)[observed] / totals[observed, None]
    rivals = np.min([values[:, 0] for name, values in means.items() if name != model], axis=0)
    worst = np.argsort(-means[model][:, 0], kind="stable")
    tables = []
    for name, values in means.items():
        table = pd.DataFrame(values, columns=list(SCORES))
        table.insert(0, "model", name)
        table.insert(0, "windows", counts[observed])
        table.insert(0, "series", [series[int(place)] for place in observed])
        with np.errstate(divide="ignore", invalid="ignore"):
            table["skill"] = 1 - values[:, 0] / rivals if name == model else np.nan
        tables.append(table.iloc[worst])
    combined = pd.concat(tables)
    order = np.arange(len(combined)).reshape(len(tables), -1).T.ravel()
    return combined.iloc[order].reset_index(drop=True).replace([np.inf, -np.inf], np.nan)


def worst_series(
    errors: Mapping[str, Errors], series: Sequence[str], owners: Int64[np.ndarray, "windows"], model: str
) -> str:
    """One line: the series with the highest errors, and the number of series for which a baseline is better."""
    table = by_series(errors, series, owners, model)
    model_rows = table[table["model"] == model]
    named = ", ".join(
        f"{name} {mse:.3g}" for name, mse in model_rows[["series", "mse_scaled"]].head(MOST_WORST).to_numpy()
    )
    behind = int((model_rows["skill"] < 0).sum())
    return (
        f"by series (metrics_by_series.csv): highest scaled MSE for {named}; "
        f"a baseline is better for {behind} of {len(model_rows)}"
    )


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


ForecastFunction = Callable[[Batch], Float[Tensor, "b pred_len n"]]
"""Scaled targets for a batch; must not use `batch.target` except for its shape."""


@torch.inference_mode()
def evaluate(
    forecast: ForecastFunction,
    windows: Windows,
    *,
    mase_scale: MaseScale,
    batch_size: int = 256,
) -> Errors:
    """Errors over all windows; the batch size affects speed and memory, not the result.

    Args:
        forecast: maps a batch to scaled targets; a model must already be in eval mode. Quantiles of a calibrated
            baseline are scored too.
        windows: windows to forecast.
        mase_scale: see `training_scale`.
        batch_size: windows per batch.

    Raises:
        InputError: there are no windows.
    """
    if not len(windows):
        raise InputError("evaluation: expected at least one window, found none; use more rows or a shorter seq_len")
    errors = Errors(mase_scale)
    for batch in windows.batches(batch_size):
        ahead = forecast(batch)
        quantiles = forecast.quantiles(batch, ahead) if isinstance(forecast, CalibratedBaseline) else None
        errors.add(ahead, batch.target, batch.units, quantiles)
    return errors


def training_scale(data: Data) -> MaseScale:
    """Denominators of MASE for each target, over the training rows of every series."""
    season, targets = data.frequency.season, data.columns.positions(data.targets)

    def rows(*, scaled: bool) -> Iterator[Tensor]:
        for series, split in zip(data.panel, data.splits, strict=True):
            training = series.values[split.train.start : split.train.stop]
            scaler = data.scaler.of(series.name, training)
            # blocks that overlap by a season, so that each seasonal difference is in one of them
            for block in row_blocks(training, shared=season):
                yield torch.from_numpy((scaler.standard(block) if scaled else block)[:, targets])

    return MaseScale(*(seasonal_scale(rows(scaled=scaled), season) for scaled in (True, False)))


def fit_baselines(data: Data) -> list[FittedBaseline]:
    """Fit the baselines on the training part; season and penalty are chosen on validation."""
    positions = data.columns.positions(data.targets)
    return [
        best_seasonal_naive(data),
        fit_ridge(data.train, data.val, positions, known=effects_of(data)),
    ]


def compare(
    forecast: ForecastFunction,
    windows: Windows,
    *,
    data: Data,
    name: str = "informer",
    batch_size: int = 256,
    baselines: Sequence[Baseline | CalibratedBaseline] | None = None,
) -> Evaluation:
    """Compare a forecaster with baselines on the same windows.

    Args:
        forecast: the model, in eval mode.
        windows: windows to score on, usually `data.test`.
        data: its training part fits the baselines and the denominators of MASE, its validation part selects season
            and penalty.
        name: name of the model in the report.
        batch_size: windows per batch.
        baselines: fitted baselines, whose quantiles are scored if they are calibrated; None: `fit_baselines(data)`.

    Raises:
        InputError: a part without windows.
    """
    baselines = fit_baselines(data) if baselines is None else baselines
    scale = training_scale(data)
    errors = evaluate(forecast, windows, mase_scale=scale, batch_size=batch_size)
    return _compared({name: errors}, windows, data=data, mase_scale=scale, batch_size=batch_size, baselines=baselines)


def _compared(
    own: dict[str, Errors],
    windows: Windows,
    *,
    data: Data,
    mase_scale: MaseScale,
    batch_size: int,
    baselines: Sequence[Baseline | CalibratedBaseline],
) -> Evaluation:
    """Compare the errors of a model, by its name, with those of baselines."""
    errors = {each.name: evaluate(each, windows, mase_scale=mase_scale, batch_size=batch_size) for each in baselines}
    several = len(data.panel) > 1
    return Evaluation(
        model=next(iter(own)),
        columns=data.targets,
        errors=own | errors,
        notes=(*(baseline.note for baseline in baselines), *_notes(data)),
        series=[series.name for series in data.panel] if several else (),
        owners=windows.series(torch.arange(len(windows))).cpu().numpy() if several else np.empty(0, dtype=np.int64),
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


def score(
    model: ForecastModel,
    data: Data,
    *,
    batch_size: int,
    calibration: Calibration | None = None,
    baselines: Sequence[CalibratedBaseline] | None = None,
) -> Evaluation:
    """Score the model, its intervals and quantiles, and the baselines on the test part; sets eval mode.

    Args:
        model, data: the model and the data of its run.
        batch_size: windows per batch.
        calibration: calibration of the model's intervals, if any.
        baselines: see `baselines_for`, which is called without them.

    Raises:
        InputError: a part without windows.
    """
    model.eval()
    baselines = baselines_for(model, data) if baselines is None else baselines
    spread = IntervalScores(model.quantiles, calibration)
    scale, targets = training_scale(data), data.columns.positions(data.targets)
    errors = Errors(scale)
    with torch.inference_mode():
        for batch in data.test.batches(batch_size):
            output, history = model_output(model, batch), batch.enc_x[:, :, targets]
            spread.add(output, batch.target, history, units=batch.units)
            quantiles = model_quantiles(model, output, calibration, history, batch.units)
            errors.add(point(output, model.quantiles), batch.target, batch.units, quantiles)
    evaluation = _compared(
        {model.family: errors}, data.test, data=data, mase_scale=scale, batch_size=batch_size, baselines=baselines
    )
    return replace(evaluation, intervals=spread.intervals, quantiles=spread.quantiles)


def baselines_for(
    model: ForecastModel, data: Data, fitted: Sequence[FittedBaseline] | None = None
) -> list[CalibratedBaseline]:
    """Baselines for the comparison with a model: clipped at zero where it is, with quantiles of the same levels.

    Args:
        fitted: fitted baselines; None: `fit_baselines(data)`.
    """
    clipped = bounded(fit_baselines(data) if fitted is None else fitted, model)
    return calibrate(clipped, data, model.quantiles)
