"""Forecasts from Python: one table or many, any horizon, and what is said when it cannot be done."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, Trained, call
from sklearn.exceptions import NotFittedError

from informer import Forecaster
from informer.errors import InputError
from informer.runtime import resource


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.read_csv(resource("data/sample.csv"), parse_dates=["date"]).iloc[:100]


@pytest.fixture(scope="module")
def forecaster(trained: Trained) -> Forecaster:
    return Forecaster.load(trained.run_dir, device="cpu")


def test_a_shorter_horizon_cuts(forecaster: Forecaster, frame: pd.DataFrame) -> None:
    whole = forecaster.predict(frame)
    assert len(whole) == 6
    pd.testing.assert_frame_equal(forecaster.predict(frame, horizon=2), whole.iloc[:2])
    pd.testing.assert_frame_equal(forecaster.predict(frame, horizon=6), whole)


def test_a_longer_horizon_is_the_forecast_of_the_forecast(forecaster: Forecaster, frame: pd.DataFrame) -> None:
    """Red if the rows rolled over are not the model's own, are scaled twice, or are not marked."""
    known = frame.copy()
    while len(known) < len(frame) + 14:
        known = pd.concat([known, forecaster.predict(known)], ignore_index=True)
    found = forecaster.predict(frame[["price", "date", "demand", "temperature", "visitors"]], horizon=14)
    assert list(found.pop("rolled")) == [False] * 6 + [True] * 8
    expected = known.iloc[len(frame) : len(frame) + 14].reset_index(drop=True)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-5)


def test_many_tables_are_as_each_alone(forecaster: Forecaster, frame: pd.DataFrame) -> None:
    tables = {"a": frame, "b": frame.iloc[:50], "c": frame.set_index("date").iloc[5:60]}
    found = forecaster.predict_many(tables, horizon=8)
    assert list(found) == ["a", "b", "c"]
    for name, table in tables.items():
        pd.testing.assert_frame_equal(found[name], forecaster.predict(table, horizon=8), rtol=1e-5)
    for one, other in zip(forecaster.predict_many(list(tables.values()), horizon=8), found.values(), strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_an_error_names_the_table(forecaster: Forecaster, frame: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="north: expected at least seq_len=24 rows of history, found 7"):
        forecaster.predict_many({"south": frame, "north": frame.iloc[:7]})
    with pytest.raises(InputError, match=r"^frames\[1\]: columns missing: price"):
        forecaster.predict_many([frame, frame.drop(columns="price")])
    with pytest.raises(InputError, match="horizon: expected at least 1, found 0"):
        forecaster.predict(frame, horizon=0)


def test_a_name_that_the_forecast_needs(forecaster: Forecaster, frame: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="frame: the forecast needs the column 'rolled'; rename yours"):
        forecaster.predict(frame.rename(columns={"date": "rolled"}), horizon=7)


def test_without_a_model_there_is_no_forecast(frame: pd.DataFrame) -> None:
    with pytest.raises(NotFittedError, match=r"use Forecaster\.load"):
        Forecaster().predict(frame)


def test_saved_and_loaded_it_says_the_same(forecaster: Forecaster, frame: pd.DataFrame, tmp_path: Path) -> None:
    forecaster.save(tmp_path / "kept.pt")
    pd.testing.assert_frame_equal(Forecaster.load(tmp_path / "kept.pt").predict(frame), forecaster.predict(frame))


def test_columns_that_are_not_forecast_end_the_horizon(folder: Path) -> None:
    random = np.random.default_rng(0)
    stamps = pd.date_range("2021-01-01", periods=320, freq="D")
    pd.DataFrame({"date": stamps, "a": random.normal(size=320), "b": random.normal(size=320)}).to_csv("ab.csv")
    arguments = ["dataset=csv", "dataset.path=ab.csv", "dataset.columns=[a,b]", "features=MS", "trainer.max_steps=1"]
    assert call("train", *SMALL, *arguments, "run_dir=run").status == 0
    assert call("predict", "checkpoint=run", "input=ab.csv", "horizon=6", "plots=false").status == 0
    refusal = call("predict", "checkpoint=run", "input=ab.csv", "horizon=7", "output=no")
    assert refusal.status == 2
    assert "horizon=7: expected at most pred_len=6, for the model does not forecast a, which it reads" in refusal.err
    assert not Path("no").exists()


def test_the_horizon_from_the_command_line(trained: Trained, forecaster: Forecaster, folder: Path) -> None:
    source = resource("data/sample.csv")
    outcome = call("predict", f"checkpoint={trained.run_dir}", f"input={source}", "horizon=9", "plots=false")
    assert (outcome.status, outcome.err) == (0, "")
    found = pd.read_csv("forecasts/sample.forecast.csv", parse_dates=["date"])
    expected = forecaster.predict(pd.read_csv(source, parse_dates=["date"]), horizon=9)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    assert call("predict", "input=x.csv", "horizon=0").err == "error: horizon: expected at least 1, found 0\n"
