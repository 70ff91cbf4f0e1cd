"""dataset.fill=mask through every command: equal without gaps, scores of what is observed, complete forecasts."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import done, refusal

from informer import Forecaster, InputError, checkpoint
from informer.data import read

RUN = [
    "dataset=csv", "seq_len=24", "label_len=12", "pred_len=6", "seed=1", "non_negative=none", "trainer.tracker=[csv]",
]  # fmt: skip
TINY = ["model=tiny", "model.instance_norm=true", "attn=full", "trainer.max_epochs=2", "trainer.max_steps=6"]
MASK = "dataset.fill=mask"


def wave(seed: int = 0, n: int = 420) -> pd.DataFrame:
    """A day in two columns, with a level far from zero."""
    rng, t = np.random.default_rng(seed), np.arange(n)
    load = 20 + 3 * np.sin(2 * np.pi * t / 24) + 0.5 * rng.normal(size=n)
    heat = 5 + 2 * np.cos(2 * np.pi * t / 24) + 0.5 * rng.normal(size=n)
    return pd.DataFrame(
        {"date": pd.date_range("2024-01-01", periods=n, freq="h"), "heat": heat.round(4), "load": load.round(4)}
    )


def holed(frame: pd.DataFrame, share: float, seed: int = 0) -> pd.DataFrame:
    """Without a share of the cells, and without some rows; the last row is not empty."""
    rng, frame = np.random.default_rng(seed), frame.copy()
    for name in ("heat", "load"):
        frame.loc[(rng.random(len(frame)) < share) & (np.arange(len(frame)) < len(frame) - 1), name] = np.nan
    return frame.drop(index=range(100, 106))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files and the runs on them."""
    top = tmp_path_factory.mktemp("gaps")
    wave().to_csv(top / "whole.csv", index=False)
    holed(wave(), 0.2).to_csv(top / "holes.csv", index=False)
    panel = [holed(wave(seed), 0.1 + 0.2 * seed, seed).assign(store=f"s{seed}") for seed in range(3)]
    panel[1].loc[panel[1].index[:90], "heat"] = np.nan
    pd.concat(panel).to_csv(top / "panel.csv", index=False)
    linear = ["model=linear"]
    for name, file, more in (
        ("tiny_default", "whole", TINY),
        ("tiny_mask", "whole", [*TINY, MASK]),
        ("linear_mask", "whole", [*linear, MASK]),
        ("holes", "holes", [*TINY, MASK, "trainer.max_epochs=1"]),
        ("linear_holes", "holes", [*linear, MASK]),
        ("panel", "panel", [*TINY, MASK, "dataset.series_col=store", "loss=quantile", "scaler.per_series=true"]),
    ):
        done("train", *RUN, *more, f"dataset.path={top / file}.csv", f"run_dir={top / name}")
    return top


def test_nothing_changes_where_nothing_is_missing(runs: Path) -> None:
    """Bit for bit: losses, scores, weights, intervals and forecasts."""
    default, mask = (runs / f"tiny_{name}" for name in ("default", "mask"))
    for name in ("losses.csv", "metrics.json", "metrics.csv"):
        assert (default / name).read_bytes() == (mask / name).read_bytes(), name
    saved, other = checkpoint.load(default), checkpoint.load(mask)
    assert other.dims == replace(saved.dims, masked=())
    assert all(torch.equal(other.weights[name], part) for name, part in saved.weights.items())
    assert saved.calibration
    assert all(torch.equal(other.calibration[name], part) for name, part in saved.calibration.items())
    pd.testing.assert_frame_equal(*(Forecaster.load(one).predict(wave(1), intervals=[80]) for one in (default, mask)))


def test_eval_gives_the_scores_of_training(runs: Path, folder: Path) -> None:
    for run in ("holes", "panel"):
        done("eval", f"checkpoint={runs / run}", f"output={run}", "plots=false")
        assert Path(run, "metrics.json").read_bytes() == (runs / run / "metrics.json").read_bytes()


def test_cells_that_carry_no_information_are_not_missed(runs: Path) -> None:
    """A wave in noise of standard deviation 0.5, a fifth of its cells missing at random. Red if missing cells enter
    sums as zeros: the level is far from zero, and so is the error then."""

    def mse(run: str) -> dict[str, float]:
        scores = json.loads((runs / run / "metrics.json").read_text())["scores"]
        return {name: own["original"]["overall"]["mse"] for name, own in scores.items()}

    whole, holes = mse("linear_mask"), mse("linear_holes")
    for name in ("linear", "ridge"):  # a naive forecast of one season cannot but miss it
        assert holes[name] == pytest.approx(whole[name], rel=0.25), name
    assert holes["linear"] < 1.3 * 0.25 < holes["seasonal naive"]  # of the noise alone


