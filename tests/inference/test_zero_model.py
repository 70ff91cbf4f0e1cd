"""Forecasts by the network that comes trained: weights, seasons, intervals, scores, and the ways to ask for them."""

import hashlib
import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT

from informer import Forecaster, InputError
from informer.data import Frequency, Series
from informer.inference.zero import ZeroModel
from informer.members.zero import network_seasons
from informer.pretrained.weights import NEWEST, VERSIONS, weights_path
from informer.scoring.forecasts import Forecasts
from informer.scoring.scores import Scores

SEASONAL = 100 + np.arange(60) + 20 * np.sin(2 * np.pi * np.arange(60) / 12)


def series_of(code: str = "MS", **columns: np.ndarray) -> Series:
    rows = len(next(iter(columns.values())))
    times = pd.date_range("2018-01-01", periods=rows, freq=code)
    values = np.stack(list(columns.values()), axis=1).astype(float)
    return Series("x", times, values, tuple(columns), Frequency.parse(code), "date")


def forecast(series: Series, horizon: int, levels: tuple[int, ...] = ()) -> Forecasts:
    return ZeroModel([series], series.columns).forecast(horizon, levels=levels)


def medians(series: Series, horizon: int = 12) -> np.ndarray:
    return forecast(series, horizon).mean.T


def scores_of(series: Series, horizon: int) -> Scores:
    scores = ZeroModel([series], series.columns).evaluate(horizon)
    assert scores is not None
    return scores


@pytest.mark.parametrize("version", VERSIONS)
def test_weights_have_their_digest_and_are_small(version):
    content = weights_path(version).read_bytes()
    assert hashlib.sha256(content).hexdigest() == VERSIONS[version]
    assert len(content) < 4_000_000


@pytest.mark.slow
def test_damaged_weights_are_refused(tmp_path):
    """Red if an installation with other weights than the package's forecasts with them."""
    package = tmp_path / "informer"
    shutil.copytree(ROOT / "informer" / "pretrained", package / "pretrained")
    for path in (ROOT / "informer").iterdir():
        if path.name != "pretrained":
            (package / path.name).symlink_to(path)
    (weights,) = (package / "pretrained").glob(f"{NEWEST}.*")
    weights.write_bytes(weights.read_bytes()[:-4] + b"0000")
    command = [sys.executable, "-m", "informer", "forecast", str(ROOT / "data" / "sample.csv"), "output=o"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True)
    assert done.returncode == 2
    assert b"missing or damaged; install informer-forecasting again" in done.stderr


def test_a_column_is_forecast_as_if_alone():
    noise = np.random.default_rng(0).normal(0, 1e9, 60)
    together = medians(series_of(a=SEASONAL, b=noise))[:, 0]
    np.testing.assert_allclose(together, medians(series_of(a=SEASONAL))[:, 0], rtol=1e-4)
    assert together.min() > 100


@pytest.mark.parametrize("scale", [1e-305, 1e300])
def test_extreme_scales(scale):
    found = medians(series_of(a=scale * SEASONAL))
    np.testing.assert_allclose(found, scale * medians(series_of(a=SEASONAL)), rtol=1e-3)
    assert found.min() > 100 * scale


def test_constant_column_goes_on_without_intervals():
    found = forecast(series_of(a=np.full(30, 0.1), b=SEASONAL[:30]), 5, (80,))
    assert (found.mean[0] == 0.1).all()
    assert np.isnan(found.bands["lo80"][0]).all()
    assert (found.bands["lo80"][1] < found.bands["hi80"][1]).all()


def test_counters_do_not_fall():
    """Red if a meter runs back; a column that fell once, or has few rows, may fall again."""
    meter = 5000 + np.cumsum(1 + np.sin(np.arange(200) * 2 * np.pi / 24))
    meter[17] = np.nan
    fell = meter.copy()
    fell[150:] -= 40
    found = forecast(series_of("h", a=meter, b=fell), 96, (95,))
    for counter in (found.mean[0], found.bands["lo95"][0], found.bands["hi95"][0]):
        assert (np.diff(counter, prepend=meter[-1]) >= 0).all()
    assert np.diff(found.mean[1]).min() < 0
    assert np.diff(forecast(series_of("h", a=meter[:99]), 96, (95,)).bands["lo95"][0]).min() < 0


def test_column_that_ended_before_the_rows_that_are_read_is_named():
    """Red if levels are taken of no row, while forecasting or at an earlier origin."""
    ended = np.where(np.arange(2600) < 200, 1.0 + np.arange(2600) % 24, np.nan)
    with pytest.raises(InputError, match="'b' has no value in its last 1,024 rows"):
        forecast(series_of("h", a=np.arange(2600.0), b=ended), 4)
    ended[2590:] = 5.0
    series = series_of("h", a=np.arange(2600.0) % 24, b=ended)
    assert np.isfinite(forecast(series, 4).mean).all()
    assert ZeroModel([series], ["a", "b"]).evaluate(4) is not None


def test_seasons_are_those_of_the_calendar_or_of_the_data():
    hours, years = np.arange(400), np.arange(120)
    assert network_seasons([series_of("h", a=np.sin(2 * np.pi * hours / 24))], ["a"]) == (24, 168)
    assert network_seasons([series_of("YS", a=np.sin(2 * np.pi * years / 11))], ["a"]) == (11, 1)
    assert network_seasons([series_of("YS", a=np.random.default_rng(0).normal(size=120))], ["a"]) == (1, 1)
    assert network_seasons([series_of("min", a=np.random.default_rng(0).normal(size=300))], ["a"]) == (1, 1)


def test_a_column_that_begins_later_changes_no_score_of_another():
    """Red if origins before its first value are forecast, which have no history, or are scored."""
    late = np.where(np.arange(60) < 40, np.nan, SEASONAL)
    both, alone = (scores_of(series_of(**columns), 6) for columns in ({"a": SEASONAL, "b": late}, {"a": SEASONAL}))
    for name in alone.names:
        by_column = both.values(name, "original", "column")["mae"]
        assert by_column[0] == pytest.approx(alone.overall(name, "original")["mae"])
    counts = both.count(NEWEST, "original", "mae")
    assert 0 < counts[0, 1] < counts[0, 0]


def test_intervals_after_a_few_rows_are_not_endless() -> None:
    """Red if outer quantiles, which are learnt from few values, are as far away as the network says: 95 % were 10 times
    as wide as 80 %."""
    frame = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=3), "y": [20.0, 21.0, 22.5]})
    ahead = Forecaster().predict(frame, horizon=2, intervals=[80, 95, 98])
    assert (ahead["y_lo80"] < ahead["y"]).all()
    assert (ahead["y"] < ahead["y_hi80"]).all()
    for level in (95, 98):
        for side in ("lo", "hi"):
            far = (ahead[f"y_{side}{level}"] - ahead["y"]).abs()
            assert (far <= 4.001 * (ahead[f"y_{side}80"] - ahead["y"]).abs()).all()
