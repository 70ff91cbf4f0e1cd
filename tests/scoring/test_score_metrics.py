"""Scores of files against scikit-learn and formulas written out value by value."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import done
from sklearn.metrics import mean_absolute_error, mean_pinball_loss, mean_squared_error

HOURS = pd.date_range("2024-01-01", periods=400, freq="h")
SEASON = 4


def scored(histories: Sequence[np.ndarray], actual: np.ndarray, forecast: np.ndarray, **bands: np.ndarray) -> dict:
    """What `informer score` writes of forecasts [series, steps] after these histories, all of which end together;
    `by_series` are the values of its table by forecaster and metric."""
    last = max(map(len, histories))

    def long(rows: Sequence[np.ndarray], first: Sequence[int], **more: np.ndarray) -> pd.DataFrame:
        parts = [
            pd.DataFrame({"series": f"s{i}", "time": HOURS[n : n + len(row)], "y": row}
                         | {name: values[i] for name, values in more.items()})
            for i, (row, n) in enumerate(zip(rows, first, strict=True))
        ]  # fmt: skip
        return pd.concat(parts)

    ends = [last] * len(histories)
    long(forecast, ends, **bands).to_csv("f.csv", index=False)
    long(actual, ends).to_csv("a.csv", index=False)
    long(histories, [last - len(each) for each in histories]).to_csv("h.csv", index=False)
    files = ["forecasts=f.csv", "actuals=a.csv", "history=h.csv", "dataset.series_col=series"]
    done("score", *files, f"season={SEASON}", "output=s", "overwrite=true")
    table = pd.read_csv("s/scores.csv")
    by_series = table[table["series"] != "all"].groupby(["forecaster", "metric"])["value"].apply(list)
    return json.loads(Path("s/scores.json").read_text()) | {"by_series": by_series}


@pytest.fixture
def case(folder: Path) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Histories of 60 rows of three series with a season of 4, five actual values and forecasts of each."""
    rng = np.random.default_rng(1)
    values = 10 + 5 * np.sin(np.arange(65) * np.pi / 2) + rng.normal(0, 1, (3, 65)) + np.array([[0], [20], [50]])
    return list(values[:, :60]), values[:, 60:], values[:, 60:] + rng.normal(0, 1, (3, 5))


def test_scores_value_by_value(case: tuple) -> None:
    """Red when a denominator, a factor or the order of averaging changes."""
    histories, actual, forecast = case
    found = scored(*case, lo80=forecast - 1.2, hi80=forecast + 1.2)
    own, reference = found["overall"]["forecast"], found["overall"]["naive2"]
    for metric, oracle in (("mse", mean_squared_error), ("mae", mean_absolute_error)):
        assert own[metric] == pytest.approx(oracle(actual.ravel(), forecast.ravel()))
        by_step = [oracle(actual[:, i], forecast[:, i]) for i in range(5)]
        assert found["by_step"]["forecast"][metric] == pytest.approx(by_step)
        by_series = [oracle(actual[i], forecast[i]) for i in range(3)]
        assert found["by_series"]["forecast", metric] == pytest.approx(by_series)
    smape, mase = [], []
    for f, y, history in zip(forecast, actual, histories, strict=True):
        scale = sum(abs(history[t] - history[t - 4]) for t in range(4, 60)) / 56
        mase.append(sum(abs(a - b) for a, b in zip(f, y, strict=True)) / 5 / scale)
        smape.append(sum(200 * abs(a - b) / (abs(a) + abs(b)) for a, b in zip(f, y, strict=True)) / 5)
    assert (own["smape"], own["mase"]) == pytest.approx((np.mean(smape), np.mean(mase)))
    assert own["owa"] == pytest.approx((own["smape"] / reference["smape"] + own["mase"] / reference["mase"]) / 2)
    skills = {(each["metric"], each["baseline"]): each["skill"] for each in found["differences"]}
    assert skills["mase", "seasonal naive"] == pytest.approx(
        1 - own["mase"] / found["overall"]["seasonal naive"]["mase"]
    )
    y, f = actual.ravel(), forecast.ravel()
    assert own["coverage80"] == pytest.approx(100 * np.mean(np.abs(y - f) <= 1.2))
    losses = [2 * mean_pinball_loss(y, f + shift, alpha=q) for q, shift in ((0.1, -1.2), (0.5, 0.0), (0.9, 1.2))]
    assert own["wql"] == pytest.approx(np.mean(losses) / np.abs(y).mean())


