"""Losses of a run as a table and a picture: training and validation by epoch, and the baselines'."""

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from matplotlib.figure import Figure

from informer.checkpoint.paths import LOSSES, LOSSES_PICTURE
from informer.config.training import LossConfig, LossKind
from informer.errors import InputError
from informer.files import reading, write_atomic
from informer.plots import plot_losses, save_figure
from informer.training.tracking.sinks import Sink

TRAINING, VALIDATION = "train/loss", "val/loss"
HEADER = ("epoch", "train_loss", "val_loss")
NAMES = {
    LossKind.mse: "MSE", LossKind.mae: "MAE", LossKind.huber: "Huber loss", LossKind.spectral: "spectral loss",
    LossKind.quantile: "pinball loss",
}  # fmt: skip


def units_of(loss: LossConfig) -> str:
    """Label of the losses of a run, for the axis of a chart."""
    levels = f", mean of {', '.join(f'{level:g}' for level in loss.quantiles)}" if loss.quantiles else ""
    return f"{NAMES[loss.kind]}{levels}, scaled"


def note_of(loss: LossConfig) -> str:
    """Note on the losses, for a chart."""
    if loss.quantiles:
        return "a baseline has one forecast, which is scored as every quantile"
    if loss.training not in (None, loss.kind):
        return f"the training loss is the {NAMES[loss.training]}, and not on the same scale"
    return "" if loss.kind is LossKind.mse else "ridge is fitted for MSE, and scored by the same loss as the model"


@dataclass(slots=True)
class LossTable:
    """Losses by epoch, in increasing order; epoch 0 is before the first step and has no training loss.

    Args:
        epochs: losses of each epoch by tag.
        baselines: validation losses by name.
    """

    epochs: dict[int, dict[str, float]] = field(default_factory=dict)
    baselines: dict[str, float] = field(default_factory=dict)

    @property
    def training(self) -> dict[int, float]:
        """Training loss of each epoch that has one."""
        return {epoch: row[TRAINING] for epoch, row in self.epochs.items() if TRAINING in row}

    @property
    def validation(self) -> dict[int, float]:
        """Validation loss of each epoch that has one."""
        return {epoch: row[VALIDATION] for epoch, row in self.epochs.items() if VALIDATION in row}

    def to_csv(self) -> str:
        """CSV text: a header and a row per epoch; the columns of the baselines are constant."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*HEADER, *self.baselines])
        for epoch, row in self.epochs.items():
            writer.writerow([epoch, row.get(TRAINING, ""), row.get(VALIDATION, ""), *self.baselines.values()])
        return text.getvalue()

    @classmethod
    def read(cls, path: Path) -> "LossTable":
        """Read a table written by `to_csv`.

        Raises:
            InputError: the file is not such a table.
        """
        table = cls()
        with reading(path), path.open(encoding="utf-8", errors="replace", newline="") as file:
            header, *rows = list(csv.reader(file)) or [[]]
        if tuple(header[:3]) != HEADER or len(set(header)) < len(header):
            raise InputError(
                f"{path}: expected a table of losses ({', '.join(HEADER)}), found {','.join(header)!r:.60}"
            )
        for line, cells in enumerate(rows, start=2):
            try:
                epoch, *losses = int(cells[0]), *(float(cell) if cell else math.nan for cell in cells[1:])
                named = dict(zip((TRAINING, VALIDATION, *header[3:]), losses, strict=True))
            except (ValueError, IndexError) as error:
                raise InputError(f"{path}, row {line}: expected numbers, found {','.join(cells)!r:.60}") from error
            curves = {tag: named.pop(tag) for tag in (TRAINING, VALIDATION)}
            table.epochs[epoch] = {tag: value for tag, value in curves.items() if not math.isnan(value)}
            table.baselines = named
        return table


@final
class LossFile(Sink):
    """Writes losses.csv in a run directory at each `sync`, with whole epochs, and losses.png at the end of a run.

    Args:
        folder: run directory.
        loss: the training loss.
        n_rows: for a resumed run, number of rows of the existing table to keep.
    """

    def __init__(self, folder: Path, loss: LossConfig, *, n_rows: int = 0) -> None:
        self._folder, self._loss, self.table = folder, loss, LossTable()
        if n_rows and (folder / LOSSES).exists():
            before = LossTable.read(folder / LOSSES)
            self.table = LossTable(dict(list(before.epochs.items())[:n_rows]), before.baselines)

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Record a point of a curve, if it is a loss per epoch."""
        prefix, is_baseline, name = tag.partition(f"{VALIDATION}_")
        if tag in (TRAINING, VALIDATION):
            self.table.epochs.setdefault(step, {})[tag] = float(value)
        elif is_baseline and not prefix:
            self.table.baselines[name.replace("_", " ")] = float(value)

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """Plot the losses, if an epoch was trained."""
        if self.table.training:
            save_figure(_picture(self.table, self._loss), self._folder / LOSSES_PICTURE)

    def sync(self) -> int:
        """Write the table; returns the number of its rows."""
        write_atomic(self._folder / LOSSES, self.table.to_csv(), durable=False)
        return len(self.table.epochs)


def _picture(table: LossTable, loss: LossConfig) -> Figure:
    return plot_losses(table.training, table.validation, table.baselines, units=units_of(loss), note=note_of(loss))
