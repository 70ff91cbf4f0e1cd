"""Columns known ahead, from the command line: the model uses them, and asks for them by name and time."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import call

from informer import Forecaster, checkpoint
from informer.errors import InputError

RUN = [
    "dataset=csv", "dataset.path=driven.csv", "attn=full", "model=tiny", "model.d_model=16", "model.encoder_stacks=[1]",
    "seq_len=12", "label_len=6", "pred_len=6", "optim.lr=1e-2", "trainer.max_epochs=2", "targets=[load]",
]  # fmt: skip


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """A load that follows prices which nothing in the past foretells, and the prices; runs with and without them."""
    folder = tmp_path_factory.mktemp("driven")
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"date": pd.date_range("2022-01-01", periods=1506, freq="h"), "price": rng.normal(size=1506)})
    frame["load"] = 40 - 5 * frame["price"] + 0.5 * rng.normal(size=1506)
    frame[:1500].to_csv(folder / "driven.csv", index=False)
    frame[["date", "price"]].to_csv(folder / "prices.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for role in ("past", "future"):
            outcome = call("train", *RUN, f"{role}_covariates=[price]", f"run_dir={role}")
            assert outcome.status == 0, outcome.err
    return folder, frame


def test_the_error_falls_by_half_with_what_is_known_ahead(driven: tuple[Path, pd.DataFrame]) -> None:
    """Red if the decoder does not see the prices of the horizon, or sees them at other steps."""
    mse = {
        role: pd.read_csv(driven[0] / role / "metrics.csv")
        .query("model == 'informer' and units == 'scaled' and column == 'all' and step == 'all' and metric == 'mse'")[
            "value"
        ]
        .item()
        for role in ("past", "future")
    }
    assert mse["past"] > 0.8
    assert mse["future"] < mse["past"] / 2


def test_the_checkpoint_knows_the_roles(driven: tuple[Path, pd.DataFrame]) -> None:
    saved = {role: checkpoint.load(driven[0] / role) for role in ("past", "future")}
    for role, known in (("past", []), ("future", ["price"])):
        assert (saved[role].inputs, saved[role].targets) == (["price", "load"], ["load"])
        assert saved[role].future_covariates == known


def test_a_forecast_follows_the_prices_it_is_given(
    driven: tuple[Path, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, frame = driven
    monkeypatch.chdir(folder)
    outcome = call("predict", "checkpoint=future", "input=driven.csv", "future=prices.csv", "plots=false", "output=out")
    assert (outcome.status, outcome.err) == (0, "")
    found = pd.read_csv("out/driven.forecast.csv", parse_dates=["date"])
    assert list(found.columns) == ["date", "load"]
    assert list(found["date"]) == list(frame["date"][1500:])
    assert np.abs(found["load"] - frame["load"][1500:].to_numpy()).mean() < 2
    assert np.corrcoef(found["load"], frame["price"][1500:])[0, 1] < -0.9
    from_python = Forecaster.load("future").predict(frame[:1500], future=frame[["date", "price"]][1500:])
    np.testing.assert_allclose(from_python["load"], found["load"], rtol=1e-5)


def test_a_longer_horizon_takes_longer_futures(driven: tuple[Path, pd.DataFrame]) -> None:
    folder, frame = driven
    forecaster = Forecaster.load(folder / "future")
    found = forecaster.predict(frame[:1400], horizon=9, future=frame[["date", "price"]])
    first = forecaster.predict(frame[:1400], future=frame[["date", "price"]])
    np.testing.assert_allclose(found["load"][:6], first["load"], rtol=1e-5)
    assert np.corrcoef(found["load"], frame["price"][1400:1409])[0, 1] < -0.9
    with pytest.raises(InputError, match=r"missing: 2022-02-28 14:00:00, .* 2022-02-28 19:00:00"):
        forecaster.predict(frame[:1400], horizon=9, future=frame[["date", "price"]][:1406])
    frames = {"x": frame[:1400], "y": frame[:1000]}
    both = forecaster.predict_many(frames, futures=dict.fromkeys("yx", frame))
    np.testing.assert_allclose(both["x"]["load"], first["load"], rtol=1e-5)
    with pytest.raises(InputError, match="futures: expected one for each table, found none for y"):
        forecaster.predict_many(frames, futures={"x": frame})


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda prices: prices[:1503], "missing: 2022-03-04 15:00:00, 2022-03-04 16:00:00, 2022-03-04 17:00:00"),
        (lambda prices: prices.rename(columns={"price": "cost"}), "future covariates missing: price; its columns are"),
        (lambda prices: prices.assign(price=prices["price"].where(prices.index != 1502)), "row 1504, column 'price'"),
    ],
)
def test_what_is_missing_is_one_line(
    driven: tuple[Path, pd.DataFrame], change: object, line: str, folder: Path
) -> None:
    assert callable(change)
    change(driven[1][["date", "price"]]).to_csv("given.csv", index=False)
    run = [f"checkpoint={driven[0] / 'future'}", f"input={driven[0] / 'driven.csv'}", "output=out"]
    refusal = call("predict", *run, "future=given.csv")
    assert refusal.status == 2
    assert refusal.err.startswith("error: given.csv")
    assert line in refusal.err
    refusal = call("predict", *run)
    assert (refusal.status, refusal.err) == (2, "error: future: expected a table of price ahead, found none\n")
    refusal = call("predict", *run, "future=given.csv", f"checkpoint={driven[0] / 'past'}")
    assert "error: future: the model has no future covariates" in refusal.err
    assert not Path("out").exists()
