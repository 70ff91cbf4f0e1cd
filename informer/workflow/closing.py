"""Summary lines of `informer forecast`: the data, the quality of the model, the output files."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from informer.config.conversion import flat
from informer.config.dataset import DatasetConfig
from informer.config.forecast import ForecastConfig
from informer.config.overrides import Word, shell_command, to_display
from informer.config.schema import TrainConfig
from informer.data.history import future_index
from informer.data.read.frequency import Frequency
from informer.data.read.step_words import adjective, lasting
from informer.data.seasonality import WEAKEST
from informer.errors import counted, listed, skill_text
from informer.inference.bootstrap import Winner
from informer.inference.evaluation import Evaluation
from informer.inference.intervals import validation_rows
from informer.linear.shares import Shares
from informer.training.run_dir import RunFolder
from informer.workflow.plan import Plan
from informer.workflow.subjects import repair_settings

FORECASTS = "forecasts"
"""Folder of the forecasts in a run directory."""
MOST_NAMES, MOST_SEASONS = 6, 3
SHOWN = 5e-4
"""Smaller skills are 0.0 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of one plan.

    Args:
        evaluation: scores on held-out rows.
        trained: complete configuration of the trained model.
        constant: note on targets that are constant in training; empty without any.
        root: name of the root of the targets that is modelled; empty: the values are.
        shares: weights of network, linear forecast and seasonal naive; None: no combination.
        folder: run directory.
        forecasts: the forecast file, or the folder of several.
        n_forecasts: number of forecast files.
        report: path of the page.
        seconds: total time, reading included.
        levels: interval levels in percent.
        interval_notes: see `informer.inference.predictor.interval_notes`.
    """

    plan: Plan
    evaluation: Evaluation
    trained: TrainConfig
    constant: str
    root: str
    shares: Shares | None
    folder: Path
    forecasts: Path
    n_forecasts: int
    report: Path
    seconds: float
    levels: Sequence[int]
    interval_notes: Sequence[str]


def closing_lines(outcome: Outcome, settings: ForecastConfig) -> Iterator[tuple[str, str]]:
    """Label and text of each line that follows `data_line` and `season_line`."""
    plan = outcome.plan
    repairs = " ".join(repair_settings(plan.settings.dataset, DatasetConfig()))
    notes = [*plan.notes, outcome.constant, f"repaired with {repairs}" if plan.subject.repairs else ""]
    yield "Data", "; ".join(filter(None, notes)) or "no problems"
    yield "Model", _model_line(outcome)
    yield "Quality", quality_line(outcome.evaluation)
    yield "Intervals", _interval_line(outcome, settings.intervals)
    yield "Forecast", _forecast_line(outcome)
    yield "Report", str(outcome.report)
    yield "Repeat", repeat_command(plan, settings)
    yield "New rows", _predict_command(outcome.folder, plan.subject.path, outcome.levels)
    for note in outcome.interval_notes:
        yield "Warning", note


def resume_lines(run: RunFolder, path: str, levels: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Label and text of the commands that complete an interrupted forecast of the file `path`."""
    if not run.is_finished:
        yield "Continue", shell_command("train", ("resume", run.path))
    yield "Forecast", _predict_command(run.path, path, levels, ("output", run.path / FORECASTS))
    yield "Report", shell_command("report", str(run.path))


def _predict_command(run: Path, path: str, levels: Sequence[int], *arguments: tuple[str, Any]) -> str:
    intervals = [("intervals", list(levels))] if levels else []
    return shell_command("predict", ("checkpoint", run), ("input", path), *arguments, *intervals)


def data_line(plan: Plan) -> str:
    """Rows, step, series, time span and columns."""
    panel, series = plan.subject.panel, plan.subject.panel[0]
    rows = f"{sum(map(len, panel)):,} {adjective(series.frequency)} rows"
    several = f" of {len(panel)} series"
    if len(panel) == 1:
        several = ""
    elif plan.subject.dataset.series_col:
        several += f" (column {plan.subject.dataset.series_col})"
    first, last = min(member.timestamps[0] for member in panel), max(member.timestamps[-1] for member in panel)
    target = plan.settings.target
    names = (
        listed(series.columns, MOST_NAMES)
        if target is None
        else f"{target} from {counted(len(series.columns), 'column')}"
    )
    written = f"; {plan.subject.format_note}" if plan.subject.format_note else ""
    return f"{rows}{several}, {_span(first, last)}; {'columns' if target is None else 'target'} {names}{written}"


def _span(first: pd.Timestamp, last: pd.Timestamp) -> str:
    """Time span as text, without times of day if both are midnight."""
    days_only = first == first.normalize() and last == last.normalize()
    return " to ".join(f"{time:%Y-%m-%d}" if days_only else f"{time:%Y-%m-%d %H:%M}" for time in (first, last))


