"""Small finished runs whose files are changed, one for each group of features with entries in a checkpoint."""

import atexit
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from informer import Forecaster

TINY: dict[str, Any] = {
    "model": "tiny",
    **{f"model.{name}": size for name, size in {"d_model": 4, "n_heads": 1, "d_ff": 4, "encoder_stacks": [1]}.items()},
    "label_len": 6,
    "pred_len": 6,
    "trainer.max_steps": 2,
    "trainer.batch_size": 32,
}
"""Of the smallest run."""

RUNS: dict[str, dict[str, Any]] = {
    "numbers": TINY | {"features": "S", "seq_len": 24},
    "columns": TINY
    | {
        "seq_len": 12,
        "targets": ["load"],
        "past_covariates": ["weather"],
        "future_covariates": ["promo"],
        "dataset.series_col": "shop",
        "dataset.categorical": ["status"],
        "dataset.static_covariates": ["region", "size"],
        "dataset.holidays": ["DE-BY", "FR"],
        "dataset.calendar": ["hour", "weekday"],
        "model.series_embedding": 2,
        "optim.ema": 0.9,
    },
    "maps": TINY
    | {
        "seq_len": 24,
        "features": "M",
        "dataset.series_col": "shop",
        "dataset.columns": ["status", "load"],
        "model.skip": "maps",
        "scaler.per_series": True,
        "trainer.combine": ["naive", "zero", "theta"],
        "trainer.refit": True,
        "non_negative": "all",
        "loss": "quantile",
    },
}
"""Settings by name: one column of numbers; categories, holidays and an average of weights; linear maps, refitted."""


ATTRIBUTES = pd.DataFrame({"shop": ["north", "south"], "region": ["hill", "sea"], "size": [10.0, 25.0]})
"""Of the shops in `columns`."""


@cache
def run(kind: str = "numbers") -> Path:
    """A finished run, the same for all cases; removed when the program ends."""
    place = tempfile.TemporaryDirectory()
    atexit.register(place.cleanup)
    folder = Path(place.name, "run")
    Forecaster.fit(table(kind), attributes=ATTRIBUTES if kind == "columns" else None, run_dir=folder, **RUNS[kind])
    return folder


@cache
def table(kind: str) -> pd.DataFrame:
    """Daily waves of 260 hours: of one series, or of two shops with all kinds of columns."""
    times = pd.date_range("2024-01-01", periods=260, freq="h")
    load = np.sin(np.arange(260) / 24 * 2 * np.pi) + np.arange(260) / 100
    if kind == "numbers":
        return pd.DataFrame({"date": times, "load": load})
    rng = np.random.default_rng(0)
    load += rng.normal(scale=0.1, size=260)
    kinds: dict[str, list[Any]] = {"status": [1, 7], "promo": ["no", "tv"], "weather": ["sun", "rain"]}
    cells = {name: rng.choice(some, size=260) for name, some in kinds.items()}
    shop = pd.DataFrame({"date": times, "load": load + 2}).assign(**cells)
    return pd.concat([shop.assign(shop=name) for name in ATTRIBUTES["shop"]])


@cache
def horizon(kind: str) -> pd.DataFrame | None:
    """Future covariates for a forecast."""
    if kind != "columns":
        return None
    times = pd.date_range(table(kind)["date"].max(), periods=7, freq="h")[1:]
    return pd.concat([pd.DataFrame({"date": times, "shop": name, "promo": "tv"}) for name in ("north", "south")])


@cache
def entries(name: str, kind: str = "numbers") -> dict[str, Any]:
    """Content of a checkpoint of the run, without its digest."""
    content: dict[str, Any] = torch.load(run(kind) / name, weights_only=True)
    del content["digest"]
    return content
