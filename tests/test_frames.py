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


@pytest.fixture(scope="module")
def fitted() -> Forecaster:
    return Forecaster(**SETTINGS).fit(hourly())


@pytest.mark.parametrize("kind", ["lazy", "duckdb", "dataset", "reader"])
def test_fit_predict_and_backtest_are_those_of_pandas(kind: str, fitted: Forecaster) -> None:
    """Red if a value, a time or the order is another, or the result is of another library."""
    made, expected = KINDS[kind]
    forecaster = Forecaster(**SETTINGS).fit(made(hourly()))
    for use in ("predict", "backtest"):
        table = getattr(forecaster, use)(made(hourly()))
        assert type(table) is expected
        pd.testing.assert_frame_equal(
            table.to_pandas(), getattr(fitted, use)(hourly()), check_dtype=False, rtol=1e-6, check_index_type=False
        )


def test_many_tables_each_of_its_kind(fitted: Forecaster) -> None:
    """Red if all results are of the kind of the first."""
    tables = {"a": hourly(), "b": pl.from_pandas(hourly()), "c": pa.Table.from_pandas(hourly())}
    forecasts = fitted.predict_many(tables)
    assert [type(table) for table in forecasts.values()] == [pd.DataFrame, pl.DataFrame, pa.Table]
    for name in ("b", "c"):
        pd.testing.assert_frame_equal(forecasts[name].to_pandas(), forecasts["a"], check_dtype=False)


def test_future_covariates_of_another_library() -> None:
    frame = hourly().assign(price=np.random.default_rng(1).normal(size=600)).drop(columns="count")
    ahead, model = frame[["date", "price"]][580:], Forecaster(target="load")
    expected = model.predict(frame[:580], future=ahead)
    forecast = model.predict(pl.from_pandas(frame[:580]), future=pa.Table.from_pandas(ahead))
    pd.testing.assert_frame_equal(forecast.to_pandas(), expected, check_dtype=False)


@pytest.mark.parametrize("kind", ["category", "levels", "polars"])
def test_keys_of_series_keep_their_type(kind: str) -> None:
    """Red if a forecast cannot be joined with the frame by its keys, or `fit` needs to be told which column names the
    series although `predict` finds it."""
    frame = pd.concat([hourly().assign(store=store, load=hourly()["load"] + store) for store in (7, 12)])
    if kind == "category":
        frame["store"] = frame["store"].astype("category")
    given = frame.set_index(["store", "date"]) if kind == "levels" else frame
    given = pl.from_pandas(frame) if kind == "polars" else given
    for model in (Forecaster(), *([Forecaster(**SETTINGS).fit(given)] if kind == "levels" else [])):
        for table in (model.predict(given, horizon=2), model.backtest(given, horizon=12, stride=200)):
            found = table.to_pandas() if kind == "polars" else table
            assert found["store"].dtype == frame["store"].dtype
            assert list(found["store"].unique()) == [7, 12]


def shops() -> pd.DataFrame:
    """Days of four shops, which two columns name together; the price of each is known."""
    rng, days = np.random.default_rng(0), pd.date_range("2024-01-01", periods=80)
    parts = []
    for store, item in ((1, "a b"), (1, "x"), (2, "a b"), (2, "x")):
        price = rng.integers(0, 2, 80).astype(float)
        sales = 50 * store + 30 * price + rng.normal(0, 2, 80)
        parts.append(pd.DataFrame({"date": days, "store": store, "item": item, "price": price, "sales": sales}))
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("kind", ["pandas", pytest.param("polars", marks=pytest.mark.slow)])
def test_dates_and_text_come_back_as_they_were(kind: str) -> None:
    """Red if times have another type or format than those of the frame, in any of its tables."""
    made = KINDS[kind][0] if kind in KINDS else lambda frame: frame
    days, values = pd.date_range("2024-01-01", periods=80), 50 + 10 * np.sin(np.arange(80) * 2 * np.pi / 7)
    zoned = pd.date_range("2024-03-30", periods=80, freq="h", tz="Europe/Berlin")  # with a change of clocks
    for times in (days, days.date, days.strftime("%d.%m.%Y"), days.strftime("%Y-%m-%d"), np.arange(1900, 1980), zoned):
        frame, ahead = made(pd.DataFrame({"year": times[:-7], "y": values[:-7]})), made(pd.DataFrame({"year": times}))
        for use in ("predict", "backtest", "explain") if isinstance(times, pd.Index) else ("predict",):
            found = getattr(Forecaster(), use)(frame, horizon=7)
            if kind == "polars":
                assert found.schema["year"] == ahead.schema["year"]
            written, known = ([*map(str, each["year"])] for each in (found, ahead))
            assert written == known[-7:] if use != "backtest" else {*written} < {*known}


def test_a_category_and_an_empty_name_stay_what_they_are() -> None:
    """Red if an Enum or a number is of another type, or a null is text; without any name there is no series."""
    table = pl.from_pandas(shops()[["date", "store", "item", "sales"]])
    names = pl.Enum(["a b", "x", "other"])
    table = table.with_columns(pl.when(pl.col("store") == 2).then("store"), pl.col("item").cast(names))
    model = Forecaster(dataset={"series_col": ["store", "item"]})
    found = model.predict(table, horizon=2)
    assert found.schema["store"] == pl.Int64
    assert found.schema["item"] == names
    assert found["store"].to_list() == [None] * 4 + [2] * 4
    with pytest.raises(InputError, match=r"row 0, column .*: expected the name of a series, found an empty cell"):
        model.predict(table.with_columns(item=None), horizon=2)


@pytest.mark.parametrize(("name", "column"), [(None, "value"), ("load", "load")])
def test_a_series_of_pandas_keeps_its_name(name: str | None, column: str) -> None:
    """Red if the forecast has another name, or that of a missing one."""
    series = hourly().set_index("date")["load"].rename(name)
    assert [*Forecaster().predict(series, horizon=2, intervals=[])] == ["date", column]
