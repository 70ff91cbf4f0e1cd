"""The cells of the tables that scripts/reproduce.py runs: datasets, horizons, settings and published numbers."""

import csv
from dataclasses import dataclass

from informer.base.errors import InputError
from informer.base.runtime import resource

TABLES = {"M": "paper_tables.csv", "S": "paper_tables.csv", "long": "long_horizons.csv"}
MODELS = ("informer2020", "informer_full", "informer", "informer_ridge", "linear")
ANY_HORIZON = ("informer_ridge", "linear")
"""Models that need no settings of the paper."""
CHOSEN = {
    "ETTh1": "seq_len=504 model.embed=none model.channel_independent=true model.patch_len=24 model.d_model=32 "
    "model.d_ff=64 model.dropout=0.3 optim.lr=5e-4 trainer.steps_per_epoch=60 trainer.max_epochs=3",
    "ETTm1": "seq_len=672 model.embed=none model.channel_independent=true model.patch_len=24 model.d_model=128 "
    "model.d_ff=256 model.dropout=0.2 optim.lr=5e-4 trainer.steps_per_epoch=500 trainer.max_epochs=1",
    "WTH": "seq_len=672 model.patch_len=8 model.d_model=64 model.d_ff=128 "
    "model.dropout=0.4 optim.lr=3e-4 trainer.steps_per_epoch=125 trainer.max_epochs=4",
}
PLUS = CHOSEN | {"ETTh2": CHOSEN["ETTh1"]}
"""informer_ridge, one configuration a dataset for all horizons, chosen on validation (ETTh2: that of ETTh1)."""


@dataclass(kw_only=True, frozen=True, slots=True)
class Cell:
    """One horizon of one dataset, and its published numbers."""

    dataset: str
    features: str
    pred_len: int
    mse: float
    mae: float | None = None
    duet: float | None = None
    """MSE of DUET; None where it has none."""
    full: tuple[float, float] | None = None
    """MSE and MAE of the paper's Informer with full attention; None where it has none."""
    sizes: tuple[str, ...] | None = None
    """Settings of the paper's run; None where it has none."""

    def overrides(self, model: str) -> list[str]:
        """Keys of informer.train for this cell."""
        shared = [f"dataset={self.dataset}", f"features={self.features}", f"pred_len={self.pred_len}"]
        shared.append("trainer.calibration=0")  # no intervals are asked for: all of validation chooses the epoch
        if model == "linear":
            return [*shared, "model=linear", "seq_len=720"]
        if model == "informer_ridge":
            shared += ["model=small", "model.skip=ridge", "model.instance_norm=true", "label_len=48"]
            shared += ["optim.schedule=cosine", "precision=auto"]
            return [*shared, *PLUS[self.dataset].split()]
        assert self.sizes is not None
        if model == "informer_full":  # which has no factor
            sizes = [size for size in self.sizes if not size.startswith("attn.")]
            return [*shared, *sizes, "experiment=informer2020_full"]
        return [*shared, *self.sizes, *(["experiment=informer2020"] if model == "informer2020" else [])]


def cells(table: str) -> list[Cell]:
    """The cells of one table, in its order."""
    text = resource(f"conf/experiment/{TABLES[table]}").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    every = [_cell(row) for row in csv.DictReader(lines)]
    return every if table == "long" else [cell for cell in every if cell.features == table]


def _cell(row: dict[str, str]) -> Cell:
    sizes = None
    if "seq_len" in row:
        sizes = (
            f"seq_len={row['seq_len']}", f"label_len={row['label_len']}",
            f"model.encoder_stacks=[{row['encoder_layers']}]", f"model.decoder_layers={row['decoder_layers']}",
            f"attn.factor={row['factor']}",
        )  # fmt: skip
    mae = float(row["mae"]) if "mae" in row else None
    full = (float(row["mse_full"]), float(row["mae_full"])) if "mse_full" in row else None
    return Cell(
        dataset=row["dataset"], features=row["features"], pred_len=int(row["pred_len"]), mse=float(row["mse"]),
        mae=mae, duet=float(row["duet"]) if "duet" in row else None, full=full, sizes=sizes,
    )  # fmt: skip


def split_settings(settings: list[str]) -> tuple[str, tuple[str, ...]]:
    """The name of the table, and the keys for informer.train.

    Raises:
        InputError: no table, or an unknown one.
    """
    tables = [setting.partition("=")[2] for setting in settings if setting.startswith("table=")]
    if len(tables) != 1 or tables[0] not in TABLES:
        names = ", ".join(f"table={name}" for name in TABLES)
        raise InputError(f"table: expected one of {names}, found {tables or 'none'}")
    return tables[0], tuple(setting for setting in settings if not setting.startswith("table="))
