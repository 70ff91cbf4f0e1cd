"""Forecasts from Python: one table or many, any horizon, errors; the Forecaster as an estimator."""

import io
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
from entry_points import ROOT, SMALL, Trained, call, done, killed, refusal
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


def test_a_longer_horizon_is_the_forecast_of_the_forecast(forecaster: Forecaster, frame: pd.DataFrame) -> None:
    """Red if the rows rolled over are not the model's own, are scaled twice, or are not marked."""
    known = frame.copy()
    while len(known) < len(frame) + 14:
        known = pd.concat([known, forecaster.predict(known)], ignore_index=True)
    forecast = forecaster.predict(frame[["price", "date", "demand", "temperature", "visitors"]], horizon=14)
    assert list(forecast.pop("rolled")) == [False] * 6 + [True] * 8
    expected = known.iloc[len(frame) : len(frame) + 14].reset_index(drop=True)
    pd.testing.assert_frame_equal(forecast, expected, check_dtype=False, rtol=1e-5)


def test_many_tables_are_as_each_alone(forecaster: Forecaster, frame: pd.DataFrame) -> None:
    tables = {"a": frame, "b": frame.iloc[:50], "c": frame.set_index("date").iloc[5:60]}
    forecasts = forecaster.predict_many(tables, horizon=8)
    assert list(forecasts) == ["a", "b", "c"]
    for name, table in tables.items():
        alone = forecaster.predict(table, horizon=8)
        pd.testing.assert_frame_equal(forecasts[name], alone, rtol=1e-5, atol=1e-5)  # a value may be near zero
    for one, other in zip(forecaster.predict_many(list(tables.values()), horizon=8), forecasts.values(), strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_an_error_names_the_table(forecaster: Forecaster, frame: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="north: expected at least seq_len=24 rows of history, found 7"):
        forecaster.predict_many({"south": frame, "north": frame.iloc[:7]})
    with pytest.raises(InputError, match=r"^frames\[1\]: columns missing: price"):
        forecaster.predict_many([frame, frame.drop(columns="price")])
    with pytest.raises(InputError, match="horizon: expected at least 1, found 0"):
        forecaster.predict(frame, horizon=0)


def test_without_a_fit_there_is_no_forecast(frame: pd.DataFrame) -> None:
    check_is_fitted(Forecaster())
    for model in (Forecaster("linear"), Forecaster(trainer={"max_steps": 1})):
        with pytest.raises(NotFittedError):
            check_is_fitted(model)
        for use in (model.predict, model.backtest, model.explain, model.score):
            with pytest.raises(NotFittedError, match=r"use fit\(frame\) or Forecaster\.load\(path\)"):
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
    """Red if `horizon` of the constructor is not that of a forecast without training and of a training, or the error
    for a name of another program does not say ours."""
    assert len(Forecaster(horizon=3).fit(frame).predict(frame)) == 3
    assert len(Forecaster(horizon=3).predict(frame, horizon=5)) == 5
    assert len(Forecaster("linear", horizon=3, seq_len=24).fit(frame).predict(frame)) == 3
    with pytest.raises(InputError, match="pred_len: expected none with horizon"):
        Forecaster("linear", horizon=3, pred_len=4).fit(frame)
    for name in ("h", "pred_len", "prediction_length"):
        with pytest.raises(InputError, match=f"^{name}: expected none, the rows to forecast are horizon=3$"):
            Forecaster().predict(frame, **{name: 3})
    with pytest.raises(InputError, match=r"^h: expected none, the rows to forecast are horizon=3$"):
        Forecaster("linear", h=3).fit(frame)


def test_what_is_wrong_with_an_argument(frame: pd.DataFrame, caplog: pytest.LogCaptureFixture) -> None:
    """Red if a misspelt setting makes the forecaster one that is not fitted, or a wrong argument is taken or no
    InputError."""
    zero = Forecaster()
    with pytest.raises(InputError, match=r"model: expected one of .*, zero, found 'zerro'"):
        Forecaster("zerro").predict(frame, horizon=2)
    with pytest.raises(InputError, match="unknown key 'horzon': expected one such as horizon"):
        Forecaster(horzon=3).predict(frame)
    with pytest.raises(InputError, match="unknown key 'anything'"):
        zero.set_params(anything=3)
    assert zero.get_params() == {"model": "zero"}
    for wrong in ([0.8], 0.8, [150], "80"):
        with pytest.raises(InputError, match="intervals: expected different whole percentages from 1 to 99, found"):
            zero.predict(frame, horizon=2, intervals=wrong)
    with pytest.raises(InputError, match=r"0\.8 is 80 percent"):
        zero.backtest(frame, horizon=2, intervals=0.8)
    with pytest.raises(InputError, match="adaptive: expected a trained model, found the pretrained network"):
        zero.backtest(frame, horizon=2, intervals=80, adaptive=True)  # or widths stay as they are, without a word
    with pytest.raises(InputError, match="stride: expected a whole number, found '28days'"):
        zero.backtest(frame, horizon=2, stride="28days")
    with pytest.raises(InputError, match=r"models: expected some of .*, found 'niave'; did you mean 'naive'"):
        zero.leaderboard(frame, horizon=2, models=["zero", "niave"])
    shops = pd.concat([frame.assign(store=1), frame.assign(store=2)])
    zero.predict(shops, horizon=2, dataset={"duplicates": "sum"})
    assert "summed over 'store'; dataset.series_col=store keeps them apart" in caplog.text


def test_errors_name_settings_as_python_writes_them(frame: pd.DataFrame, caplog: pytest.LogCaptureFixture) -> None:
    """Red if an error of Python has settings or options of a command, or a value of another type is a traceback; or if
    `fit` sums the rows of series without a word."""
    twice, tiny = pd.concat([frame, frame]), {"seq_len": 12, "label_len": 6, "pred_len": 3}
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: Forecaster().predict(frame.drop(index=50)), 'set dataset={"fill": "ffill"}, linear or zero, or mask'),
        (lambda: Forecaster().predict(frame.sample(frac=1)), 'or set dataset={"sort": True}'),
        (lambda: Forecaster().backtest(twice), 'dataset={"duplicates": "first", "confirm": ["duplicates"]}'),
        (lambda: Forecaster().predict(frame[["price"]]), 'name it with dataset={"time_col": ...}'),
        (lambda: Forecaster(target="x").totals(frame), 'target="x": expected a numeric column'),
        (lambda: Forecaster("linear", **tiny).fit(frame.drop(index=50)), 'set dataset={"fill": "ffill"}'),
        (
            lambda: Forecaster("tiny", trainer={"patience": 0}).fit(frame),
            'trainer={"patience": ...}: expected at least',
        ),
        (lambda: Forecaster().set_params(trainer=3), "trainer: expected nested keys, found 3"),
        (lambda: Forecaster("tiny", attn=[1], **tiny).fit(frame), r"or a dict, found [1]"),
        (lambda: Forecaster(dataset="x").predict(frame), 'dataset: expected a dict such as {"fill": "linear"}, found'),
        (
            lambda: Forecaster().predict(frame, dataset=[1]),
            'dataset: expected a dict such as {"fill": "linear"}, found',
        ),
        (lambda: Forecaster("linear", dataset="x").fit(frame), "dataset: expected a dict such as"),
        (lambda: Forecaster().predict_many(frame), "frames: expected tables by name or in a list, found one table"),
        (lambda: Forecaster().predict(frame.iloc[:1]), "informer forecast FILE dataset.frequency=h (or another step)"),
    ]
    for wrong, says in calls:
        with pytest.raises(InputError) as refused:
            wrong()
        assert says in str(refused.value)
        assert "--cfg" not in str(refused.value)
    shops = pd.concat([frame.assign(store=1), frame.assign(store=2)])
    Forecaster("linear", dataset={"duplicates": "sum"}, **tiny).fit(shops)
    assert "summed over 'store'" in caplog.text


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
    wrong = {
        "offer": "frame has no column 'offer'; leave it out, or set future_covariates=[\"level\"]",
        "prom": "no column 'prom'; did you mean 'promo'?",
    }
    for name, says in wrong.items():
        with pytest.raises(InputError, match=re.escape(says)):
            model.predict(past.assign(level=1.0), future=ahead.assign(level=1.0).rename(columns={"promo": name}))
    several = pd.concat([past.assign(store=1), past.assign(store=2)])
    with pytest.raises(InputError, match=r'series_col": "store"}: future of frame has no such column'):
        model.predict(several, future=ahead)