def by_hand(history: list[float], season: int, step: int, percent: int) -> tuple[float, float]:
    """Forecast of the seasonal naive at a step ahead, and the half width of its interval."""
    errors, lag = [], season * math.ceil(step / season)
    for t in range(lag, len(history)):
        if not math.isnan(history[t] + history[t - lag]):
            errors.append(abs(history[t] - history[t - lag]))
    return history[len(history) - lag + step - 1], sorted(errors)[math.ceil((len(errors) + 1) * percent / 100) - 1]


@pytest.mark.parametrize("gaps", [(), (3, 17, 18, 40)])
def test_the_seasonal_naive_has_quantiles_of_the_same_levels(case: tuple, gaps: tuple[int, ...]) -> None:
    """Two seasons ahead its errors are larger. Red if they are those of one step or of all series, if a level is
    another interval's, or if missing values count."""
    histories, actual, forecast = case
    for history in histories:
        history[list(gaps)] = np.nan
    found = scored(*case, lo80=forecast - 1.2, hi80=forecast + 1.2, q20=forecast - 0.5)
    losses = []
    for level, percent in {0.1: -80, 0.2: -60, 0.5: 0, 0.9: 80}.items():
        quantiles = []
        for series, step in np.ndindex(3, 5):
            center, half = by_hand(histories[series].tolist(), 4, step + 1, abs(percent) or 80)
            quantiles.append(center + half * np.sign(percent))
        losses.append(2 * mean_pinball_loss(actual.ravel(), quantiles, alpha=level) / np.abs(actual).mean())
    assert found["overall"]["seasonal naive"]["wql"] == pytest.approx(np.mean(losses))
    assert len(found["by_step"]["seasonal naive"]["wql"]) == 5
    assert len(found["by_series"]["seasonal naive", "wql"]) == 3
    assert "wql" not in found["overall"]["naive2"]


def test_histories_too_short_for_the_quantiles_of_the_seasonal_naive(case: tuple) -> None:
    """An 80 % interval needs four errors, of five steps ahead those of rows eight apart. Red if the loss is that of
    fewer cells than the forecast's."""
    histories, actual, forecast = case
    for rows, has in ((11, False), (12, True)):
        short = [histories[0][-rows:], *histories[1:]]
        found = scored(short, actual, forecast, lo80=forecast - 1.2, hi80=forecast + 1.2)
        assert ("wql" in found["overall"]["seasonal naive"]) == has
        assert any("no WQL of the seasonal naive: the history of 1 forecast" in note for note in found["notes"]) != has


def test_what_baselines_forecast(folder: Path) -> None:
    """A level times a season is what the decomposition of Naive2 is exact for; the seasonal naive repeats what ridge
    learns. Red if a place of the season moves, or if a short history gets a ridge."""
    season = np.resize([3.5, 10.5, 8.4, 5.6], 66)
    found = scored([season[:60], season[:60]], *[np.stack([season[60:], season[60:]])] * 2)["overall"]
    assert {name: found[name]["mae"] for name in ("seasonal naive", "naive2")} == pytest.approx(
        {"seasonal naive": 0.0, "naive2": 0.0}, abs=1e-9
    )
    assert found["ridge"]["mae"] < 0.05
    noise = np.random.default_rng(0).normal(10, 1, 60)
    ahead = noise[-1] + np.arange(6.0)
    found = scored([noise], ahead[None], ahead[None])
    assert found["by_step"]["naive2"]["mae"] == pytest.approx(np.arange(6.0))
    assert "ridge" not in scored([np.arange(12.0)], ahead[None, :5], ahead[None, :5])["overall"]


def test_missing_values_of_histories_keep_their_places(folder: Path) -> None:
    """By hand. Red if missing values are removed, so that later values move to another place of the season."""
    gap = np.nan
    history = np.array([1.0, 2, 3, 4, 10, gap, 30, 40, gap, gap, 33, 7, gap, gap, gap, gap, 2])[:-1]
    found = scored([history], np.zeros((1, 5)), np.ones((1, 5)))
    assert found["by_step"]["seasonal naive"]["mae"] == [10, 2, 33, 7, 10]
    assert found["overall"]["forecast"]["mase"] == pytest.approx(1 / np.mean([9, 27, 36, 3, 33]))
