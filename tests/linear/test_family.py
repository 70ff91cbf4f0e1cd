"""model=linear: the network contains the fit, and every command supports it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, call, done, killed

from informer import Forecaster, checkpoint

RUN = ["dataset=sample", "model=linear", *SMALL[1:], "seq_len=48", "label_len=12"]


def mse(run: str, name: str) -> float:
    return json.loads((Path(run) / "metrics.json").read_text())["scores"][name]["scaled"]["overall"]["mse"]


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_with_the_maps_it_had(folder: Path) -> None:
    """Red when the maps are not in the checkpoint."""
    done("train", *RUN, "run_dir=whole")
    with killed("metrics.json"):
        call("train", *RUN, "run_dir=cut")
    done("train", "resume=cut")
    assert Path("cut/metrics.csv").read_bytes() == Path("whole/metrics.csv").read_bytes()


def test_steps_may_follow(folder: Path) -> None:
    """Red when training cannot move the maps, or when what is kept is worse on validation than what was fitted."""
    outcome = done("train", *RUN, "trainer.max_steps=3", "optim.lr=1e-5", "run_dir=run")
    assert "reduced the validation loss of the closed form" in outcome.out
    last = checkpoint.load(Path("run/last.safetensors"))
    assert last.progress.step == 3


def test_each_series_has_its_own_map_and_a_new_one_the_shared_map(folder: Path) -> None:
    """y(t) = s y(t-2) + noise with s = 0.9 and -0.9: red when a forecast is made with another series' map.

    The shared map cannot distinguish them and forecasts about the mean; with the own map the second step from now
    repeats the last value with its sign, or without.
    """
    rng = np.random.default_rng(0)
    stamps = pd.date_range("2021-01-01", periods=320, freq="h")
    for name, sign in {"a": 0.9, "b": -0.9}.items():
        values = [0.0, 0.0]
        for _ in range(318):
            values.append(sign * values[-2] + rng.normal())
        pd.DataFrame({"date": stamps, "y": values}).to_csv(f"{name}.csv", index=False)
    done("train", "dataset=csv", "dataset.path=*.csv", "target=y", *RUN[1:], "run_dir=run")
    assert mse("run", "linear") < mse("run", "ridge")
    assert checkpoint.load(Path("run")).data.names == ["a", "b"]
    forecaster = Forecaster.load("run", device="cpu")
    frame = pd.read_csv("a.csv", parse_dates=["date"])
    frame.loc[len(frame) - 1, "y"] = 5.0
    forecasts = forecaster.predict_many({"b": frame, "a": frame, "new": frame})
    second = {name: table["y"].iloc[1] for name, table in forecasts.items()}
    assert second["a"] == pytest.approx(4.5, abs=1.3)
    assert second["b"] < -2.0
    assert second["b"] + 1 < second["new"] < second["a"] - 1
    alone = forecaster.predict_many({"a": frame})["a"]
    pd.testing.assert_frame_equal(alone, forecasts["a"], rtol=1e-5)
    done("export", "checkpoint=run", "format=torch_export")
    described = json.loads(Path("run/best.pt2.json").read_text())
    assert described["series"] == ["a", "b"]
    assert described["inputs"]["series"] == ["batch"]
