"""Scores of each series, and the noise of a difference, against loops and simulations."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import SMALL, done

from informer.data.windows import DataUnits
from informer.scoring.metrics import Errors, MaseScale
from informer.scoring.scores import Evaluation


def errors_of(values: np.ndarray, owners: np.ndarray | None = None, scale: float = 2.0) -> Errors:
    """Errors of windows with one step and column, with these scaled errors, of these of three series."""
    errors = Errors(MaseScale(np.ones(1), np.ones(1)), n_series=3)
    owners = np.zeros(len(values), dtype=int) if owners is None else owners
    for part, series in zip(np.array_split(values, 3), np.array_split(owners, 3), strict=True):
        forecast, n = torch.from_numpy(part).reshape(-1, 1, 1), len(part)
        units = DataUnits(torch.zeros(n, 1), torch.full((n, 1), scale))
        errors.add(forecast, torch.zeros_like(forecast), units, series=torch.from_numpy(series))
    return errors


def test_means_of_each_series_worst_first() -> None:
    own, naive, ridge = np.array([1.0, 2, 3, 4, 5]), np.array([2.0, 2, 2, 2, 2]), np.array([9.0, 9, 1, 9, 9])
    owners = np.array([0, 0, 2, 2, 2])
    errors = {name: errors_of(values, owners) for name, values in (("net", own), ("naive", naive), ("ridge", ridge))}
    evaluation = Evaluation(model="net", columns=["y"], errors=errors, series=["a", "b", "c"])
    by_name = evaluation.by_series()
    assert list(by_name["series"]) == ["c"] * 3 + ["a"] * 3
    assert list(by_name["model"]) == ["net", "naive", "ridge"] * 2
    assert list(by_name["windows"]) == [3] * 3 + [2] * 3
    first = by_name.iloc[0]
    assert first["mse_scaled"] == pytest.approx((9 + 16 + 25) / 3)
    assert first["mae_scaled"] == pytest.approx(4)
    assert first["mae"] == pytest.approx(8)
    assert first["skill"] == pytest.approx(1 - (50 / 3) / 4)
    assert by_name["skill"].isna().tolist() == [False, True, True] * 2
    del errors["ridge"]
    line = evaluation.worst_series()
    assert line.endswith("highest scaled MSE for c 16.7, a 2.5; a baseline is better for 1 of 2")


@pytest.mark.parametrize(("shift", "says"), [(0.0, "cannot be told from ridge"), (0.3, "LOSES"), (-0.3, "beats")])
def test_a_difference_within_noise_is_no_loss(shift: float, says: str) -> None:
    """Errors of equal spread differ by chance; a third more or less does not, over 300 windows."""
    rng = np.random.default_rng(4)
    own, rival = rng.normal(0, 1 + shift, 300), rng.normal(0, 1, 300)
    evaluation = Evaluation(
        model="net", columns=["y"], errors={"net": errors_of(own), "ridge": errors_of(rival)}, block=5
    )
    assert says in evaluation.verdict, evaluation.verdict
    assert ("cannot be told" in evaluation.verdict) == (shift == 0.0)


@pytest.mark.parametrize(("windows", "decides"), [(119, False), (120, True)])
def test_windows_that_share_rows_decide_nothing_where_they_are_few(windows: int, decides: bool) -> None:
    """Three times the rows that windows share are needed; red if resamples of one or two blocks count as certainty."""
    own, rival = (np.full(windows, size) for size in (1.1, 1.0))
    errors = {"net": errors_of(own), "ridge": errors_of(rival)}
    evaluation = Evaluation(model="net", columns=["y"], errors=errors, block=40)
    assert ("LOSES" in evaluation.verdict) is decides
    assert (f"{windows} test windows cannot decide: too few" in evaluation.verdict) is not decides


def test_blocks_widen_the_interval() -> None:
    """Red if neighbouring windows count as independent: here ten in a row have the same error."""
    rng = np.random.default_rng(0)
    own, rival = (np.repeat(rng.normal(0, 1, 40), 10) for _ in range(2))
    errors = {"net": errors_of(own), "ridge": errors_of(rival)}
    single, blocks = (Evaluation(model="net", columns=["y"], errors=errors, block=n).noise for n in (1, 10))
    assert blocks.high - blocks.low > 2 * (single.high - single.low)


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
