"""The weighted quantile loss in tables, JSON and CSV, against scikit-learn and against quantiles formed by hand."""

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from data_cases import made, windows_over
from entry_points import ROOT, SMALL, Trained, done
from sklearn.metrics import mean_pinball_loss

from informer.checkpoint import load, restore_model
from informer.data import Frequency, Series
from informer.inference.rescore import trained_data
from informer.members.baselines import SeasonalNaive
from informer.scoring.backtest import DECILES, backtest
from informer.scoring.evaluate import baselines_for, calibrated
from informer.scoring.intervals import differences

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


def half_by_hand(errors: np.ndarray, percent: int, starts: Sequence[int] = (), step: int = 0) -> float:
    """The ceil((n + m) level)-th smallest; m windows one row apart count as one, two for each step from 1."""
    gaps = [*np.diff(starts), np.inf] if len(starts) else [np.inf]
    overlap = math.ceil(len(gaps) / sum(min(gap / (2 * (step + 1)), 1) for gap in gaps))
    return float(np.sort(errors)[min(math.ceil((len(errors) + overlap) * percent / 100), len(errors)) - 1])


def test_baselines_are_calibrated_on_windows_they_were_not_fitted_on(tmp_path: Path) -> None:
    """Half widths by hand, without a variation of windows: ridge's from validation, the seasonal naive's from training
    too. Red if ridge's come from training windows, or the test part is read."""
    data = made(tmp_path)
    naive, ridge = baselines_for(data)
    for baseline, starts in ((naive, [*range(267), *range(271, 367)]), (ridge, range(271, 367))):
        parts = [data.train, data.val] if baseline is naive else [data.val]
        assert sorted(torch.cat([part.starts for part in parts]).tolist()) == list(starts)
        batch = data.train.at(torch.tensor(list(starts))).batch(torch.arange(len(starts)))
        calibration = baseline.calibration
        assert calibration is not None
        assert calibration.windows == len(starts)
        changes = differences(batch.enc_x, calibration.variation.lag)
        errors = (baseline.output(batch) - batch.target).abs() / calibration.variation.unit(changes)
        for percent in (20, 80):
            for step, column in ((0, 0), (4, 1)):
                wanted = half_by_hand(errors[:, step, column].numpy(), percent, list(starts), step)
                assert calibration.half_widths[percent - 1, step, column].item() == pytest.approx(wanted, rel=1e-5)


def test_a_clipped_baseline_has_clipped_errors_and_quantiles() -> None:
    """A series around zero whose forecasts are at least zero: no error is that of a negative forecast."""
    windows = windows_over(torch.randn(60, 1, generator=torch.Generator().manual_seed(2)), seq_len=6, pred_len=2)
    batch = windows.batch(torch.arange(len(windows)))
    fitted = [windows], [windows.at(windows.starts[:0])]
    found = calibrated(SeasonalNaive((1,), [0]), *fitted, season=1, non_negative=(0,))
    assert found.calibration is not None
    changes = differences(batch.enc_x, found.calibration.variation.lag)
    errors = (found.output(batch) - batch.target).abs() / found.calibration.variation.unit(changes)
    wanted = half_by_hand(errors[:, 0, 0].numpy(), 80)
    assert found.calibration.half_widths[79, 0, 0].item() == pytest.approx(wanted, rel=1e-5)
    times = pd.date_range("2024-01-01", periods=60)
    series = Series("x", times, np.zeros((60, 1)), ("y",), Frequency.parse("D"), "day")
    (paths,) = backtest(found, windows, [series], ["y"])
    assert paths.levels[0.1].min() == 0.0 < paths.levels[0.9].min()


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


def test_a_quantile_model_is_scored_at_its_own_levels(folder: Path) -> None:
    """Red if its loss is not that of its own quantiles, or the baselines are scored at other levels."""
    arguments = ["dataset=sample", *SMALL, "loss=quantile", "loss.quantiles=[0.1,0.5,0.9]", "trainer.max_steps=3"]
    done("train", *arguments, "run_dir=run")
    saved = json.loads(Path("run/metrics.json").read_text())
    scaled = {name: scores["scaled"]["overall"] for name, scores in saved["scores"].items()}
    data = trained_data(load(Path("run")), torch.device("cpu"))
    batch = data.test.batch(torch.arange(len(data.test)))
    ratio = 2 * saved["mean_pinball"] / scaled["informer"]["wql"]  # mean |y|, the same for all
    assert ratio == pytest.approx(float(batch.target.abs().mean()), rel=1e-4)
    history = batch.enc_x[:, :, data.columns.positions(data.targets)]
    for baseline in baselines_for(data, restore_model(load(Path("run")))):
        assert tuple(baseline.levels) == (0.1, 0.5, 0.9)
        half = baseline.calibration.half_width(80, history)
        forecast = baseline.output(batch)
        quantiles = torch.stack([forecast - half, forecast, forecast + half], dim=-1)
        found = loss(batch.target.double().numpy(), quantiles.double().numpy())
        assert scaled[baseline.name]["wql"] == pytest.approx(found, rel=1e-4)
