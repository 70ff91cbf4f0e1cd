"""Quantile models: their loss, what they learn from noise, output, scores, checkpoints and initial weights."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import ROOT, SMALL, Trained, done
from sklearn.metrics import mean_pinball_loss

from informer import Forecaster, checkpoint

LEVELS = [0.05, 0.1, 0.5, 0.9]
TARGETS = ["temperature", "visitors", "price", "demand"]
QUANTILE = ["loss=quantile", f"loss.quantiles={LEVELS}".replace(" ", "")]


@pytest.fixture(scope="module")
def quantiled(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A run on the sample data with the levels above; for reading."""
    run_dir = tmp_path_factory.mktemp("quantiled") / "run"
    outcome = done("train", "dataset=sample", *SMALL, *QUANTILE, "trainer.max_epochs=2", f"run_dir={run_dir}")
    return Trained(run_dir, outcome.out)


def sample() -> pd.DataFrame:
    return pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"])


def scaled_outputs(run_dir: Path, part: range) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles [w 6 4 q] and actual values [w 6 4] of the windows whose targets lie in these rows, in scaled units,
    by hand: the network called on the forecasts' own batches, one origin after the other."""
    frame = sample()
    training = frame[TARGETS].iloc[:200]
    mean, deviation = training.mean().to_numpy(), training.std(ddof=0).to_numpy()
    origins = range(part.start, part.stop - 6 + 1)
    ahead = Forecaster.load(run_dir, device="cpu").predict_many([frame.iloc[:origin] for origin in origins])
    names = ["_q5", "_q10", "", "_q90"]
    predicted = np.stack(
        [np.stack([table[[f"{t}{name}" for t in TARGETS]].to_numpy() for name in names], axis=-1) for table in ahead]
    )
    actual = np.stack([frame[TARGETS].to_numpy()[origin : origin + 6] for origin in origins])
    return (predicted - mean[:, None]) / deviation[:, None], (actual - mean) / deviation


def test_what_is_scored(quantiled: Trained) -> None:
    """Pinball loss and shares below and between, by scikit-learn over the test windows; the median is scored."""
    outputs, actual = scaled_outputs(quantiled.run_dir, range(250, 320))
    report = json.loads((quantiled.run_dir / "metrics.json").read_text())
    scores = report["scores"]["informer"]["scaled"]["overall"]
    assert scores["mae"] == pytest.approx(np.abs(outputs[..., 2] - actual).mean(), rel=1e-4)
    losses = []
    for i, name in enumerate(["q5", "q10", "q50", "q90"]):
        own = report["quantiles"][name]
        losses.append(mean_pinball_loss(actual.ravel(), outputs[..., i].ravel(), alpha=LEVELS[i]))
        assert own["overall"]["pinball"] == pytest.approx(losses[-1], rel=1e-4)
        below = 100 * np.mean(actual[..., 2] <= outputs[..., 2, i])
        assert own["by_column"]["price"]["coverage"] == pytest.approx(below, abs=0.3)
        by_step = [100 * np.mean(actual[:, step] <= outputs[:, step, :, i]) for step in range(6)]
        assert own["by_step"]["coverage"] == pytest.approx(by_step, abs=0.5)
    assert report["mean_pinball"] == pytest.approx(np.mean(losses), rel=1e-4)
    inside = (outputs[..., 1] <= actual) & (actual <= outputs[..., 3])
    assert set(report["intervals"]) == {"80", "95", "q10_q90"}
    central = report["intervals"]["q10_q90"]["overall"]
    assert central["coverage"] == pytest.approx(100 * inside.mean(), abs=0.3)
    assert central["width"] == pytest.approx((outputs[..., 3] - outputs[..., 1]).mean(), rel=1e-4)
    rows = pd.read_csv(quantiled.run_dir / "metrics.csv").set_index(["metric", "column", "step"])["value"]
    assert rows["pinball_q90", "all", "all"] == pytest.approx(losses[3], rel=1e-4)
    assert rows["coverage_q10_q90", "all", "all"] == central["coverage"]
    assert "quantiles q10 to q90 cover" in quantiled.out


