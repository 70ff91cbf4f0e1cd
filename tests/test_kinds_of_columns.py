"""Categories, static covariates and learned vectors of series; numbers of whole runs with them are in tests/golden."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import call, done, refusal

from informer import Forecaster, InputError, checkpoint

SMALL = [
    "dataset=csv", "dataset.path=shops.csv", "attn=full", "model=tiny", "model.d_model=16", "model.encoder_stacks=[1]",
    "seq_len=14", "label_len=7", "pred_len=7", "targets=[sales]", "optim.lr=1e-2", "trainer.tracker=[]",
]  # fmt: skip
RUN = [
    *SMALL, "dataset.series_col=shop", "future_covariates=[promo,weather,status]", "dataset.categorical=[status]",
    "dataset.static_covariates=[region,size]", "model.series_embedding=3", "trainer.max_epochs=3",
]  # fmt: skip
RISE = {"none": 0.0, "flyer": 10.0, "tv": 25.0}
ROWS, AHEAD = 400, 10
SHOPS = ("north", "south", "west")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """A run on three shops, and all rows; the last ten are not in the file. Clearances are in late rows only."""
    folder = tmp_path_factory.mktemp("shops")
    rng, n, parts = np.random.default_rng(0), ROWS + AHEAD, []
    for place, shop in enumerate(SHOPS):
        frame = pd.DataFrame({"date": pd.date_range("2022-01-01", periods=n), "shop": shop})
        frame = frame.assign(region=("hill", "sea")[place % 2], size=10.0 * (1 + place))
        frame["promo"] = rng.choice([*RISE], p=[0.6, 0.3, 0.1], size=n)
        frame["weather"] = rng.choice(["sun", "rain"], size=n)
        frame["status"] = rng.choice([1, 7], size=n)
        frame["sales"] = 100 + 10 * place + frame["promo"].map(RISE) + rng.normal(size=n)
        frame.loc[380:385, "promo"] = "clearance"
        parts.append(frame)
    frame = pd.concat(parts, ignore_index=True)
    history(frame).to_csv(folder / "shops.csv", index=False)
    ahead(frame).to_csv(folder / "ahead.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done("train", *RUN, "scaler.per_series=true", "run_dir=run")
    return folder, frame


@pytest.fixture
def shops(made: tuple[Path, pd.DataFrame], monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """All rows, in the folder of the run."""
    monkeypatch.chdir(made[0])
    return made[1]


@pytest.fixture
def model(shops: pd.DataFrame) -> Forecaster:
    return Forecaster.load("run", device="cpu")


def history(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.groupby("shop").head(ROWS)


def ahead(frame: pd.DataFrame, **changed: object) -> pd.DataFrame:
    return frame.groupby("shop").tail(AHEAD)[["date", "shop", "promo", "weather", "status"]].assign(**changed)


def test_what_a_checkpoint_knows_of_columns(shops: pd.DataFrame) -> None:
    """Red if clearance, which is in the test part only, has a vector, or if a constant column, scaled by its own
    series, becomes zero everywhere."""
    saved = checkpoint.load(Path("run"))
    assert saved.data.categories == {
        "promo": ["flyer", "none", "tv"], "weather": ["rain", "sun"], "status": ["1", "7"], "region": ["hill", "sea"]
    }  # fmt: skip
    assert saved.weights["transform.series.weight"].shape == (3, 3)
    size, sales = saved.inputs.index("size"), saved.inputs.index("sales")
    for name, level in zip(SHOPS, (100, 110, 120), strict=True):
        own = saved.scaler.of(name, np.ones((14, len(saved.inputs))))
        assert own.center[size] == pytest.approx(20)
        assert own.scale[size] == pytest.approx(np.std([10, 20, 30]))
        assert level < own.center[sales] < level + 10


def test_an_unseen_category_is_said_once_and_forecast(
    shops: pd.DataFrame, model: Forecaster, caplog: pytest.LogCaptureFixture
) -> None:
    """Red when the file of future covariates is read, and warned of, for the check and again for the forecast."""
    rows = history(shops).replace({"clearance": "none"})
    mean = model.predict(rows, future=ahead(shops, promo="unheard"))["sales"].mean()
    assert "column 'promo': 'unheard' not in the training rows; the model uses the mean of the" in caplog.text
    kinds = [model.predict(rows, future=ahead(shops, promo=kind))["sales"].mean() for kind in RISE]
    assert min(kinds) < mean < max(kinds)
    ahead(shops, promo="unheard").to_csv("new.csv", index=False)
    words = ["predict", "checkpoint=run", "input=shops.csv", "output=new", "plots=false", "future=new.csv"]
    lines = call(*words).out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "new.csv, column 'promo'", "shops.csv, column 'promo'", "forecast"
    ]  # fmt: skip


def test_a_file_of_future_covariates_that_changes_is_read_again(shops: pd.DataFrame, model: Forecaster) -> None:
    """Red when forecasts use the rows of a file that has been replaced since the last call."""
    means = []
    for kind in ("none", "tv"):
        ahead(shops, promo=kind).to_csv("changing.csv", index=False)
        means.append(model.predict(history(shops), future="changing.csv")["sales"].mean())
    assert means[1] > means[0] + 10


def test_a_longer_horizon_keeps_what_is_constant(shops: pd.DataFrame, model: Forecaster) -> None:
    """Red if static covariates are zero behind the first pred_len rows: by hand, with the forecast as history."""
    known = shops[shops["shop"] == "south"]
    rows, plan = known[:300], known.drop(columns=["region", "size", "sales"])
    whole = model.predict(rows, horizon=14, future=plan)
    first = model.predict(rows, future=plan)
    middle = known[300:307].assign(sales=first["sales"].to_numpy())
    second = model.predict(pd.concat([rows, middle]), future=plan)
    np.testing.assert_allclose(whole["sales"], [*first["sales"], *second["sales"]], rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "fresh"),
    [
        (lambda rows: rows, ""),
        (lambda rows: rows.replace({"tv": "radio"}), "transform.categories.tables."),
        (lambda rows: rows[rows["shop"] != "west"], "transform.series.weight"),
    ],
)
def test_other_categories_and_series_begin_with_fresh_vectors(change, fresh: str, shops: pd.DataFrame) -> None:
    """Red if a vector of one category or series becomes that of another."""
    change(history(shops)).to_csv("changed.csv", index=False)
    begin = ["dataset.path=changed.csv", "trainer.max_steps=1", "init_from=run", f"run_dir=other{fresh}"]
    said = done("train", *RUN, "scaler.per_series=true", *begin).out
    assert ("0 fresh" in said) == (not fresh)
    assert fresh in said.partition("fresh: ")[2].splitlines()[0] if fresh else True


def test_names_that_hardly_repeat_are_warned_of(folder: Path) -> None:
    """Red if a column of identifiers trains without a word; weather, which has two categories, is not named."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"date": pd.date_range("2022-01-01", periods=200), "sales": rng.normal(size=200)})
    frame["weather"] = rng.choice(["sun", "rain"], size=200)
    frame["order"] = [f"o{place // 2}" for place in range(200)]
    frame.to_csv("shops.csv", index=False)
    said = done("train", *SMALL, "past_covariates=[weather,order]", "trainer.max_steps=1").out.splitlines()
    (line,) = (line for line in said if "categories in" in line)
    assert "column 'order': 70 categories in 140 training rows" in line


def test_series_without_history_are_named(shops: pd.DataFrame, model: Forecaster) -> None:
    """In sums and explanations of the pretrained network, and by a trained one; red if rows ahead of a series that the
    history lacks are dropped silently, or if those of one that has history are refused."""
    some, later = history(shops)[lambda rows: rows["shop"] != "west"], ahead(shops)
    some.to_csv("some.csv", index=False)
    for given in (
        ["forecast", "some.csv", "target=sales", "total=true"],
        ["predict", "checkpoint=run", "input=some.csv"],
    ):
        assert "west" in refusal(*given, "future=ahead.csv", "output=refused")
    untrained = Forecaster(target="sales")
    for method in (untrained.totals, untrained.explain, model.predict):
        with pytest.raises(InputError, match="west"):
            method(some, future=later)
        assert len(method(some, future=later[later["shop"] != "west"]))
    Path("in").mkdir()
    for name in ("some", "shops"):  # which share the rows ahead
        shutil.copy(f"{name}.csv", "in")
    done("predict", "checkpoint=run", "input=in", "future=ahead.csv", "output=both")
