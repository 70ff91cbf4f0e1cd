"""Categories through every command: shops whose sales rise by a known amount with each kind of promotion."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import call, done

from informer import Forecaster, checkpoint

RUN = [
    "dataset=csv", "dataset.path=shops.csv", "dataset.series_col=shop", "attn=full", "model=tiny", "model.d_model=16",
    "model.encoder_stacks=[1]", "seq_len=14", "label_len=7", "pred_len=7", "targets=[sales]", "optim.lr=1e-2",
    "trainer.max_epochs=3", "past_covariates=[weather]", "future_covariates=[promo]", "dataset.categorical=[status]",
    "trainer.tracker=[]",
]  # fmt: skip
RISE = {"none": 0.0, "flyer": 10.0, "tv": 25.0}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """A run on two shops, and all rows; the last ten are not in the file. Sales on clearance are in late rows only."""
    folder = tmp_path_factory.mktemp("shops")
    rng = np.random.default_rng(0)
    parts = []
    for place, shop in enumerate(("north", "south")):
        frame = pd.DataFrame({"date": pd.date_range("2022-01-01", periods=410), "shop": shop})
        frame["promo"] = rng.choice([*RISE], p=[0.6, 0.3, 0.1], size=410)
        frame["weather"] = rng.choice(["sun", "rain"], size=410)
        frame["status"] = rng.choice([1, 7], size=410)
        frame["sales"] = 100 + 10 * place + frame["promo"].map(RISE) + rng.normal(size=410)
        frame.loc[380:385, "promo"] = "clearance"
        parts.append(frame)
    pd.concat(part[:400] for part in parts).to_csv(folder / "shops.csv", index=False)
    pd.concat(part[400:] for part in parts)[["date", "shop", "promo"]].to_csv(folder / "ahead.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done("train", *RUN, "run_dir=run")
    return folder, pd.concat(parts, ignore_index=True)


@pytest.fixture
def shops(made: tuple[Path, pd.DataFrame], monkeypatch: pytest.MonkeyPatch) -> tuple[Path, pd.DataFrame]:
    """The same, with their folder as the working directory."""
    monkeypatch.chdir(made[0])
    return made


@pytest.fixture
def model(shops: tuple[Path, pd.DataFrame]) -> Forecaster:
    return Forecaster.load(shops[0] / "run", device="cpu")


def history(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.groupby("shop").head(400)


def ahead(frame: pd.DataFrame, promo: object = None) -> pd.DataFrame:
    rows = frame.groupby("shop").tail(10)[["date", "shop", "promo"]]
    return rows if promo is None else rows.assign(promo=promo)


def test_the_checkpoint_has_the_categories_of_training_rows(shops: tuple[Path, pd.DataFrame]) -> None:
    """Red if clearance, which is in the test part only, has a vector."""
    saved = checkpoint.load(shops[0] / "run")
    assert saved.data.categories == {"promo": ["flyer", "none", "tv"], "weather": ["rain", "sun"], "status": ["1", "7"]}
    assert saved.dims.categories == (3, 2, 2, 0)
    assert (saved.inputs, saved.targets) == (["promo", "weather", "status", "sales"], ["sales"])
    assert saved.weights["transform.categories.tables.0.weight"].shape == (3, 2)


def test_an_unseen_category_is_said_once_and_forecast(
    shops: tuple[Path, pd.DataFrame], model: Forecaster, caplog: pytest.LogCaptureFixture
) -> None:
    """Red when the file of future covariates is read, and warned of, for the check and again for the forecast."""
    rows = history(shops[1]).replace({"clearance": "none"})
    mean = model.predict(rows, future=ahead(shops[1], "unheard"))["sales"].mean()
    assert "column 'promo': 'unheard' not in the training rows; the model uses the mean of the" in caplog.text
    kinds = [model.predict(rows, future=ahead(shops[1], kind))["sales"].mean() for kind in RISE]
    assert min(kinds) < mean < max(kinds)
    ahead(shops[1], "unheard").to_csv("new.csv", index=False)
    words = ["predict", "checkpoint=run", "input=shops.csv", "output=new", "plots=false", "future=new.csv"]
    lines = call(*words).out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "new.csv, column 'promo'", "shops.csv, column 'promo'", "forecast"
    ]  # fmt: skip


def test_a_file_of_future_covariates_that_changes_is_read_again(
    shops: tuple[Path, pd.DataFrame], model: Forecaster
) -> None:
    """Red when forecasts use the rows of a file that has been replaced since the last call."""
    means = []
    for kind in ("none", "tv"):
        ahead(shops[1], kind).to_csv("changing.csv", index=False)
        means.append(model.predict(history(shops[1]), future="changing.csv")["sales"].mean())
    assert means[1] > means[0] + 10


def test_other_categories_leave_their_vectors_fresh(shops: tuple[Path, pd.DataFrame]) -> None:
    """Red if a vector of one category becomes that of another."""
    rows = history(shops[1]).replace({"tv": "radio"})
    rows.to_csv("radio.csv", index=False)
    begin = [*RUN, "trainer.max_steps=1", "init_from=run"]
    same = call("train", *begin, "run_dir=same")
    assert "0 fresh" in same.out, same.err
    other = call("train", *begin, "dataset.path=radio.csv", "run_dir=other")
    assert "transform.categories.tables.0.weight" in other.out.split("fresh: ")[1].splitlines()[0]


def test_names_that_hardly_repeat_are_warned_of(folder: Path) -> None:
    """Red if a column of identifiers trains without a word; weather, which has two categories, is not named."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"date": pd.date_range("2022-01-01", periods=200), "sales": rng.normal(size=200)})
    frame["weather"] = rng.choice(["sun", "rain"], size=200)
    frame["order"] = [f"o{place // 2}" for place in range(200)]
    frame.to_csv("orders.csv", index=False)
    arguments = [one for one in RUN if "series_col" not in one and "covariates" not in one and "categorical" not in one]
    outcome = done(
        "train", *arguments, "dataset.path=orders.csv", "past_covariates=[weather,order]", "trainer.max_steps=1"
    )
    said = [line for line in (outcome.out + outcome.err).splitlines() if "categories in" in line]
    assert len(said) == 1
    assert "column 'order': 70 categories in 140 training rows" in said[0]
