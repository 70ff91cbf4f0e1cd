"""Series and columns of unlike scale, constant columns, and values near the limits of float64."""

import logging

import numpy as np
import pandas as pd
import pytest
from entry_points import call

from informer import Forecaster
from informer.data.diagnosis import _of_column
from informer.data.scaler import Scaler
from informer.inference.writing import decimals_for, rounded

NOISE = np.random.default_rng(5).normal(size=(400, 9))
SPREADS = [1e-3, 1.0, 1e12, 1e-9, 1e-307, 1e-14, 1.0, 1e28, 1e-3]
COLUMNS = NOISE * SPREADS + [1e9, 3.0, 4e12, 2e-9, 0, 0.1, 40, 1e29, -7e8]
COLUMNS[200, 6] = 1e9  # one far outlier
PERIOD = 7
WEEK = np.sin(2 * np.pi * np.arange(PERIOD) / PERIOD)


def test_float32_resolves_every_column() -> None:
    """Fails if rows are converted to float32 before the center is subtracted."""
    for kind in ("standard", "minmax", "robust"):
        held = Scaler.fit(kind, [COLUMNS]).transform(COLUMNS).astype(np.float32)
        assert (np.spacing(np.abs(held).max(axis=0)) <= held.std(axis=0, dtype=np.float64) / 1000).all()


def test_a_step_of_mostly_equal_rows_has_the_scale_of_its_steps() -> None:
    """Fails if equal quartiles give the scale 1 to values of 1e-9."""
    values = np.where(np.arange(100) % 10, 0.0, 1e-9)[:, None]
    np.testing.assert_allclose(Scaler.fit("robust", [values]).scale, values.std(), rtol=1e-12)


def test_small_series_next_to_large_ones() -> None:
    """Fails with one scale for all series: float32 then resolves steps of 28 for values of 3 to 7."""
    noise, days = np.random.default_rng(0), pd.date_range("2021-01-01", periods=300)
    truth = np.tile(WEEK, 45)[: 300 + PERIOD]
    frames = [
        pd.DataFrame({"place": "world", "date": days, "cases": 1e9 + 2e8 * truth[:300] + noise.normal(0, 1e7, 300)}),
        pd.DataFrame({"place": "small", "date": days, "cases": 5 + 2 * truth[:300]}),
    ]
    frame = pd.concat(frames, ignore_index=True)
    common = {"seq_len": 28, "label_len": 7, "pred_len": PERIOD, "dataset.series_col": "place", "device": "cpu"}
    model = Forecaster("linear", **common).fit(frame)  # type: ignore[arg-type]
    small = model.predict(frame).query("place == 'small'")["cases"].to_numpy()
    np.testing.assert_allclose(small, 5 + 2 * truth[300:], atol=0.1)


@pytest.mark.parametrize(
    ("model", "more"), [("linear", {}), ("tiny", {"trainer.max_steps": 2, "loss": "quantile", "non_negative": "all"})]
)
def test_constants_come_back(model: str, more: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    """Fails if noise of a network shows in a column that never varies."""
    times = pd.date_range("2023-01-01", periods=240, freq="h")
    frame = pd.DataFrame({"time": times, "rate": 0.001, "load": 1e6 + NOISE[:240, 0]})
    sizes = {"seq_len": 24, "label_len": 12, "pred_len": 6, "device": "cpu"}
    forecaster = Forecaster(model, **sizes, **more).fit(frame)  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING):
        forecast = forecaster.predict(frame)
    assert forecast["rate"].tolist() == [0.001] * 6
    assert (
        "rate: constant in training, so forecast as the last value, with intervals only after rows that vary"
        in caplog.text
    )
    ends = [name for name in forecast if str(name).startswith("rate_")]
    assert forecast[ends].isna().all(axis=None)
    assert np.abs(forecast["load"] - 1e6).max() < 10
    assert len(ends) == (2 if "loss" in more else 0)


def test_rounding_noise_of_a_constant_is_no_deviation() -> None:
    """Fails if the mean of the test rows is 1e14 standard deviations away from a constant."""
    train = np.where(np.arange(90) % 2, 0.1 + 0.2, 0.3)
    lines = [line for _, line in _of_column("x", train, np.full(30, 0.4))]
    assert len(lines) == 1
    assert "x: constant in the training rows (0.3)" in lines[0]
    assert next(_of_column("x", train * 1e-307, np.full(30, 1e-307)))[0] == 1e3


