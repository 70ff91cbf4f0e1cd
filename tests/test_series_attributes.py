"""Static covariates and learned embeddings of series, through every command."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import call, done, refusal

from informer import Forecaster, InputError, checkpoint

RUN = [
    "dataset=csv", "dataset.path=stores.csv", "dataset.series_col=store", "attn=full", "model=tiny",
    "model.d_model=16", "model.encoder_stacks=[1]", "seq_len=14", "label_len=7", "pred_len=7", "targets=[sales]",
    "optim.lr=1e-2", "future_covariates=[promo]", "trainer.tracker=[]", "scaler.per_series=false",
]  # fmt: skip
STATIC = "dataset.static_covariates=[region,size]"
EFFECT = {"hill": 10.0, "sea": 40.0}
"""Of a promotion, by region; few days have one, so that a history hardly shows it."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """A run with static covariates and one with vectors of the series, which have three stores in each region."""
    folder = tmp_path_factory.mktemp("stores")
    rng = np.random.default_rng(0)
    parts = []
    for place in range(6):
        region = [*EFFECT][place % 2]
        frame = pd.DataFrame({"date": pd.date_range("2022-01-01", periods=310), "store": f"s{place}"})
        frame = frame.assign(region=region, size=10.0 * (1 + place), promo=(rng.random(310) < 0.15).astype(float))
        frame.loc[280:300, "promo"] = 0.0
        parts.append(frame.assign(sales=100 + EFFECT[region] * frame["promo"] + 2 * rng.normal(size=310)))
    pd.concat(part[:300] for part in parts).to_csv(folder / "stores.csv", index=False)
    pd.concat(part[300:] for part in parts)[["date", "store", "promo"]].to_csv(folder / "ahead.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        vectors = ["model.series_embedding=3", "dataset.exclude=[region,size]"]
        for name, more in (("static", [STATIC]), ("vectors", vectors)):
            done("train", *RUN, *more, "trainer.max_steps=20", f"run_dir={name}")
    return folder, pd.concat(parts, ignore_index=True)


@pytest.fixture
def stores(made: tuple[Path, pd.DataFrame], monkeypatch: pytest.MonkeyPatch) -> tuple[Path, pd.DataFrame]:
    """The same, with their folder as the working directory."""
    monkeypatch.chdir(made[0])
    return made


def history(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.groupby("store").head(300)


def effect(model: Forecaster, frame: pd.DataFrame) -> pd.Series:
    """By store, what a promotion in the middle of the horizon adds to the forecast of its day."""
    plan = pd.concat(
        pd.DataFrame({"date": pd.date_range("2022-10-28", periods=7), "store": store, "promo": 0.0})
        for store in frame["store"].unique()
    )
    day = plan["date"] == "2022-10-31"
    forecasts = [
        model.predict(history(frame), future=plan.assign(promo=np.where(day, promo, 0.0))).groupby("store").nth(3)
        for promo in (0.0, 1.0)
    ]
    return forecasts[1].set_index("store")["sales"] - forecasts[0].set_index("store")["sales"]


def test_static_covariates_say_how_a_series_answers(stores: tuple[Path, pd.DataFrame]) -> None:
    """Red if the region of the table does not reach the network: with the other region the effect is another."""
    folder, frame = stores
    model = Forecaster.load(folder / "static", device="cpu")
    moved = effect(model, frame.assign(region=frame["region"].map({"hill": "sea", "sea": "hill"})))
    assert (np.abs(moved - effect(model, frame)) > 1e-3).all()


def test_vectors_tell_series_apart(stores: tuple[Path, pd.DataFrame]) -> None:
    """Red if the number of a series does not reach the network; a series with a new name has the mean vector."""
    folder, frame = stores
    model = Forecaster.load(folder / "vectors", device="cpu")
    assert model.trained.model.reads_series
    named = [effect(model, frame[frame["store"] == "s0"].replace({"s0": name}))[name] for name in ("s0", "s1", "new")]
    assert len({*np.round(named, 5)}) == 3
    table = model.trained.model.transform.series
    vectors = table(torch.arange(7))
    torch.testing.assert_close(vectors[0], vectors[1:].mean(dim=0))


def test_a_longer_horizon_keeps_what_is_constant(stores: tuple[Path, pd.DataFrame]) -> None:
    """Red if static covariates are zero behind the first pred_len rows: by hand, with the forecast as history."""
    folder, frame = stores
    model = Forecaster.load(folder / "static", device="cpu")
    known = frame[frame["store"] == "s1"]
    rows, plan = known[:290], known[["date", "store", "promo"]]
    whole = model.predict(rows, horizon=14, future=plan)
    first = model.predict(rows, future=plan)
    middle = known[290:297].assign(sales=first["sales"].to_numpy())
    second = model.predict(pd.concat([rows, middle]), future=plan)
    np.testing.assert_allclose(whole["sales"], [*first["sales"], *second["sales"]], rtol=1e-5)


def test_other_series_begin_with_fresh_vectors(stores: tuple[Path, pd.DataFrame]) -> None:
    assert checkpoint.load(Path("vectors")).weights["transform.series.weight"].shape == (6, 3)
    rows = pd.read_csv("stores.csv")
    rows[rows["store"] != "s5"].to_csv("fewer.csv", index=False)
    more = ["model.series_embedding=3", "dataset.exclude=[region,size]", "init_from=vectors", "trainer.max_steps=1"]
    outcome = done("train", *RUN, "dataset.path=fewer.csv", *more, "run_dir=fewer")
    assert "1 fresh; fresh: transform.series.weight" in outcome.out


def test_each_series_is_scaled_by_itself_but_not_its_attributes(stores: tuple[Path, pd.DataFrame]) -> None:
    """Red if a constant column, scaled by its own series, becomes zero everywhere."""
    call("train", *RUN, STATIC, "scaler.per_series=true", "trainer.max_steps=1", "run_dir=own")
    scaler = checkpoint.load(Path("own")).scaler
    sizes = np.repeat(10.0 * np.arange(1, 7), 210)
    for name in ("s0", "s5", "new"):
        one = scaler.of(name, np.ones((14, 4)))
        assert one.center[1] == pytest.approx(sizes.mean())
        assert one.scale[1] == pytest.approx(sizes.std())
        assert (one.center[0], one.scale[0]) == (0, 1)


def test_what_is_refused(stores: tuple[Path, pd.DataFrame]) -> None:
    """One line each."""
    rows = pd.read_csv("stores.csv")
    rows.assign(region=rows["region"].where(rows["date"] < "2022-03-01", "hill")).to_csv("moved.csv", index=False)
    rows.assign(size=rows["size"] + (rows["date"] == "2022-02-03")).to_csv("grown.csv", index=False)
    rows[rows["store"] == "s0"].to_csv("one.csv", index=False)
    changed = "dataset.static_covariates={}: expected one value within s{}, found {} and then {} at 2022-{} 00:00:00"
    for more, line in (
        (["dataset.path=moved.csv", STATIC], changed.format("region", 1, "'sea'", "'hill'", "03-01")),
        (["dataset.path=grown.csv", STATIC], changed.format("size", 0, 10, 11, "02-03")),
        (["dataset.static_covariates=[area]"], "dataset.static_covariates=area: s0 has no such column"),
        (["dataset.static_covariates=[promo]"], "column 'promo' is given in future_covariates and in dataset.static"),
        (["dataset.path=one.csv", "model.series_embedding=2"], "model.series_embedding: expected several series"),
        (["model.series_embedding=-1"], "model.series_embedding: expected at least 0, found -1"),
    ):  # fmt: skip
        assert line in refusal("train", *RUN, *more, "run_dir=refused")


def test_series_without_history_are_named(stores: tuple[Path, pd.DataFrame]) -> None:
    """In sums and explanations of the pretrained network, and by a trained one; red if rows ahead of a series that the
    history lacks are dropped silently, or if those of one that has history are refused."""
    rows, ahead = pd.read_csv("stores.csv"), pd.read_csv("ahead.csv")
    some = rows[rows["store"] != "s4"]
    some.to_csv("some.csv", index=False)
    for given in (
        ["forecast", "some.csv", "target=sales", "total=true"],
        ["predict", "checkpoint=static", "input=some.csv"],
    ):
        assert "s4" in refusal(*given, "future=ahead.csv", "output=new")
    untrained, trained = Forecaster(target="sales"), Forecaster.load("static")
    for method in (untrained.totals, untrained.explain, trained.predict):
        with pytest.raises(InputError, match="s4"):
            method(some, future=ahead)
        assert len(method(some, future=ahead[ahead["store"] != "s4"]))
    Path("in").mkdir()
    for name in ("some", "stores"):  # which share the rows ahead
        shutil.copy(f"{name}.csv", "in")
    done("predict", "checkpoint=static", "input=in", "future=ahead.csv", "output=both")