def season_line(plan: Plan) -> str:
    """Seasons of the targets, without those of a few series or columns only."""
    frequency = _frequency(plan)
    clear = [season.period for season in plan.seasons if season.strength >= WEAKEST]
    if not clear:
        return "none found"
    return f"repeats every {', '.join(lasting(period, frequency) for period in clear[:MOST_SEASONS])}"


def _frequency(plan: Plan) -> Frequency:
    return plan.subject.panel[0].frequency


def _model_line(outcome: Outcome) -> str:
    model, frequency = outcome.trained, _frequency(outcome.plan)
    how = outcome.shares.in_words.removeprefix("100% ") if outcome.shares else model.model.family
    duration = f"{int(outcome.seconds) // 60}:{int(outcome.seconds) % 60:02d} minutes"
    how += f" of {outcome.root}s" if outcome.root else ""
    return f"{how}, reads the last {lasting(model.seq_len, frequency)}; ready after {duration}, in {outcome.folder}"


def quality_line(evaluation: Evaluation) -> str:
    """The verdict, and the errors of the model and the baselines."""
    only = len(evaluation.columns) == 1
    units, metric, what = ("original", "mae", "mean absolute error") if only else ("scaled", "mse", "scaled MSE")
    values = {name: getattr(errors, units).overall()[metric] for name, errors in evaluation.errors.items()}
    model_error = values.pop(evaluation.model)
    baselines = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
    figures = f"{what} {model_error:.4g} ({baselines}) in {counted(evaluation.windows, 'test forecast')}"
    return f"{_quality(evaluation)}; {figures}"


def _quality(evaluation: Evaluation) -> str:
    """The verdict in a few words."""
    skill, rival, winner = evaluation.skill, evaluation.best_baseline, evaluation.winner
    if not math.isfinite(skill):
        return evaluation.verdict.removesuffix(".")
    than = f"MSE {skill_text(skill)} {'than' if skill > -1 else 'as'} {rival}'s"
    if winner is Winner.neither:
        return f"as good as {rival}" + (f" ({than})" if abs(skill) >= SHOWN else "")
    if winner is Winner.noise:
        return f"as good as {rival} within noise ({than})"
    if winner is Winner.few:
        return f"{than}, but {counted(evaluation.windows, 'test forecast')} cannot decide"
    return f"better than both baselines, {than}" if winner is Winner.model else f"worse than {rival}, {than}"


def _interval_line(outcome: Outcome, requested: Sequence[int]) -> str:
    if not outcome.levels:
        return _no_intervals(outcome)
    if outcome.constant and not outcome.evaluation.intervals:
        return "none: the targets are constant"
    means = {name: interval.overall()["coverage"] for name, interval in outcome.evaluation.intervals.items()}
    descriptions = [
        f"{level} %" + (f" cover {means[str(level)]:.0f} %" if str(level) in means else "") for level in outcome.levels
    ]
    text = ", ".join(descriptions) + (" of the test values" if means else "")
    absent = [level for level in requested if level not in outcome.levels]
    return f"{text}; too few validation rows for {', '.join(f'{level} %' for level in absent)}" if absent else text


def _no_intervals(outcome: Outcome) -> str:
    """Message that there are no intervals, and how many rows they need."""
    trained = outcome.trained
    needs = validation_rows(80, trained.pred_len, trained.trainer.calibration or 0.5)
    return (
        f"none: an 80 % interval needs {needs} validation rows in a series (dataset.split.val); provide more rows or "
        "a shorter horizon"
    )


def _day_or_time(time: pd.Timestamp) -> str:
    return f"{time:%Y-%m-%d}" if time == time.normalize() else f"{time:%Y-%m-%d %H:%M}"


def _forecast_line(outcome: Outcome) -> str:
    plan = outcome.plan
    last = max(future_index(series, plan.horizon)[-1] for series in plan.subject.panel)
    what = f"{outcome.n_forecasts} files, " if outcome.n_forecasts > 1 else ""
    ahead = f"{lasting(plan.horizon, _frequency(plan))} ahead, to {_day_or_time(last)}"
    return f"{outcome.forecasts} ({what}{ahead})"


def repeat_command(plan: Plan, settings: ForecastConfig) -> str:
    """The command that repeats the forecast, with all detected settings."""
    words: list[Word] = [plan.subject.path, ("horizon", plan.horizon)]
    words += [("target", settings.target)] if settings.target is not None else []
    words += [f"budget={settings.budget:g}"]
    usual = ForecastConfig()
    for name in ("intervals", "model_name", "seed", "device"):
        value = getattr(settings, name)
        words += [(name.removesuffix("_name"), value)] if value != getattr(usual, name) else []
    return shell_command("forecast", *words, *dataset_words(plan))


def dataset_words(plan: Plan) -> list[str]:
    """Settings of the data that differ from the defaults, except its path."""
    values, usual = (flat(asdict(config)) for config in (plan.settings.dataset, DatasetConfig()))
    return [
        f"dataset.{key}={to_display(value)}"
        for key, value in values.items()
        if value != usual.get(key) and key != "path"
    ]
