"""Sources of forecasts: they add up to what `informer predict` writes, and mean what their names say."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import call, done, refusal

N, H, SEQ = 300, 7, 42
PROMO, PRICE, RAIN = 20.0, -3.0, -5.0


def rows(seed: int) -> pd.DataFrame:
    """Sales with a weekly season and known effects of promotion, price and weather; more rows than a history."""
    rng, n = np.random.default_rng(seed), N + 2 * H
    frame = pd.DataFrame({"date": pd.date_range("2022-01-01", periods=n, freq="D")})
    frame["promo"] = (rng.random(n) < 0.2).astype(int)
    frame.loc[[N + 1, N + 4], "promo"] = 1
    frame["price"] = 10 + rng.normal(size=n).round(2)
    frame["weather"] = rng.choice(["rain", "sun"], n, p=[0.3, 0.7])
    frame["stock"] = rng.normal(size=n).cumsum().round(2)
    season = 10 * np.sin(2 * np.pi * np.arange(n) / 7)
    effects = PROMO * frame["promo"] + PRICE * (frame["price"] - 10) + RAIN * (frame["weather"] == "rain")
    frame["sales"] = (60 + season + effects + rng.normal(size=n).cumsum() * 0.3 + rng.normal(size=n)).round(2)
    frame["visits"] = (3 * frame["sales"] + rng.normal(size=n)).round(2)
    return frame


KNOWN = ["future_covariates=[promo,price,weather]", "past_covariates=[stock]", "targets=[sales,visits]"]
ONE = ["dataset.path=one.csv", *KNOWN]
MANY = ["dataset.path=many.csv", "dataset.series_col=shop", *KNOWN]
PLAIN = ["dataset.path=plain.csv", "targets=[sales,visits]"]
ODD = ["dataset.path=odd.csv", "targets=[few,fixed,gaps]", "dataset.fill=mask"]
NETWORK = ["model=tiny", "attn=full", "trainer.max_epochs=1", "optim.lr=1e-2"]
MODELS = {
    "linear": [*ONE, "model=linear", "dataset.holidays=[DE]"],
    "shops": [*MANY, "model=linear"],
    "roots": [*ONE, "model=linear", "scaler.transform=sqrt"],
    "alone": [*PLAIN, "model=linear"],
    "odd": [*ODD, "model=linear", "non_negative=all"],
    "ridge": [*MANY, *NETWORK, "model.skip=ridge", "model.instance_norm=true"],
    "quantiles": [*ONE, *NETWORK, "loss=quantile", "loss.quantiles=[0.1,0.5,0.9]"],
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files, where runs are made on demand."""
    folder = tmp_path_factory.mktemp("shop")
    one, other = rows(1), rows(2)
    one[:N].to_csv(folder / "one.csv", index=False)
    one[N:].drop(columns=["sales", "visits"]).to_csv(folder / "ahead.csv", index=False)
    one[:N][["date", "sales", "visits"]].to_csv(folder / "plain.csv", index=False)
    one[: N - H][["date", "sales", "visits"]].to_csv(folder / "short.csv", index=False)
    odd = one[:N][["date"]].assign(few=(one["sales"][:N] - one["sales"].median()).clip(0), fixed=4)
    odd.assign(gaps=one["visits"][:N].where(np.arange(N) % 11 > 2)).to_csv(folder / "odd.csv", index=False)
    both = pd.concat([one.assign(shop="a"), other.assign(shop="b", sales=other["sales"] * 50)])
    both.groupby("shop").head(N).to_csv(folder / "many.csv", index=False)
    later = both.groupby("shop").tail(2 * H).drop(columns=["sales", "visits"])
    later.to_csv(folder / "many_ahead.csv", index=False)
    return folder


