"""Content of a report on a trained model, from what its run or an evaluation has saved."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from informer import checkpoint as checkpoints
from informer.base.errors import InputError, counted, listed, skill_text
from informer.checkpoint.format import COMBINED, Checkpoint
from informer.checkpoint.paths import (
    ATTENTION,
    BY_SERIES,
    CONFIG,
    LOSSES,
    METRICS_FILE,
    TEST_FORECASTS,
    read_facts,
)
from informer.checkpoint.restore import restore_model
from informer.config.conversion import flat, from_plain
from informer.config.overrides import command_line, shell_command, to_display, unquoted
from informer.config.plain import nan_if_none, read_saved_yaml
from informer.data.scaler import PanelScaler
from informer.linear.maps import CombinationWeights
from informer.read.frequency import Frequency, adjective, lasting
from informer.read.table import name_of
from informer.report.content import (
    AttentionPicture,
    Card,
    Content,
    Coverage,
    LossCurves,
    Profile,
    ResidualPlot,
    ScoreRow,
    SeriesScore,
    Tone,
    signed,
)
from informer.report.forecasts import add_tracks, bands_of
from informer.scoring.bootstrap import DRAWS, Interval, Winner
from informer.scoring.intervals import nominal
from informer.scoring.metrics import HEADINGS
from informer.scoring.scores import START
from informer.training.curves import LossTable, note_of, units_of
from informer.training.run import NAME

TONES = {
    Winner.model: Tone.good,
    Winner.baseline: Tone.bad,
    Winner.neither: Tone.level,
    Winner.noise: Tone.level,
    Winner.few: Tone.level,
    Winner.unknown: Tone.neutral,
}

NAMES = {"ridge": "ridge regression", "seasonal naive": "the seasonal naive", "naive": "the last value repeated"}
"""Baselines as the verdict names them."""


def add_scores(content: Content, metrics: Mapping[str, Any]) -> None:
    """Add verdict, score tables, errors by step and column, and coverage.

    Args:
        content: content of the page.
        metrics: the result of `Evaluation.to_dict`.
    """
    model, scores = str(metrics["model"]), metrics["scores"]
    content.model = model
    skill, rival = nan_if_none(metrics.get("skill")), metrics.get("best_baseline")
    interval = Interval(*map(nan_if_none, metrics.get("skill_interval", (None, None))))
    winner = Winner.of(skill, interval)
    content.tone = TONES[winner]
    content.verdict = str(metrics["verdict"]) if rival is None else _verdict(metrics, winner, skill, rival)
    if warning := metrics.get("warning"):
        content.verdict += f" The {warning}."
    content.remarks = [*_certainty(interval, rival), *metrics.get("remarks", []), *content.remarks]
    content.scaled, content.original = (_table(scores, model, units, rival) for units in ("scaled", "original"))
    scaled = {name: both["scaled"] for name, both in scores.items()}
    content.columns = list(scaled[model]["by_column"])
    content.profiles.append(_profile_of_steps(scaled, model))
    if len(content.columns) > 1:
        content.profiles.append(_profile_of_columns(scaled, content.columns))
    content.coverage = [_coverage(name, means) for name, means in metrics.get("intervals", {}).items()]
    content.cards += _cards(metrics, skill, interval, content)


def _verdict(saved: Mapping[str, Any], winner: Winner, skill: float, rival: str) -> str:
    """The verdict for readers who know no model by name."""
    name, error = NAMES.get(rival, rival), f"its squared error is {skill_text(skill)}"
    if winner is Winner.model:
        return f"The forecast is better than both baselines: {error} than that of {name}."
    if winner is Winner.neither:
        return f"The forecast is as good as {name}, the better baseline."
    if winner is Winner.noise:
        return f"The forecast cannot be told from {name}, the better baseline: {error}, which may be chance."
    if winner is Winner.few:
        windows = counted(saved["windows"], "test forecast")
        return f"The forecast cannot be judged from {windows}: {error} than that of {name}, the better baseline."
    if winner is Winner.baseline and math.isfinite(skill):
        return f"The forecast is worse than {name}, the better baseline: {error}."
    return str(saved["verdict"])


def _certainty(interval: Interval, rival: str | None) -> list[str]:
    """Remark on the interval of the skill."""
    if math.isnan(interval.low):
        return []
    return [
        f"the 95 % interval of the skill against {rival}, {_ends(interval)}, is a bootstrap of {DRAWS:,} resamples of "
        "test windows, in blocks of windows that overlap"
    ]


def _ends(interval: Interval) -> str:
    return " to ".join(map(signed, interval))


def _profile_of_steps(scaled: Mapping[str, Any], model: str) -> Profile:
    mse, mae = (
        {name: [nan_if_none(value) for value in scores["by_step"][metric]] for name, scores in scaled.items()}
        for metric in ("mse", "mae")
    )
    steps = range(1, len(mse[model]) + 1)
    return Profile(key="step", title="Error by step ahead", axis="steps ahead", labels=list(steps), mse=mse, mae=mae)


def _profile_of_columns(scaled: Mapping[str, Any], columns: Sequence[str]) -> Profile:
    mse, mae = (
        {
            name: [nan_if_none(scores["by_column"][column][metric]) for column in columns]
            for name, scores in scaled.items()
        }
        for metric in ("mse", "mae")
    )
    return Profile(key="column", title="Error by column", axis="column", labels=list(columns), mse=mse, mae=mae)


def _cards(saved: Mapping[str, Any], skill: float, interval: Interval, content: Content) -> list[Card]:
    overall, rival = saved["scores"][saved["model"]]["scaled"]["overall"], saved.get("best_baseline")
    cards, columns = [], content.columns
    if rival is not None and -math.inf < skill <= -1:
        cards.append(Card(label="Squared error", value=f"{1 - skill:.3g} ×", hint=f"that of {rival}"))
    elif rival is not None and not math.isnan(skill):
        certain = "" if math.isnan(interval.low) else f"; 95 % interval {_ends(interval)}"
        hint = f"reduction of the squared error compared with {rival}{certain}"
        cards.append(Card(label="Skill", value=signed(skill), hint=hint))
    if len(columns) == 1:
        mae = nan_if_none(saved["scores"][saved["model"]]["original"]["overall"]["mae"])
        cards.append(Card(label="Mean absolute error", value=f"{mae:.4g}", hint=f"in units of {columns[0]}"))
    else:
        hint = "of columns scaled to variance 1 in training"
        cards.append(Card(label="Mean squared error", value=f"{nan_if_none(overall['mse']):.4g}", hint=hint))
    if not math.isnan(nan_if_none(overall.get("mase"))):
        cards.append(
            Card(
                label="MASE",
                value=f"{nan_if_none(overall['mase']):.3g}",
                hint="error as a multiple of the seasonal naive's on training rows",
            )
        )
    cards += [
        Card(label=f"{each.name} intervals cover", value=f"{each.overall:.1f} %", hint=f"should be {each.expected:g} %")
        for each in content.coverage[:2]
    ]
    cards.append(Card(label="Test forecasts", value=f"{saved['windows']:,}", hint="of rows not used in training"))
    return cards


def _table(scores: Mapping[str, Any], model: str, units: str, rival: str | None) -> list[ScoreRow]:
    best = nan_if_none(scores[rival][units]["overall"]["mse"]) if rival else math.nan
    rows = []
    for name, by_units in scores.items():
        overall = {metric: nan_if_none(by_units[units]["overall"].get(metric)) for metric in HEADINGS}
        skill = 1.0 - overall["mse"] / best if best > 0 else math.nan
        rows.append(ScoreRow(name=name, metrics=overall, skill=skill))
    return rows


def _coverage(name: str, means: Mapping[str, Any]) -> Coverage:
    """Coverage of an interval level (`80`) or of the range between two quantiles (`q10_q90`)."""
    expected = nominal(name)
    return Coverage(
        name=f"{expected:g} %",
        expected=expected,
        overall=nan_if_none(means["overall"]["coverage"]),
        by_step=[nan_if_none(value) for value in means["by_step"]["coverage"]],
        by_column=[nan_if_none(column["coverage"]) for column in means["by_column"].values()],
    )


WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


AXES = {
    "hour": ("hour of the day", range(24), 0),
    "weekday": ("weekday", WEEKDAYS, 0),
    "month": ("month", MONTHS, 1),
}
"""By name of a breakdown of errors: title, labels, and the slot of the first label."""


def add_breakdown(content: Content, metrics: Mapping[str, Any]) -> None:
    """Add errors by time and without the network, residuals and problems of the data; metrics as in `add_scores`."""
    breakdown, model = metrics.get("breakdown") or {}, content.model
    note = f"Measured on {counted(metrics['windows'], 'test window')}."
    for axis, errors in breakdown.get("by_time", {}).items():
        title, labels, first = AXES[axis]
        shown = [labels[slot - first] for slot in errors["slots"]]
        mse, mae = errors["mse"], errors["mae"]
        if len(shown) > 1:
            content.profiles.append(
                Profile(key=axis, title=f"Error by {title}", axis=axis, labels=shown, mse=mse, mae=mae, note=note)
            )
    by_step = metrics["scores"][model]["scaled"]["by_step"]
    if residuals := breakdown.get("residuals"):
        content.residuals = ResidualPlot(**residuals, bias_by_step=[nan_if_none(value) for value in by_step["bias"]])
    if start := breakdown.get(START):
        content.profiles.append(_contribution(model, by_step, start, note))
    content.problems = list(metrics.get("problems", []))


def _contribution(
    model: str, by_step: Mapping[str, Sequence[float]], start: Mapping[str, Sequence[float]], note: str
) -> Profile:
    """Errors with and without the network, by step."""
    mse, mae = ({model: by_step[metric], START: start[metric]} for metric in ("mse", "mae"))
    full, without = (float(np.mean(mse[name])) for name in (model, START))
    change = 1.0 - full / without if without > 0 else 0.0
    verb = "reduces" if change >= 0 else "increases"
    return Profile(
        key="contribution",
        title="Contribution of the network",
        axis="steps ahead",
        labels=range(1, len(mse[model]) + 1),
        mse=mse,
        mae=mae,
        note=f"The network {verb} the MSE by {100 * abs(change):.1f} %: {full:.4g} instead of {without:.4g}. {note}",
    )


def described(folder: Path, source: Path, saved: Checkpoint) -> Content:
    """Names, configuration, facts about the run, losses of its training."""
    run = source if source.is_dir() else source.parent
    config, facts = saved.config, read_facts(run)
    name = str(config["dataset"]["name"])
    if name == "csv":  # the type of dataset, not its name
        path = Path(str(saved.data.get("path", name)))
        name = name_of(path)
        if name == NAME and path.parent.name == run.resolve().name:  # a table from Python, saved in the run directory
            name = listed(saved.targets, 2)
    frequency = Frequency.parse(saved.frequency)
    n_parameters = sum(parameter.numel() for parameter in restore_model(saved).parameters())
    content = Content(
        title=f"{name}: {lasting(config['pred_len'], frequency)} ahead",
        subtitle=_task(saved, frequency),
        verdict=f"No scores were saved: {shell_command('eval', ('checkpoint', source))} scores the model.",
        columns=saved.targets,
        main=config["target"] if config.get("target") in saved.targets else "",
        command=command_of(facts.get("command", [])),
        settings={key: to_display(value) for key, value in flat(_settings(run, config)).items()},
    )
    versions = facts.get("versions", {})
    content.facts = {
        "run": str(folder),
        "started": str(facts.get("started", "")).replace("T", " ").replace("+00:00", " UTC"),
        "model": _made_of(saved),
        "parameters": f"{n_parameters:,}",
        "steps trained": (f"{saved.step:,} ({counted(saved.epoch, 'epoch')})" if saved.step else ""),
        "data": str(saved.data.get("path", "")),
        "sha256 of the data": str(saved.data.get("sha256", "")),
        "commit": str(facts.get("commit") or ""),
        "versions": ", ".join(f"{key} {value}" for key, value in versions.items() if value),
    }
    content.losses = _losses(run, config, saved)
    return content


def _task(saved: Checkpoint, frequency: Frequency) -> str:
    """What is forecast, from what, and with which model, as text."""
    targets, inputs = saved.targets, saved.inputs
    what = targets[0] if len(targets) == 1 else counted(len(targets), "column")
    history = lasting(saved.config["seq_len"], frequency)
    source = f"of {counted(len(inputs), 'column')}" if len(inputs) > len(targets) else "of history"
    return f"{what}: {adjective(frequency)} forecast from the last {history} {source}. Model: {_made_of(saved)}."


def _made_of(saved: Checkpoint) -> str:
    """The family of the model, or the parts of a combination with their weights."""
    shares = saved.data.get(COMBINED)
    if not shares:
        return str(saved.config["model"]["family"])
    return CombinationWeights.from_plain(shares).in_words.removeprefix("100% ")


def _losses(run: Path, config: Mapping[str, Any], saved: Checkpoint) -> LossCurves | None:
    """The losses of a run; None without a trained epoch."""
    if not (run / LOSSES).exists():
        return None
    table, loss = LossTable.read(run / LOSSES), from_plain(config).loss
    training, validation = ((list(curve), list(curve.values())) for curve in (table.training, table.validation))
    if not training[0]:
        return None
    roots = PanelScaler.from_state(saved.scaler).roots(map(saved.inputs.index, saved.targets))
    notes = [note_of(loss), *(f"losses are those of scaled {root}s, unlike the scores" for root in roots)]
    return LossCurves(
        training=training,
        validation=validation,
        baselines=table.baselines,
        units=units_of(loss),
        note="; ".join(filter(None, notes)),
    )


def _settings(run: Path, config: Mapping[str, Any]) -> Mapping[str, Any]:
    path = run / CONFIG
    if not path.exists():
        return config
    return {key: value for key, value in read_saved_yaml(path).items() if key != "defaults"}


def command_of(words: Sequence[str]) -> str:
    """The recorded command as a user types it: `python -m informer.train ...`, or `informer forecast FILE ...`. For a
    run started from Python this is the script; empty for a run started in a notebook.

    Args:
        words: the command, with keys before paths.
    """
    if not words or "ipykernel_launcher.py" in words[:2]:
        return ""
    if words[0] == "python":
        return command_line(words)
    script, _, command = words[0].rpartition(" ")
    name = Path(words[0]).stem
    typed = [unquoted(word) for word in words[1:]]
    if "forecast" in (command, name):
        files = [word for word in typed if word.startswith("input=")]
        typed = [*(word.partition("=")[2] for word in files), *(word for word in typed if word not in files)]
    return command_line([*([script, command] if script else ["python", "-m", f"informer.{name}"]), *typed])


MOST_NAMED = 5
"""Series named in a sentence."""

IDLE = "the network adds nothing to the forecast that it starts from; its attention maps are left out"


def run_content(path: Path) -> Content:
    """Content of a page on a run.

    Args:
        path: a run directory, a checkpoint file, or the folder written by `informer.eval`.

    Raises:
        InputError: no readable checkpoint, or a damaged file of results.
    """
    folder = path if path.is_dir() else path.parent
    source = path if not path.is_dir() or not _is_evaluation(path) else path.parent
    saved = checkpoints.load(source)
    content = described(folder, source, saved)
    if not (folder / METRICS_FILE).exists():
        return content
    try:
        metrics = _json(folder / METRICS_FILE)
        add_scores(content, metrics)
        add_breakdown(content, metrics)
        if (folder / TEST_FORECASTS).exists():
            _add_tracks(content, folder, saved, metrics)
        if (folder / ATTENTION).exists():
            attention = _json(folder / ATTENTION)
            content.attention_window = str(attention["window"])
            content.attention = [AttentionPicture(**each) for each in attention["maps"]]
    except (KeyError, TypeError, ValueError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{folder}: expected results as the training command writes them, found: {error!r}") from error
    if (metrics.get("breakdown") or {}).get("is_idle"):
        content.remarks.append(IDLE if saved.step else f"{IDLE}: no step of training reduced the validation loss")
    return content


def _is_evaluation(folder: Path) -> bool:
    """Whether a folder has no model but its parent has."""
    return not (folder / checkpoints.BEST).exists() and (folder.parent / checkpoints.BEST).exists()


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _add_tracks(content: Content, folder: Path, saved: Checkpoint, metrics: Mapping[str, Any]) -> None:
    """Add the saved forecasts, and the scores of every series and column."""
    frame = pd.read_parquet(folder / TEST_FORECASTS).rename(columns={"forecast": "value"})
    bands = bands_of(frame)
    own = {"series", "column", "origin", "step", "time", "actual", *bands}
    lines = {name: content.model if name == "value" else name for name in frame.columns if name not in own}
    is_forecast = frame["step"] > 0
    past = frame[~is_forecast].drop(columns="value").rename(columns={"actual": "value"})
    by_pair = frame[is_forecast].groupby(["series", "column"], sort=False)
    groups = [((str(key[0]), str(key[1])), rows) for key, rows in by_pair]
    all_scores = _series_scores(folder, metrics)
    scores = {(score.series, score.column): score for score in all_scores}
    ordered = sorted(groups, key=lambda group: scores[group[0]].mse, reverse=True)
    add_tracks(content, ordered, past, lines=lines, bands=bands)
    for place, (track, (key, _)) in enumerate(zip(content.tracks, ordered, strict=True)):
        content.tracks[place] = replace(track, mse=scores[key].mse, skill=scores[key].skill)
    places = {key: place for place, (key, _) in enumerate(ordered)}
    content.series = [replace(each, track=places.get((each.series, each.column), -1)) for each in all_scores]
    content.shown = " ".join(_shown(len(ordered), content.series, saved.series))


def _shown(n: int, scores: Sequence[SeriesScore], trained: Sequence[str]) -> Iterator[str]:
    """How the `n` series and columns on the page were selected, and which series have no scores."""
    names, columns = {score.series for score in scores}, {score.column for score in scores}
    what = "series" if len(columns) == 1 else "columns" if len(names) == 1 else "pairs of series and column"
    if n < len(scores):
        third = n // 3
        yield (
            f"The page shows {n} of {len(scores):,} {what}, so that it stays small: the {third} with the largest "
            f"error, the {third} with the smallest, and {n - 2 * third} spread evenly between them. The table below "
            "lists the scores of all."
        )
    elif n > 1:
        yield f"The page shows all {n} {what}."
    if absent := [name for name in trained if name not in names and len(trained) > 1]:
        yield f"Too short for a test window: {listed(absent, MOST_NAMED)}."


def _series_scores(folder: Path, metrics: Mapping[str, Any]) -> list[SeriesScore]:
    """Scores of every series and column, worst first."""
    model, by_column = metrics["model"], metrics["scores"][metrics["model"]]["scaled"]["by_column"]
    if (folder / BY_SERIES).exists():
        text = {"series": str, "column": str, "model": str}
        table = pd.read_csv(folder / BY_SERIES, dtype=text, keep_default_na=False, na_values={"skill": [""]})
        table = table[(table["model"] == model) & ((table["column"] != "all") | (len(by_column) == 1))]
        rows = table if len(by_column) > 1 else table.assign(column=next(iter(by_column)))
        values = rows[["series", "column", "windows", "mse_scaled", "skill"]].to_numpy().tolist()
    else:
        rivals = [each["scaled"]["by_column"] for name, each in metrics["scores"].items() if name != model]
        values = []
        for column, own in by_column.items():
            best = min((nan_if_none(rival[column]["mse"]) for rival in rivals), default=math.nan)
            error = nan_if_none(own["mse"])
            values.append(["", column, metrics["windows"], error, 1 - error / best if best > 0 else math.nan])
    keys = ("series", "column", "windows", "mse", "skill")
    scores = [SeriesScore(**dict(zip(keys, each, strict=True))) for each in values]
    return sorted(scores, key=lambda score: (math.isnan(score.mse), -score.mse))
