"""The report on a trained model, from what its run or an evaluation has saved, or on forecasts."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from informer import checkpoint as checkpoints
from informer.base.console import logging_to, say
from informer.base.errors import FileError, InputError, counted, listed, with_addresses
from informer.base.files import expanded, write_atomic
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.paths import (
    ATTENTION,
    BY_SERIES,
    CONFIG,
    LOSSES,
    METRICS_FILE,
    PAGE,
    TEST_FORECASTS,
    only_output,
    read_facts,
    resolve_latest,
    resume_advice,
)
from informer.checkpoint.restore import restore_model
from informer.config.commands import ReportConfig
from informer.config.conversion import flat, from_plain, read_json, read_saved_yaml, with_nan
from informer.config.overrides import command_line, shell_command, to_display, unquoted
from informer.read.files import SUFFIXES
from informer.read.frequency import Frequency, adjective, lasting
from informer.read.table import name_of
from informer.report.forecasts import PAIR, add_totals, add_tracks, bands_of, forecast_content, written_forecasts
from informer.report.page import MOST_BYTES, OWN_PAGE, TONES, Content, profile, signed, to_html
from informer.scoring.bootstrap import DRAWS, Interval, Winner
from informer.scoring.evaluate import START
from informer.scoring.metrics import HEADINGS
from informer.scoring.scores import nominal
from informer.training.folder import NAME

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

AXES = {"hour": ("hour of the day", range(24), 0), "weekday": ("weekday", WEEKDAYS, 0), "month": ("month", MONTHS, 1)}
"""By name of a breakdown of errors: title, labels, and the slot of the first label."""


def add_scores(content: Content, metrics: Mapping[str, Any]) -> None:
    """Add verdict, score tables, errors along each axis, coverage, residuals, and problems of the data.

    Args:
        content: content of the page.
        metrics: the result of `Scores.to_dict`, or what it has saved `with_nan`.
    """
    content.model = model = metrics["model"]
    said = [f"{metrics['verdict'][0].upper()}{metrics['verdict'][1:]}."]
    said += [f"The {warning}."] if (warning := metrics["warning"]) else []
    content.verdict = " ".join(filter(None, [*said, content.verdict]))
    interval, scaled = (
        Interval(*metrics["skill_interval"]),
        {n: each["scaled"] for n, each in metrics["scores"].items()},
    )
    content.tone = TONES.get(Winner.of(metrics["skill"], interval), "level")
    certainty = (
        f"the 95 % interval of the skill against {metrics['best_baseline']}, {_ends(interval)}, is a bootstrap of "
        f"{DRAWS:,} resamples of test windows, in blocks of windows that overlap"
    )
    known = [] if math.isnan(interval.low) else [certainty]
    content.remarks = [*known, *metrics["remarks"], *content.remarks]
    content.scaled, content.original = (_table(metrics, units) for units in ("scaled", "original"))
    own, profiles = scaled[model]["by_step"], content.profiles
    content.columns = columns = list(scaled[model]["by_column"])
    steps = list(range(1, len(own["mse"]) + 1))

    def errors(of: Callable[[Mapping[str, Any], str], Any]) -> Iterator[dict[str, Any]]:
        """MSE and MAE of all forecasters."""
        return ({name: of(each, metric) for name, each in scaled.items()} for metric in ERRORS)

    by_step = errors(lambda each, metric: each["by_step"][metric])
    profiles.append(profile("step", "Error by step ahead", steps, *by_step, axis="steps ahead"))
    if len(columns) > 1:
        by_column = errors(lambda each, metric: [each["by_column"][one][metric] for one in columns])
        profiles.append(profile("column", "Error by column", columns, *by_column))
    # by level (`80`), or by the quantiles at both ends (`q10_q90`)
    for name, means in metrics["intervals"].items():
        coverage = {"name": f"{nominal(name):g} %", "expected": nominal(name), "overall": means["overall"]["coverage"]}
        of_columns = [column["coverage"] for column in means["by_column"].values()]
        content.coverage.append(coverage | {"by_step": means["by_step"]["coverage"], "by_column": of_columns})
    content.cards += _cards(metrics, interval, content)
    breakdown, note = metrics["breakdown"], f"Measured on {counted(metrics['windows'], 'test window')}."
    for axis, found in breakdown.get("by_time", {}).items():
        title, labels, first = AXES[axis]
        shown = [labels[slot - first] for slot in found["slots"]]
        if len(shown) > 1:
            profiles.append(profile(axis, f"Error by {title}", shown, found["mse"], found["mae"], note=note))
    if residuals := breakdown.get("residuals"):
        content.residuals = residuals | {"bias_by_step": own["bias"]}
    if start := breakdown.get(START):
        both = [{model: own[metric], START: start[metric]} for metric in ERRORS]
        full, without = (float(np.mean(both[0][name])) for name in (model, START))
        change = 1.0 - full / without if without > 0 else 0.0
        gain = f"{'reduces' if change >= 0 else 'increases'} the MSE by {100 * abs(change):.1f} %"
        note = f"The network {gain}: {full:.4g} instead of {without:.4g}. {note}"
        title = "Contribution of the network"
        profiles.append(profile("contribution", title, steps, *both, axis="steps ahead", note=note))
    content.problems += metrics["problems"]


def _ends(interval: Interval) -> str:
    return " to ".join(map(signed, interval))


ERRORS = {"mse": "squared error", "mae": "absolute error"}
"""What the metrics are means of by which forecasters are compared."""


def _cards(metrics: Mapping[str, Any], interval: Interval, content: Content) -> Iterator[tuple[str, str, str]]:
    scores, columns = metrics["scores"][metrics["model"]], content.columns
    overall, skill, size = scores["scaled"]["overall"], metrics["skill"], ERRORS[metrics["metric"]]
    if -math.inf < skill <= -1:
        yield (size.capitalize(), f"{1 - skill:.3g} ×", f"that of {metrics['best_baseline']}")
    elif not math.isnan(skill):
        certain = "" if math.isnan(interval.low) else f"; 95 % interval {_ends(interval)}"
        against = f"{metrics['best_baseline']}{certain}"
        yield ("Skill", signed(skill), f"reduction of the scaled {size} compared with {against}")
    if len(columns) == 1:
        mae = scores["original"]["overall"]["mae"]
        yield ("Mean absolute error", f"{mae:.4g}", f"in units of {columns[0]}")
    else:
        yield (f"Mean {size}", f"{overall[metrics['metric']]:.4g}", "in scaled units")
    if not math.isnan(overall["mase"]):
        yield ("MASE", f"{overall['mase']:.3g}", "error as a multiple of the mean change over a season")
    for each in content.coverage[:2]:
        hint = f"should be {each['expected']:g} %"
        yield (f"{each['name']} intervals cover", f"{each['overall']:.1f} %", hint)
    yield ("Test forecasts", f"{metrics['windows']:,}", "of rows not used in training")


def _table(metrics: Mapping[str, Any], units: str) -> dict[str, dict[str, float]]:
    overall = {
        name: {metric: by_units[units]["overall"].get(metric, math.nan) for metric in HEADINGS}
        for name, by_units in metrics["scores"].items()
    }
    best = overall[metrics["best_baseline"]][metrics["metric"]]
    skills = {name: 1.0 - each[metrics["metric"]] / best if best > 0 else math.nan for name, each in overall.items()}
    return {name: each | {"skill": skills[name]} for name, each in overall.items()}


def described(folder: Path, source: Path) -> tuple[Content, Checkpoint]:
    """Names, configuration, facts about the run, losses of its training; and what its checkpoint contains."""
    saved = checkpoints.load(source)
    run = source if source.is_dir() else source.parent
    config, facts, done = saved.config, read_facts(run), saved.progress
    settings: Mapping[str, Any] = read_saved_yaml(run / CONFIG) if (run / CONFIG).exists() else config
    name = str(config["dataset"]["name"])
    if name == "csv":  # the type of dataset, not its name
        path = Path(saved.data.path)
        name = name_of(path)
        if name == NAME and path.parent.name == run.resolve().name:  # a table from Python, saved in the run directory
            name = listed(saved.targets, 2)
    frequency = Frequency.parse(saved.frequency)
    n_parameters = sum(parameter.numel() for parameter in restore_model(saved).parameters())
    targets, inputs, model = saved.targets, saved.inputs, saved.settings.model.family
    what = targets[0] if len(targets) == 1 else counted(len(targets), "column")
    history = lasting(config["seq_len"], frequency)
    read = f"of {counted(len(inputs), 'column')}" if len(inputs) > len(targets) else "of history"
    forecast = Content.read(folder)
    content = Content(
        title=f"{name}: {lasting(config['pred_len'], frequency)} ahead",
        subtitle=f"{what}: {adjective(frequency)} forecast from the last {history} {read}. Model: {model}.",
        expected=forecast.expected,
        columns=targets,
        main=config["target"] if config.get("target") in targets else "",
        command=forecast.command or command_of(facts.get("command", [])),
        settings={key: to_display(x) for key, x in flat(settings).items() if key.partition(".")[0] != "defaults"},
    )
    if not (folder / METRICS_FILE).exists():
        content.verdict = f"No scores were saved: {shell_command('eval', ('checkpoint', source))} scores the model."
    versions = facts.get("versions", {})
    content.facts = {
        "run": str(folder),
        "started": str(facts.get("started", "")).replace("T", " ").replace("+00:00", " UTC"),
        "model": model,
        "parameters": f"{n_parameters:,}",
        "steps trained": (f"{done.step:,} ({counted(done.epoch, 'epoch')})" if done.step else ""),
        "data": saved.data.path,
        "sha256 of the data": saved.data.sha256,
        "commit": str(facts.get("commit") or ""),
        "versions": ", ".join(f"{key} {value}" for key, value in versions.items() if value),
    }
    content.losses = _losses(run, config, saved)
    return content, saved


def _losses(run: Path, config: Mapping[str, Any], saved: Checkpoint) -> dict[str, Any] | None:
    """The losses of a run; None without a trained epoch."""
    if not (run / LOSSES).exists():
        return None
    from informer.training.losses import curves_of, note_of, read_losses, units_of

    training, validation, baselines = curves_of(read_losses(run / LOSSES))
    if not training:
        return None
    loss = from_plain(config).loss
    roots = saved.scaler.roots(map(saved.inputs.index, saved.targets))
    notes = [note_of(loss), *(f"losses are those of scaled {root}s, unlike the scores" for root in roots)]
    return {
        "training": [list(training), list(training.values())],
        "validation": [list(validation), list(validation.values())],
        "baselines": baselines,
        "units": units_of(loss),
        "note": "; ".join(filter(None, notes)),
    }


def command_of(words: Sequence[str]) -> str:
    """The recorded command as a user types it: `python -m informer.train ...`, or `informer train ...`. For a run
    started from Python this is the script; empty for a run started in a notebook.

    Args:
        words: the command, with keys before paths.
    """
    if not words or "ipykernel_launcher.py" in words[:2]:
        return ""
    if words[0] == "python":
        return command_line(words)
    script, _, command = words[0].rpartition(" ")
    start = [script, command] if script else ["python", "-m", f"informer.{Path(words[0]).stem}"]
    return command_line([*start, *(unquoted(word) for word in words[1:])])


MOST_NAMED = 5
"""Series named in a sentence."""

IDLE = "the network adds nothing to the forecast that it starts from; its attention maps are left out"


def _add_results(content: Content, folder: Path, saved: Checkpoint | None) -> None:
    """Add the results in a folder; `saved`: content of the checkpoint of a run."""
    if (folder / METRICS_FILE).exists():
        metrics = with_nan(read_json(folder / METRICS_FILE, MOST_BYTES))
        add_scores(content, metrics)
        if saved is not None:
            if (folder / TEST_FORECASTS).exists():
                _add_tracks(content, folder, saved, metrics)
            if metrics["breakdown"].get("is_idle"):
                untrained = f"{IDLE}: no step of training reduced the validation loss"
                content.remarks.append(IDLE if saved.progress.step else untrained)
    add_totals(content, folder)
    if (folder / ATTENTION).exists():
        attention = read_json(folder / ATTENTION)
        content.attention_window = str(attention["window"])
        content.attention = list(attention["maps"])


def _add_tracks(content: Content, folder: Path, saved: Checkpoint, metrics: Mapping[str, Any]) -> None:
    """Add the saved forecasts, and the scores of every series and column."""
    frame = pd.read_parquet(folder / TEST_FORECASTS)
    own = {*PAIR, "origin", "step", "time", "actual", *bands_of(frame)}
    lines = {name: content.model if name == "forecast" else name for name in frame.columns if name not in own}
    ahead, past = frame[frame["step"] > 0], frame[frame["step"] == 0].drop(columns="forecast")
    content.series = _series_scores(folder, metrics)
    scores: dict[Any, dict[str, Any]] = {(score["series"], score["column"]): score for score in content.series}
    ordered = sorted(ahead.groupby(PAIR, sort=False), key=lambda group: scores[group[0]]["mse"], reverse=True)
    add_tracks(content, ordered, past.rename(columns={"actual": "value"}), lines)
    for place, (track, (key, _)) in enumerate(zip(content.tracks, ordered, strict=True)):
        track |= {name: scores[key][name] for name in ("mse", "skill")}
        scores[key]["track"] = place
    content.shown = " ".join(_shown(len(ordered), content.series, saved.data.names))


def _shown(n: int, scores: Sequence[Mapping[str, Any]], trained: Sequence[str]) -> Iterator[str]:
    """How the `n` series and columns on the page were selected, and which series have no scores."""
    names, columns = ({score[key] for score in scores} for key in ("series", "column"))
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


def _series_scores(folder: Path, metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Scores of every series and column, worst first, see `Content.series`."""
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
            best, error = min(rival[column]["mse"] for rival in rivals), own["mse"]
            values.append(["", column, metrics["windows"], error, 1 - error / best if best > 0 else math.nan])
    keys = ("series", "column", "windows", "mse", "skill")
    scores = [dict(zip(keys, each, strict=True)) | {"track": -1} for each in values]
    return sorted(scores, key=lambda score: (math.isnan(score["mse"]), -score["mse"]))


