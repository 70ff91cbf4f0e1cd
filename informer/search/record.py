"""Trials of a search: one row each in search.csv of the run directory, written after every trial, and a table."""

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

from rich.box import SIMPLE
from rich.table import Table

from informer import progress
from informer.config.plain import read_text
from informer.config.schema import SEARCHED
from informer.errors import InputError, counted, reason_of
from informer.files import write_atomic
from informer.progress import Status

MOST_SHOWN = 12
"""Trials shown in the table, best first; search.csv contains all."""

HEADINGS = {
    "seq_len": "seq_len",
    "model.d_model": "width",
    "model.dropout": "dropout",
    "model.embed": "marks",
    "model.patch_len": "patch",
    "model.channel_independent": "indep",
    "optim.lr": "lr",
    "optim.ema": "ema",
    "loss.training": "loss",
}
"""Columns of the table by configuration key; the other values follow from these."""

MEASURED = ("steps", "val_loss", "seconds", "closing_seconds")

START = ("seq_len", "maps", "note", "floor", "varying", "varying_penalty", "fit_seconds")
"""Further columns of the file for the linear forecast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial.

    Args:
        values: values of the searched keys, by dotted key.
        steps: optimiser steps; 0 for the linear forecast.
        val_loss: training loss over the validation windows; infinite if training failed.
        seconds: duration of the trial.
        closing_seconds: estimated time of everything after training, without fits of linear maps.
        seq_len, maps, note, floor, varying, varying_penalty: the linear forecast, see `informer.search.trials.Start`.
        fit_seconds: time to fit the maps of the linear forecast once they are chosen.
    """

    values: Mapping[str, Any]
    steps: int
    val_loss: float
    seconds: float
    closing_seconds: float = 0.0
    seq_len: int = 0
    maps: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""
    floor: bool = False
    varying: list[str] = field(default_factory=list)
    varying_penalty: float = 1.0
    fit_seconds: float = 0.0

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies a trial within a search."""
        return trial_key(self.values, self.steps)

    @property
    def cells(self) -> dict[str, str]:
        """The row of the file, numbers in full precision."""
        measured = {name: getattr(self, name) for name in MEASURED}
        start = {f"linear.{name}": json.dumps(getattr(self, name)) for name in START} if not self.steps else {}
        return {name: str(value) for name, value in {**self.values, **measured}.items()} | start


def trial_key(values: Mapping[str, Any], steps: int) -> tuple[str, ...]:
    """Values and steps as text, as in the file."""
    return (*(str(values.get(key, "")) for key in SEARCHED), str(steps))


def _measured(row: Mapping[str, str]) -> dict[str, Any]:
    return {name: float(row[name]) for name in MEASURED if name != "steps"}


def _start(row: Mapping[str, str]) -> dict[str, Any]:
    """The linear forecast of a row; raises KeyError or ValueError if the row is damaged."""
    start = {name: json.loads(row[f"linear.{name}"]) for name in START}
    kinds = {
        "seq_len": int, "maps": list, "note": str, "floor": bool, "varying": list, "varying_penalty": float,
        "fit_seconds": float,
    }  # fmt: skip
    wrong = [name for name, kind in kinds.items() if not isinstance(start[name], kind)]
    if wrong:
        raise ValueError(f"linear.{wrong[0]}: no {kinds[wrong[0]].__name__}")
    return start


@final
@dataclass(slots=True)
class Record:
    """The trials of a search.

    Args:
        path: the file, rewritten after each trial; trials of an interrupted search are read from it.
        trials: trials of this process, including those taken from the file.
    """

    path: Path
    trials: list[Trial] = field(default_factory=list)
    _before: dict[tuple[str, ...], dict[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self._before = self._rows() if self.path.exists() else {}

    def _rows(self) -> dict[tuple[str, ...], dict[str, str]]:
        """Rows of the file by trial, checked."""
        text = read_text(self.path)
        try:
            rows = list(csv.DictReader(io.StringIO(text), restval=""))
            for row in rows:
                _measured(row)
                if int(row["steps"]) == 0:
                    _start(row)
            return {trial_key(row, int(row["steps"])): row for row in rows}
        except (csv.Error, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{self.path}: expected the trials of a search, found: {reason_of(error)}") from error

    def known(self, values: Mapping[str, Any], steps: int) -> Trial | None:
        """The trial if the file contains it, else None."""
        row = self._before.get(trial_key(values, steps))
        if row is None:
            return None
        return replace(Trial(values=values, steps=steps, val_loss=0.0, seconds=0.0), **_measured(row))

    def known_start(self) -> Trial | None:
        """The linear forecast if the file contains it, else None."""
        row = next((row for row in self._before.values() if int(row["steps"]) == 0), None)
        if row is None:
            return None
        start = _start(row)
        values = {"seq_len": start["seq_len"]} if row.get("seq_len") else {}
        return replace(Trial(values=values, steps=0, val_loss=0.0, seconds=0.0), **_measured(row), **start)

    def add(self, trial: Trial) -> None:
        """Store a finished trial and report progress."""
        self.trials.append(trial)
        linear = min((recorded.val_loss for recorded in self.trials if not recorded.steps), default=None)
        best = min(recorded.val_loss for recorded in self.trials)
        progress.report(Status(best=best, baseline=linear, baseline_name="linear forecast"))
        text = io.StringIO()
        used = [*(recorded.values for recorded in self.trials), *self._before.values()]
        names = [key for key in SEARCHED if any(key in values for values in used)]
        start = [f"linear.{name}" for name in START]
        writer = csv.DictWriter(text, [*names, *MEASURED, *start], lineterminator="\n", restval="")
        writer.writeheader()
        rows = {recorded.key: recorded.cells for recorded in self.trials}
        writer.writerows({**self._before, **rows}.values())
        write_atomic(self.path, text.getvalue())

    def table(self, chosen: Trial) -> Table:
        """A table of the linear forecast and the best networks, with the chosen trial in bold."""
        start = [trial for trial in self.trials if not trial.steps]
        networks = sorted((trial for trial in self.trials if trial.steps), key=lambda trial: trial.val_loss)
        title = f"search: the linear forecast, {counted(len(networks), 'trial')} of networks"
        table = Table(title=title, title_justify="left", box=SIMPLE, padding=0)  # as wide as a terminal, 80 columns
        headings = {key: name for key, name in HEADINGS.items() if any(key in trial.values for trial in self.trials)}
        for heading in (*headings.values(), "steps", "val loss", "s"):
            table.add_column(heading, justify="right")
        for trial in [*start, *networks[:MOST_SHOWN]]:
            cells = [f"{trial.values.get(key, '')}" for key in headings]
            cells.append(str(trial.steps) if trial.steps else "linear")
            cells += [f"{trial.val_loss:.5f}" if math.isfinite(trial.val_loss) else "failed", f"{trial.seconds:.1f}"]
            table.add_row(*cells, style="bold" if trial is chosen else None, end_section=trial in start)
        return table