def test_columns_known_ahead_are_tested_without_rows_ahead(folder: Path) -> None:
    """Red if earlier forecasts do not read the columns that are named, as those of a table with rows ahead do, or a
    forecast of later rows or an unknown column is not refused."""
    past, ahead = shop()
    past.to_csv("past.csv", index=False)
    plain, model = Forecaster(target="sales"), Forecaster(target="sales", future_covariates=["promo"])
    found = model.backtest(past, horizon=14)
    expected = plain.backtest(pd.concat([past, ahead]), horizon=14)
    np.testing.assert_allclose(found["forecast"], expected["forecast"][: len(found)])
    models = ["zero", "naive"]
    best, without = (each.leaderboard(past, horizon=14, models=models)["mase"].min() for each in (model, plain))
    assert best < 0.8 * without
    answer = call("leaderboard", "past.csv", "target=sales", "future_covariates=[promo]", "horizon=14", "--json")
    assert min(each["mase"] for each in json.loads(answer.out)["models"]) <= best
    with pytest.raises(InputError, match="future: expected the rows ahead of promo, found none"):
        model.predict(past, horizon=14)
    said = r"future_covariates=\S*prom\S*: .* did you mean 'promo'?"
    with pytest.raises(InputError, match=said):
        Forecaster(target="sales", future_covariates=["prom"]).backtest(past, horizon=14)
    assert re.search(said, refusal("leaderboard", "past.csv", "target=sales", "future_covariates=[prom]", "horizon=14"))


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
    with pytest.raises(InputError, match="has no weights of its own"):
        Forecaster().save_pretrained("x")
    with pytest.raises(InputError, match="horizon: expected the rows to forecast, such as 24"):
        Forecaster().predict(table)
    with pytest.raises(InputError, match="horizon=100001: expected at most 100000 rows of "):
        Forecaster().predict(table, horizon=100_001)


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


