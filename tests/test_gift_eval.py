"""Scores of configurations of GIFT-Eval: which rows they read, and what they refuse."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import call_script, script

HOURS = 4000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Quarter hours of two made-up columns, in the format of ETTm1."""
    rng, rows = np.random.default_rng(0), np.arange(4 * HOURS)
    times = pd.date_range("2016-07-01", periods=len(rows), freq="15min")
    columns = {name: np.sin(rows / 96 * 2 * np.pi) + rng.normal(size=len(rows)).cumsum() / 50 for name in "ab"}
    pd.DataFrame({"date": times, **columns}).to_csv(tmp_path / "ETTm1.csv", index=False)
    return tmp_path


def scores(data: Path, name: str) -> pd.DataFrame:
    done = call_script("gift_eval", "--data", data, "--parts", "development", "--output", data / name)
    assert done.status == 0, done.err
    return pd.read_csv(data / name / "development_results.csv")


@pytest.mark.slow
def test_development_does_not_read_rows_of_the_test_part(data):
    """Red if a window of the development part ends in a row that the benchmark forecasts: the last 240 hours are in
    the test windows of every configuration."""
    before = scores(data, "before")
    table = pd.read_csv(data / "ETTm1.csv")
    table.loc[len(table) - 4 * 240 :, ["a", "b"]] = 1e6
    table.to_csv(data / "ETTm1.csv", index=False)
    pd.testing.assert_frame_equal(scores(data, "after"), before)
    assert list(before.dataset) == [
        *(f"ett1/{step}/{term}" for step in ("H", "15T") for term in ("short", "medium", "long")),
        *("ett1/D/short", "ett1/W/short"),
    ]
    numbers = before.drop(columns=["dataset", "model", "domain", "num_variates"])
    assert np.isfinite(numbers.to_numpy()).all()
    assert (numbers > 0).to_numpy().all()


def test_errors_match_their_definitions():
    """MASE, ND, MSIS and the weighted quantile loss, from loops; red if a mean is taken in another order."""
    rng, judge = np.random.default_rng(0), script("gift_eval")
    quantiles, actual, unit = np.sort(rng.normal(size=(3, 4, 11))), rng.normal(size=(3, 4)), np.array([1.0, 2.0, 5.0])
    found = judge.metrics(quantiles, actual, unit)
    places = [(i, j) for i in range(3) for j in range(4)]
    size = sum(abs(actual[place]) for place in places)
    errors = {(i, j): abs(quantiles[i, j, 5] - actual[i, j]) for i, j in places}
    assert found["MASE[0.5]"] == pytest.approx(np.mean([errors[i, j] / unit[i] for i, j in places]))
    assert found["ND[0.5]"] == pytest.approx(sum(errors.values()) / size)
    losses, widths = list[float](), list[float]()
    for k, level in enumerate(judge.DECILES, 1):
        off = [actual[place] - quantiles[place][k] for place in places]
        losses.append(2 * sum(level * x if x > 0 else (level - 1) * x for x in off) / size)
    for i, j in places:
        low, high, y = quantiles[i, j, 0], quantiles[i, j, 10], actual[i, j]
        widths.append((high - low + 40 * (low - y) * (y < low) + 40 * (y - high) * (y > high)) / unit[i])
    assert found["mean_weighted_sum_quantile_loss"] == pytest.approx(np.mean(losses))
    assert found["MSIS"] == pytest.approx(np.mean(widths))


def test_other_series_than_the_benchmark_are_refused(data):
    done = call_script("gift_eval", "--data", data, "--parts", "test", "--output", data / "test")
    assert done.status == 1
    assert "published are (0.97732, 0.24037)" in done.err
