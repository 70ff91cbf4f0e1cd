"""dataset.fill=mask: equal without gaps, scores of what is observed; the numbers of whole runs are in tests/golden."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import done

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
    linear = ["model=linear"]
    for name, file, more in (
        ("tiny_default", "whole", TINY),
        ("tiny_mask", "whole", [*TINY, MASK]),
        ("holes", "holes", [*TINY, MASK, "trainer.max_epochs=1"]),
        ("linear_holes", "holes", [*linear, MASK]),
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


def test_gaps_of_columns_that_had_none_in_training_are_said(runs: Path, caplog: pytest.LogCaptureFixture) -> None:
    forecast = Forecaster.load(runs / "tiny_mask").predict(holed(wave(2), 0.3))
    assert "heat, load, which had none in training; filled with the last observed value" in caplog.text
    assert np.isfinite(forecast[["heat", "load"]]).all(axis=None)


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
