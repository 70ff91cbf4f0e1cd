"""One model for many series, from the command line: trained, scored in each series' own units, used on one of them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import assert_same_weights, call, done, refusal

from informer import Forecaster, checkpoint

RUN = [
    "dataset=csv", "model=tiny", "attn=full", "seq_len=24", "label_len=11", "pred_len=6", "trainer.max_steps=3",
    "trainer.tracker=[]",
]  # fmt: skip
SCALES = {"north": 1.0, "south": 1000.0, "west": 30.0}


def series(name: str) -> pd.DataFrame:
    """A daily wave in different units."""
    rng = np.random.default_rng(len(name))
    t = np.arange(400)
    wave = SCALES[name] * (5 + np.sin(2 * np.pi * t / 24) + 0.1 * rng.normal(size=400))
    return pd.DataFrame({"date": pd.date_range("2023-01-01", periods=400, freq="h"), "load": wave.round(6)})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a scaler for each series of a folder; one of its files is too short."""
    top = tmp_path_factory.mktemp("many")
    (top / "in").mkdir()
    for name in SCALES:
        series(name).to_csv(top / "in" / f"{name}.csv", index=False)
    series("north")[:40].to_csv(top / "in" / "brief.csv", index=False)
    more = [f"dataset.path={top / 'in'}", "dataset.short=skip", "scaler.per_series=true", f"run_dir={top / 'run'}"]
    outcome = done("train", *RUN, *more)
    assert "csv: 3 series, 1200 rows at h, 1 column in" in outcome.out
    assert "skipped 1 of 4 series: brief: 40 rows are too few" in outcome.out
    return top / "run"


def test_original_units_are_those_of_each_series(run: Path) -> None:
    """The seasonal naive's error, by numpy over all test windows of all series."""
    errors = []
    for name in SCALES:
        values = series(name)["load"].to_numpy()
        rows = range(320, 400 - 6 + 1)
        errors += [np.abs(values[row : row + 6] - values[row - 24 : row - 18]).mean() for row in rows]
    scores = json.loads((run / "metrics.json").read_text())["scores"]["seasonal naive"]
    assert scores["original"]["overall"]["mae"] == pytest.approx(np.mean(errors), rel=1e-4)


def test_one_long_file_gives_the_same_model(run: Path, folder: Path) -> None:
    pd.concat(series(name).assign(id=name) for name in sorted(SCALES)).to_csv("long.csv", index=False)
    more = ["dataset.path=long.csv", "dataset.series_col=id", "scaler.per_series=true", "run_dir=long"]
    done("train", *RUN, *more)
    assert_same_weights(run, "long", checkpoint.BEST)
    assert Path("long/metrics.csv").read_bytes() == (run / "metrics.csv").read_bytes()


@pytest.fixture
def long(run: Path, folder: Path) -> dict[str, pd.DataFrame]:
    """The three series in long.csv, rows of one between those of others, and each as the model sees it."""
    tables = {name: series(name).assign(id=name) for name in SCALES}
    pd.concat(tables.values()).sort_values(["date", "load"]).to_csv("long.csv", index=False)
    return tables


