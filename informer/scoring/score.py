"""Scores of forecasts in files compared with baselines: overall, by step and by series, and whether they differ.

The metrics are those of `informer.scoring.metrics`, and OWA: mean of sMAPE and MASE, each divided by that of Naive2 (M4
competition). Coverage is in percent. Baselines from the history only: seasonal naive, ridge, and Naive2.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int
from rich.console import Console
from rich.table import Table as RichTable
from torch import Tensor

from informer.base.console import logging_to, say
from informer.base.errors import InputError, counted
from informer.base.files import write_atomic
from informer.base.quantiles import central_pairs
from informer.checkpoint.paths import check_output
from informer.config.commands import ScoreConfig
from informer.config.conversion import without_nan
from informer.scoring.benchmarks import Histories, naive2, ridge, seasonal_naive, seasonal_naive_quantiles
from informer.scoring.bootstrap import Interval, skill_interval, skill_of, verdict
from informer.scoring.files import Tidy, matched, read_tidy, step_of
from informer.scoring.forecast_log import logged
from informer.scoring.forecasts import Forecasts, Matrix
from informer.scoring.metrics import MASE, OF_SUM, WQL, Means, Scores, mase_cells, pinball, point_cells, seasonal_scale
from informer.scoring.scores import scores_table, tidy_csv

OWN, NAIVE, NAIVE2 = "forecast", "seasonal naive", "naive2"
ROW = ("forecaster", "series", "column", "step", "metric", "value")
DIFFERENCES = ("mse", "mase")
WRITTEN = ("scores.json", "scores.csv")


def sentence(difference: Mapping[str, Any]) -> str:
    """One of `Scoreboard.differences` in words."""
    forecaster, baseline, metric, skill, *ends = difference.values()
    return f"{forecaster}: {verdict(metric.upper(), baseline, skill, Interval(*ends))}"


@dataclass(slots=True, kw_only=True)
class Scoreboard:
    """Scores by forecaster, then by metric.

    Args:
        overall: one value per metric.
        by_step: one value per step ahead.
        by_series: one value per series and column, in the order of `names`.
        names: pairs of series and column.
        differences: skill compared with each baseline, 1 - error / error of the baseline: `forecaster`, `baseline`,
            `metric`, `skill`, and `low` and `high`, its 95 % interval by paired bootstrap.
        notes: remarks for the reader.
    """

    overall: dict[str, dict[str, float]]
    by_step: dict[str, Scores]
    by_series: dict[str, Scores]
    names: Sequence[tuple[str, str]]
    differences: list[dict[str, Any]]
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

    def to_dict(self) -> dict[str, Any]:
        """Overall scores, scores by step, and differences, as plain containers for JSON."""
        names = ("overall", "by_step", "differences", "notes")
        return cast(dict[str, Any], without_nan({name: getattr(self, name) for name in names}))

    def save(self, folder: Path) -> None:
        """Write scores.json and scores.csv."""
        as_json = json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"
        for name, content in zip(WRITTEN, (as_json, tidy_csv(ROW, self.rows())), strict=True):
            write_atomic(folder / name, content)

    def table(self) -> RichTable:
        """Overall scores, the forecast first, without coverage; RMSE and MAPE, for which there is no room, are in the
        files."""
        rows = [
            ((name,), {metric: each for metric, each in scores.items() if not re.match("rmse|mape|coverage", metric)})
            for name, scores in self.overall.items()
        ]
        return scores_table(["forecaster"], rows, OWN)

    def coverage(self) -> Iterator[str]:
        """One line on the intervals of each forecaster that has some."""
        for name, scores in self.overall.items():
            covered = [f"{m.removeprefix('coverage')} % cover {scores[m]:.1f} %" for m in scores if "coverage" in m]
            if covered:
                yield f"intervals of {name}: {', '.join(covered)} of the actual values"


def score_paths(by_model: Mapping[str, Forecasts], histories: Histories, season: int, notes: list[str]) -> Scoreboard:
    """Score forecasts of the same values by one or several models, and baselines on the same cells.

    Args:
        by_model: forecasts with actual values by the name of the forecaster.
        histories: values before each path.
        season: rows per season of the histories.
        notes: remarks for the reader; more are added.

    Raises:
        InputError: a model has forecasts of other values than the first.
    """
    own, paths = next(iter(by_model.items()))
    # baselines are scored in the cells in which the forecast has an actual value
    actual = np.where(np.isnan(paths.mean), np.nan, paths.actual)
    pairs = pd.MultiIndex.from_frame(paths.keys[["series", "column"]])
    for name, each in by_model.items():
        values, others = np.where(np.isnan(each.mean), np.nan, each.actual), each.keys[["series", "column"]]
        if not (pairs.equals(pd.MultiIndex.from_frame(others)) and np.array_equal(actual, values, equal_nan=True)):
            raise InputError(f"forecasts: expected those of {name} at the times of {own}; score a file of each alone")
    forecasts = {name: each.mean for name, each in by_model.items()}
    forecasts[NAIVE] = seasonal_naive(histories, season, actual.shape[1])
    if (fitted := ridge(histories, season, actual.shape[1])) is not None:
        forecasts["ridge"] = fitted[0]
    notes.append(fitted[1] if fitted else "no ridge baseline: a history is too short for it, or too little is observed")
    forecasts[NAIVE2] = naive2(histories, season, actual.shape[1])
    scales = np.array([seasonal_scale([history[:, None]], season)[0] for history in histories])
    if np.isnan(scales).any():
        notes.append(f"MASE is undefined for {counted(int(np.isnan(scales).sum()), 'forecast')}: a constant history")
    quantiles = {name: each.quantiles for name, each in by_model.items()}
    if (bands := next(filter(None, quantiles.values()), None)) is not None:
        quantiles[NAIVE] = _naive_quantiles(bands, histories, season, forecasts[NAIVE], actual, notes)
    places, names = pd.factorize(pairs)
    owners = torch.from_numpy(places)
    means, errors = dict[str, Means](), dict[str, dict[str, np.ndarray]]()
    for name, values in forecasts.items():
        point = point_cells(_cells(values), _cells(actual))
        point |= mase_cells(_cells(values), _cells(actual), torch.from_numpy(scales)[:, None])
        errors[name] = {metric: point[metric][:, :, 0].numpy() for metric in DIFFERENCES}
        means[name] = Means(len(names))
        levels = quantiles.get(name, {})
        inside = _inside_cells(levels, actual) if name in by_model else {}
        # twice the pinball loss of each level, whose mean over the sizes of the actual values is the weighted one
        losses = {f"{WQL} {x}": 2 * pinball(_cells(values), _cells(actual), x) for x, values in levels.items()}
        of_sum = [*OF_SUM, *losses]
        means[name].add(point | inside | losses, actual=_cells(actual), of_sum=of_sum, groups=owners)
    return Scoreboard(
        overall=_views({name: each.overall() for name, each in means.items()}),
        by_step=_views({name: each.by_step() for name, each in means.items()}),
        by_series=_views({name: each.by_groups() for name, each in means.items()}),
        names=list(names),
        differences=[each for name in by_model for each in _differences(errors, name, owners.numpy())],
        notes=notes,
    )


def _naive_quantiles(
    bands: Mapping[float, Matrix], histories: Histories, season: int, naive: Matrix, actual: Matrix, notes: list[str]
) -> dict[float, Matrix]:
    """Quantiles of the seasonal naive at the levels of `bands`, in the same cells; none where a history is too short,
    which is added to the notes."""
    found, is_short = seasonal_naive_quantiles(histories, season, naive, list(bands)), np.zeros(len(naive), bool)
    for level, values in found.items():
        is_scored = ~np.isnan(bands[level] + actual)
        is_short |= (is_scored & np.isnan(values)).any(axis=1)
        found[level] = np.where(is_scored, values, np.nan)
    if not is_short.any():
        return found
    notes.append(
        f"no WQL of the seasonal naive: the history of {counted(int(is_short.sum()), 'forecast')} is too short for "
        "quantiles of these levels"
    )
    return {}


def _cells(values: Matrix) -> Float64[Tensor, "u h 1"]:
    return torch.from_numpy(values)[:, :, None]


def _inside_cells(quantiles: Mapping[float, Matrix], actual: Matrix) -> dict[str, Tensor]:
    """100 if the actual value is inside the interval of a level, 0 if not, NaN if one of them is missing."""
    cells = {}
    for low, high in central_pairs(list(quantiles)):
        inside = 100.0 * ((quantiles[low] <= actual) & (actual <= quantiles[high]))
        unknown = np.isnan(quantiles[low] + quantiles[high] + actual)
        cells[f"coverage{round(100 * (high - low), 6):g}"] = _cells(np.where(unknown, np.nan, inside))
    return cells


def _views(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """With OWA, and the mean of the weighted quantile losses of the levels."""
    reference, views = scores[NAIVE2], {}
    for name, by_metric in scores.items():
        arrays = {metric: np.array(values) for metric, values in by_metric.items()}
        view = {metric: values for metric, values in arrays.items() if " " not in metric}
        pairs = [(arrays[metric], np.array(reference[metric])) for metric in ("smape", "mase")]
        ratios = [np.divide(own, of, out=np.full(own.shape, np.nan), where=of > 0) for own, of in pairs]
        view["owa"] = np.mean(ratios, axis=0)
        if levels := [values for metric, values in arrays.items() if metric.startswith(f"{WQL} ")]:
            view[WQL] = np.mean(levels, axis=0)
        views[name] = {metric: values.tolist() for metric, values in view.items()}
    return views


def _differences(
    errors: Mapping[str, Mapping[str, Matrix]], forecaster: str, owners: Int[np.ndarray, "u"]
) -> list[dict[str, Any]]:
    """Skill compared with each baseline; resamples units, of MASE the series if there are several, or blocks of steps
    if there is only one unit."""
    differences: list[dict[str, Any]] = []
    for name, metric in product([each for each in (NAIVE, "ridge") if each in errors], DIFFERENCES):
        own, baseline = errors[forecaster][metric], errors[name][metric]
        several, block = len(own) > 1, 1 if len(own) > 1 else math.isqrt(own.shape[1])
        own, baseline = (pd.DataFrame(each).mean(axis=1).to_numpy() if several else each[0] for each in (own, baseline))
        if metric == MASE and owners.max() > 0:
            own, baseline = (pd.Series(each).groupby(owners).mean().to_numpy() for each in (own, baseline))
        valid = ~np.isnan(own + baseline)
        own, baseline = own[valid], baseline[valid]
        if len(own):
            skill = skill_of(float(own.mean()), float(baseline.mean()))
            interval = skill_interval(own, baseline, block=block)
            words = {"forecaster": forecaster, "baseline": name, "metric": metric}
            differences.append(words | {"skill": skill} | interval._asdict())
    return differences


def by_model(forecasts: Tidy, actuals: Tidy) -> dict[str, Tidy]:
    """Forecasts of several models of one column by model, or the forecasts of one."""
    names, known = forecasts.frame["column"].unique(), actuals.frame["column"].unique()
    if len(names) == 1 or len(known) > 1 or known[0] in names:
        return {OWN: forecasts}
    models = {name: forecasts.frame[forecasts.frame["column"] == name].assign(column=known[0]) for name in names}
    return {name: replace(forecasts, frame=frame.dropna(axis=1, how="all")) for name, frame in models.items()}


def score(settings: ScoreConfig, console: Console) -> Scoreboard:
    """Print the scores, and write them to `settings.output` if given.

    Raises:
        InputError: a file cannot be read, or the files do not match.
    """
    names = settings.log or settings.forecasts, settings.actuals, settings.history or settings.actuals
    paths = [Path(name or "") for name in names]
    if settings.output:
        written = [Path(settings.output, name) for name in WRITTEN]
        check_output(Path(settings.output), written, inputs=paths, overwrite=settings.overwrite)
    with logging_to(console, quiet=True):
        actuals, history = (read_tidy(path, settings.dataset) for path in paths[1:])
        known = set(actuals.frame["column"])
        forecasts = read_log(paths[0]) if settings.log else read_tidy(paths[0], settings.dataset, known=known)
        models = by_model(forecasts, actuals)
        season = settings.season or _season(history)
        found = {name: matched(each, actuals, history) for name, each in models.items()}
        notes = list(dict.fromkeys(note for *_, own in found.values() for note in own))
        histories = next(iter(found.values()))[1]
        scoreboard = score_paths({name: paths for name, (paths, *_) in found.items()}, histories, season, notes)
    console.print(scoreboard.table())
    for line in [*scoreboard.coverage(), *scoreboard.notes, *map(sentence, scoreboard.differences)]:
        say(console, line)
    if settings.output:
        scoreboard.save(Path(settings.output))
        say(console, f"scores: {settings.output}")
    return scoreboard


def read_log(path: Path) -> Tidy:
    """The forecasts of a log, see `informer.scoring.forecast_log`."""
    frame, notes = logged(path)
    in_utc = pd.Timestamp(frame["time"].iloc[0]).tz is not None
    times = {name: pd.to_datetime(frame[name], format="ISO8601", utc=True) for name in ("time", "origin")}
    frame = frame.assign(**{name: each.dt.tz_localize(None) for name, each in times.items()})
    return Tidy(name=str(path), frame=frame, in_utc=in_utc, notes=tuple(notes))


def _season(history: Tidy) -> int:
    """Rows per season for the time step of the first series."""
    if not history.timed:
        raise InputError(f"season: expected a number, since {history.name} has no times; set season=24")
    first = history.frame.iloc[0]
    rows = history.frame[(history.frame["series"] == first["series"]) & (history.frame["column"] == first["column"])]
    times = pd.DatetimeIndex(rows["time"].sort_values())
    return step_of(times, history.name).season
