"""`tune=`: the pretrained network trained on a file, as a run like any other."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import call, done, launch, refusal

from informer import Forecaster, checkpoint

MINUTES = 0.03
REPEATED = {
    "loss": "mae", "optim.schedule": "constant", "trainer.steps_per_epoch": 50, "trainer.max_epochs": 1000,
    "trainer.patience": 4, "label_len": 0, "dataset.short": "pad",
}  # fmt: skip
"""The settings that the page of the pretrained network names."""


def odd(rows: int = 300, series: int = 1) -> pd.DataFrame:
    """Days of three shapes in a random order that a rule of the last days cannot know, the third after each second."""
    rng, parts = np.random.default_rng(0), []
    for number in range(series):
        y = np.repeat(np.cumsum(rng.choice([1, 5], size=-(-rows // 6))) % 3, 6)[:rows] + 0.1 * rng.normal(size=rows)
        parts.append(pd.DataFrame({"shop": number, "ds": pd.date_range("2024-01-01", periods=rows, freq="D"), "y": y}))
    return pd.concat(parts, ignore_index=True)


@pytest.mark.slow
def test_the_steps_of_a_tuned_forecast_repeat_it(folder: Path) -> None:
    """Red if the steps are not recorded, a training with as many is another one, a better result is not kept, or only
    the first series decides, which has no error."""
    weeks, noise = np.arange(300), np.random.default_rng(0).normal(size=(2, 300))
    # the forecast without training goes on with a part of the trend that has ended
    ended = weeks.clip(max=150) / 5
    values = {"still": np.full(300, 3.0), "odd": ended + noise[0], "like it": ended + noise[1]}
    days = pd.date_range("2000-01-02", periods=300, freq="W")
    table = pd.concat([pd.DataFrame({"shop": name, "ds": days, "y": each}) for name, each in values.items()])
    table.to_csv("odd.csv", index=False)
    given = ["odd.csv", "horizon=6", "dataset.series_col=shop"]
    answer = json.loads(call("forecast", *given, f"tune={MINUTES}", "output=out", "--json").out)
    saved = checkpoint.load(Path("out"))
    assert saved.progress.best_loss < saved.progress.start_loss
    said = answer["forecasts"][0]["summary"]["Model"]
    assert f"trained for {saved.progress.step} more steps (error on held-out rows" in said
    split = {name: saved.config["dataset"]["split"][name] for name in ("kind", "train", "val", "test")}
    again = Forecaster(
        "zero", horizon=6, seq_len=150, run_dir="again", dataset={"split": split}, device="cpu",
        **REPEATED, **{"trainer.max_steps": saved.progress.step},
    ).fit(table)  # fmt: skip
    assert again.trained.checkpoint.progress.best_loss == saved.progress.best_loss
    for name, tensor in checkpoint.load(Path("again")).weights.items():
        torch.testing.assert_close(tensor, saved.weights[name], rtol=0, atol=0)
    done("predict", "checkpoint=out", "input=odd.csv", "output=later")


@pytest.mark.slow
def test_a_training_that_does_not_beat_the_forecast_without_it_is_not_used(folder: Path) -> None:
    """Red if weights are kept that are better than those at the start, but worse than with the mirror image."""
    y = 10 + np.sin(np.arange(300) * 2 * np.pi / 7) + 0.1 * np.random.default_rng(0).normal(size=300)
    table = pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=300, freq="D"), "y": y})
    table.to_csv("easy.csv", index=False)
    answer = json.loads(call("forecast", "easy.csv", "horizon=6", f"tune={MINUTES}", "output=tuned", "--json").out)
    assert "training on the file did not lower the error" in answer["forecasts"][0]["summary"]["Model"]
    done("forecast", "easy.csv", "horizon=6", "output=plain")
    assert sorted(path.name for path in Path("tuned").iterdir()) == sorted(
        path.name for path in Path("plain").iterdir()
    )
    name = "forecasts/easy.forecast.csv"
    assert Path("tuned", name).read_text() == Path("plain", name).read_text()
    tuned, plain = Forecaster(tune=MINUTES, horizon=6).fit(table), Forecaster(horizon=6)
    tuned.save("rule.safetensors")
    for forecaster in (tuned, Forecaster.load("rule.safetensors")):
        pd.testing.assert_frame_equal(forecaster.predict(table, intervals=80), plain.predict(table, intervals=80))


@pytest.mark.slow
def test_series_of_a_panel_are_pooled_without_a_split_by_hand(folder: Path) -> None:
    """Red if series that are shorter than two windows each are refused, or are validated one by one."""
    panel = odd(100, series=20)
    tuned = Forecaster(tune=MINUTES, horizon=12).fit(panel)
    ahead = tuned.predict(panel)
    assert (len(ahead), ahead["shop"].nunique(), ahead["shop"].dtype) == (240, 20, np.int64)
    tuned.save("kept.safetensors")
    pd.testing.assert_frame_equal(Forecaster.load("kept.safetensors").predict(panel), ahead)


@pytest.mark.slow
def test_the_network_is_exported(folder: Path) -> None:
    """Red if an operator of the pretrained network has no counterpart in ONNX."""
    pytest.importorskip("onnxruntime")
    odd().drop(columns="shop").to_csv("odd.csv", index=False)
    done("train", "odd.csv", "model=zero", "seq_len=64", "pred_len=12", "run_dir=run", "trainer.tracker=[]")
    # in a process without shape checks, which cannot be traced
    outcome = launch("export", "checkpoint=run", "format=onnx", "output=run.onnx", cwd=folder)
    assert outcome.status == 0, outcome.err
    assert float(outcome.out.partition("outputs: ")[2].partition(")")[0]) < 1e-5


def test_what_cannot_be_tuned_is_said(folder: Path) -> None:
    odd().to_csv("odd.csv", index=False)
    assert "tune: trains the pretrained network, found model=linear" in refusal(
        "forecast", "odd.csv", "model=linear", "tune=1"
    )
    assert "future: tune reads no columns known ahead" in refusal("forecast", "odd.csv", "future=odd.csv", "tune=1")
