"""The Forecaster as an estimator: arguments of fit and predict, settings on the instance, scores and a figure."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from informer import Forecaster
from informer.base.errors import InputError

SETTINGS = {"model": "linear", "seq_len": 48, "pred_len": 12, "device": "cpu"}
HOURS = pd.date_range("2024-01-01", periods=600, freq="h")


def hourly() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"date": HOURS, "load": 10 + np.sin(np.arange(600) / 24 * 2 * np.pi) + rng.normal(0, 0.1, 600)})


@pytest.fixture(scope="module")
def fitted() -> Forecaster:
    return Forecaster.fit(hourly(), **SETTINGS)


def test_settings_on_the_instance(fitted: Forecaster) -> None:
    """The same numbers as on the class; fit returns the instance itself."""
    forecaster = Forecaster(**SETTINGS)
    assert forecaster.fit(hourly()) is forecaster
    pd.testing.assert_frame_equal(forecaster.predict(hourly()), fitted.predict(hourly()))
    assert len(Forecaster(**SETTINGS).fit(hourly(), pred_len=6).predict(hourly())) == 6


@pytest.mark.parametrize(
    "kind", ["path", "series", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("text", "folder"))]
)
def test_a_path_or_a_series(kind: str, fitted: Forecaster, tmp_path: Path) -> None:
    hourly().to_csv(tmp_path / "f.csv", index=False)
    series = hourly().set_index("date")["load"]
    data = {"path": tmp_path / "f.csv", "text": str(tmp_path / "f.csv"), "series": series, "folder": tmp_path}[kind]
    forecaster = Forecaster.fit(data, **SETTINGS)
    ahead = forecaster.predict(tmp_path / "f.csv" if kind == "folder" else data)
    np.testing.assert_allclose(ahead["load"], fitted.predict(hourly())["load"], rtol=1e-5)


@pytest.mark.parametrize("data", [np.zeros(10), [1.0, 2.0], pd.Series([1.0, 2.0]), None])
def test_data_without_times_say_what_to_pass(data: object, fitted: Forecaster) -> None:
    for call in (fitted.predict, Forecaster(**SETTINGS).fit):
        with pytest.raises(InputError, match=r"pass pandas.DataFrame\(values, index=pandas.date_range"):
            call(data)


def test_predict_accepts_repairs(fitted: Forecaster) -> None:
    torn = hourly().drop(index=[580])
    with pytest.raises(InputError, match="1 row is missing"):
        fitted.predict(torn)
    whole = hourly()
    whole.loc[580, "load"] = whole["load"][[579, 581]].mean()
    forecast = fitted.predict(torn, dataset={"fill": "linear"})
    pd.testing.assert_frame_equal(forecast, fitted.predict(whole))
    with pytest.raises(InputError, match="fil"):
        fitted.predict(torn, dataset={"fil": "linear"})


def test_metrics_are_those_of_the_run(tmp_path: Path) -> None:
    forecaster = Forecaster.fit(hourly(), **SETTINGS, run_dir=tmp_path / "run")
    saved = json.loads((tmp_path / "run" / "metrics.json").read_text())["scores"]
    assert list(forecaster.metrics.loc["scaled"].index) == ["linear", "seasonal naive", "ridge"]
    assert forecaster.metrics.loc[("original", "ridge"), "mae"] == saved["ridge"]["original"]["overall"]["mae"]
    pd.testing.assert_frame_equal(Forecaster.load(tmp_path / "run").metrics, forecaster.metrics)
    forecaster.save(tmp_path / "model.pt")
    with pytest.raises(InputError, match="found no scores"):
        _ = Forecaster.load(tmp_path / "model.pt").metrics


def test_the_score_is_the_skill_on_rows_that_training_did_not_see(fitted: Forecaster) -> None:
    """By the backtest from row 480 on, and the seasonal naive by hand; ridge can only lower it."""
    later = hourly().iloc[480 - 48 :].reset_index(drop=True)
    table = fitted.backtest(later, stride=12)
    error = ((table["forecast"] - table["actual"]) ** 2).mean()
    values = later["load"].to_numpy()
    rows = table["date"].map({time: row for row, time in enumerate(later["date"])}).to_numpy()
    naive = ((values[rows - 24] - values[rows]) ** 2).mean()
    score = fitted.score(hourly(), stride=12)
    assert score <= 1 - error / naive + 1e-6
    assert score > -1


def test_a_picture_names_every_interval(fitted: Forecaster) -> None:
    figure = fitted.plot(hourly(), intervals=[50, 80])
    (axes,) = figure.axes
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["history", "80 % interval", "50 % interval", "forecast"]
    assert axes.get_title(loc="left") == "load"
    with pytest.raises(InputError, match="series=x: expected one of frame"):
        fitted.plot(hourly(), series="x")