def test_columns_in_every_format(quantiled: Trained, folder: Path) -> None:
    """Red if a name or an order is lost, or rows made from the model's own output have quantiles."""
    source = [
        f"checkpoint={quantiled.run_dir}", f"input={ROOT / 'data/sample.csv'}", "output=out", "overwrite=true",
        "horizon=8", "digits=null",
    ]  # fmt: skip
    for form in ("csv", "long"):
        done("predict", *source, "intervals=[80]", f"format={form}")
    forecast = pd.read_csv("out/sample.forecast.csv", parse_dates=["date"])
    more = [f"{name}_{part}" for name in TARGETS for part in ("q5", "q10", "q90", "lo80", "hi80")]
    assert list(forecast.columns) == ["date", *TARGETS, *more, "rolled"]
    known = forecast[more].iloc[6:].notna().all()
    assert list(known[known].index) == [name for name in more if name.endswith("80")]
    for name in TARGETS:
        order = forecast.loc[:5, [f"{name}_q5", f"{name}_q10", name, f"{name}_q90"]]
        assert (order.diff(axis=1).iloc[:, 1:] > 0).all(axis=None)
        middle = (forecast[f"{name}_lo80"] + forecast[f"{name}_hi80"])[:6] / 2
        np.testing.assert_allclose(middle, forecast[name][:6], rtol=1e-9)
    long = pd.read_csv("out/forecasts.csv")
    assert list(long.columns) == ["series", "date", "column", "y", "q5", "q10", "q90", "lo80", "hi80", "rolled"]
    np.testing.assert_array_equal(long.loc[long["column"] == "price", "q10"], forecast["price_q10"])


def test_what_ridge_gives_is_the_median_before_training(folder: Path) -> None:
    """Red if the fitted map is not added to every quantile alike: at this rate no step is better than none."""
    settings = ["dataset=sample", *SMALL, "model.skip=ridge", "model.instance_norm=true", "loss=quantile"]
    done("train", *settings, "trainer.max_steps=2", "optim.lr=1e3", "run_dir=run")
    saved = checkpoint.load(Path("run"))
    assert saved.progress.epoch == 0
    forecast = Forecaster.load("run", device="cpu").predict(sample())
    history = sample()[TARGETS].to_numpy()[-24:]
    weight = saved.weights["maps.weight"][0].numpy()
    level = history.mean(axis=0)
    np.testing.assert_allclose(forecast[TARGETS], weight @ (history - level) + level, rtol=1e-3)
    spread = 1.2815515655446004 * history.std(axis=0)  # of a standard normal, at 90 %
    for target, width in zip(TARGETS, spread, strict=True):
        np.testing.assert_allclose(forecast[f"{target}_q90"] - forecast[target], width, rtol=1e-2)
        np.testing.assert_allclose(forecast[target] - forecast[f"{target}_q10"], width, rtol=1e-2)


def test_a_warm_start_with_other_quantiles_keeps_all_but_the_head(quantiled: Trained, folder: Path) -> None:
    run_dir = quantiled.run_dir
    arguments = ["dataset=sample", *SMALL, "trainer.max_steps=1", "optim.lr=1e-30", "run_dir=run"]
    outcome = done("train", *arguments, f"init_from={run_dir}")
    before, after = checkpoint.load(run_dir).weights, checkpoint.load(Path("run")).weights
    assert "2 fresh; fresh: network.head." in outcome.out
    same = {name for name in after if name in before and torch.equal(before[name], after[name])}
    learnt = {name for name in after if "running_" not in name and "num_b" not in name}
    assert {name.split(".")[1] for name in learnt - same} == {"head"}


def test_an_export_tells_of_them(quantiled: Trained, folder: Path) -> None:
    pytest.importorskip("safetensors")
    done("export", f"checkpoint={quantiled.run_dir}", "output=own.safetensors")
    told = json.loads(Path("own.safetensors.json").read_text())
    assert told["quantiles"] == LEVELS
    assert told["output"] == {"forecast": ["batch", 6, 4, 4]}
    pd.testing.assert_frame_equal(
        Forecaster.load("own.safetensors", device="cpu").predict(sample()),
        Forecaster.load(quantiled.run_dir, device="cpu").predict(sample()),
    )
