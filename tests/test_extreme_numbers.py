"""Numbers at the edge of what float64 holds are forecast and written as others are."""

import numpy as np
import pandas as pd
import pytest
from entry_points import call

from informer import Forecaster

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
