"""Comparison of finished runs: their scores, and the differences in their configuration."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from informer.config.conversion import flat
from informer.config.plain import read_saved_yaml
from informer.errors import InputError, counted, signed_percent
from informer.reporting.content import Content, Profile, ScoreRow, TextTable, Tone, written

METRICS_FILE, CONFIG_FILE, FACTS_FILE = "metrics.json", "config.yaml", "run.json"
OWN_KEYS = {"run_dir", "defaults", "resume", "device", "data_dir"}
"""Configuration keys that do not affect what is learnt."""
MOST_LINES = 8
"""Maximum number of runs in the plot."""
SHOWN = ("mse", "mae", "mase")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run with scores.

    Args:
        name: of its folder.
        skill: relative to its best baseline.
        rival: that baseline.
        metrics: overall, scaled.
        by_step: MSE and MAE by step, scaled.
        settings: its configuration by dotted key.
        task: data, horizon and test windows; only runs of the same task are comparable.
    """

    name: str
    skill: float
    rival: str
    metrics: dict[str, float]
    by_step: dict[str, list[float]]
    settings: dict[str, str]
    task: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs sorted by skill, best first.

    Args:
        runs: those with scores.
        differing: keys with different values among the runs.
        notes: what a reader should know, such as skipped runs.
    """

    runs: Sequence[Run]
    differing: Sequence[str]
    notes: Sequence[str]

    def table(self) -> Table:
        """Table for the terminal."""
        table = Table(box=SIMPLE_HEAD, padding=0)
        table.add_column("run", overflow="fold")
        for name in ("skill", *(metric.upper() for metric in SHOWN)):
            table.add_column(name, justify="right", no_wrap=True)
        for run in self.runs:
            table.add_row(run.name, signed_percent(run.skill), *(_shown(run.metrics[metric]) for metric in SHOWN))
        return table

    def lines(self) -> list[str]:
        """Notes, then the differences, one line per run, as typed on the command line."""
        own = [
            f"{run.name}: {' '.join(f'{key}={run.settings[key]}' for key in self.differing if key in run.settings)}"
            for run in self.runs
        ]
        return [*self.notes, *(own if self.differing else [])]

    def content(self) -> Content:
        """Content of an HTML page."""
        best = self.runs[0]
        verdict = (
            f"{best.name} has the highest skill of {counted(len(self.runs), 'run')}: {signed_percent(best.skill)} "
            f"against {best.rival}."
        )
        steps = range(1, 1 + max(len(run.by_step["mse"]) for run in self.runs))
        drawn = self.runs[:MOST_LINES]
        profile = Profile(
            key="step",
            title="Error by step ahead",
            axis="steps ahead",
            labels=list(steps),
            mse={run.name: run.by_step["mse"] for run in drawn},
            mae={run.name: run.by_step["mae"] for run in drawn},
            note=f"The {MOST_LINES} runs with the highest skill." if len(drawn) < len(self.runs) else "",
        )
        rows = [[run.name, *(run.settings.get(key, "") for key in self.differing)] for run in self.runs]
        return Content(
            title="Comparison of runs",
            verdict=verdict,
            tone=Tone.neutral,
            model=best.name,
            scaled=[ScoreRow(name=run.name, metrics=run.metrics, skill=run.skill) for run in self.runs],
            tables=[TextTable(title="Differences in the configuration", head=["Run", *self.differing], rows=rows)]
            if self.differing
            else [],
            remarks=list(self.notes),
            profiles=[profile],
        )


def compare_runs(paths: Iterable[Path]) -> Comparison:
    """Read run directories; several names of one run, such as `latest`, count once.

    Raises:
        InputError: none of them has scores, or a file cannot be read.
    """
    folders = {path.resolve(): path for path in reversed(list(paths))}
    found: list[Run] = []
    without: list[str] = []
    for folder in sorted(folders):
        if (folder / METRICS_FILE).exists() and (folder / CONFIG_FILE).exists():
            found.append(_read(folder))
        else:
            without.append(str(folders[folder]))
    if not found:
        raise InputError(
            f"runs: expected a run directory with {METRICS_FILE} and {CONFIG_FILE}, found none among "
            f"{', '.join(without[:5]) or 'nothing'}"
        )
    found.sort(key=lambda run: (math.isnan(run.skill), -run.skill))
    notes = []
    if without:
        more = f" and {len(without) - 5} more" if len(without) > 5 else ""
        notes.append(f"skipped, without scores: {', '.join(without[:5])}{more}")
    if len({run.task for run in found}) > 1:
        notes.append(
            "these runs have different data, horizons or test windows: their errors cannot be compared, and their "
            "skills only roughly"
        )
    keys = sorted({key for run in found for key in run.settings})
    differing = [key for key in keys if len({run.settings.get(key, "") for run in found}) > 1]
    return Comparison(runs=found, differing=differing, notes=notes)


def _read(folder: Path) -> Run:
    try:
        saved: dict[str, Any] = json.loads((folder / METRICS_FILE).read_text(encoding="utf-8"))
        scores = saved["scores"][saved["model"]]["scaled"]
        config = read_saved_yaml(folder / CONFIG_FILE)
        facts_path = folder / FACTS_FILE
        facts = json.loads(facts_path.read_text(encoding="utf-8")) if facts_path.exists() else {}
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(f"{folder}: expected the scores and configuration of a run, found: {error!r}") from error
    settings = {key: written(value) for key, value in flat(config).items() if key.partition(".")[0] not in OWN_KEYS}
    by_step = {metric: [_number(value) for value in scores["by_step"][metric]] for metric in ("mse", "mae")}
    data = str(facts.get("data", {}).get("sha256", ""))
    return Run(
        name=folder.name,
        skill=_number(saved.get("skill")),
        rival=str(saved.get("best_baseline") or ""),
        metrics={metric: _number(value) for metric, value in scores["overall"].items()},
        by_step=by_step,
        settings=settings,
        task=(data, str(len(by_step["mse"])), str(saved.get("windows")), *scores["by_column"]),
    )


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _shown(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4g}"
