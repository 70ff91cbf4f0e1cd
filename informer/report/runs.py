"""A table of the saved scores of finished runs, and the settings in which they differ, grouped by value: it stays
narrow for any number of runs."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from informer import checkpoint
from informer.base.console import folding_table, say
from informer.base.errors import FileError, InputError, counted, listed, printable, signed_percent
from informer.checkpoint.paths import BEST, CONFIG, LAST, METRICS_FILE, read_facts, resolve_latest
from informer.config.commands import CompareConfig
from informer.config.conversion import flat, read_saved_yaml, with_nan
from informer.config.data import PUBLISHED
from informer.config.overrides import to_display
from informer.config.training import SLOTS
from informer.scoring.metrics import shown
from informer.training.sinks import ARTIFACTS, DATABASE

NO_VALUE = "–"
"""Stands for the value of runs that do not have the setting."""
OWN_KEYS = {"run_dir", "defaults", "resume", "device", "data_dir", "decoder_attn_reason"}
"""Configuration keys that do not affect training."""
SHOWN = ["val_loss", "mse", "mae"]
TIMED = re.compile(r"\d{4}-\d\d-\d\d_")
"""How the names of run directories begin that the commands choose; they contain model and target."""
MOST_CELL, MOST_NAMED = 200, 5
"""Maximum length of a value on the terminal, and number of runs named in a note."""


def compare(settings: CompareConfig, console: Console) -> pd.DataFrame:
    """Print the scores of the runs, best skill first, and the settings that differ; returns what `read_runs` found.

    Raises:
        InputError: no run has scores.
    """
    runs, notes = read_runs(map(resolve_latest, settings.runs))
    rows = [
        (str(number), run["name"], signed_percent(run["skill"]), *map(shown, run[SHOWN]))
        for number, run in runs.iterrows()
    ]
    head = ("", "run", "skill", "val", "MSE", "MAE")
    console.print(folding_table(head, rows, numbers=[0, *range(2, len(head))]))
    for line in notes:
        say(console, line)
    rows = []
    for key, values in differences(runs["settings"]).items():
        for place, value in enumerate(values.unique()):
            numbers = _ranges(values.index[values == value])
            rows.append(("" if place else str(key), printable(value, MOST_CELL), numbers))
    if rows:
        console.print(folding_table(("Setting", "Value", "Runs"), rows, title="Settings that differ"))
    print_over_seeds(runs, console)
    return runs


def differences(settings: Iterable[Mapping[str, str]]) -> pd.DataFrame:
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
    for key in map(str, table):
        encoder = key.removeprefix("decoder_")
        if re.match(r"decoder_attn(\.|$)", key) and encoder in table and table[key].equals(table[encoder]):
            implied.add(key)
    return table.drop(columns=[*implied & {*table}]).fillna(NO_VALUE)


def _ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers, three or more in a row as a range: `1, 3-5`."""
    groups = groupby(enumerate(numbers), lambda each: each[1] - each[0])
    rows = [[number for _, number in group] for _, group in groups]
    return ", ".join(f"{row[0]}-{row[-1]}" if len(row) > 2 else ", ".join(map(str, row)) for row in rows)


def print_over_seeds(runs: pd.DataFrame, console: Console) -> None:
    """Print mean and standard deviation over seeds of each configuration that was run with several, the lowest MSE
    first; nothing where data or horizons differ.

    Differences from the first are of runs with the same seed, in percent of its MSE, with the 95 % interval of the
    paired t test: where it contains zero, these seeds cannot tell the two apart.
    """
    from scipy.stats import ttest_1samp

    settings = pd.DataFrame([*runs["settings"]], index=runs.index, dtype=object).fillna(NO_VALUE)
    by = settings.drop(columns="seed").apply(tuple, axis=1)
    groups = [each for _, each in runs.assign(seed=settings["seed"]).groupby(by) if each["seed"].nunique() > 1]
    groups = [each.drop_duplicates("seed", keep="last").set_index("seed") for each in groups]
    groups.sort(key=lambda seeds: seeds["mse"].mean())
    if not groups or runs["task"].nunique() > 1:
        return
    differing = differences(each["settings"].iloc[0] | {"seed": ""} for each in groups)
    best, rows = groups[0]["mse"], list[list[str]]()
    for seeds, words in zip(groups, differing.to_dict("records"), strict=True):
        common, against = seeds.index.intersection(best.index), ""
        if rows and len(common) > 1:
            relative = 100 * (seeds["mse"] - best)[common] / best[common].mean()
            low, high = ttest_1samp(relative, 0.0).confidence_interval()
            against = f"{relative.mean():+.1f} % ({low:+.1f} to {high:+.1f})"
        elif rows:
            against = "no common seeds"
        cells = [
            " ".join(f"{key}={value}" for key, value in words.items()) or seeds["name"].iloc[0],
            _ranges(sorted(map(int, seeds.index))),
            *(f"{seeds[metric].mean():.4g} ± {seeds[metric].std():.2g}" for metric in ("mse", "mae")),
            against,
        ]
        rows.append([printable(cell, MOST_CELL) for cell in cells])
    head = ("Settings", "Seeds", "MSE", "MAE", "MSE against the first, seed by seed")
    console.print(folding_table(head, rows, title="Means over seeds"))


