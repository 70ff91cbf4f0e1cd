"""What a search has tried: a row a trial, kept in the run directory as it goes, and shown as a table."""

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from rich.box import SIMPLE
from rich.table import Table

from informer.config import SEARCHED
from informer.errors import counted
from informer.files import write_atomic

NAME = "search.csv"
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

MEASURED = ("steps", "penalty", "val_loss", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial.

    Args:
        values: by dotted key, of those that were searched.
        steps: of the optimiser; 0 is ridge regression alone.
        penalty: of that regression.
        val_loss: the training's loss over the validation windows; infinite where training failed.
        seconds: that it took.
    """

    values: Mapping[str, Any]
    steps: int
    penalty: float
    val_loss: float
    seconds: float

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from others."""
        return trial_key(self.values, self.steps)

    @property
    def cells(self) -> dict[str, str]:
        """Its row; numbers to the last digit."""
        measured = {name: getattr(self, name) for name in MEASURED}
        return {name: str(value) for name, value in {**self.values, **measured}.items()}


def trial_key(values: Mapping[str, Any], steps: int) -> tuple[str, ...]:
    """Values and steps as they stand in a file."""
    return (*(str(values.get(key, "")) for key in SEARCHED), str(steps))


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
        rows = list(csv.DictReader(io.StringIO(self.path.read_text()))) if self.path.exists() else []
        self._before = {trial_key(row, int(row["steps"])): row for row in rows}

    def known(self, values: Mapping[str, Any], steps: int) -> Trial | None:
        """The trial, where it was finished before the search was stopped."""
        row = self._before.get(trial_key(values, steps))
        if row is None:
            return None
        numbers = {name: float(row[name]) for name in ("penalty", "val_loss", "seconds")}
        return Trial(values=values, steps=steps, **numbers)

    def add(self, trial: Trial) -> None:
        """Note a trial that is done."""
        self.trials.append(trial)
        text = io.StringIO()
        names = [key for key in SEARCHED if any(key in one.values for one in self.trials)]
        writer = csv.DictWriter(text, [*names, *MEASURED], lineterminator="\n", restval="")
        writer.writeheader()
        rows = {one.key: one.cells for one in self.trials}
        writer.writerows({**self._before, **rows}.values())
        write_atomic(self.path, text.getvalue())

    def table(self, chosen: Trial) -> Table:
        """Ridge alone on every history, then the best trials of networks; the one that was chosen in bold."""
        ridge = [one for one in self.trials if not one.steps]
        networks = sorted((one for one in self.trials if one.steps), key=lambda one: one.val_loss)
        trials = f"{counted(len(networks), 'trial')} of networks"
        title = f"search: {counted(len(ridge), 'length')} of history with ridge alone, {trials}"
        table = Table(title=title, title_justify="left", box=SIMPLE, padding=0)  # as wide as a terminal, 80 columns
        headings = {key: name for key, name in HEADINGS.items() if any(key in one.values for one in self.trials)}
        for heading in (*headings.values(), "steps", "penalty", "val loss", "s"):
            table.add_column(heading, justify="right")
        for one in [*ridge, *networks[:MOST_SHOWN]]:
            own = headings if one.steps else [key for key in headings if key == "seq_len"]
            cells = [f"{one.values[key]}" if key in own else "" for key in headings]
            cells += [str(one.steps) if one.steps else "ridge", f"{one.penalty:g}"]
            cells += [f"{one.val_loss:.5f}" if math.isfinite(one.val_loss) else "failed", f"{one.seconds:.1f}"]
            table.add_row(*cells, style="bold" if one is chosen else None, end_section=one is ridge[-1])
        return table
