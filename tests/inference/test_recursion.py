"""Forecasts beyond pred_len: from every origin against those of the rows up to it, and the bound of a horizon."""

from pathlib import Path

import numpy as np
import pandas as pd
from entry_points import ROOT, SMALL, Trained, done

from informer import Forecaster

COLUMNS = ["temperature", "visitors", "price", "demand"]


def test_every_origin_is_forecast_as_a_table_that_ends_there(trained: Trained, folder: Path) -> None:
    """Further than seq_len. Red if a block is not fed back to history and start token, or to other columns."""
    horizon, model = 31, Forecaster.load(trained.run_dir, device="cpu")
    frame = pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"]).iloc[226:310].reset_index(drop=True)
    rolled = model.backtest(frame, horizon=horizon, stride=5)
    needed = -(-horizon // 6) * 6
    origins = range(24, len(frame) - needed + 1, 5)
    assert list(rolled["origin"].unique()) == [frame["date"].iloc[row - 1] for row in origins]
    for row in origins:
        ahead = model.predict(frame.iloc[:row], horizon=horizon)
        own = rolled[rolled["origin"] == frame["date"].iloc[row - 1]]
        for column in COLUMNS:
            one = own[own["column"] == column]
            assert list(one["step"]) == list(range(1, horizon + 1))
            np.testing.assert_allclose(one["forecast"], ahead[column], rtol=1e-4, atol=1e-5)
            assert list(one["date"]) == list(frame["date"].iloc[row : row + horizon])
            np.testing.assert_allclose(one["actual"], frame[column].iloc[row : row + horizon])
        assert list(one["rolled"]) == list(ahead["rolled"])


def test_future_covariates_come_from_the_table(folder: Path) -> None:
    roles = ["targets=[price,demand]", "future_covariates=[temperature]", "loss=quantile", "run_dir=run"]
    done("train", "dataset=sample", *SMALL, *roles, "trainer.max_steps=2")
    table = pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"])
    model = Forecaster.load("run", device="cpu")
    ahead = model.predict(table.iloc[:250], horizon=13, future=table[["date", "temperature"]].iloc[250:268])
    rolled = model.backtest(table.iloc[226:268], horizon=13)
    own = rolled[rolled["column"] == "demand"]
    np.testing.assert_allclose(own["forecast"], ahead["demand"], rtol=1e-4)
    np.testing.assert_allclose(own["q10"], ahead["demand_q10"], rtol=1e-4)