def test_forecasts_are_complete(runs: Path, folder: Path) -> None:
    """After a history with gaps, one that ends in gaps too; and rolling, whose actual values have gaps."""
    frame = holed(wave(2), 0.3).reset_index(drop=True)
    frame.loc[len(frame) - 3 :, "heat"] = np.nan
    frame.to_csv("new.csv", index=False)
    for run in ("holes", "linear_holes", "tiny_mask"):
        outcome = done("predict", f"checkpoint={runs / run}", "input=new.csv", f"output={run}", "intervals=[80]")
        table = pd.read_csv(Path(run, "new.forecast.csv"))
        assert len(table) == 6
        assert np.isfinite(table.drop(columns="date").to_numpy()).all()
        warns = "new: gaps in heat, load, which had none in training; filled with the last observed value"
        assert (warns in outcome.out) is (run == "tiny_mask")
    done(
        "predict", f"checkpoint={runs / 'linear_holes'}", "input=new.csv", "output=roll", "mode=rolling",
        "from=2024-01-10", "horizon=12",
    )  # fmt: skip
    table = pd.read_csv("roll/new.rolling.csv")
    assert np.isfinite(table["forecast"]).all()
    assert 0.2 < table["actual"].isna().mean() < 0.4
    scores = pd.read_csv("roll/new.rolling.metrics.csv").set_index(["model", "units", "column", "step", "metric"])[
        "value"
    ]
    errors = (table["forecast"] - table["actual"]).abs().dropna()
    assert scores["linear", "original", "all", "all", "mae"] == pytest.approx(errors.mean(), rel=1e-5)


def test_linear_maps_read_the_last_observed_value(runs: Path) -> None:
    """A history with gaps is forecast as the one that pandas carries values in. Red if zeros are read."""
    frame = wave(3)
    frame.loc[[400, 401, 410, 419], "load"] = np.nan
    model = Forecaster.load(runs / "linear_holes")
    forecast, filled = (model.predict(one) for one in (frame, frame.ffill()))
    pd.testing.assert_frame_equal(forecast, filled, rtol=1e-5)


def test_a_history_with_hardly_any_rows_is_refused(runs: Path) -> None:
    model, frame = Forecaster.load(runs / "holes"), wave(2)
    frame.loc[len(frame) - 20 : len(frame) - 2, ["heat", "load"]] = np.nan
    with pytest.raises(InputError, match=r"min_observed\": 0.5} of the last 24 rows with a value of heat, load, found"):
        model.predict(frame)
    outcome = Forecaster.load(runs / "panel")
    panel = pd.concat([wave(2).assign(store="s0"), frame.assign(store="s1")])
    with pytest.raises(InputError, match=r"^s1: expected dataset=.*min_observed.* of the last 24 rows"):
        outcome.predict(panel)


def test_a_series_ends_with_its_last_value(runs: Path) -> None:
    """Later dates are no history: red when they are read as if the last value had lasted."""
    model, frame = Forecaster.load(runs / "linear_holes"), wave(2)
    ended = frame.assign(**{name: frame[name].where(frame.index < 400) for name in ("heat", "load")})
    pd.testing.assert_frame_equal(model.predict(ended), model.predict(frame[:400]))
    (series,) = read(ended)
    assert len(series) == 400
    assert "20 rows at the end with no values, and not read" in series.repairs[0]
    assert [len(read(ended, fill=fill)[0]) for fill in ("zero", "ffill")] == [420] * 2
    words = ended.astype({"load": object})
    words.loc[410, "load"] = "closed"
    with pytest.raises(InputError, match="'closed'"):
        read(words)


def test_a_model_without_masks_reads_no_gaps(runs: Path, folder: Path) -> None:
    said = "dataset.fill=mask: the model was trained without it, and reads no gaps; set dataset.fill=ffill"
    line = refusal("predict", f"checkpoint={runs / 'tiny_default'}", f"input={runs / 'holes.csv'}", MASK, "output=out")
    assert said in line
    assert said in refusal("eval", f"checkpoint={runs / 'tiny_default'}", MASK, "output=out")


def test_a_column_without_a_value_is_named(folder: Path) -> None:
    frame, run = wave(), [*RUN, *TINY, MASK, "dataset.path=f.csv", "run_dir=run"]
    frame.loc[:350, "heat"] = np.nan
    frame.to_csv("f.csv", index=False)
    line = refusal("train", *run)
    assert "no value is observed of heat in the training rows; leave it out with dataset.exclude" in line
    sparse = wave()
    sparse.loc[::10, ["heat", "load"]] = np.nan
    sparse.to_csv("f.csv", index=False)
    line = refusal("train", *run, "dataset.min_observed=1.0")
    assert "no window of the train part has dataset.min_observed=1 of its rows" in line
