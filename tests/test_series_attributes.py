"""Static covariates and learned embeddings of series, through every command."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
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
