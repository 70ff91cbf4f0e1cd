"""Monitor a model: compare its forecasts since training with actual values, from the configuration to the verdict.

Findings of monitoring as JSON and as a page.

Forecasts from every origin since training, compared with actual values: errors, coverage, inputs.
"""

import json
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from rich.console import Console

from informer import checkpoint
from informer.base.console import logging_to, say
from informer.base.errors import InputError, signed_percent
from informer.base.files import check_no_input_overwritten, make_folder, write_atomic
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.paths import ROWS, check_no_run_overwritten, forecasting_checkpoint, locate, resolve_latest
from informer.config import conversion
from informer.config.commands import WatchConfig
from informer.config.overrides import shell_command
from informer.config.plain import without_nan
from informer.data.rows import rows_dataset
from informer.data.store import build_store, with_columns
from informer.data.windows import Windows
from informer.inference.model import TrainedModel
from informer.inference.rolling import baselines_before, moment_in
from informer.networks.models.base import model_output, point
from informer.read.series import Series, column_values
from informer.report.content import Card, Content, Profile, TextTable, Tone
from informer.report.page import to_html
from informer.scoring.baselines import bounded
from informer.service.drift import (
    Alarm,
    Drift,
    Findings,
    Level,
    Moved,
    Period,
    Verdict,
    find_drift,
    find_shift,
    skill_of,
    stability_index,
)
from informer.service.update import input_dataset, joined_series, read_rows, rows_format
from informer.training.update_state import UNTIL

log = logging.getLogger(__name__)


TONES = {
    Verdict.ok: Tone.good,
    Verdict.recalibrate: Tone.level,
    Verdict.update: Tone.level,
    Verdict.retrain: Tone.bad,
}


def to_json(findings: Findings, facts: dict[str, Any]) -> str:
    """All findings and `facts`; numbers that are not finite are null."""
    verdict, reason = findings.decide()
    plain = {
        "verdict": verdict.name,
        "reason": reason,
        "exit_status": verdict.value,
        "skill": findings.skill,
        "recent_skill_interval": list(findings.recent_skill),
        "best_baseline": findings.best_baseline,
        "origins": len(findings.errors[findings.model]),
        "mse": {name: float(errors.mean()) for name, errors in findings.errors.items()},
        "interval": findings.level,
        "coverage": float(findings.coverage.mean()) if len(findings.coverage) else None,
        "drift": [asdict(alarm) for alarm in findings.alarms],
        "level": [asdict(alarm) for alarm in findings.levels],
        "inputs": [asdict(moved) for moved in findings.inputs],
        "periods": [asdict(period) for period in findings.periods],
    }
    return json.dumps(without_nan(plain | facts), indent=2) + "\n"


def to_content(findings: Findings, *, title: str, subtitle: str, command: str) -> Content:
    """Content of the page."""
    verdict, reason = findings.decide()
    labels = [period.first for period in findings.periods]
    mse = {name: [period.mse[name] for period in findings.periods] for name in findings.errors}
    covered = f"{findings.coverage.mean():.1%}" if len(findings.coverage) else "–"
    return Content(
        title=title,
        subtitle=subtitle,
        verdict=f"{verdict.name}: {reason}.",
        tone=TONES[verdict],
        model=findings.model,
        cards=[
            Card(
                label="Skill",
                value=signed_percent(findings.skill),
                hint=f"against {findings.best_baseline}, all origins",
            ),
            Card(label="Origins", value=f"{len(findings.errors[findings.model]):,}", hint="since the end of training"),
            Card(
                label="Coverage",
                value=covered,
                hint=f"of {findings.level} % intervals" if findings.level else "no intervals",
            ),
            Card(label="Drift", value=f"{_raised(findings.alarms)}", hint="columns whose errors changed"),
            Card(label="Level", value=f"{_raised(findings.levels)}", hint="columns whose level moved"),
        ],
        profiles=[
            Profile(
                key="over-time",
                title="Error over time",
                axis="first forecast value",
                labels=labels,
                mse=mse,
                mae={},
                note="Mean squared error of all origins of each period, scaled.",
            )
        ],
        tables=[_periods_table(findings), _drift(findings), _level(findings), _inputs_table(findings)],
        command=command,
    )


def _raised(alarms: Sequence[Alarm]) -> int:
    return sum(bool(alarm.after) for alarm in alarms)


def _periods_table(findings: Findings) -> TextTable:
    rows = [
        (
            period.first,
            str(period.origins),
            *(f"{period.mse[name]:.4g}" for name in findings.errors),
            "–" if math.isnan(period.skill) else signed_percent(period.skill),
            "–" if math.isnan(period.coverage) else f"{period.coverage:.1%}",
        )
        for period in findings.periods
    ]
    return TextTable(
        title="Over time: scaled MSE, skill, coverage",
        head=("first forecast value", "origins", *findings.errors, "skill", f"coverage of {findings.level or 80} %"),
        rows=rows,
    )