def report(settings: ReportConfig, console: Console) -> Path:
    """Write the page; returns its path.

    Raises:
        InputError: no run, evaluation or forecasts, or they cannot be read.
    """
    path = resolve_latest(settings.input)
    output = Path(settings.output) if settings.output else (path if path.is_dir() else path.parent) / PAGE
    inputs = [path for path in path.iterdir() if path.suffix != ".html"] if path.is_dir() else [path]
    inputs += [expanded(name) for name in (settings.history, settings.actuals) if name]
    overwrite = settings.overwrite or not settings.output
    claimed = only_output(output, [output], inputs=inputs, overwrite=overwrite, own=(None, OWN_PAGE))
    with logging_to(console, quiet=True), claimed:
        page = _page(path, settings)
        write_atomic(output, with_addresses(page))
    say(console, f"report: {output} ({len(page) / 1e6:.1f} MB)")
    return output


def _page(path: Path, settings: ReportConfig) -> str:
    """The page on a run, a model file, the folder of an evaluation, or forecasts; errors as of `report`."""
    folder, saved = path if path.is_dir() else path.parent, None
    if written_forecasts(path) and not (path / checkpoints.BEST).exists():  # a run may also have forecasts
        content, folder = forecast_content(path, settings), path
    else:
        content, saved = described(folder, _source(path))
    try:
        _add_results(content, folder, saved)
        return to_html(content)
    except (KeyError, TypeError, ValueError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise FileError(f"{folder}: expected results as the training command writes them, found: {error!r}") from error


def _source(path: Path) -> Path:
    """The run or model file of a page; errors as of `report`."""
    if path.is_file() and path.name.lower().endswith(SUFFIXES):
        raise FileError(
            f"input={path}: expected a run, an evaluation or forecasts, found another table; "
            f"{shell_command('forecast', str(path))} forecasts a file and writes a report"
        )
    # the folder of an evaluation has no model, its parent has
    source = path if path.is_file() or (path / checkpoints.BEST).exists() else path.parent
    if path.is_dir() and not (source / checkpoints.BEST).exists():
        if (path / CONFIG).exists():
            raise FileError(f"input={path}: interrupted before its first epoch ended; {resume_advice(path)}")
        raise FileError(
            f"input={path}: expected a run directory, the folder of an evaluation, or forecasts "
            f"(*.forecast.csv, *.rolling.csv, forecasts.csv), found none of them"
        )
    return source
