"""What a search has tried: a row a trial, kept in the run directory as it goes, and shown as a table."""

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
"""Trials in the table, the best; search.csv has all."""

HEADINGS = {
    "seq_len": "seq_len",
    "model.d_model": "width",
    "model.dropout": "dropout",
    "model.embed": "marks",
    "model.patch_len": "patch",
    "model.channel_independent": "apart",
    "optim.lr": "lr",
}
"""Columns of the table; the other values follow from these."""

MEASURED = ("steps", "val_loss", "seconds", "closing_seconds")

START = ("seq_len", "maps", "note", "floor", "fit_seconds")
"""What the file holds of the linear forecast besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial.

    Args:
        values: by dotted key, of those that were searched.
        steps: of the optimiser; 0 is the linear forecast by itself.
        val_loss: the training's loss over the validation windows; infinite where training failed.
        seconds: that it took.
        closing_seconds: of what would follow training, fits of linear maps excepted.
        seq_len, maps, note, floor, fit_seconds: of the linear forecast: see `informer.search.trials.Start`, and how
            long its maps take to fit once they are chosen.
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
    fit_seconds: float = 0.0

    @property
    def key(self) -> tuple[str, ...]:
        """What distinguishes it from others."""
        return trial_key(self.values, self.steps)

    @property
    def cells(self) -> dict[str, str]:
        """Its row; numbers to the last digit."""
        measured = {name: getattr(self, name) for name in MEASURED}
        start = {f"linear.{name}": json.dumps(getattr(self, name)) for name in START} if not self.steps else {}
        return {name: str(value) for name, value in {**self.values, **measured}.items()} | start


def trial_key(values: Mapping[str, Any], steps: int) -> tuple[str, ...]:
    """Values and steps as they stand in a file."""
    return (*(str(values.get(key, "")) for key in SEARCHED), str(steps))


def _measured(row: Mapping[str, str]) -> dict[str, Any]:
    return {name: float(row[name]) for name in MEASURED if name != "steps"}


def _start(row: Mapping[str, str]) -> dict[str, Any]:
    """What a row says of the linear forecast; KeyError or ValueError for anything else."""
    start = {name: json.loads(row[f"linear.{name}"]) for name in START}
    kinds = {"seq_len": int, "maps": list, "note": str, "floor": bool, "fit_seconds": float}
    wrong = [name for name, kind in kinds.items() if not isinstance(start[name], kind)]
    if wrong:
        raise ValueError(f"linear.{wrong[0]}: no {kinds[wrong[0]].__name__}")
    return start


@final
@dataclass(slots=True)
class Record:
    """The trials of a search.

    Args:
        path: of the file, which is written anew after each trial.
    """

    path: Path
    trials: list[Trial] = field(default_factory=list)
    _before: dict[tuple[str, ...], dict[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self._before = self._rows() if self.path.exists() else {}

    def _rows(self) -> dict[tuple[str, ...], dict[str, str]]:
        """The trials of the file, checked."""
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
        """The trial, where it was finished before the search was stopped."""
        row = self._before.get(trial_key(values, steps))
        if row is None:
            return None
        return replace(Trial(values=values, steps=steps, val_loss=0.0, seconds=0.0), **_measured(row))

    def known_start(self) -> Trial | None:
        """The linear forecast, where it was chosen before the search was stopped."""
        row = next((row for row in self._before.values() if int(row["steps"]) == 0), None)
        if row is None:
            return None
        start = _start(row)
        values = {"seq_len": start["seq_len"]} if row.get("seq_len") else {}
        return replace(Trial(values=values, steps=0, val_loss=0.0, seconds=0.0), **_measured(row), **start)

    def add(self, trial: Trial) -> None:
        """Note a trial that is done."""
        self.trials.append(trial)
        linear = min((one.val_loss for one in self.trials if not one.steps), default=None)
        best = min(one.val_loss for one in self.trials)
        progress.report(Status(best=best, baseline=linear, baseline_name="linear forecast"))
        text = io.StringIO()
        used = [*(one.values for one in self.trials), *self._before.values()]
        names = [key for key in SEARCHED if any(key in values for values in used)]
        start = [f"linear.{name}" for name in START]
        writer = csv.DictWriter(text, [*names, *MEASURED, *start], lineterminator="\n", restval="")
        writer.writeheader()
        rows = {one.key: one.cells for one in self.trials}
        writer.writerows({**self._before, **rows}.values())
        write_atomic(self.path, text.getvalue())

    def table(self, chosen: Trial) -> Table:
        """The linear forecast, then the best trials of networks; the one that was chosen in bold."""
        start = [one for one in self.trials if not one.steps]
        networks = sorted((one for one in self.trials if one.steps), key=lambda one: one.val_loss)
        title = f"search: the linear forecast, {counted(len(networks), 'trial')} of networks"
        table = Table(title=title, title_justify="left", box=SIMPLE, padding=0)  # as wide as a terminal, 80 columns
        headings = {key: name for key, name in HEADINGS.items() if any(key in one.values for one in self.trials)}
        for heading in (*headings.values(), "steps", "val loss", "s"):
            table.add_column(heading, justify="right")
        for one in [*start, *networks[:MOST_SHOWN]]:
            cells = [f"{one.values.get(key, '')}" for key in headings]
            cells.append(str(one.steps) if one.steps else "linear")
            cells += [f"{one.val_loss:.5f}" if math.isfinite(one.val_loss) else "failed", f"{one.seconds:.1f}"]
            table.add_row(*cells, style="bold" if one is chosen else None, end_section=one in start)
        return table
