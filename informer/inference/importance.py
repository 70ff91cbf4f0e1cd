"""Permutation importance: how much the test error grows when a column is read from other windows.

L. Breiman, "Random forests", 2001, section 10, with windows as the permuted units: history and, if it is known ahead,
horizon of a column stay together. It holds for any model, and says what the model relies on, not what causes what: of
two columns that tell the same, each may count little.
"""

from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Int
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from torch import Tensor

from informer import checkpoint as checkpoints
from informer.base.console import logging_to, say
from informer.base.errors import InputError, counted, printable
from informer.base.files import write_atomic
from informer.base.runtime import pick_device
from informer.checkpoint.paths import EXPLAINED, check_output, locate
from informer.checkpoint.restore import restore_model
from informer.config.commands import EvalDataset, ExplainConfig
from informer.data.windows import Batch, Windows
from informer.inference.rescore import trained_data
from informer.networks.forecast_model import ForecastModel, model_forecast

IMPORTANCE = "importance.csv"
CALENDAR = "calendar"
"""The marks of the calendar, holidays included, as one more column."""
MOST_WINDOWS, MOST_PASSES, MOST_REPEATS = 512, 200, 10
"""Test windows, evenly spaced; forecasts of all of them; permutations of each column."""
BATCH = 64


def importance(settings: ExplainConfig, console: Console) -> dict[str, Any]:
    """Print and write the importance of each column that the model reads; returns the path and the rows.

    Raises:
        InputError: no readable checkpoint, or the data of training is missing, or has a single test window.
    """
    source = locate(settings.checkpoint)
    output = Path(settings.output) if settings.output else source.parent / EXPLAINED
    check_output(output, [output / IMPORTANCE], inputs=[source], overwrite=settings.overwrite or not settings.output)
    saved, device = checkpoints.load(source), pick_device(settings.device)
    where = None if settings.input is None else EvalDataset(path=settings.input)
    with (
        logging_to(console),
        trained_data(saved, device, scratch=source.parent, dataset=where, setting="input") as data,
    ):
        windows = data.test.thinned(MOST_WINDOWS)
        if len(windows) < 2:
            raise InputError("importance: expected at least 2 test windows to exchange columns between, found 1")
        names = [*data.columns.inputs, *([CALENDAR] if data.test.store.marks.shape[1] else [])]
        table = importances(restore_model(saved).to(device), windows, names)
    write_atomic(output / IMPORTANCE, table.to_csv(index=False, float_format="%.6g"))
    mse = table["mse"].iloc[0]
    say(console, f"scaled MSE {mse:.4g} on {counted(len(windows), 'test window')}; with a column of other windows:")
    console.print(_printed(table))
    say(console, f"importance: {output / IMPORTANCE}")
    return {"importance": output / IMPORTANCE, "columns": table.set_index("column").to_dict("index")}


@torch.inference_mode()
def importances(model: ForecastModel, windows: Windows, names: list[str]) -> pd.DataFrame:
    """Mean squared error on some windows, and how many times as high it is if a column comes from others: mean and
    standard deviation over permutations; the most important column first.

    Args:
        model, windows: windows are permuted across series.
        names: columns of the windows, then `CALENDAR` if they have marks.
    """
    repeats = max(2, min(MOST_REPEATS, MOST_PASSES // len(names)))
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(len(windows), generator=generator) for _ in range(repeats)]
    base = _error(model, windows, None, None)
    rows = []
    for column, name in enumerate(names):
        errors = torch.tensor([_error(model, windows, column, order) for order in orders], dtype=torch.double)
        times = errors / base
        rows.append((name, base, float(errors.mean()), float(times.mean()), float(times.std())))
    table = pd.DataFrame(rows, columns=["column", "mse", "mse_permuted", "times", "deviation"])
    return table.sort_values("times", ascending=False, kind="stable", ignore_index=True)


def _error(model: ForecastModel, windows: Windows, column: int | None, order: Int[Tensor, "w"] | None) -> float:
    """Mean squared error, scaled, with this column of the windows in another order."""
    total = count = 0.0
    for indices in torch.arange(len(windows)).split(BATCH):
        batch = windows.batch(indices)
        if column is not None and order is not None:
            batch = exchanged(batch, windows.batch(order[indices]), column)
        units = batch.units
        error = (units.standard(model_forecast(model, batch)) - units.standard(batch.target)).double().square()
        known = ~error.isnan()
        total, count = total + float(error[known].sum()), count + float(known.sum())
    return total / count


def exchanged(batch: Batch, other: Batch, column: int) -> Batch:
    """A batch with a column of other windows, or with their calendar if it is one past the last column."""
    if column == batch.enc_x.shape[2]:

        def with_marks(rows: int) -> tuple[Tensor, Tensor]:
            return _before(batch, rows)[0], _before(other, rows)[1]

        return batch._replace(enc_mark=other.enc_mark, dec_mark=other.dec_mark, before=with_marks)

    def mixed(own: Tensor, theirs: Tensor) -> Tensor:
        return torch.cat([own[:, :, :column], theirs[:, :, column : column + 1], own[:, :, column + 1 :]], dim=2)

    def before(rows: int) -> tuple[Tensor, Tensor]:
        values, marks = _before(batch, rows)
        return mixed(values, _before(other, rows)[0]), marks

    return batch._replace(enc_x=mixed(batch.enc_x, other.enc_x), dec_x=mixed(batch.dec_x, other.dec_x), before=before)


def _before(batch: Batch, rows: int) -> tuple[Tensor, Tensor]:
    assert batch.before is not None, "a batch of `Windows`"
    return batch.before(rows)


def _printed(table: pd.DataFrame) -> Table:
    printed = Table(box=SIMPLE, padding=0)
    printed.add_column("column")
    for heading in ("error, times", "±"):
        printed.add_column(heading, justify="right")
    for row in table.to_dict("records"):
        printed.add_row(printable(row["column"]), f"{row['times']:.3g}", f"{row['deviation']:.2g}")
    return printed
