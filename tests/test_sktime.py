"""The forecaster for sktime gives what `Forecaster` gives, at the steps and in the shapes of sktime."""

import numpy as np
import pandas as pd
import pytest

from informer import Forecaster

pytest.importorskip("sktime")
from sktime.forecasting.model_evaluation import evaluate
from sktime.split import ExpandingWindowSplitter

InformerForecaster = pytest.importorskip("informer.sktime").InformerForecaster

STEPS = [1, 3]


def months(*, periods: bool) -> pd.DataFrame:
    """Two columns with a season, and one known ahead."""
    index = (
        pd.period_range("2018-01", periods=63, freq="M") if periods else pd.date_range("2018", periods=63, freq="MS")
    )
    step, rng = np.arange(63), np.random.default_rng(0)
    promotion = (step % 7 == 3).astype(float)
    sales = 50 + 10 * np.sin(2 * np.pi * step / 12) + 20 * promotion + rng.normal(size=63)
    return pd.DataFrame({"sales": sales, "visits": 3 * sales + rng.normal(size=63), "promotion": promotion}, index)


@pytest.mark.parametrize("periods", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_forecasts_are_those_of_the_forecaster(periods: bool, known: bool) -> None:
    """Red if steps are those of other rows, bounds change sides, or columns known ahead are not handed on."""
    table = months(periods=periods)
    past, ahead, targets = table[:60], table[60:], ["sales", "visits"]
    dated = [each.to_timestamp() if periods else each for each in (past, ahead)]
    own = Forecaster(**({"future_covariates": ["promotion"]} if known else {}))
    chosen = [*targets, "promotion"] if known else targets
    future = dated[1][["promotion"]] if known else None
    expected = own.predict(dated[0][chosen], horizon=3, intervals=80, future=future)
    X, X_ahead = (past[["promotion"]], ahead[["promotion"]]) if known else (None, None)
    fitted = InformerForecaster().fit(past[targets], X=X)
    found = fitted.predict(fh=STEPS, X=X_ahead)
    assert list(found.index) == [ahead.index[0], ahead.index[2]]
    np.testing.assert_allclose(found.to_numpy(), expected[targets].to_numpy()[[0, 2]])
    quantiles = fitted.predict_quantiles(fh=STEPS, X=X_ahead, alpha=[0.1, 0.5, 0.9])
    columns = ["sales_lo80", "sales", "sales_hi80"]
    np.testing.assert_allclose(quantiles["sales"].to_numpy(), expected[columns].to_numpy()[[0, 2]])


def test_new_rows_are_read() -> None:
    """Red if `update` forgets the rows before, or those it is given."""
    sales = months(periods=False)[["sales"]]
    updated = InformerForecaster().fit(sales[:50]).update(sales[50:60]).predict(fh=STEPS)
    pd.testing.assert_frame_equal(updated, InformerForecaster().fit(sales[:60]).predict(fh=STEPS))


def test_sktime_evaluates_it() -> None:
    """Red if a copy by sktime loses arguments, or a trained model cannot be cloned and fitted again."""
    sales = months(periods=False)[["sales"]]
    linear = InformerForecaster("linear", {"seq_len": 12, "pred_len": 3})
    scores = evaluate(
        linear.clone(), ExpandingWindowSplitter(fh=STEPS, initial_window=54, step_length=6), sales, error_score="raise"
    )
    assert len(scores) == 2
    assert (scores["test_MeanAbsolutePercentageError"] < 0.5).all()  # that of zeros is 1
