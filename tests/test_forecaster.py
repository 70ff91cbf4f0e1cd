"""Forecasts from Python: one table or many, any horizon, errors; the Forecaster as an estimator."""

import io
import json
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
from entry_points import ROOT, SMALL, Trained, call, done, killed
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from informer import Forecaster, InputError


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"]).iloc[:100]


@pytest.fixture(scope="module")
def forecaster(trained: Trained) -> Forecaster:
    return Forecaster.load(trained.run_dir, device="cpu")


def test_many_tables_are_as_each_alone(forecaster: Forecaster, frame: pd.DataFrame) -> None:
    tables = {"a": frame, "b": frame.iloc[:50], "c": frame.set_index("date").iloc[5:60]}
    forecasts = forecaster.predict_many(tables, horizon=8)
    assert list(forecasts) == ["a", "b", "c"]
    for name, table in tables.items():
        alone = forecaster.predict(table, horizon=8)
        pd.testing.assert_frame_equal(forecasts[name], alone, rtol=1e-5, atol=1e-5)  # a value may be near zero
    for one, other in zip(forecaster.predict_many(list(tables.values()), horizon=8), forecasts.values(), strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_without_a_fit_there_is_no_forecast(frame: pd.DataFrame) -> None:
    check_is_fitted(Forecaster())
    for model in (Forecaster("linear"), Forecaster(trainer={"max_steps": 1})):
        with pytest.raises(NotFittedError):
            check_is_fitted(model)
        for use in (model.predict, model.backtest, model.explain, model.score):
            with pytest.raises(NotFittedError):
                use(frame)


def test_the_parameters_are_those_of_an_estimator(frame: pd.DataFrame) -> None:
    """Red if a clone is another model, or the parameters of a fit change."""
    model = Forecaster("linear", pred_len=6, **{"dataset.fill": "linear"})
    assert model.get_params() == {"model": "linear", "pred_len": 6, "dataset.fill": "linear"}
    assert clone(model).get_params() == model.get_params()
    assert repr(model.set_params(pred_len=3)) == "Forecaster(model='linear', pred_len=3, dataset.fill='linear')"
    assert len(model.set_params(seq_len=24).fit(frame).predict(frame)) == 3
    check_is_fitted(model)


def test_the_horizon_has_one_name(frame: pd.DataFrame) -> None:
    """Red if `horizon` of the constructor is not that of a forecast without training and of a training."""
    assert len(Forecaster(horizon=3).fit(frame).predict(frame)) == 3
    assert len(Forecaster(horizon=3).predict(frame, horizon=5)) == 5
    assert len(Forecaster("linear", horizon=3, seq_len=24).fit(frame).predict(frame)) == 3


def test_series_are_not_summed_without_a_word(frame: pd.DataFrame, caplog: pytest.LogCaptureFixture) -> None:
    shops, settings = pd.concat([frame.assign(store=1), frame.assign(store=2)]), {"dataset": {"duplicates": "sum"}}
    for use in (Forecaster(horizon=2, **settings).predict, Forecaster("linear", horizon=3, seq_len=12, **settings).fit):
        caplog.clear()
        use(shops)
        assert "dataset.series_col=store keeps them apart" in caplog.text


def test_whole_numbers_name_the_same_series_with_any_type() -> None:
    """Red if a series whose key is 1 in one table and 1.0 in another is two, or a key that is null makes the others
    floating point."""
    times, rng = pd.date_range("2024-01-01", periods=65), np.random.default_rng(0)
    whole = pd.concat([pd.DataFrame({"date": times, "shop": k, "promo": rng.integers(0, 2, 65)}) for k in (1, 2)])
    whole["sales"] = 10 * whole["shop"] + 3 * whole["promo"] + rng.normal(size=130)
    past, ahead = whole[whole["date"] < times[60]], whole[whole["date"] >= times[60]].drop(columns="sales")
    model = Forecaster(target="sales")
    expected = model.predict(past, future=ahead)
    for one, other in (("int64", "float64"), ("float64", "int64"), ("float32", "Int64")):
        found = model.predict(past.astype({"shop": one}), future=ahead.astype({"shop": other}))
        assert found["shop"].dtype == one
        np.testing.assert_array_equal(found["sales"], expected["sales"])
    keys = pyarrow.array([5 if k == 1 else None for k in past["shop"]], pyarrow.int32())
    table = pyarrow.Table.from_pandas(past, preserve_index=False).append_column("part", keys)
    answer = Forecaster(target="sales", dataset={"series_col": ["shop", "part"]}).predict(table, horizon=1)
    assert answer.column("part").to_pylist() == [5, None]
    assert answer.schema.field("part").type == pyarrow.int32()


def shop(days: int = 200) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Counts, 90 % more in promotions; and the promotions of the last two weeks."""
    rng, times = np.random.default_rng(0), pd.date_range("2024-01-01", periods=days)
    promo = rng.random(days) < 0.3
    rows = {"date": times, "promo": np.where(promo, "Y", "N"), "sales": rng.poisson(50 * np.where(promo, 1.9, 1))}
    table = pd.DataFrame(rows)
    return table[:-14], table[-14:].drop(columns="sales")


def test_the_pretrained_network_reads_columns_known_ahead(folder: Path) -> None:
    """Against the command. Red if Python forecasts otherwise, from a second table or from rows without a target, or if
    the parts of an explanation do not add up to the forecast."""
    past, ahead = shop()
    past.to_csv("past.csv", index=False)
    ahead.to_csv("ahead.csv", index=False)
    done("forecast", "past.csv", "target=sales", "future=ahead.csv", "intervals=[80]", "output=out")
    expected = pd.read_csv("out/forecasts/past.forecast.csv", parse_dates=["date"])
    model = Forecaster(target="sales")
    found = model.predict(past, future=ahead, intervals=80)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-3)
    pd.testing.assert_frame_equal(model.predict(pd.concat([past, ahead]), intervals=80), found)
    parts = model.explain(past, future=ahead).pivot(index="date", columns="source", values="value")
    assert {*parts} == {"level", "promo", "calendar", "history"}
    np.testing.assert_allclose(parts.sum(axis=1), found["sales"], rtol=1e-9)
    promoted = ahead["promo"].to_numpy() == "Y"
    assert parts["promo"][promoted].min() > 20 > 0 > parts["promo"][~promoted].max()


def test_columns_known_ahead_are_tested_without_rows_ahead(folder: Path) -> None:
    """Red if earlier forecasts do not read the columns that are named, as those of a table with rows ahead do, in
    a backtest and in a leaderboard."""
    past, ahead = shop()
    pd.concat([past, ahead]).to_csv("both.csv", index=False)
    plain, model = Forecaster(target="sales"), Forecaster(target="sales", future_covariates=["promo"])
    found = model.backtest(past, horizon=14)
    expected = plain.backtest(pd.concat([past, ahead]), horizon=14)
    np.testing.assert_allclose(found["forecast"], expected["forecast"][: len(found)])
    models = ["zero", "naive"]
    best, without = (each.leaderboard(past, horizon=14, models=models)["mase"].min() for each in (model, plain))
    assert best < 0.8 * without
    answer = call("leaderboard", "both.csv", "target=sales", "horizon=14", "models=[zero,naive]", "--json")
    assert min(each["mase"] for each in json.loads(answer.out)["models"]) <= best


def test_the_pretrained_network_is_tested_at_earlier_rows() -> None:
    """A row of the backtest is the forecast of the table that ends at its origin, with the values that came."""
    table = hourly(200)
    found = Forecaster().backtest(table, horizon=12, stride=24, intervals=80, start="2024-01-05")
    assert list(found.columns) == ["origin", "step", "date", "column", "forecast", "lo80", "hi80", "actual"]
    assert list(found["origin"].unique()) == [pd.Timestamp(f"2024-01-0{day} 23:00") for day in (4, 5, 6, 7)]
    one = found[found["origin"] == "2024-01-05 23:00"].reset_index(drop=True)
    ahead = Forecaster().predict(table[:120], horizon=12, intervals=80)
    np.testing.assert_allclose(one[["forecast", "lo80", "hi80"]], ahead[["load", "load_lo80", "load_hi80"]], rtol=1e-4)
    np.testing.assert_array_equal(one["actual"], table["load"][120:132])
    months = pd.date_range("2018-01-01", periods=60, freq="MS")
    rising = 100 + np.arange(60) + 20 * np.sin(2 * np.pi * np.arange(60) / 12)  # the last season is always too low
    assert 0.2 < Forecaster().score(pd.DataFrame({"date": months, "y": rising}), horizon=6) < 1


SIZES = {"seq_len": 24, "label_len": 11, "pred_len": 6, "model": "tiny", "device": "cpu"}


def test_fitting_is_training_from_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same weights, from keys nested and dotted; nothing printed, nothing left in the folder."""
    table = pd.read_csv(ROOT / "data/sample.csv").iloc[:320]
    table.to_csv("t.csv", index=False)
    arguments = ["dataset=csv", "dataset.path=t.csv", *SMALL, "features=S", "target=price", "trainer.max_steps=2"]
    done("train", *arguments, "run_dir=run")
    config = {"features": "S", "target": "price", "trainer": {"max_steps": 2}, "dataset.split.kind": "rows"}
    split = {"dataset": {"split": {"train": 200, "val": 50, "test": 70}}}
    before = {path.name for path in folder.iterdir()}
    capsys.readouterr()
    fitted = Forecaster(**SIZES, **config, **split).fit(
        table.assign(date=pd.to_datetime(table["date"])).set_index("date")
    )
    assert {path.name for path in folder.iterdir()} == before
    assert capsys.readouterr() == ("", "")
    trained = Forecaster.load("run", device="cpu")
    pd.testing.assert_frame_equal(fitted.predict(table, intervals=[80]), trained.predict(table, intervals=80))
    assert repr(trained) == "Forecaster(6 rows of price from 24 of price, a row each h)"
    assert repr(Forecaster()) == "Forecaster(model='zero')"


@pytest.mark.slow
def test_a_fit_that_was_killed_goes_on(frame: pd.DataFrame, folder: Path) -> None:
    """Red if the run directory lacks the table, or holds another than the one that was trained on."""
    config = {**SIZES, "trainer.max_steps": 2, "dataset.split": {"train": 0.5, "val": 0.2, "test": 0.3}}
    with killed():
        Forecaster(run_dir="cut", **config).fit(frame)
    done("train", "resume=cut")
    whole = Forecaster(**config).fit(frame)
    pd.testing.assert_frame_equal(Forecaster.load("cut", device="cpu").predict(frame), whole.predict(frame))


SETTINGS = {"model": "linear", "seq_len": 48, "pred_len": 12, "device": "cpu"}


def hourly(n: int = 600) -> pd.DataFrame:
    times, noise = pd.date_range("2024-01-01", periods=n, freq="h"), np.random.default_rng(0).normal(0, 0.1, n)
    return pd.DataFrame({"date": times, "load": 10 + np.sin(np.arange(n) / 24 * 2 * np.pi) + noise})


@pytest.fixture(scope="module")
def fitted() -> Forecaster:
    return Forecaster(**SETTINGS).fit(hourly())


def test_a_path_a_folder_or_a_series(fitted: Forecaster, tmp_path: Path) -> None:
    hourly().to_csv(tmp_path / "f.csv", index=False)
    series, path = hourly().set_index("date")["load"], str(tmp_path / "f.csv")
    for data, later in ((path, path), (series, series), (tmp_path, path)):
        ahead = Forecaster(**SETTINGS).fit(data).predict(later)
        np.testing.assert_allclose(ahead["load"], fitted.predict(hourly())["load"], rtol=1e-5)


def test_predict_accepts_repairs(fitted: Forecaster) -> None:
    torn = hourly().drop(index=[580])
    whole = hourly()
    whole.loc[580, "load"] = whole["load"][[579, 581]].mean()
    forecast = fitted.predict(torn, dataset={"fill": "linear"})
    pd.testing.assert_frame_equal(forecast, fitted.predict(whole))


def test_metrics_are_those_of_the_run(tmp_path: Path) -> None:
    forecaster = Forecaster(**SETTINGS, run_dir=tmp_path / "run").fit(hourly())
    saved = json.loads((tmp_path / "run" / "metrics.json").read_text())["scores"]
    assert list(forecaster.metrics.loc["scaled"].index) == ["linear", "seasonal naive", "ridge"]
    assert forecaster.metrics.loc[("original", "ridge"), "mae"] == saved["ridge"]["original"]["overall"]["mae"]
    pd.testing.assert_frame_equal(Forecaster.load(tmp_path / "run").metrics, forecaster.metrics)
    forecaster.save(tmp_path / "model.safetensors")
    with pytest.raises(InputError):
        _ = Forecaster.load(tmp_path / "model.safetensors").metrics


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


@pytest.mark.slow
def test_a_program_with_a_log_gets_only_lines_of_its_level(frame: pd.DataFrame) -> None:
    """Red if a fit that is not verbose writes its progress into the log of the program that calls it."""
    written, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(written)
    root.addHandler(handler)
    try:
        for level, says in ((logging.ERROR, False), (logging.INFO, True)):
            root.setLevel(level)
            Forecaster(**SIZES, **{"trainer.max_steps": 1}).fit(frame)
            assert bool(written.getvalue()) == says
    finally:
        root.setLevel(logging.WARNING)
        root.removeHandler(handler)


def test_a_picture_with_columns_known_ahead() -> None:
    """Red if rows ahead are not read, in the table itself or in `future`: the line is the forecast of `predict`; or if
    an interval has no name."""
    table = hourly().assign(price=lambda rows: np.random.default_rng(1).normal(size=len(rows)))
    table["load"] += table["price"]
    history, ahead = table.iloc[:588], table.iloc[588:][["date", "price"]]
    model = Forecaster(**SETTINGS, target="load", features="MS", future_covariates=["price"]).fit(history)
    expected = model.predict(history, future=ahead)["load"]
    figures = [model.plot(history, future=ahead), model.plot(pd.concat([history, ahead]), intervals=[50, 80])]
    labels = [text.get_text() for text in figures[1].legends[0].get_texts()]
    assert labels == ["history", "80 % interval", "50 % interval", "forecast"]
    assert figures[1].axes[0].get_title(loc="left") == "load"
    for figure in figures:
        (line,) = (line for line in figure.axes[0].lines if line.get_label() == "forecast")
        np.testing.assert_allclose(line.get_ydata()[-12:], expected, rtol=1e-6)
