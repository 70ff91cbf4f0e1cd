"""A table of the saved scores of finished runs, and the settings in which they differ, grouped by value: it stays
narrow for any number of runs."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from informer.base.console import folding_table, say
from informer.base.errors import InputError, counted, listed, printable, signed_percent
from informer.checkpoint.paths import CONFIG, LAST, METRICS_FILE, read_facts, resolve_latest
from informer.config.commands import CompareConfig
from informer.config.conversion import flat, read_saved_yaml, with_nan
from informer.config.data import PUBLISHED
from informer.config.overrides import to_display
from informer.config.training import SLOTS
from informer.scoring.tables import shown
from informer.training.sinks import ARTIFACTS, DATABASE

NO_VALUE = "–"
"""Stands for the value of runs that do not have the setting."""
OWN_KEYS = {"run_dir", "defaults", "resume", "device", "data_dir"}
"""Configuration keys that do not affect training."""
FOUND = {"model.maps", "decoder_attn_reason"}
"""Keys that training has filled in: results, and too long to compare."""
SHOWN = ("mse", "mae", "mase")
TIMED = re.compile(r"\d{4}-\d\d-\d\d_")
"""How the names of run directories begin that the commands choose; they contain model and target."""
MOST_CELL, MOST_NAMED = 200, 5
"""Maximum length of a value on the terminal, and number of runs named in a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run with scores.

    Args:
        folder: run directory.
        name: name of its folder; if the user chose it, followed by model and target, as in the names of the commands.
        skill: skill against its best baseline.
        metrics: overall scores, scaled.
        settings: configuration by dotted key.
        task: data, horizon and test windows; only runs of the same task are comparable.
        fallback: why its decoder has another mechanism than was chosen; empty if it has not.
    """

    folder: Path
    name: str
    skill: float
    metrics: dict[str, float]
    settings: dict[str, str]
    task: tuple[str, ...]
    fallback: str


def compare(settings: CompareConfig, console: Console) -> list[Run]:
    """Print the scores of the runs, best skill first, and the settings that differ.

    Raises:
        InputError: no run has scores.
    """
    runs, notes = read_runs(resolve_latest(run) for run in settings.runs)
    rows = [
        (str(number), run.name, signed_percent(run.skill), *(shown(run.metrics[metric]) for metric in SHOWN))
        for number, run in enumerate(runs, start=1)
    ]
    head = ("", "run", "skill", *(metric.upper() for metric in SHOWN))
    console.print(folding_table(head, rows, numbers=[0, *range(2, len(head))]))
    for line in notes:
        say(console, line)
    print_differences(differences([run.settings for run in runs]), console)
    print_over_seeds(runs, console)
    return runs


def differences(settings: Sequence[Mapping[str, str]]) -> pd.DataFrame:
    """Settings whose values differ among those configurations that have them: a column each, a row per run, from 1.

    Left out are keys that only one model family has (`model.family` already differs), files of different datasets
    (`dataset.name` differs), and the decoder's attention mechanism if it equals the encoder's in all runs. Mechanisms
    have the names of the command line: `attn=prob`, not `attn._target_=...prob.ProbAttention`.
    """
    named = [dict(run) for run in settings]
    for run in named:
        for slot in SLOTS:
            if (target := run.pop(f"{slot}._target_", None)) is not None:
                run[slot] = target.split(".")[-2] if target.count(".") > 1 else target
    table = pd.DataFrame(named, index=range(1, len(named) + 1), dtype=object)
    table = table.loc[:, table.nunique() > 1].sort_index(axis=1)
    implied = {f"dataset.{name}" for name in PUBLISHED} if "dataset.name" in table else set()
    implied |= {
        key
        for key in map(str, table)
        if re.match(r"decoder_attn(\.|$)", key)
        and (encoder := key.removeprefix("decoder_")) in table
        and table[key].equals(table[encoder])
    }
    return table.drop(columns=[*implied & {*table}]).fillna(NO_VALUE)


def print_differences(table: pd.DataFrame, console: Console) -> None:
    """Print each value of each setting with its runs, such as `1, 3-5`."""
    rows = []
    for key, values in table.items():
        for place, value in enumerate(values.unique()):
            runs = values.index[values == value]
            rows.append(("" if place else str(key), printable(value, MOST_CELL), _ranges(runs.tolist())))
    if rows:
        console.print(folding_table(("Setting", "Value", "Runs"), rows, title="Settings that differ"))


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, three or more in a row as a range: `1, 3-5`."""
    groups = groupby(enumerate(numbers), lambda each: each[1] - each[0])
    rows = [[number for _, number in group] for _, group in groups]
    return ", ".join(f"{row[0]}-{row[-1]}" if len(row) > 2 else ", ".join(map(str, row)) for row in rows)


def print_over_seeds(runs: Sequence[Run], console: Console) -> None:
    """Print mean and standard deviation over seeds of each configuration that was run with several, the lowest MSE
    first; nothing where data or horizons differ.

    Differences from the first are of runs with the same seed, in percent of its MSE, with the 95 % interval of the
    paired t test: where it contains zero, these seeds cannot tell the two apart.
    """
    by_seed: dict[tuple[tuple[str, str], ...], dict[str, Run]] = {}
    for run in runs:
        settings = sorted((key, value) for key, value in run.settings.items() if key != "seed")
        by_seed.setdefault(tuple(settings), {})[run.settings.get("seed", "")] = run
    groups = [(dict(settings), seeds) for settings, seeds in by_seed.items() if len(seeds) > 1]
    groups.sort(key=lambda group: float(np.mean([run.metrics["mse"] for run in group[1].values()])))
    if not groups or len({run.task for run in runs}) > 1:
        return
    differing, best, rows = differences([settings for settings, _ in groups]), groups[0][1], []
    for number, (_, seeds) in enumerate(groups, start=1):
        words = " ".join(f"{key}={value}" for key, value in differing.loc[number].items())
        errors = [[run.metrics[metric] for run in seeds.values()] for metric in ("mse", "mae")]
        cells = (
            words or next(iter(seeds.values())).name,
            _ranges(sorted(map(int, seeds))),
            *(f"{np.mean(values):.4g} ± {np.std(values, ddof=1):.2g}" for values in errors),
            "" if number == 1 else _difference(seeds, best),
        )
        rows.append([printable(cell, MOST_CELL) for cell in cells])
    head = ("Settings", "Seeds", "MSE", "MAE", "MSE against the first, seed by seed")
    console.print(folding_table(head, rows, title="Means over seeds"))