def read_runs(paths: Iterable[Path]) -> tuple[pd.DataFrame, list[str]]:
    """Read run directories, or folders of them, and notes; several paths of one run, such as `latest`, count once.
    MLflow's own files are ignored. Runs without scores and damaged ones are left out and named in the notes.

    Returns:
        The runs, numbered from 1, best skill first. `folder`; `name`: that of its folder; if the user chose it,
        followed by model and target, as in the names of the commands; `skill` against its best baseline; the lowest
        `val_loss`; overall scores, scaled; `settings` by dotted key; `task`: data, horizon and test windows, since only
        runs of the same task are comparable; `fallback`: why its decoder has another mechanism than was chosen.

    Raises:
        InputError: none of them has scores.
    """
    found = [run for path in paths for run in _runs_of(path) if not {DATABASE, ARTIFACTS} & {path.name, run.name}]
    folders = {path.resolve(): path for path in reversed(found)}
    read, left_out = list[dict[str, Any]](), dict[str, list[str]]()
    for folder in sorted(folders):
        try:
            read.append(_read(folder))
        except InputError as error:
            left_out.setdefault(str(error), []).append(str(folders[folder]))
    notes = [
        f"skipped, {reason}" + ("" if reason.startswith("damaged: ") else f": {listed(names, MOST_NAMED)}")
        for reason, names in left_out.items()
    ]
    if not read:
        raise FileError("runs: expected run directories with scores, found none" + "; ".join(["", *notes]))
    runs = pd.DataFrame(read).sort_values("skill", ascending=False, kind="stable", ignore_index=True)
    runs.index += 1
    alike = runs["name"].duplicated(keep=False)  # folders of the same name are named by the path that was given
    runs.loc[alike, "name"] = runs["folder"][alike].map(folders).astype(str)
    for reason, each in runs[runs["fallback"] != ""].groupby("fallback", sort=False):
        notes.append(f"run {_ranges(each.index)}: {reason}")
    lowest = runs.loc[runs["mse"] == runs["mse"].min()].iloc[0]
    if runs["task"].nunique() > 1:
        notes.append(
            "these runs have different data, horizons or test windows: their errors cannot be compared, and their "
            "skills only roughly"
        )
    elif lowest["mse"] < runs["mse"].iloc[0]:
        notes.append(
            f"{lowest['name']} has the lowest MSE: skills compare each run with its own baselines, which depend on its "
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


def _read(folder: Path) -> dict[str, Any]:
    """A row of `read_runs`, or an InputError that says why its scores cannot be compared."""
    if not folder.exists():
        raise FileError("no such folder")
    if not ((folder / METRICS_FILE).exists() and (folder / CONFIG).exists()):
        if (folder / CONFIG).exists() and (folder / LAST).exists():
            raise FileError("interrupted, or still training (informer train resume=RUN continues it)")
        raise FileError(f"without {METRICS_FILE} and {CONFIG}" if folder.is_dir() else "not a run directory")
    try:
        saved = with_nan(json.loads((folder / METRICS_FILE).read_text(encoding="utf-8")))
        scores, config = saved["scores"][saved["model"]]["scaled"], flat(read_saved_yaml(folder / CONFIG))
        settings = {key: to_display(x) for key, x in config.items() if key.partition(".")[0] not in OWN_KEYS}
        data, columns = str(read_facts(folder).get("data", {}).get("sha256", "")), list(scores["by_column"])
        family, target = settings["model.family"], columns[0] if len(columns) == 1 else counted(len(columns), "column")
        attention = [settings["attn._target_"].split(".")[-2]] if family == "informer" else []
        made_of = "" if TIMED.match(folder.name) else f" ({', '.join([family, *attention, target])})"
        task = (data, len(scores["by_step"]["mse"]), saved["windows"], *columns)
        about = {"folder": folder, "name": f"{folder.name}{made_of}", "skill": saved["skill"], "settings": settings}
        fallback = str(config.get("decoder_attn_reason") or "")
        val_loss = checkpoint.load(folder).progress.best_loss if (folder / BEST).exists() else math.nan
        errors = {metric: scores["overall"][metric] for metric in SHOWN[1:]}
        return about | {"val_loss": val_loss, **errors, "task": task, "fallback": fallback}
    except InputError as error:
        raise FileError(f"damaged: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise FileError(
            f"damaged: {folder}: expected the scores and configuration of a run, found: {error!r}"
        ) from error
