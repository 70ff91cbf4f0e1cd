"""Comparison of finished runs: their scores, and the differences in their configuration, grouped by value, which stays
narrow for any number of runs.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from informer.base.console import folding_table, say
from informer.base.errors import InputError, counted, listed, printable, signed_percent
from informer.base.files import write_atomic
from informer.checkpoint.paths import CONFIG, LAST, METRICS_FILE, check_output, read_facts, resolve_latest
from informer.config.commands import CompareConfig
from informer.config.conversion import flat, read_saved_yaml, with_nan
from informer.config.data import PUBLISHED
from informer.config.overrides import to_display
from informer.config.training import SLOTS
from informer.report.page import OWN_PAGE, Content, Profile, TextTable, Tone, to_html
from informer.scoring.tables import shown
from informer.training.sinks import ARTIFACTS, DATABASE

HEAD = ("Setting", "Value", "Runs")
"""Headings of the columns of `rows_of`."""
SEEDS_HEAD = ("Settings", "Seeds", "MSE", "MAE", "MSE against the first, seed by seed")
"""Headings of the columns of `rows_over_seeds`."""

NO_VALUE = "–"
"""Stands for the value of runs that do not have the setting."""

FOLLOWS = ("decoder_attn", "attn")
"""The first attention mechanism is the second one unless set."""


def find_differences(settings: Sequence[Mapping[str, str]]) -> dict[str, dict[str, list[int]]]:
    """Settings whose values differ among those configurations that have them, by name: each value with the numbers of
    its runs, from 1; the value of run 1 first.

    Left out are keys that only one model family has (`model.family` already differs), files of different datasets
    (`dataset.name` differs), and the decoder's attention mechanism if it equals the encoder's in all runs.

    Args:
        settings: values by dotted key, one mapping per run.
    """
    named = [with_short_names(run_settings) for run_settings in settings]
    differing: dict[str, dict[str, list[int]]] = {}
    for key in sorted({key for run_settings in named for key in run_settings}):
        values: dict[str, list[int]] = {}
        for number, run_settings in enumerate(named, start=1):
            values.setdefault(run_settings.get(key, NO_VALUE), []).append(number)
        if len(values.keys() - {NO_VALUE}) > 1:
            differing[key] = values
    implied = {f"dataset.{name}" for name in PUBLISHED} if "dataset.name" in differing else set()
    own, followed = FOLLOWS  # a key of the first that has in all runs the values of the second, its default
    begins = re.compile(rf"{own}(?=\.|$)")
    implied |= {
        key for key in differing if begins.match(key) and differing.get(begins.sub(followed, key)) == differing[key]
    }
    return {key: values for key, values in differing.items() if key not in implied}


def rows_of(differences: Mapping[str, Mapping[str, Sequence[int]]]) -> list[tuple[str, str, str]]:
    """Setting, value, and runs such as `1, 3-5`: one row per value."""
    return [(key, value, _ranges(runs)) for key, values in differences.items() for value, runs in values.items()]


def with_short_names(settings: Mapping[str, str]) -> dict[str, str]:
    """Mechanisms by the names of the command line: `attn=prob`, not `attn._target_=...prob.ProbAttention`."""
    renamed = dict(settings)
    for slot in SLOTS:
        target = renamed.pop(f"{slot}._target_", None)
        if target is not None:
            renamed[slot] = target.split(".")[-2] if target.count(".") > 1 else target
    return renamed


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, three or more in a row as a range: `1, 3-5`."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ", ".join(f"{group[0]}-{group[-1]}" if len(group) > 2 else ", ".join(map(str, group)) for group in groups)


def rows_over_seeds(runs: Sequence["ComparedRun"]) -> list[tuple[str, ...]]:
    """Mean and standard deviation over seeds for each configuration that was run with several, the lowest MSE first.

    Differences from the first are of runs with the same seed, in percent of its MSE, with the 95 % interval of the
    paired t test: where it contains zero, these seeds cannot tell the two apart. Empty where data or horizons differ.
    """
    by_seed: dict[tuple[tuple[str, str], ...], dict[str, ComparedRun]] = {}
    for run in runs:
        settings = {key: value for key, value in run.settings.items() if key != "seed"}
        by_seed.setdefault(tuple(sorted(settings.items())), {})[run.settings.get("seed", "")] = run
    groups = sorted(
        ((settings, seeds) for settings, seeds in by_seed.items() if len(seeds) > 1),
        key=lambda group: np.mean([run.metrics["mse"] for run in group[1].values()]),
    )
    if not groups or len({run.task for run in runs}) > 1:
        return []
    differences = find_differences([dict(settings) for settings, _ in groups])
    rows, best = [], groups[0][1]
    for number, (_, seeds) in enumerate(groups, start=1):
        words = [
            f"{key}={value}" for key, values in differences.items() for value, of in values.items() if number in of
        ]
        errors = [[run.metrics[metric] for run in seeds.values()] for metric in ("mse", "mae")]
        common = [seed for seed in seeds if seed in best]
        own, others = ([of[seed].metrics["mse"] for seed in common] for of in (seeds, best))
        rows.append(
            (
                " ".join(words) or next(iter(seeds.values())).name,
                _ranges(sorted(int(seed) for seed in seeds)),
                *(f"{np.mean(values):.4g} ± {np.std(values, ddof=1):.2g}" for values in errors),
                _difference(own, others) if number > 1 else "",
            )
        )
    return rows


def _difference(errors: Sequence[float], best: Sequence[float]) -> str:
    from scipy.stats import ttest_1samp

    if len(errors) < 2:
        return "no common seeds"
    relative = 100 * (np.array(errors) - best) / np.mean(best)
    low, high = ttest_1samp(relative, 0.0).confidence_interval()
    return f"{relative.mean():+.1f} % ({low:+.1f} to {high:+.1f})"


OWN_KEYS = {"run_dir", "defaults", "resume", "device", "data_dir"}
"""Configuration keys that do not affect training."""
FOUND = {"model.maps", "decoder_attn_reason"}
"""Keys that training has filled in: results, and too long to compare."""
MOST_NAMED = 5
MOST_LINES = 8
"""Maximum number of runs in the plot."""
SHOWN = ("mse", "mae", "mase")
TIMED = re.compile(r"\d{4}-\d\d-\d\d_")
"""How the names of run directories begin that the commands choose; they contain model and target."""
MOST_CELL = 200
"""Maximum length of a value on the terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """A run with scores.

    Args:
        folder: run directory.
        name: name of its folder; if the user chose it, followed by model and target, as in the names of the commands.
        skill: skill against its best baseline.
        rival: name of that baseline.
        metrics: overall scores, scaled.
        by_step: MSE and MAE by step, scaled.
        settings: configuration by dotted key.
        task: data, horizon and test windows; only runs of the same task are comparable.
        fallback: why its decoder has another mechanism than was chosen; empty if it has not.
    """

    folder: Path
    name: str
    skill: float
    rival: str
    metrics: dict[str, float]
    by_step: dict[str, list[float]]
    settings: dict[str, str]
    task: tuple[str, ...]
    fallback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs sorted by skill, best first; they are numbered in this order.

    Args:
        runs: the runs with scores.
        differences: settings whose values differ between the runs, see `find_differences`.
        notes: notes, such as skipped runs.
    """

    runs: Sequence[ComparedRun]
    differences: Mapping[str, Mapping[str, Sequence[int]]]
    notes: Sequence[str]

    def table(self) -> Table:
        """Scores, for the terminal."""
        rows = (
            (str(number), run.name, signed_percent(run.skill), *(shown(run.metrics[metric]) for metric in SHOWN))
            for number, run in enumerate(self.runs, start=1)
        )
        head = ("", "run", "skill", *(metric.upper() for metric in SHOWN))
        return folding_table(head, rows, numbers=[0, *range(2, len(head))])

    def differing(self) -> TextTable:
        """Settings that differ, in groups of equal names."""
        return TextTable(title="Settings that differ", head=HEAD, rows=rows_of(self.differences), grouped=True)

    def over_seeds(self) -> TextTable:
        """Means over seeds; without rows if no configuration was run with several."""
        return TextTable(title="Means over seeds", head=SEEDS_HEAD, rows=rows_over_seeds(self.runs))

    def content(self) -> Content:
        """Content of an HTML page."""
        best = self.runs[0]
        same = len({run.task for run in self.runs}) == 1
        verdict = (
            f"{best.name} has the highest skill of {counted(len(self.runs), 'run')}"
            f"{'' if same else ' of different data, horizons or test windows'}: {signed_percent(best.skill)} against "
            f"{best.rival}."
        )
        names = [f"{number}. {run.name}" for number, run in enumerate(self.runs, start=1)]
        steps = range(1, 1 + max(len(run.by_step["mse"]) for run in self.runs))
        drawn = dict(zip(names[:MOST_LINES], self.runs, strict=False))
        profile = Profile(
            key="step",
            title="Error by step ahead",
            axis="steps ahead",
            labels=list(steps),
            mse={name: run.by_step["mse"] for name, run in drawn.items()},
            mae={name: run.by_step["mae"] for name, run in drawn.items()},
            note=f"The {MOST_LINES} runs with the highest skill." if len(drawn) < len(self.runs) else "",
        )
        return Content(
            title="Comparison of runs",
            verdict=verdict,
            tone=Tone.neutral,
            model=names[0],
            scored="Run",
            scaled={name: {**run.metrics, "skill": run.skill} for name, run in zip(names, self.runs, strict=True)},
            tables=[table for table in (self.over_seeds(), self.differing()) if table.rows],
            remarks=list(self.notes),
            profiles=[profile] if same else [],  # errors of different tasks are no curves of one chart
        )


def compare_runs(paths: Iterable[Path]) -> Comparison:
    """Read run directories, or folders of them; several paths of one run, such as `latest`, count once. MLflow's own
    files are ignored.

    Runs without scores and damaged ones are left out and named in the notes.

    Raises:
        InputError: none of them has scores.
    """
    run_paths = [run for path in paths for run in _runs_of(path) if not {DATABASE, ARTIFACTS} & {path.name, run.name}]
    folders = {path.resolve(): path for path in reversed(run_paths)}
    runs: list[ComparedRun] = []
    left_out: dict[str, list[str]] = {}
    for folder in sorted(folders):
        reason = _without_scores(folder)
        if reason is None:
            try:
                runs.append(_read(folder))
            except InputError as error:
                reason = f"damaged: {error}"
        if reason is not None:
            left_out.setdefault(reason, []).append(str(folders[folder]))
    notes = [
        f"skipped, {reason}" if reason.startswith("damaged: ") else f"skipped, {reason}: {listed(names, MOST_NAMED)}"
        for reason, names in left_out.items()
    ]
    if not runs:
        raise InputError("runs: expected run directories with scores, found none" + "; ".join(["", *notes]))
    names = Counter(run.name for run in runs)  # folders of the same name are named by the path that was given
    runs = [replace(run, name=str(folders[run.folder])) if names[run.name] > 1 else run for run in runs]
    runs.sort(key=lambda run: (math.isnan(run.skill), -run.skill))
    fallbacks: dict[str, list[int]] = {}
    for number, run in enumerate(runs, start=1):
        fallbacks.setdefault(run.fallback, []).append(number)
    notes += [f"run {_ranges(numbers)}: {reason}" for reason, numbers in fallbacks.items() if reason]
    if len({run.task for run in runs}) > 1:
        notes.append(
            "these runs have different data, horizons or test windows: their errors cannot be compared, and their "
            "skills only roughly"
        )
    elif (lowest := min(runs, key=lambda run: run.metrics["mse"])).metrics["mse"] < runs[0].metrics["mse"]:
        notes.append(
            f"{lowest.name} has the lowest MSE: skills compare each run with its own baselines, which depend on its "
            "settings"
        )
    return Comparison(runs=runs, differences=find_differences([run.settings for run in runs]), notes=notes)


def _runs_of(path: Path) -> list[Path]:
    """The path itself, the paths that a pattern matches, or the folders in a folder of runs."""
    if not path.exists() and any(sign in path.name for sign in "*?["):
        return [resolve_latest(each) for each in sorted(path.parent.glob(path.name))]
    if path.is_dir() and not any((path / name).exists() for name in (METRICS_FILE, CONFIG, LAST)):
        return sorted(each for each in path.iterdir() if each.is_dir() and not each.is_symlink()) or [path]
    return [path]


def _without_scores(folder: Path) -> str | None:
    """Why a path has no scores to compare; None where it has."""
    if not folder.exists():
        return "no such folder"
    if (folder / METRICS_FILE).exists() and (folder / CONFIG).exists():
        return None
    if (folder / CONFIG).exists() and (folder / LAST).exists():
        return "interrupted, or still training (informer train resume=RUN continues it)"
    return f"without {METRICS_FILE} and {CONFIG}" if folder.is_dir() else "not a run directory"


def _read(folder: Path) -> ComparedRun:
    try:
        saved: dict[str, Any] = with_nan(json.loads((folder / METRICS_FILE).read_text(encoding="utf-8")))
        scores = saved["scores"][saved["model"]]["scaled"]
        saved_settings = flat(read_saved_yaml(folder / CONFIG))
        settings = {
            key: to_display(value)
            for key, value in saved_settings.items()
            if key.partition(".")[0] not in OWN_KEYS and key not in FOUND
        }
        by_step = {metric: scores["by_step"][metric] for metric in ("mse", "mae")}
        data = str(read_facts(folder).get("data", {}).get("sha256", ""))
        made_of = "" if TIMED.match(folder.name) else f" ({_made_of(settings, scores['by_column'])})"
        return ComparedRun(
            folder=folder,
            name=f"{folder.name}{made_of}",
            skill=saved["skill"],
            rival=saved["best_baseline"],
            metrics={metric: scores["overall"][metric] for metric in SHOWN},
            by_step=by_step,
            settings=settings,
            task=(data, str(len(by_step["mse"])), str(saved["windows"]), *scores["by_column"]),
            fallback=str(saved_settings.get("decoder_attn_reason") or ""),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise InputError(f"{folder}: expected the scores and configuration of a run, found: {error!r}") from error


def _made_of(settings: Mapping[str, str], columns: Iterable[str]) -> str:
    """Family of the model, mechanism and target, or the number of columns."""
    family, targets = settings["model.family"], list(columns)
    attention = [with_short_names(settings)["attn"]] if family == "informer" else []
    return ", ".join([family, *attention, targets[0] if len(targets) == 1 else counted(len(targets), "column")])


def print_table(table: TextTable, console: Console) -> None:
    """Print a table, unless it is empty, with cells of at most MOST_CELL characters."""
    rows, last = [], ""
    for first, *others in table.rows:
        name = "" if table.grouped and first == last else first
        rows.append([printable(cell, MOST_CELL) for cell in (name, *others)])
        last = first
    if rows:
        console.print(folding_table(table.head, rows, title=table.title))


def compare(settings: CompareConfig, console: Console) -> Comparison:
    """Print the tables, and write the page to `output` if given.

    Raises:
        InputError: no run has scores.
    """
    if settings.output:
        check_output(Path(settings.output), [Path(settings.output)], overwrite=settings.overwrite, own=(None, OWN_PAGE))
    comparison = compare_runs(resolve_latest(run) for run in settings.runs)
    console.print(comparison.table())
    for line in comparison.notes:
        say(console, line)
    print_table(comparison.differing(), console)
    print_table(comparison.over_seeds(), console)
    if settings.output:
        write_atomic(Path(settings.output), to_html(comparison.content()))
        say(console, f"page: {settings.output}")
    return comparison