def test_problems_of_a_table_have_codes(frame: pd.DataFrame) -> None:
    """Red if a program cannot tell columns from cells, or reads settings of the command line in a problem."""
    later = frame[["date"]][-3:].assign(wind=1.0)
    later["date"] += later["date"].iloc[-1] - later["date"].iloc[0]
    for target, future in (("nothing", None), (frame.columns[-1], later)):
        with pytest.raises(InputError) as error:
            Forecaster(target=target).predict(frame, horizon=2, future=future)
        assert error.value.code == "column"
    with pytest.raises(InputError) as report:
        Forecaster().predict(frame.drop(index=frame.index[50]), horizon=2)
    (problem,) = vars(report.value)["problems"]
    assert problem.code == "gap"
    assert 'dataset={"fill": "ffill"}' in str(problem)


def test_columns_that_are_not_forecast_end_the_horizon(folder: Path) -> None:
    random = np.random.default_rng(0)
    stamps = pd.date_range("2021-01-01", periods=320, freq="D")
    pd.DataFrame({"date": stamps, "a": random.normal(size=320), "b": random.normal(size=320)}).to_csv("ab.csv")
    arguments = ["dataset=csv", "dataset.path=ab.csv", "dataset.columns=[a,b]", "features=MS", "trainer.max_steps=1"]
    done("train", *SMALL, *arguments, "run_dir=run")
    done("predict", "checkpoint=run", "input=ab.csv", "horizon=6", "plots=false")
    refusal = call("predict", "checkpoint=run", "input=ab.csv", "horizon=7", "output=no")
    assert refusal.status == 2
    assert "horizon=7: expected at most pred_len=6; the model does not forecast a, which it reads" in refusal.err
    assert not Path("no").exists()


def test_times_of_a_place_keep_their_place(folder: Path) -> None:
    """Red if a clock change in the table is an error, or the forecast is in another zone."""
    times = pd.date_range("2024-03-20", periods=400, freq="h", tz="Europe/Berlin", name="date")
    frame = pd.DataFrame({"y": np.sin(np.arange(400) / 4)}, index=times)
    forecast = Forecaster().predict(frame, horizon=6)
    expected = pd.date_range(times[-1], periods=7, freq="h")[1:]
    assert list(forecast["date"]) == list(expected)
    assert str(forecast["date"].dt.tz) == "Europe/Berlin"


def test_columns_of_a_table_are_excluded_as_those_of_a_file(frame: pd.DataFrame, tmp_path: Path) -> None:
    """Red if `exclude` is for files only."""
    frame.to_csv(tmp_path / "f.csv", index=False)
    zero, without = Forecaster(device="cpu"), {"exclude": ["price", "visitors"]}
    one, other = (zero.predict(source, horizon=2, dataset=without) for source in (frame, tmp_path / "f.csv"))
    assert list(one.columns) == ["date", "temperature", "demand"]
    pd.testing.assert_frame_equal(one, other, check_dtype=False)
    config = {**SIZES, "trainer.max_steps": 1, "dataset.split": {"train": 0.5, "val": 0.2, "test": 0.3}}
    fitted = Forecaster(**config, dataset=without).fit(frame)
    assert list(fitted.predict(frame).columns) == list(one.columns)
    with pytest.raises(InputError, match=r"exclude\": \[\"prize\"\]}: .* has no such column"):
        Forecaster(**config, dataset={"exclude": ["prize"]}).fit(frame)


SETTINGS = {"model": "linear", "seq_len": 48, "pred_len": 12, "device": "cpu"}


