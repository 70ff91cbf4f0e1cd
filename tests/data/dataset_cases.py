"""Shared by several test files of this folder: configurations that ship, and small files made by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from entry_points import ROOT

from informer.config.conversion import node_of
from informer.config.data import DatasetConfig
from informer.config.model import WindowSizes

SIZES = WindowSizes(seq_len=13, label_len=5, pred_len=4)


def dataset(name: str) -> DatasetConfig:
    """`conf/dataset/<name>.yaml`, checked by the schema."""
    node = yaml.safe_load(((ROOT / "conf/dataset") / f"{name}.yaml").read_text())
    return node_of(DatasetConfig, node)


def made(n: int = 300, freq: str = "h", start: str = "2020-01-01") -> pd.DataFrame:
    """n rows, three columns of numbers; the target of most tests, `b`, is in the middle."""
    random = np.random.default_rng(7)
    dates = pd.date_range(start, periods=n, freq=freq)
    columns = {"a": random.normal(3, 2, n), "b": random.normal(-9, 0.1, n), "c": random.random(n)}
    # few digits, so that every parser reads back what was written
    return pd.DataFrame({"date": dates, **{name: column.round(6) for name, column in columns.items()}})


def write(frame: pd.DataFrame, path: Path) -> Path:
    """A CSV file from which the same numbers are read back."""
    frame.to_csv(path, index=False)
    return path
