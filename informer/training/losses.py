"""The table of a run's losses by epoch, losses.csv, and what its axis is called."""

from pathlib import Path

import pandas as pd

from informer.base.errors import FileError, reason_of
from informer.base.files import reading
from informer.config.training import DISTRIBUTIONS, LossConfig

COLUMNS = ["train_loss", "val_loss"]
"""First columns of the table; the others are the validation losses of the baselines, which are constant. Epoch 0 is
before the first step and has no training loss."""

NAMES = {
    "mse": "MSE", "mae": "MAE", "huber": "Huber loss", "spectral": "spectral loss",
    "quantile": "pinball loss", "normal": "negative log-likelihood",
    "student_t": "negative log-likelihood", "negative_binomial": "negative log-likelihood of counts",
}  # fmt: skip


def units_of(loss: LossConfig) -> str:
    """Label of the losses of a run, for the axis of a chart."""
    levels = f", mean of {', '.join(f'{level:g}' for level in loss.quantiles)}" if loss.kind == "quantile" else ""
    return f"{NAMES[loss.kind]}{levels}" + ("" if loss.kind == "negative_binomial" else ", scaled")


def note_of(loss: LossConfig) -> str:
    """Note on the losses, for a chart."""
    if loss.kind in DISTRIBUTIONS:
        return "a baseline has one forecast, and no likelihood"
    if loss.quantiles:
        return "a baseline has one forecast, which is scored as every quantile"
    if loss.training not in (None, loss.kind):
        return f"the training loss is the {NAMES[loss.training]}, and not on the same scale"
    return "" if loss.kind == "mse" else "ridge is fitted for MSE, and scored by the same loss as the model"


def no_losses() -> pd.DataFrame:
    """The table before the first epoch."""
    return pd.DataFrame(columns=COLUMNS, dtype=float, index=pd.Index([], name="epoch", dtype=int))


def read_losses(path: Path) -> pd.DataFrame:
    """The losses of a run, by epoch.

    Raises:
        InputError: the file is not such a table.
    """
    expected = f"{path}: expected a table of losses (epoch, {', '.join(COLUMNS)})"
    with reading(path):
        try:
            table = pd.read_csv(path, dtype=float, index_col=0, encoding="utf-8")
            epochs = table.index.astype(int)
            if not (epochs == table.index).all():
                raise ValueError("epochs that are no whole numbers")
            table.index = epochs
        except ValueError as error:
            raise FileError(f"{expected}: {reason_of(error)}") from error
    if table.index.name != "epoch" or list(table.columns[:2]) != COLUMNS:
        raise FileError(f"{expected}, found {','.join(map(str, table.columns))!r:.60}")
    return table


def curves_of(table: pd.DataFrame) -> tuple[dict[int, float], dict[int, float], dict[str, float]]:
    """Training and validation loss by epoch, without epochs that have none, and the losses of the baselines."""
    columns = (table[name].dropna() for name in COLUMNS)
    training, validation = (dict(zip(map(int, losses.index), losses.tolist(), strict=True)) for losses in columns)
    return training, validation, {str(name): float(table[name].max()) for name in table.columns[2:]}