def hourly(n: int = 600) -> pd.DataFrame:
    times, noise = pd.date_range("2024-01-01", periods=n, freq="h"), np.random.default_rng(0).normal(0, 0.1, n)
    return pd.DataFrame({"date": times, "load": 10 + np.sin(np.arange(n) / 24 * 2 * np.pi) + noise})


@pytest.fixture(scope="module")
def fitted() -> Forecaster:
    return Forecaster(**SETTINGS).fit(hourly())


@pytest.mark.parametrize("kind", ["path", "series", pytest.param("folder", marks=pytest.mark.slow)])
def test_a_path_or_a_series(kind: str, fitted: Forecaster, tmp_path: Path) -> None:
    hourly().to_csv(tmp_path / "f.csv", index=False)
    series = hourly().set_index("date")["load"]
    data = {"path": str(tmp_path / "f.csv"), "series": series, "folder": tmp_path}[kind]
    forecaster = Forecaster(**SETTINGS).fit(data)
    ahead = forecaster.predict(tmp_path / "f.csv" if kind == "folder" else data)
    np.testing.assert_allclose(ahead["load"], fitted.predict(hourly())["load"], rtol=1e-5)


@pytest.mark.parametrize("data", [np.zeros(10), [1.0, 2.0], pd.Series([1.0, 2.0]), None])
def test_data_without_times_say_what_to_pass(data: object, fitted: Forecaster) -> None:
    for way in (fitted.predict, Forecaster(**SETTINGS).fit):
        with pytest.raises(InputError, match=r"pass pandas.DataFrame\(values, index=pandas.date_range"):
            way(data)


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
    with pytest.raises(InputError, match=r'series_col": "stor"}: .* no such column'):  # not a single series
        fitted.predict(torn, dataset={"fill": "linear", "series_col": "stor"})


def test_metrics_are_those_of_the_run(tmp_path: Path) -> None:
    forecaster = Forecaster(**SETTINGS, run_dir=tmp_path / "run").fit(hourly())
    saved = json.loads((tmp_path / "run" / "metrics.json").read_text())["scores"]
    assert list(forecaster.metrics.loc["scaled"].index) == ["linear", "seasonal naive", "ridge"]
    assert forecaster.metrics.loc[("original", "ridge"), "mae"] == saved["ridge"]["original"]["overall"]["mae"]
    pd.testing.assert_frame_equal(Forecaster.load(tmp_path / "run").metrics, forecaster.metrics)
    forecaster.save(tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="found no scores"):
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


def test_the_score_of_a_refitted_model_is_of_newer_rows(fitted: Forecaster) -> None:
    """Red if rows of the refit are scored, on which errors are too small. On newer rows, errors are those of the
    backtest, and the skill is not above the one compared with the seasonal naive by hand."""
    refitted = Forecaster(**SETTINGS, **{"trainer.refit": True}).fit(hourly())
    with pytest.raises(
        InputError, match="no row after the training rows, which end at 2024-01-25 23:00:00; give newer"
    ) as refused:
        refitted.score(hourly())
    assert refused.value.code == "short"
    newer = hourly(720)
    table = refitted.backtest(newer, stride=12, start="2024-01-26")
    values = newer.set_index("date")["load"]
    naive = values.shift(24).loc[table["date"]].to_numpy()
    errors = [((each - table["actual"]) ** 2).mean() for each in (table["forecast"], naive)]
    assert refitted.score(newer, stride=12) <= 1 - errors[0] / errors[1] + 1e-6
    assert refitted.score(newer, stride=12) != fitted.score(newer, stride=12)


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


def test_a_picture_names_every_interval(fitted: Forecaster) -> None:
    figure = fitted.plot(hourly(), intervals=[50, 80])
    (axes,) = figure.axes
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["history", "80 % interval", "50 % interval", "forecast"]
    assert axes.get_title(loc="left") == "load"
    with pytest.raises(InputError, match="series=x: expected one of frame"):
        fitted.plot(hourly(), series="x")


def test_a_picture_with_columns_known_ahead() -> None:
    """Red if rows ahead are not read, in the table itself or in `future`: the line is the forecast of `predict`."""
    table = hourly().assign(price=lambda rows: np.random.default_rng(1).normal(size=len(rows)))
    table["load"] += table["price"]
    history, ahead = table.iloc[:588], table.iloc[588:][["date", "price"]]
    model = Forecaster(**SETTINGS, target="load", features="MS", future_covariates=["price"]).fit(history)
    expected = model.predict(history, future=ahead)["load"]
    for figure in (model.plot(history, future=ahead), model.plot(pd.concat([history, ahead]))):
        (line,) = (line for line in figure.axes[0].lines if line.get_label() == "forecast")
        np.testing.assert_allclose(line.get_ydata()[-12:], expected, rtol=1e-6)
