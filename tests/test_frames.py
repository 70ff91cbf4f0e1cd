"""Tables of other libraries: the numbers of the same pandas table, in a table of the kind that was given."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from informer import Forecaster, InputError

pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

SETTINGS = {"model": "linear", "seq_len": 48, "pred_len": 12, "device": "cpu"}


def hourly() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    hours = pd.date_range("2024-01-01", periods=600, freq="h")
    load = 10 + np.sin(np.arange(600) / 24 * 2 * np.pi) + rng.normal(0, 0.1, 600)
    return pd.DataFrame({"date": hours, "load": load, "count": rng.integers(0, 9, 600)})


def dataset(frame: pd.DataFrame) -> Any:
    import pyarrow.dataset

    return pyarrow.dataset.dataset(pa.Table.from_pandas(frame))


KINDS: dict[str, tuple[Callable[[pd.DataFrame], Any], type]] = {
    "polars": (pl.from_pandas, pl.DataFrame),
    "lazy": (lambda frame: pl.from_pandas(frame).lazy(), pl.DataFrame),
    "pyarrow": (pa.Table.from_pandas, pa.Table),
    "dataset": (dataset, pa.Table),
    "duckdb": (duckdb.from_df, pa.Table),
    "reader": (lambda frame: pa.Table.from_pandas(frame).to_reader(), pa.Table),
}


def to_pandas(table: Any) -> pd.DataFrame:
    return table.to_pandas()


@pytest.fixture(scope="module")
def fitted() -> Forecaster:
    return Forecaster(**SETTINGS).fit(hourly())


ARROW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("pyarrow", "dataset", "reader")]


@pytest.mark.parametrize("kind", ["polars", "lazy", "duckdb", *ARROW])
def test_fit_predict_and_backtest_are_those_of_pandas(kind: str, fitted: Forecaster) -> None:
    """Red if a value, a time or the order is another, or the result is of another library."""
    made, expected = KINDS[kind]
    forecaster = Forecaster(**SETTINGS).fit(made(hourly()))
    for use in ("predict", "backtest"):
        table = getattr(forecaster, use)(made(hourly()))
        assert type(table) is expected
        pd.testing.assert_frame_equal(
            to_pandas(table), getattr(fitted, use)(hourly()), check_dtype=False, rtol=1e-6, check_index_type=False
        )
    assert forecaster.score(made(hourly())) == pytest.approx(fitted.score(hourly()), rel=1e-6)


def test_many_tables_each_of_its_kind(fitted: Forecaster) -> None:
    """Red if all results are of the kind of the first."""
    tables = {"a": hourly(), "b": pl.from_pandas(hourly()), "c": pa.Table.from_pandas(hourly())}
    forecasts = fitted.predict_many(tables)
    assert [type(table) for table in forecasts.values()] == [pd.DataFrame, pl.DataFrame, pa.Table]
    for name in ("b", "c"):
        pd.testing.assert_frame_equal(to_pandas(forecasts[name]), forecasts["a"], check_dtype=False)


def test_future_covariates_of_another_library() -> None:
    rng = np.random.default_rng(1)
    frame = hourly().assign(price=rng.normal(size=600)).drop(columns="count")
    settings = SETTINGS | {"model": "tiny", "trainer": {"max_steps": 1}}
    model = Forecaster(**settings, future_covariates=["price"], target="load").fit(frame[:580])
    ahead = frame[["date", "price"]][580:]
    expected = model.predict(frame[:580], future=ahead)
    forecast = model.predict(pl.from_pandas(frame[:580]), future=pa.Table.from_pandas(ahead))
    pd.testing.assert_frame_equal(forecast.to_pandas(), expected, check_dtype=False)


def test_names_that_repeat_are_one_line(fitted: Forecaster) -> None:
    with pytest.raises(InputError, match="column names repeat: 'a'; rename them") as caught:
        fitted.predict(pa.table([pa.array([1.0])] * 3, names=["date", "a", "a"]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["int", "category", "levels", "polars"])
def test_keys_of_series_keep_their_type(kind: str) -> None:
    """Red if a forecast cannot be joined with the frame by its keys, or `fit` needs to be told which column names the
    series although `predict` finds it."""
    frame = pd.concat([hourly().assign(store=store, load=hourly()["load"] + store) for store in (7, 12)])
    if kind == "category":
        frame["store"] = frame["store"].astype("category")
    given = frame.set_index(["store", "date"]) if kind == "levels" else frame
    given = pl.from_pandas(frame) if kind == "polars" else given
    for model in (Forecaster(), Forecaster(**SETTINGS).fit(given)):
        for table in (model.predict(given, horizon=2), model.backtest(given, horizon=12, stride=200)):
            found = table.to_pandas() if kind == "polars" else table
            assert found["store"].dtype == frame["store"].dtype
            assert list(found["store"].unique()) == [7, 12]
