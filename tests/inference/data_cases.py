"""Data for the tests of this folder: a small file made by hand, and the published ones where they are present."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from published_files import published_folder
from stores import load_data, one_series

from informer.config.data import DatasetConfig, SplitConfig
from informer.config.model import WindowSizes
from informer.data.columns import Roles
from informer.data.dataset import Data
from informer.data.windows import Windows

MONTHS = SplitConfig(kind="months", train=12, val=4, test=4)
RATIO = SplitConfig(kind="ratio", train=0.7, val=0.1, test=0.2)
SPLITS = {"ETTh1": MONTHS, "WTH": RATIO}
TIME_FORMATS = {"WTH": "%m/%d/%Y %H:%M"}


def load(
    config: DatasetConfig,
    folder: Path,
    *,
    seq_len: int,
    pred_len: int,
    features: str = "M",
    target: str | None = None,
    device: str = "cpu",
) -> Data:
    sizes = WindowSizes(seq_len=seq_len, label_len=seq_len // 2, pred_len=pred_len)
    return load_data(config, sizes, Roles(features=features, target=target), folder, device=device)


def made(folder: Path, *, features: str = "M", target: str | None = None, device: str = "cpu") -> Data:
    """Hourly rows with a daily cycle, three columns; `zeros` is zero every fifth row, `flat` constant."""
    rng = np.random.default_rng(1)
    t = np.arange(500)
    frame = pd.DataFrame({"date": pd.date_range("2020-01-01", periods=500, freq="h")})
    frame["wave"] = 50 + 3 * np.sin(2 * np.pi * t / 24) + 0.5 * rng.normal(size=500)
    frame["zeros"] = np.where(t % 5 == 0, 0.0, 1 + rng.random(500))
    frame["flat"] = 4.0
    frame.to_csv(folder / "made.csv", index=False)
    split = SplitConfig(kind="rows", train=300, val=100, test=100)
    config = DatasetConfig(name="made", file="made.csv", split=split)
    return load(config, folder, seq_len=29, pred_len=5, features=features, target=target, device=device)


def published(name: str, pred_len: int) -> Data:
    """ETTh1 or WTH; the test is skipped if the file is missing."""
    config = DatasetConfig(
        name=name, file=f"{name}.csv", time_col="date", time_format=TIME_FORMATS.get(name), split=SPLITS[name]
    )
    return load(config, published_folder(f"{name}.csv"), seq_len=336, pred_len=pred_len)


def windows_over(values: torch.Tensor, *, seq_len: int, pred_len: int, targets: list[int] | None = None) -> Windows:
    """Every window of a table [t c]; all columns are read."""
    sizes = WindowSizes(seq_len=seq_len, label_len=0, pred_len=pred_len)
    return Windows(
        one_series(values),
        starts=torch.arange(len(values) - sizes.rows + 1),
        sizes=sizes,
        targets=range(values.shape[1]) if targets is None else targets,
    )
