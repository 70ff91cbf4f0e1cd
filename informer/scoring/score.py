"""Scores of forecasts in files compared with baselines: overall, by step and by series, and whether they differ.

The metrics are those of `informer.scoring.metrics`, and OWA: mean of sMAPE and MASE, each divided by that of Naive2 (M4
competition). Coverage is in percent. Baselines from the history only: seasonal naive, ridge, and Naive2.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int
from rich.console import Console
from rich.table import Table

from informer.base.console import logging_to, say
from informer.base.errors import InputError, TimeError, counted
from informer.base.files import write_atomic
from informer.base.quantiles import BAND
from informer.checkpoint.paths import only_output
from informer.config.commands import ScoreConfig
from informer.config.conversion import without_nan
from informer.members.baselines import Histories, naive2_after, naive_after, naive_quantiles_after, ridge_after
from informer.scoring.bootstrap import Interval, skill_interval, skill_of, verdict
from informer.scoring.files import Tidy, matched, read_tidy, step_of
from informer.scoring.forecast_log import logged
from informer.scoring.forecasts import Forecasts, Matrix
from informer.scoring.metrics import METRICS, inside_cells, scores_table, seasonal_scale, tidy_csv
from informer.scoring.scores import ORIGINAL, Scores

OWN, NAIVE, NAIVE2 = "forecast", "seasonal naive", "naive2"
ROW = ("forecaster", "series", "column", "step", "metric", "value")
WRITTEN = ("scores.json", "scores.csv")


def sentence(difference: Mapping[str, Any]) -> str:
    """One of `differences` in words."""
    forecaster, baseline, metric, skill, *ends = difference.values()
    return f"{forecaster}: {verdict(metric.upper(), baseline, skill, Interval(*ends))}"


def score_paths(by_model: Mapping[str, Forecasts], histories: Histories, season: int) -> tuple[Scores, list[Any]]:
    """Scores of forecasts of the same values by one or several models and of baselines on the same cells, and the skill
    compared with each baseline, see `_differences`.

    Args:
        by_model: forecasts with actual values by the name of the forecaster.
        histories: values before each path.
        season: rows per season of the histories.

    Raises:
        InputError: a model has forecasts of other values than the first.
    """
    own, paths = next(iter(by_model.items()))
    # baselines are scored in the cells in which the forecast has an actual value
    actual = np.where(np.isnan(paths.mean), np.nan, paths.actual)
    pairs = ["series", "column"]
    for name, each in by_model.items():
        values = np.where(np.isnan(each.mean), np.nan, each.actual)
        if not (each.keys[pairs].equals(paths.keys[pairs]) and np.array_equal(actual, values, equal_nan=True)):
            raise InputError(f"forecasts: expected those of {name} at the times of {own}; score a file of each alone")
    names = {key: paths.keys[key].unique().tolist() for key in pairs}
    scores = Scores(names["column"], names["series"], units=(ORIGINAL,))
    change = np.array([seasonal_scale([history[:, None]], season)[0] for history in histories])
    forecasts = {name: replace(each, actual=actual, change=change) for name, each in by_model.items()}
    same, steps = replace(paths, actual=actual, change=change, bands={}), actual.shape[1]
    forecasts[NAIVE] = replace(same, mean=naive_after(histories, season, steps))
    if (fitted := ridge_after(histories, season, steps)) is not None:
        forecasts["ridge"] = replace(same, mean=fitted[0])
    scores.notes = [
        fitted[1] if fitted else "no ridge baseline: a history is too short for it, or too little is observed"
    ]
    forecasts[NAIVE2] = replace(same, mean=naive2_after(histories, season, steps))
    if n := int(np.isnan(change).sum()):
        scores.notes.append(f"MASE is undefined for {counted(n, 'forecast')}: a constant history")
    bands = next((each.quantiles for each in by_model.values() if each.bands), None)
    if bands is not None:
        found, n_short = _naive_quantiles(bands, histories, season, forecasts[NAIVE])
        forecasts[NAIVE] = replace(forecasts[NAIVE], levels=found if not n_short else {})
        if n_short:
            scores.notes.append(
                f"no WQL of the seasonal naive: the history of {counted(n_short, 'forecast')} is too short for "
                "quantiles of these levels"
            )
    for name, each in forecasts.items():
        scores.add(name, each, {ORIGINAL: inside_cells(each)} if name in by_model else {})
    owners = paths.keys.groupby(pairs, sort=False).ngroup().to_numpy()
    return scores, [each for name in by_model for each in _differences(forecasts, name, owners)]


def _naive_quantiles(
    bands: Mapping[float, Matrix], histories: Histories, season: int, naive: Forecasts
) -> tuple[dict[float, Matrix], int]:
    """Quantiles of the seasonal naive at the levels of `bands`, in the same cells, and the number of paths whose
    history is too short for them."""
    found, is_short = naive_quantiles_after(histories, season, naive.mean, list(bands)), np.zeros(len(naive), bool)
    for level, values in found.items():
        is_scored = ~np.isnan(bands[level] + naive.actual)
        is_short |= (is_scored & np.isnan(values)).any(axis=1)
        found[level] = np.where(is_scored, values, np.nan)
    return found, int(is_short.sum())


def values_of(scores: Scores, view: str) -> dict[str, dict[str, np.ndarray]]:
    """Means by forecaster and metric, with OWA; see `Scores.values`."""
    by_name, found = {name: scores.values(name, ORIGINAL, view) for name in scores.names}, {}
    for name, values in by_name.items():
        pairs = [(values[metric], by_name[NAIVE2][metric]) for metric in ("smape", "mase")]
        ratios = [np.divide(own, of, out=np.full(np.shape(own), np.nan), where=of > 0) for own, of in pairs]
        wql = {metric: value for metric, value in values.items() if metric == "wql"}
        found[name] = {metric: value for metric, value in values.items() if metric != "wql"}
        found[name] |= {"owa": np.mean(ratios, axis=0), **wql}
    return found


def rows_of(scores: Scores, pairs: pd.DataFrame) -> Iterator[tuple[str, str, str, str | int, str, float]]:
    """Tidy rows (see `ROW`), of each pair of series and column."""
    overall, by_step, by_pair = (values_of(scores, view) for view in ("overall", "step", "pair"))
    places = scores.places(pairs)
    for name, by_metric in overall.items():
        for metric, value in by_metric.items():
            yield name, "all", "all", "all", metric, float(value)
            for step, each in enumerate(by_step[name][metric].tolist(), start=1):
                yield name, "all", "all", step, metric, each
            of_pairs = by_pair[name][metric][places].tolist()
            for series, column, each in zip(pairs["series"], pairs["column"], of_pairs, strict=True):
                yield name, series, column, "all", metric, each


def _differences(
    forecasts: Mapping[str, Forecasts], forecaster: str, owners: Int[np.ndarray, " u"]
) -> Iterator[dict[str, Any]]:
    """Skill compared with each baseline, 1 - error / error of the baseline: `forecaster`, `baseline`, `metric`,
    `skill`, and `low` and `high`, its 95 % interval by paired bootstrap.

    Resamples paths, of MASE the pairs of series and column, `owners` of the paths, if there are several, or blocks of
    steps if there is only one path.
    """
    for name, metric in product([each for each in (NAIVE, "ridge") if each in forecasts], ("mse", "mase")):
        cells = [np.asarray(METRICS[metric].cells(forecasts[each])) for each in (forecaster, name)]
        several = len(owners) > 1
        own, other = (pd.DataFrame(each).mean(axis=1) if several else pd.Series(each[0]) for each in cells)
        if metric == "mase" and owners.max() > 0:
            own, other = (each.groupby(owners).mean() for each in (own, other))
        valid = (own + other).notna()
        errors = own[valid].to_numpy(), other[valid].to_numpy()
        if valid.any():
            skill = skill_of(float(errors[0].mean()), float(errors[1].mean()))
            interval = skill_interval(*errors, block=1 if several else math.isqrt(cells[0].shape[1]))
            words = {"forecaster": forecaster, "baseline": name, "metric": metric}
            yield words | {"skill": skill} | interval._asdict()


def by_model(forecasts: Tidy, actuals: Tidy) -> dict[str, Tidy]:
    """Forecasts of several models of one column by model, or the forecasts of one."""
    names, known = forecasts.frame["column"].unique(), actuals.frame["column"].unique()
    if len(names) == 1 or len(known) > 1 or known[0] in names:
        return {OWN: forecasts}
    models = {name: forecasts.frame[forecasts.frame["column"] == name].assign(column=known[0]) for name in names}
    lacking = {
        name: [band for band in frame if BAND.fullmatch(band) and frame[band].isna().all()]
        for name, frame in models.items()
    }
    return {name: replace(forecasts, frame=frame.drop(columns=lacking[name])) for name, frame in models.items()}


def _paths(settings: ScoreConfig) -> list[Path]:
    """The files of forecasts, actual values and earlier values."""
    names = settings.log or settings.forecasts, settings.actuals, settings.history or settings.actuals
    return [Path(name or "") for name in names]


def read_matched(settings: ScoreConfig) -> tuple[dict[str, Forecasts], Histories, int, list[str]]:
    """Forecasts with actual values by the name of the forecaster, the values before each path, rows per season, and
    notes; errors as of `score`."""
    of_forecasts, *others = _paths(settings)
    actuals, history = (read_tidy(path, settings.dataset) for path in others)
    known = set(actuals.frame["column"])
    zone = settings.dataset.timezone
    forecasts = read_log(of_forecasts, zone) if settings.log else read_tidy(of_forecasts, settings.dataset, known=known)
    season = settings.season or _season(history)
    found = {name: matched(each, actuals, history) for name, each in by_model(forecasts, actuals).items()}
    notes = dict.fromkeys(note for *_, own in found.values() for note in own)
    return {name: each for name, (each, *_) in found.items()}, next(iter(found.values()))[1], season, [*notes]


def score(settings: ScoreConfig, console: Console) -> dict[str, Any]:
    """Print the scores, write them to `settings.output` if given, and return them as plain containers: overall scores,
    scores by step, differences from the baselines, and notes.

    Raises:
        InputError: a file cannot be read, or the files do not match.
    """
    paths, written = _paths(settings), [Path(settings.output or "", name) for name in WRITTEN]
    claimed: AbstractContextManager[None] = nullcontext()
    if settings.output:
        claimed = only_output(Path(settings.output), written, inputs=paths, overwrite=settings.overwrite)
    with claimed, logging_to(console, quiet=True):
        models, histories, season, notes = read_matched(settings)
        scores, differences = score_paths(models, histories, season)
        first, notes = next(iter(models.values())), [*notes, *scores.notes]
        overall, by_step = (
            {
                name: {metric: each.tolist() for metric, each in own.items()}
                for name, own in values_of(scores, view).items()
            }
            for view in ("overall", "step")
        )
        content: dict[str, Any] = without_nan(
            {"overall": overall, "by_step": by_step, "differences": differences, "notes": notes}
        )
        console.print(_table(overall))
        for line in [*_coverage(overall), *notes, *map(sentence, differences)]:
            say(console, line)
        if settings.output:
            pairs = first.keys[["series", "column"]].drop_duplicates()
            write_atomic(written[0], json.dumps(content, indent=2, allow_nan=False) + "\n")
            write_atomic(written[1], tidy_csv(ROW, rows_of(scores, pairs)))
            say(console, f"scores: {settings.output}")
        return content


def _table(overall: Mapping[str, Mapping[str, float]]) -> Table:
    """Overall scores, the forecast first, without coverage; RMSE and MAPE, for which there is no room, are in the
    files."""
    rows = [
        ((name,), {metric: each for metric, each in scores.items() if not re.match("rmse|mape|coverage", metric)})
        for name, scores in overall.items()
    ]
    return scores_table(["forecaster"], rows, OWN)


def _coverage(overall: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """One line on the intervals of each forecaster that has some."""
    for name, scores in overall.items():
        covered = [f"{m.removeprefix('coverage')} % cover {scores[m]:.1f} %" for m in scores if "coverage" in m]
        if covered:
            yield f"intervals of {name}: {', '.join(covered)} of the actual values"


def read_log(path: Path, timezone: str | None) -> Tidy:
    """The forecasts of a log, see `informer.scoring.forecast_log`; times without a zone are local times of `timezone`,
    the first ones of an hour that occurs twice, and rows of an hour that clocks leave out are not read."""
    frame, notes = logged(path)
    is_local = ~frame["time"].str.contains(r"[+-]\d\d:\d\d$")
    if timezone is None and 0 < is_local.sum() < len(frame):
        raise TimeError(f"log={path}: some times have no zone; set the zone of these local times, dataset.timezone")
    for name in ("time", "origin"):
        times = pd.to_datetime(frame[name], format="ISO8601", utc=True).dt.tz_localize(None)
        if timezone is not None:
            first = np.ones(int(is_local.sum()), bool)
            local = times[is_local].dt.tz_localize(timezone, ambiguous=first, nonexistent="NaT")
            times = local.dt.tz_convert("UTC").dt.tz_localize(None).reindex(times.index).where(is_local, times)
        frame = frame.assign(**{name: times})
    in_utc = timezone is not None or not is_local.any()
    return Tidy(name=str(path), frame=frame.dropna(subset=["time"]), in_utc=in_utc, notes=tuple(notes))


def _season(history: Tidy) -> int:
    """Rows per season for the time step of the first series."""
    if not history.timed:
        raise InputError(f"season: expected a number, since {history.name} has no times; set season=24")
    first = history.frame.iloc[0]
    rows = history.frame[(history.frame["series"] == first["series"]) & (history.frame["column"] == first["column"])]
    times = pd.DatetimeIndex(rows["time"].sort_values())
    return step_of(times, history.name).season