@pytest.fixture
def files(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(shop)
    return shop


def run_of(name: str) -> str:
    """The folder of the trained model of this name."""
    if not Path(name).exists():
        sizes = [f"seq_len={SEQ}", "label_len=7", f"pred_len={H}", "trainer.tracker=[]", f"run_dir={name}"]
        done("train", "dataset=csv", *sizes, *MODELS[name])
    return name


def words_of(name: str) -> list[str]:
    """The input of a model, and what is known ahead."""
    data = MODELS[name][0].removeprefix("dataset.path=").removesuffix(".csv")
    ahead = {"one": ["future=ahead.csv"], "many": ["future=many_ahead.csv"]}
    return [f"input={data}.csv", *ahead.get(data, [])]


def explained(name: str, *words: str) -> pd.DataFrame:
    done("explain", run_of(name), *(words or words_of(name)), "output=out", "overwrite=true")
    return pd.read_csv("out/explanation.csv", parse_dates=["date"])


def predicted(name: str, *words: str) -> pd.DataFrame:
    """What predict writes with all digits, as a row per series, time and column."""
    words = words or tuple(words_of(name))
    done("predict", run_of(name), *words, "output=ahead", "format=long", "digits=null", "overwrite=true")
    return pd.read_csv("ahead/forecasts.csv", parse_dates=["date"])


QUICK = ("linear", "shops", "alone", "quantiles")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in MODELS]
)
def test_the_sources_add_up_to_the_forecast(name: str, files: Path) -> None:
    """Red if a part of a model has no source or counts twice, in units of another scale; if a batch is forecast by
    another path than in predict; if steps, columns or series change places."""
    beyond = ["horizon=10"] if name == "alone" else []
    table = explained(name, *words_of(name), *beyond)
    keys = [table.columns[0], "date", "column"]
    forecast = predicted(name, *words_of(name), *beyond)
    total = table.groupby(keys, sort=False)["value"].sum().reset_index()
    assert total["date"].tolist() == forecast["date"].tolist()
    assert total["column"].tolist() == forecast["column"].tolist()
    np.testing.assert_allclose(total["value"], forecast["y"], rtol=1e-9, atol=1e-9)
    assert table["step"].max() == (10 if beyond else H)
    assert ("network" in set(table["source"])) == ("model=tiny" in MODELS[name])
    assert ("transform" in set(table["source"])) == (name == "roots")


def by_source(table: pd.DataFrame, column: str, value: str = "value") -> pd.DataFrame:
    """A row per step, a column per source."""
    return table[table["column"] == column].pivot(index="step", columns="source", values=value)


def test_effects_are_those_that_the_data_were_made_with(files: Path) -> None:
    """Red if a covariate is explained by the level, by another covariate or at another step."""
    parts, ahead = by_source(explained("linear"), "sales"), pd.read_csv("ahead.csv")[:H]
    usual = pd.read_csv("one.csv")[-SEQ:]["price"].median()
    np.testing.assert_allclose(parts["promo"], PROMO * ahead["promo"], atol=0.6)
    np.testing.assert_allclose(parts["price"], PRICE * (ahead["price"] - usual), atol=0.6)
    np.testing.assert_allclose(parts["weather"], RAIN * (ahead["weather"] == "rain"), atol=0.6)
    season = 10 * np.sin(2 * np.pi * np.arange(N, N + H) / 7)
    np.testing.assert_allclose(parts["season"], season, atol=2.5)
    assert np.ptp(parts["level"]) < 3


@pytest.mark.slow
def test_the_bound_is_what_clipping_adds(files: Path) -> None:
    """Red if a forecast that is clipped at zero is explained by other sources; a constant is its level alone."""
    odd = pd.read_csv("odd.csv")
    odd.assign(few=odd["few"] - 50).to_csv("below.csv", index=False)
    table = explained("odd", "input=below.csv")
    few, fixed = by_source(table, "few"), by_source(table, "fixed")
    np.testing.assert_allclose(few["bound"], (-few.drop(columns="bound").sum(axis=1)).clip(lower=0), atol=1e-6)
    assert (few["bound"] > 5).all()
    assert (fixed.pop("level") == 4).all()
    assert not fixed.to_numpy().any()


def test_what_if_is_the_forecast_of_the_changed_file(files: Path) -> None:
    """Red if a change reaches other columns or rows than the file with the same change, or other sources than the
    column's."""
    ahead = pd.read_csv("ahead.csv")
    changed = ahead.assign(price=ahead["price"] * 1.1, promo=1, weather="rain")
    changed.to_csv("changed.csv", index=False)
    words = words_of("linear")
    by_words = explained("linear", *words, "set=[price=+10%,promo=1,weather=rain]")
    by_file = explained("linear", *words, "what_if=changed.csv")
    pd.testing.assert_frame_equal(by_words, by_file)
    forecasts = [predicted("linear", words[0], f"future={file}")["y"] for file in ("ahead.csv", "changed.csv")]
    total = by_file.groupby(["column", "step"], sort=False)[["value", "value_if", "difference"]].sum()
    np.testing.assert_allclose(total["value"], forecasts[0], rtol=1e-9)
    np.testing.assert_allclose(total["value_if"], forecasts[1], rtol=1e-9)
    np.testing.assert_allclose(total["difference"], forecasts[1] - forecasts[0], atol=1e-9)
    moved = by_file.groupby("source")["difference"].agg(lambda column: column.abs().max())
    assert set(moved[moved > 1e-4].index) == {"promo", "price", "weather"}
    less = by_source(explained("linear", *words, "set=[price=-2]"), "sales", "difference")
    np.testing.assert_allclose(less["price"], -2 * PRICE, atol=0.6)