def by_itself(run: Path, tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Each series forecast by itself, by a model without a series column."""
    model = Forecaster.load(run, device="cpu")
    return {name: model.predict_many({name: table.drop(columns="id")})[name] for name, table in tables.items()}


def test_a_long_file_is_forecast_series_by_series(run: Path, long: dict[str, pd.DataFrame], folder: Path) -> None:
    """Red if a series is lost, takes another's scaler, or loses its name on the way into any format."""
    source = [f"checkpoint={run}", "input=long.csv", "output=out", "overwrite=true", "dataset.series_col=id"]
    for more in ([], ["format=long"], ["format=parquet", "batch_size=2"]):
        done("predict", *source, *more)
    forecast = pd.read_csv("out/long.forecast.csv", parse_dates=["date"])
    assert list(forecast.columns) == ["id", "date", "load"]
    expected = by_itself(run, long)
    assert set(forecast["id"]) == set(expected)
    for name, table in expected.items():
        own = forecast[forecast["id"] == name].drop(columns="id").reset_index(drop=True)
        pd.testing.assert_frame_equal(own, table, check_dtype=False, rtol=1e-5)
    names = pd.read_csv("out/forecasts.csv")
    assert list(names["id"]) == list(forecast["id"])
    np.testing.assert_array_equal(names["y"], forecast["load"])
    pd.testing.assert_frame_equal(pd.read_parquet("out/long.forecast.parquet"), forecast, check_dtype=False, rtol=1e-5)


def test_names_are_written_as_they_were_read(folder: Path) -> None:
    """Red if 001 is a number where no other name has a letter: its own scaler and a join on the name are missed."""
    tables = {"001": series("north"), "NA": series("south"), "A02": series("west")}
    rows = [table.assign(sku=name, note="warm" if name == "NA" else None) for name, table in tables.items()]
    pd.concat(rows).to_csv("long.csv", index=False)
    more = ["dataset.path=long.csv", "dataset.series_col=sku", "scaler.per_series=true", "run_dir=own"]
    done("train", *RUN, *more)
    assert sorted(checkpoint.load(Path("own")).scaler.by_series) == ["001", "A02", "NA"]
    # in other units than in training, so that a scaler made anew shows
    moved = pd.concat(table.assign(load=table["load"] * 3, sku=name) for name, table in tables.items())
    moved.to_csv("moved.csv", index=False)
    done("predict", "checkpoint=own", "input=moved.csv", "output=out", "plots=false")
    forecast = pd.read_csv("out/moved.forecast.csv", dtype={"sku": str}, keep_default_na=False)
    assert [*forecast["sku"].unique()] == [*tables]
    expected = Forecaster.load("own", device="cpu").predict(moved)
    np.testing.assert_allclose(forecast["load"], expected["load"], rtol=1e-5)


def test_many_long_files(run: Path, long: dict[str, pd.DataFrame], folder: Path) -> None:
    """One row of the summary and one forecast a file; names of series may repeat from file to file."""
    Path("in").mkdir()
    pd.concat([long["north"], long["south"]]).to_csv("in/a.csv", index=False)
    pd.concat([long["south"], long["west"]]).to_csv("in/b.csv", index=False)
    pd.concat([long["north"], long["west"].assign(load="x")]).to_csv("in/c.csv", index=False)
    source = [f"checkpoint={run}", "input=in", "output=out", "overwrite=true", "dataset.series_col=id", "batch_size=1"]
    outcome = call("predict", *source)
    assert outcome.status == 1
    assert "2 files forecast, 1 failed" in outcome.out
    summary = pd.read_csv("out/summary.csv", keep_default_na=False)
    assert list(summary["output"]) == ["a.forecast.csv", "b.forecast.csv", ""]
    assert list(summary["rows"]) == ["800", "800", ""]
    assert "c.csv, id west, row" in summary["message"][2]
    assert list(pd.read_csv("out/b.forecast.csv")["id"]) == ["south"] * 6 + ["west"] * 6
    assert call("predict", *source, "format=long").status == 1
    names = list(pd.read_csv("out/forecasts.csv")["id"].unique())
    assert names == ["a/north", "a/south", "b/south", "b/west"]


def test_short_series_are_left_out_as_in_training(run: Path, long: dict[str, pd.DataFrame], folder: Path) -> None:
    """The model of the folder skips them; west is too short for any forecast, south only for a rolling one."""
    pd.concat([long["north"], long["south"][:26], long["west"][:23]]).to_csv("short.csv", index=False)
    source = [f"checkpoint={run}", "input=short.csv", "output=out", "overwrite=true", "dataset.series_col=id"]
    outcome = call("predict", *source)
    assert (outcome.status, outcome.err) == (1, "")
    assert "left out: short.csv: id west (23 rows), expected at least 24 rows" in outcome.out
    assert list(pd.read_csv("out/short.forecast.csv")["id"].unique()) == ["north", "south"]
    outcome = call("predict", *source, "mode=rolling", "from=2000-01-01")
    assert (outcome.status, outcome.err) == (1, "")
    assert "left out: short.csv: id south (26 rows), west (23 rows), expected at least 30 rows" in outcome.out
    assert set(pd.read_csv("out/short.rolling.csv")["id"]) == {"north"}
    done("predict", *source, "dataset.short=pad")
    assert list(pd.read_csv("out/short.forecast.csv")["id"].unique()) == ["north", "south", "west"]


def test_a_backtest_scales_a_new_series_by_what_came_before(run: Path) -> None:
    """Red if rows after the first origin determine its scale."""
    rows = series("south").iloc[:60].assign(load=lambda frame: frame["load"] / 30)
    later = rows.copy()
    later.loc[40:, "load"] *= 100
    model = Forecaster.load(run, device="cpu")
    first, second = (model.backtest(table, stride=6)["forecast"].iloc[:6] for table in (rows, later))
    np.testing.assert_array_equal(first, second)


def test_a_new_series_is_told_once(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = Forecaster.load(run, device="cpu")
    for _ in range(2):
        model.predict_many({"other": series("south")})
    assert sum("other" in record.getMessage() for record in caplog.records) == 1


def test_pictures_of_chosen_series_in_predict(run: Path, folder: Path) -> None:
    long = pd.concat([series(name).assign(store=f"{name} no/1") for name in SCALES])
    long.to_csv("long.csv", index=False)
    base = ["predict", f"checkpoint={run}", "output=out", "overwrite=true"]
    outcome = done(*base, "input=long.csv", "dataset.series_col=store", "plot_series=[south no/1,west no/1]")
    names = {"long.south-no-1.forecast.png", "long.west-no-1.forecast.png"}
    assert {path.name for path in Path("out").glob("*.png")} == names
    assert all(f"plot:     out/{name}" in outcome.out for name in names)
    data = str(run.parent / "in")
    done(*base, f"input={data}", "output=many", "plot_series=[west]", "dataset.short=pad")
    assert [path.name for path in Path("many").glob("*.png")] == ["west.forecast.png"]
    assert "plot_series=east: " in refusal(*base, f"input={data}", "plot_series=[east]")


@pytest.mark.slow
def test_series_named_by_two_columns(folder: Path) -> None:
    """Forecasts in all forms have both columns, as text of the file, and are those with one column of joined names."""
    keys = {("01", "x"): "north", ("01", "y, z"): "south", ("2", "x"): "west"}
    both = pd.concat([series(name).assign(store=key[0], item=key[1]) for key, name in keys.items()])
    both[["date", "store", "item", "load"]].to_csv("both.csv", index=False)
    both.assign(id=both["store"] + both["item"])[["date", "id", "load"]].to_csv("one.csv", index=False)
    forecasts = {}
    for name, column in (("both", "[store,item]"), ("one", "id")):
        own = [f"dataset.path={name}.csv", f"dataset.series_col={column}", f"run_dir={name}"]
        done("train", *RUN, "scaler.per_series=true", *own)
        for how in ("mode=ahead", "mode=rolling"):
            done("predict", f"checkpoint={name}", f"input={name}.csv", f"output={name}{how}", "plots=false", how)
            (written,) = [path for path in Path(f"{name}{how}").glob("*.csv") if "metrics" not in path.name]
            forecasts[name, how] = pd.read_csv(written, dtype={"store": str})
    for how in ("mode=ahead", "mode=rolling"):
        two, one = forecasts["both", how], forecasts["one", how]
        assert list(two.columns[:2]) == ["store", "item"]
        assert list(two["store"] + two["item"]) == list(one["id"])
        pd.testing.assert_frame_equal(two.drop(columns=["store", "item"]), one.drop(columns="id"))


def shops(n_closed: int, n_late: int = 1, n: int = 10) -> pd.DataFrame:
    """Daily rows of `n` shops; the first `n_closed` end 30 days before the others, the next `n_late` 3 days before."""
    days, rng, parts = pd.date_range("2023-01-01", periods=200), np.random.default_rng(0), []
    for i in range(n):
        end = 170 if i < n_closed else 197 if i < n_closed + n_late else 200
        load = 50 + 10 * np.sin(2 * np.pi * np.arange(200) / 7 + i) + rng.normal(size=200)
        parts.append(
            pd.DataFrame({"date": days, "shop": f"s{i}", "promo": np.arange(200) % 5 == i % 5, "load": load})[:end]
        )
    return pd.concat(parts).astype({"promo": int})


def test_closed_shops_are_not_forecast(folder: Path) -> None:
    """Red if the past of a closed shop is forecast next to the others' future, or one that is late is left out, or if
    rows ahead of the closed one are demanded."""
    shops(1).drop(columns="promo").to_csv("shops.csv", index=False)
    settings = ["horizon=1week", "dataset.series_col=shop"]
    outcome = done("forecast", "shops.csv", *settings, "output=o")
    written = pd.read_csv(next((folder / "o" / "forecasts").glob("*.csv")))
    assert sorted(written["shop"].unique()) == [f"s{i}" for i in range(1, 10)]
    assert written.groupby("shop")["date"].min().unique().tolist() == ["2023-07-17", "2023-07-20"]
    assert outcome.out.replace("\n", " ").count("s0 (2023-06-19)") == 1
    done("forecast", "shops.csv", *settings, "output=p", "dataset.ended=forecast")
    assert pd.read_csv(next((folder / "p" / "forecasts").glob("*.csv")))["shop"].nunique() == 10
    shops(1, n_late=0).to_csv("promoted.csv", index=False)
    days = pd.date_range("2023-07-20", periods=7)
    pd.concat(pd.DataFrame({"date": days, "shop": f"s{i}", "promo": 1}) for i in range(1, 10)).to_csv(
        "ahead.csv", index=False
    )
    done("forecast", "promoted.csv", *settings, "target=load", "future=ahead.csv", "output=q")
    assert pd.read_csv("q/forecasts/promoted.forecast.csv")["shop"].nunique() == 9


def test_series_that_end_at_many_times_are_all_forecast(folder: Path) -> None:
    """As those of the M competitions, of which each ends on its own: 70 % of these end within a season."""
    shops(3).drop(columns="promo").to_csv("shops.csv", index=False)
    done("forecast", "shops.csv", "model=zero", "horizon=7", "dataset.series_col=shop", "output=o")
    assert pd.read_csv(next((folder / "o" / "forecasts").glob("*.csv")))["shop"].nunique() == 10
