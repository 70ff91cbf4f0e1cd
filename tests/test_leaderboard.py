"""`informer leaderboard` and `Forecaster.leaderboard`: the numbers, who is named, and the peers of other packages."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from entry_points import call, refusal

from informer import Forecaster

SEASON, HORIZON = 12, 12


def answer(*words: str) -> Any:
    """What the command answers to a program."""
    outcome = call("leaderboard", *words, "--json")
    assert outcome.status == 0, outcome.out
    return json.loads(outcome.out)


def months(n: int = 120, noise: float = 3.0) -> pd.DataFrame:
    """Two series with a season and a trend."""
    rng, rows, times = np.random.default_rng(0), np.arange(n), pd.date_range("2010-01-01", periods=n, freq="MS")
    parts = []
    for level, name in ((100, 3), (200, 7)):
        y = level + 0.2 * rows + 10 * np.sin(2 * np.pi * rows / SEASON) + rng.normal(0, noise, n)
        parts.append(pd.DataFrame({"store": name, "ds": times, "y": y}))
    return pd.concat(parts, ignore_index=True)


def naive_errors(table: pd.DataFrame, n_tests: int) -> list[float]:
    """MASE of each forecast of the last season, a horizon apart at the end of each series."""
    errors = []
    for _, rows in table.groupby("store"):
        y = rows["y"].to_numpy()
        for end in range(len(y) - n_tests * HORIZON, len(y), HORIZON):
            scale = np.abs(y[SEASON:end] - y[: end - SEASON]).mean()
            errors.append(np.abs(y[end : end + HORIZON] - y[end - SEASON : end]).mean() / scale)
    return errors


def test_each_forecaster_is_scored_on_the_same_rows(folder: Path) -> None:
    """Against the backtest of the pretrained network and the seasonal naive by hand. Red if origins, units or averages
    differ, if a trained model reads a row that it forecasts, or if Python says something else than the command."""
    table = months()
    table.to_csv("m.csv", index=False)
    found = pd.DataFrame(answer("m.csv", "horizon=12")["models"]).set_index("model")
    n_tests = 4  # 40 % of 120 rows
    assert found.loc["naive", "mase"] == pytest.approx(np.mean(naive_errors(table, n_tests)))
    first = table["ds"].unique()[-n_tests * HORIZON]
    zero = Forecaster().backtest(table, horizon=HORIZON, start=str(first)[:10], intervals=80)
    inside = (zero["lo80"] <= zero["actual"]) & (zero["actual"] <= zero["hi80"])
    assert found.loc["zero", "coverage80"] == pytest.approx(100 * inside.mean())
    assert found.loc["theta", "wql"] > found.loc["zero", "wql"]
    assert list(found["mase"]) == sorted(found["mase"])
    changed = table.assign(y=table["y"].where(table["ds"] < table["ds"].max(), 1e6))  # the row that nobody reads
    spoilt = Forecaster().leaderboard(changed, horizon=HORIZON, models=["linear", "naive"]).set_index("model")
    others = Forecaster().leaderboard(table, horizon=HORIZON, models=["theta", "naive"])
    np.testing.assert_allclose(others.set_index("model")["mase"], found.loc[others["model"], "mase"])
    assert others.attrs["headline"].startswith(others["model"][0])
    assert spoilt.loc["linear", "mase"] == pytest.approx(spoilt.loc["naive", "mase"], rel=0.01)


def test_the_best_is_named_or_that_it_cannot_be_told(folder: Path) -> None:
    """Red if a difference by chance names a winner, or a clear one does not."""
    noise = months(240).assign(y=lambda table: np.random.default_rng(1).normal(100, 10, len(table)))
    noise.to_csv("noise.csv", index=False)
    months(240, noise=0.5).to_csv("clear.csv", index=False)
    unclear = answer("noise.csv", "models=[zero,theta]", "horizon=12")
    best, other = unclear["models"]
    assert other["low"] < 0 < other["high"]  # its skill against the best
    assert unclear["headline"] == (
        f"{best['model']} has the lowest MASE in 16 test forecasts, and cannot be told apart from {other['model']}"
    )
    clear = answer("clear.csv", "models=[naive,zero]", "horizon=12")
    assert [each["model"] for each in clear["models"]] == ["zero", "naive"]
    assert clear["models"][1]["high"] < 0
    assert clear["headline"].startswith("zero is better than all others")


@pytest.mark.skipif(find_spec("statsforecast") is not None, reason="only without statsforecast")
def test_without_statsforecast_the_line_says_what_to_install(folder: Path) -> None:
    months(30).to_csv("short.csv", index=False)
    assert "pip install statsforecast" in refusal("leaderboard", "short.csv", "models=[zero,ets]")


def test_the_peers_are_those_of_their_packages() -> None:
    """Against statsforecast's own cross-validation. Red if a history, a season or the order of series is another."""
    statsforecast = pytest.importorskip("statsforecast")
    models = pytest.importorskip("statsforecast.models")
    pytest.importorskip("mlforecast")
    table, n_tests = months(), 4
    found = Forecaster().leaderboard(table, models=["ets", "lightgbm", "naive"], horizon=HORIZON).set_index("model")
    own = statsforecast.StatsForecast([models.AutoETS(season_length=SEASON)], freq="MS")
    long = table.rename(columns={"store": "unique_id"})
    tests = own.cross_validation(df=long, h=HORIZON, step_size=HORIZON, n_windows=n_tests)
    errors = []
    for (name, cutoff), rows in tests.groupby(["unique_id", "cutoff"], sort=True):
        y = long.loc[(long["unique_id"] == name) & (long["ds"] <= cutoff), "y"].to_numpy()
        scale = np.abs(y[SEASON:] - y[:-SEASON]).mean()
        errors.append((rows["AutoETS"] - rows["y"]).abs().mean() / scale)
    assert found.loc["ets", "mase"] == pytest.approx(np.mean(errors), rel=1e-6)
    assert found.loc["lightgbm", "mase"] < found.loc["naive", "mase"]
    assert found["coverage80"].between(50, 100).all()