def test_against_is_the_difference_to_an_earlier_forecast(files: Path) -> None:
    """Red if steps are compared instead of times."""
    history = pd.read_csv("one.csv")
    history[:-2].to_csv("before.csv", index=False)
    columns = ["date", "promo", "price", "weather"]
    pd.concat([history[columns][-2:], pd.read_csv("ahead.csv")[columns]]).to_csv("longer.csv", index=False)
    words = ["input=one.csv", "future=longer.csv"]
    table = explained("linear", *words, "against=before.csv")
    now, before = (
        predicted("linear", file, words[1]).set_index(["column", "date"])["y"] for file in (words[0], "before.csv")
    )
    total = table.groupby(["column", "date"], sort=False)[["value", "value_before", "difference"]].sum()
    assert len(total) == 2 * (H - 2)
    np.testing.assert_allclose(total["value"], now[total.index], rtol=1e-9)
    np.testing.assert_allclose(total["value_before"], before[total.index], rtol=1e-9)
    np.testing.assert_allclose(total["difference"], (now - before)[total.index], atol=1e-8)


def test_without_a_file_the_data_of_training_are_explained(files: Path) -> None:
    """Red if another file is read, or the answer for programs is not what the table holds."""
    facts = json.loads(call("explain", run_of("alone"), "--json").out)
    table = pd.read_csv(facts["explanation"])
    assert Path(facts["explanation"]) == Path("alone/explanation/explanation.csv")
    pd.testing.assert_frame_equal(table, explained("alone").assign(date=table["date"]))
    mean = table[(table["column"] == "sales") & (table["source"] == "season")]["value"].mean()
    assert facts["sources"]["plain, sales"]["season"]["mean"] == pytest.approx(mean)
    assert "season" in done("explain", run_of("alone")).out
    assert f"sales {table[table['column'] == 'sales'].groupby('step')['value'].sum().mean():.4g} (level" in Path(
        facts["report"]
    ).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "word", "said"),
    [
        ("linear", "set=[stock=1]", "set=stock=1: stock is not known ahead to this model; it reads ahead promo, price"),
        ("linear", "set=[price=high]", "set=price=high: expected a number, or a change such as +10%"),
        ("linear", "set=[weather=fog]", "set=weather=fog: expected one of rain, sun"),
        ("linear", "importance=true", "future: expected none with importance=true, which forecasts the test part"),
        (
            "alone",
            "against=short.csv",
            "against=short.csv: expected forecasts of the same series and times, found none",
        ),
    ],
)
def test_what_cannot_be_changed_is_one_line(name: str, word: str, said: str, files: Path) -> None:
    assert said in refusal("explain", run_of(name), *words_of(name), word, "output=refused")
    assert not Path("refused").exists()


def test_a_change_without_effect_is_said(files: Path) -> None:
    outcome = done(
        "explain", run_of("linear"), *words_of("linear"), "what_if=ahead.csv", "output=out", "overwrite=true"
    )
    assert "promo, price, weather: unchanged, or without an effect in this model" in outcome.out


def importance_of(name: str) -> pd.DataFrame:
    done("explain", run_of(name), "importance=true", "output=counts", "overwrite=true")
    return pd.read_csv("counts/importance.csv").set_index("column")


@pytest.mark.slow
def test_importance_of_a_network_and_of_the_calendar(files: Path) -> None:
    """Red if a column that nothing depends on counts, or the calendar does not where the season comes from it."""
    table = importance_of("ridge")
    assert table.index[-1] == "stock" or abs(table.loc["stock", "times"] - 1) < 0.1
    assert {"calendar", "sales", "visits", "promo", "price", "weather", "stock"} == set(table.index)
    assert (table["times"].diff().dropna() <= 0).all()
    answer = json.loads(call("explain", run_of("ridge"), "importance=true", "output=again", "--json").out)
    assert answer["columns"]["price"]["times"] == pytest.approx(table.loc["price", "times"], rel=1e-4)
    run_of("alone")
    Path("plain.csv").rename("moved.csv")
    try:
        assert "training data not found; set input=FILE" in refusal("explain", "alone", "importance=true")
        done("explain", "alone", "importance=true", "input=moved.csv")
    finally:
        Path("moved.csv").rename("plain.csv")