def _drift(findings: Findings) -> TextTable:
    rows = [
        (alarm.whose, f"{alarm.evidence:.2f}", f"{alarm.bound:.2f}", alarm.at or "no alarm")
        for alarm in findings.alarms
    ]
    return TextTable(
        title="Drift of one-step errors: logarithm of the evidence, alarm above the bound",
        head=("column", "evidence", "bound", "alarm at"),
        rows=rows,
    )


def _level(findings: Findings) -> TextTable:
    rows = [
        (
            alarm.whose,
            f"{alarm.evidence:.2f}",
            f"{alarm.bound:.2f}",
            f"{alarm.change:+.2f}" if alarm.after else "–",
            alarm.at or "no alarm",
        )
        for alarm in findings.levels
    ]
    return TextTable(
        title="Level of the targets: logarithm of the evidence, alarm above the bound, change in standard deviations",
        head=("column", "evidence", "bound", "change", "alarm at"),
        rows=rows,
    )


def _inputs_table(findings: Findings) -> TextTable:
    rows = [(moved.column, f"{moved.stability_index:.3f}") for moved in findings.inputs]
    return TextTable(
        title="Inputs after training compared with before",
        head=("column", "population stability index"),
        rows=rows,
    )


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


JSON, PAGE = "watch.json", "watch.html"


def watch(settings: WatchConfig, console: Console) -> Verdict:
    """Write the findings as JSON and as a page, and print and return the verdict.

    Raises:
        InputError: no run, the file has too few rows after the training data, or dataset.fill=mask.
    """
    path, where = locate(settings.checkpoint), settings.input or ""
    saved, until = forecasting(settings.checkpoint)
    output = Path(settings.output) if settings.output else path.parent / "watch"
    names = [output / JSON, output / PAGE]
    check_no_input_overwritten([path, Path(where)], names, "output")
    check_no_run_overwritten(names, "output")
    with logging_to(console, quiet=True):
        model = TrainedModel(saved, device=settings.device)
        results = findings(model, observe(model, _panel(settings, saved, path.parent), until, settings.batch_size))
    verdict, reason = results.decide()
    make_folder(output)
    facts = {"checkpoint": settings.checkpoint, "input": where, "trained_until": until}
    write_atomic(output / JSON, to_json(results, facts))
    words = ("checkpoint", settings.checkpoint), ("input", where)
    command = shell_command("watch", *words)
    subtitle = f"{where}: forecasts of {settings.checkpoint} from every origin after {until}"
    write_atomic(output / PAGE, to_html(to_content(results, title="In service", subtitle=subtitle, command=command)))
    say(console, f"{verdict.name}: {reason}")
    if verdict is Verdict.update or verdict is Verdict.recalibrate:
        say(console, f"next: {shell_command('update', *words)}")
    say(console, f"{output / JSON}, {output / PAGE}")
    return verdict


def forecasting(name: str) -> tuple[Checkpoint, str]:
    """The checkpoint and the end of its training rows: the one that `predict` uses if it records this time, otherwise
    the scored one.

    Raises:
        InputError: neither records it.
    """
    for path, entry in ((forecasting_checkpoint(name), UNTIL), (resolve_latest(name), "trained_until")):
        saved = checkpoint.load(path)
        until = saved.data.get(entry)
        if isinstance(until, str):
            return saved, until
    raise InputError(f"checkpoint={name}: does not record the end of its training rows; train again with this version")


def _panel(settings: WatchConfig, saved: Checkpoint, run: Path) -> Sequence[Series]:
    """The rows of the file, preceded by those saved with the run.

    Raises:
        InputError: missing values, with or without dataset.fill=mask, or a file that does not fit the run.
    """
    trained = conversion.from_plain(saved.config)
    dataset = input_dataset(trained.dataset, settings.input or "", settings.dataset, saved)
    if dataset.keeps_gaps:
        raise InputError(
            "dataset.fill=mask: watch does not support missing values; score the model with informer predict "
            "mode=rolling, or set dataset.fill=ffill|linear|zero for a model trained without mask"
        )
    newer = read_rows(trained, dataset, saved)
    if not (run / ROWS).exists():
        return newer
    saved_rows = rows_dataset(trained.dataset, run / ROWS, rows_format(saved, trained))
    older = read_rows(trained, saved_rows, saved)
    if all(new.timestamps[-1] <= old.timestamps[-1] for old, new in zip(older, newer, strict=True)):
        return older  # no new rows: monitor the run's own test part, if it was not fitted on it
    overlap = min(series.timestamps[-1] for series in older)
    fix = f"add them, or give a file that begins at {overlap} or earlier, with dataset.fill=ffill|linear|zero"
    return joined_series(older, newer, fix=fix, where=settings.input or "").panel