def test_a_counter_is_called_one() -> None:
    """Red if readings of a meter get a warning about their level, or a trend with noise is called a counter."""
    meter = 5e4 + np.cumsum(np.abs(NOISE[:, 0]))
    assert "never falls, as a counter" in next(_of_column("x", meter[:150], meter[150:]))[1]
    meter[80] -= 10
    assert "above that of the training rows" in next(_of_column("x", meter[:150], meter[150:]))[1]


def test_nights_and_months_without_demand_are_no_stuck_sensor() -> None:
    """Red if zeros of many stretches count, or if they hide a sensor that is stuck once at another value."""
    random, hours = np.random.default_rng(0), np.arange(24 * 30)
    sun = np.maximum(0.0, np.sin((hours % 24 - 6) / 12 * np.pi)) * random.uniform(0.5, 1, len(hours))
    demand = np.where(random.random(80) < 0.6, 0.0, random.gamma(2, 3, 80).round())
    stuck = np.where(np.arange(len(hours)) // 200 == 1, 7.25, random.normal(7, 1, len(hours)))
    nights_stuck = np.where(np.arange(len(hours)) // 200 == 1, 0.75, sun)
    found = [[line for _, line in _of_column("x", each, each[-40:])] for each in (sun, demand, stuck, nights_stuck)]
    assert [sum("stuck sensor" in line for line in lines) for lines in found] == [0, 0, 1, 1]
    assert any("28% of the training rows repeat" in line for line in found[2])


@pytest.mark.parametrize("size", [1e-319, 1e-307, 1e-20, 1.0, 1e29])
def test_rounded_to_significant_digits(size: float) -> None:
    """Fails if 10^decimals overflows for values below 1e-300, which gives NaN."""
    values = NOISE[:50, 0] * size
    np.testing.assert_allclose(rounded(values, decimals_for(values, 6)), values, rtol=0, atol=2e-6 * size + 1e-323)


def test_rounding_noise_has_no_digits() -> None:
    """Red if a constant is written as 0.30000000000000004, or loses digits that its file has."""
    assert decimals_for(np.array([0.3, 0.1 + 0.2]), 4) == 15


TIMES = pd.date_range("2024-01-01", periods=300, freq="h")


@pytest.mark.parametrize("constant", [1234567891.0, 0.123456789012, 9.223372e18, -3e-200])
def test_a_constant_is_continued_with_all_of_its_digits(tmp_path, monkeypatch, constant):
    """Red if digits after the seventh are lost, as those of single precision are."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"time": TIMES[:60], "y": constant}).to_csv("constant.csv", index=False)
    assert call("forecast", "constant.csv", "horizon=2", "output=o").status == 0
    rows = (tmp_path / "o" / "forecasts" / "constant.forecast.csv").read_text().splitlines()[1:]
    assert [float(row.split(",")[1]) for row in rows] == [constant] * 2


def test_changes_are_forecast_alike_at_every_level():
    """Red if the network sees the level: at 2^40, single precision has no digits left for these changes."""
    hours = np.arange(len(TIMES))
    changes = np.round(64 * np.sin(2 * np.pi * hours / 24) + np.random.default_rng(0).normal(size=len(hours)) * 8) / 16
    low, high = (_above(level, changes) for level in (0.0, 2.0**40))
    np.testing.assert_allclose(high, low, atol=2.0**-12)


def _above(level: float, changes: np.ndarray) -> np.ndarray:
    frame = pd.DataFrame({"time": TIMES, "y": level + changes})
    return Forecaster().predict(frame, horizon=24, intervals=[80])[["y", "y_lo80", "y_hi80"]].to_numpy() - level


def test_a_report_has_no_width_where_the_scale_is_undefined(tmp_path, monkeypatch):
    """Red if a column that repeats exactly has intervals that are "nan wide"."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"time": TIMES, "y": (-1.0) ** np.arange(len(TIMES))}).to_csv("turns.csv", index=False)
    assert call("forecast", "turns.csv", "horizon=6", "output=o").status == 0
    page = (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    assert "MASE is undefined for y" in page
    assert "nan wide" not in page


def test_numbers_near_the_largest_give_errors_of_one_line(tmp_path, monkeypatch):
    """Red if a difference of two of them overflows: the suite turns warnings of numpy into errors."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"time": TIMES, "y": 1e308 * (-1.0) ** np.arange(len(TIMES))}).to_csv("big.csv", index=False)
    outcome = call("inspect", "big.csv")
    assert "expected a number of at most 1e+30" in outcome.out
    assert outcome.err == ""
