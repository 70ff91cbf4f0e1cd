"""The weighted quantile loss in tables, JSON and CSV, against scikit-learn and against quantiles formed by hand."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT, Trained, done
from sklearn.metrics import mean_pinball_loss

from informer.scoring.backtest import DECILES

LEVELS = (0.1, 0.5, 0.9)


def loss(actual: np.ndarray, quantiles: np.ndarray, levels: tuple[float, ...] = LEVELS) -> float:
    """2 sum pinball / sum |y| over the observed values, mean over the levels, the last axis of `quantiles`."""
    seen = ~np.isnan(actual)
    y = actual[seen]
    losses = [
        2 * mean_pinball_loss(y, quantiles[..., i][seen], alpha=level) * y.size / np.abs(y).sum()
        for i, level in enumerate(levels)
    ]
    return float(np.mean(losses))


def deciles_by_hand(rolled: pd.DataFrame) -> float:
    """Loss of the deciles in a table of rolling forecasts with intervals of 20, 40, 60 and 80 %."""
    losses = []
    for level in DECILES:
        percent = round(abs(200 * level - 100))
        name = f"{'hi' if level > 0.5 else 'lo'}{percent}" if percent else "forecast"
        losses.append(mean_pinball_loss(rolled["actual"], rolled[name], alpha=level))
    return float(2 * np.mean(losses) / rolled["actual"].abs().mean())


def read_csv(text: str) -> dict[tuple[str, ...], float]:
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["metric"] == "wql"]
    return {(row["model"], row["units"], row["column"], row["step"]): float(row["value"]) for row in rows}


def test_runs_evaluations_and_rolling_forecasts_agree(trained: Trained, folder: Path) -> None:
    """The loss of the intervals that `predict` writes for the test rows. Red if one of the three tables has other
    quantiles, or lacks a forecaster, a step or a column."""
    saved = json.loads((trained.run_dir / "metrics.json").read_text())
    own = saved["scores"]["informer"]["original"]
    done("eval", f"checkpoint={trained.run_dir}", "output=scores", "plots=none")
    assert json.loads(Path("scores/metrics.json").read_text())["scores"] == saved["scores"]
    sample = pd.read_csv(ROOT / "data/sample.csv")
    sample.iloc[:320].to_csv("rows.csv", index=False)
    done(
        "predict", f"checkpoint={trained.run_dir}", "input=rows.csv", "mode=rolling", "stride=1",
        "intervals=[20,40,60,80]", "output=out",
    )  # fmt: skip
    rolled = pd.read_csv("out/rows.rolling.csv")
    assert own["overall"]["wql"] == pytest.approx(deciles_by_hand(rolled), rel=1e-3)
    for step in range(1, 7):
        found = deciles_by_hand(rolled[rolled["step"] == step])
        assert own["by_step"]["wql"][step - 1] == pytest.approx(found, rel=1e-3)
    for column, part in rolled.groupby("column"):
        assert own["by_column"][column]["wql"] == pytest.approx(deciles_by_hand(part), rel=1e-3)
    by_key = read_csv((trained.run_dir / "metrics.csv").read_text())
    later = read_csv(Path("out/rows.rolling.metrics.csv").read_text())
    own_keys = {key: value for key, value in later.items() if key[0] == "informer"}
    assert {key: by_key[key] for key in own_keys} == pytest.approx(own_keys, rel=1e-5)
    assert by_key.keys() == later.keys()
    assert {key[0] for key in by_key} == {"informer", "seasonal naive", "ridge"}
    # calibrated on 221 windows before the first origin, in the run on 211 of them
    key = ("seasonal naive", "original", "all", "all")
    assert later[key] == pytest.approx(by_key[key], rel=0.02)