def _difference(seeds: Mapping[str, Run], best: Mapping[str, Run]) -> str:
    from scipy.stats import ttest_1samp

    common = [seed for seed in seeds if seed in best]
    if len(common) < 2:
        return "no common seeds"
    own, other = (np.array([of[seed].metrics["mse"] for seed in common]) for of in (seeds, best))
    relative = 100 * (own - other) / other.mean()
    low, high = ttest_1samp(relative, 0.0).confidence_interval()
    return f"{relative.mean():+.1f} % ({low:+.1f} to {high:+.1f})"


def read_runs(paths: Iterable[Path]) -> tuple[list[Run], list[str]]:
    """Read run directories, or folders of them, best skill first, and notes; several paths of one run, such as
    `latest`, count once. MLflow's own files are ignored.

    Runs without scores and damaged ones are left out and named in the notes.

    Raises:
        InputError: none of them has scores.
    """
    found = [run for path in paths for run in _runs_of(path) if not {DATABASE, ARTIFACTS} & {path.name, run.name}]
    folders = {path.resolve(): path for path in reversed(found)}
    runs, left_out = list[Run](), dict[str, list[str]]()
    for folder in sorted(folders):
        try:
            runs.append(_read(folder))
        except InputError as error:
            left_out.setdefault(str(error), []).append(str(folders[folder]))
    notes = [
        f"skipped, {reason}" + ("" if reason.startswith("damaged: ") else f": {listed(names, MOST_NAMED)}")
        for reason, names in left_out.items()
    ]
    if not runs:
        raise InputError("runs: expected run directories with scores, found none" + "; ".join(["", *notes]))
    names = Counter(run.name for run in runs)  # folders of the same name are named by the path that was given
    runs = [replace(run, name=str(folders[run.folder])) if names[run.name] > 1 else run for run in runs]
    runs.sort(key=lambda run: (math.isnan(run.skill), -run.skill))
    for reason in dict.fromkeys(run.fallback for run in runs if run.fallback):
        numbers = [number for number, run in enumerate(runs, start=1) if run.fallback == reason]
        notes.append(f"run {_ranges(numbers)}: {reason}")
    lowest = min(runs, key=lambda run: run.metrics["mse"])
    if len({run.task for run in runs}) > 1:
        notes.append(
            "these runs have different data, horizons or test windows: their errors cannot be compared, and their "
            "skills only roughly"
        )
    elif lowest.metrics["mse"] < runs[0].metrics["mse"]:
        notes.append(
            f"{lowest.name} has the lowest MSE: skills compare each run with its own baselines, which depend on its "
            "settings"
        )
    return runs, notes


def _runs_of(path: Path) -> list[Path]:
    """The path itself, the paths that a pattern matches, or the folders in a folder of runs."""
    if not path.exists() and any(sign in path.name for sign in "*?["):
        return [resolve_latest(each) for each in sorted(path.parent.glob(path.name))]
    if path.is_dir() and not any((path / name).exists() for name in (METRICS_FILE, CONFIG, LAST)):
        return sorted(each for each in path.iterdir() if each.is_dir() and not each.is_symlink()) or [path]
    return [path]


def _read(folder: Path) -> Run:
    """A run, or an InputError that says why its scores cannot be compared."""
    if not folder.exists():
        raise InputError("no such folder")
    if not ((folder / METRICS_FILE).exists() and (folder / CONFIG).exists()):
        if (folder / CONFIG).exists() and (folder / LAST).exists():
            raise InputError("interrupted, or still training (informer train resume=RUN continues it)")
        raise InputError(f"without {METRICS_FILE} and {CONFIG}" if folder.is_dir() else "not a run directory")
    try:
        saved = with_nan(json.loads((folder / METRICS_FILE).read_text(encoding="utf-8")))
        scores, config = saved["scores"][saved["model"]]["scaled"], flat(read_saved_yaml(folder / CONFIG))
        settings = {
            key: to_display(value)
            for key, value in config.items()
            if key.partition(".")[0] not in OWN_KEYS and key not in FOUND
        }
        data, columns = str(read_facts(folder).get("data", {}).get("sha256", "")), list(scores["by_column"])
        family, target = settings["model.family"], columns[0] if len(columns) == 1 else counted(len(columns), "column")
        attention = [settings["attn._target_"].split(".")[-2]] if family == "informer" else []
        made_of = "" if TIMED.match(folder.name) else f" ({', '.join([family, *attention, target])})"
        return Run(
            folder=folder,
            name=f"{folder.name}{made_of}",
            skill=saved["skill"],
            metrics={metric: scores["overall"][metric] for metric in SHOWN},
            settings=settings,
            task=(data, str(len(scores["by_step"]["mse"])), str(saved["windows"]), *columns),
            fallback=str(config.get("decoder_attn_reason") or ""),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        reason = (
            error
            if isinstance(error, InputError)
            else (f"{folder}: expected the scores and configuration of a run, found: {error!r}")
        )
        raise InputError(f"damaged: {reason}") from error
