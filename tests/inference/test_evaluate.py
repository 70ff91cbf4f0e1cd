"""Evaluation over windows: scores, as many as there is time for, of each series; and what its report says."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from data_cases import windows_over
from entry_points import SMALL, done
from scored import scores_of

from informer.members.baselines import fit_ridge


@pytest.mark.parametrize(
    ("model", "ridge", "naive", "skill", "says"),
    [
        (0.2, 0.4, 0.6, 0.5, "better than ridge, the best baseline: scaled MSE 50.0 % lower"),
        (1.5, 0.8, 0.6, -1.5, "worse than naive, the best baseline: scaled MSE 2.5 times as high"),
        (0.9, 0.8, 0.6, -0.5, "too few test forecasts to tell from naive, the best baseline: scaled MSE 50.0 % higher"),
        (0.9, 0.3, 0.6, -2.0, "worse than ridge, the best baseline: scaled MSE 3 times as high"),
        (0.4, 0.4, 0.6, 0.0, "as good as ridge, the best baseline"),
        (0.4, 0.0, 0.6, -math.inf, "worse than ridge, the best baseline: scaled MSE more than 1,000 times as high"),
        (0.4018, 0.4, 0.6, -0.0045, "as good as ridge, the best baseline"),
        (0.3982, 0.4, 0.6, 0.0045, "as good as ridge, the best baseline"),
        (-1.0, 0.5, 0.6, math.nan, "not comparable with ridge, the best baseline: scaled MSE not finite"),
    ],
)
def test_skill_and_verdict(model, ridge, naive, skill, says):
    forecasts = {
        name: np.full((1, 1, 1), math.sqrt(mse) if mse >= 0 else math.nan)
        for name, mse in (("net", model), ("ridge", ridge), ("naive", naive))
    }
    result = scores_of(forecasts, np.zeros((1, 1, 1)))
    assert result.skill == pytest.approx(skill, nan_ok=True)
    assert result.verdict == says


def test_train_and_eval_write_the_scores_of_each_series(folder: Path) -> None:
    """The mean over series, weighted by windows, is the overall score."""
    times = pd.date_range("2024-01-01", periods=330, freq="h")
    rng = np.random.default_rng(0)
    frames = [
        pd.DataFrame({"date": times, "store": name, "y": rng.normal(size=330) * spread + 10})
        for name, spread in (("calm", 0.3), ("wild", 3.0))
    ]
    pd.concat(frames).to_csv("long.csv", index=False)
    data = ["dataset=csv", "dataset.path=long.csv", "dataset.series_col=store"]
    outcome = done("train", *data, *SMALL, "trainer.max_steps=2", "scaler.per_series=false", "run_dir=run")
    assert "highest scaled MSE for wild" in outcome.out
    done("eval", "checkpoint=run", "output=again")
    scores = pd.read_csv("run/metrics_by_series.csv")
    pd.testing.assert_frame_equal(scores, pd.read_csv("again/metrics_by_series.csv"), rtol=1e-4)
    own = scores[scores["model"] == "informer"]
    assert list(own["series"]) == ["wild", "calm"]
    overall = json.loads(Path("run/metrics.json").read_text())["scores"]["informer"]["scaled"]["overall"]
    assert np.average(own["mse_scaled"], weights=own["windows"]) == pytest.approx(overall["mse"])


def table(rows: int, columns: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(rows, columns)).cumsum(axis=0)).float()


@pytest.mark.parametrize("values", [torch.full((40, 2), 3.0), torch.zeros(40, 2)])
def test_ridge_on_constant_columns_forecasts_the_constant(values: torch.Tensor) -> None:
    constant = windows_over(values, seq_len=5, pred_len=2)
    batch = constant.batch(torch.arange(3))
    torch.testing.assert_close(fit_ridge(constant, constant, [0, 1])(batch), batch.target)


def test_ridge_thins_a_large_panel_evenly_and_says_so() -> None:
    """Windows that do not follow one another, as those of short series; red if others are taken."""
    train, thinned = (windows_over(table(100, 3), seq_len=6, pred_len=2) for _ in range(2))
    train.starts = train.starts[::2]  # 47 windows, 141 rows
    thinned.starts = train.starts[::3]
    few, expected = fit_ridge(train, train, range(3), max_rows=60), fit_ridge(thinned, thinned, range(3))
    assert "fitted on 16 of 47 training windows" in few.note
    torch.testing.assert_close(few.weight, expected.weight, rtol=0, atol=1e-9)
