"""The page about a run on roots of its target, against its forecasts in the units of the data."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import done

from informer.report.run import run_content
from informer.scoring.scores import EDGES

N, TRAIN, STEPS = 400, 240, 6


def counts() -> pd.DataFrame:
    """Hourly counts whose fluctuations grow with their level."""
    hours, rng = np.arange(N), np.random.default_rng(4)
    level = np.exp(2 + hours / N + np.sin(2 * np.pi * hours / 24))
    values = rng.poisson(level * rng.gamma(8, 1 / 8, N))
    return pd.DataFrame({"date": pd.date_range("2024-01-01", periods=N, freq="h"), "sold": values})


def test_errors_and_intervals_on_the_page_are_those_of_the_values(folder: Path) -> None:
    """Red if the page compares roots: its errors would not be those of the forecasts, nor of the scores above them."""
    table = counts()
    table.to_csv("data.csv", index=False)
    parts = (("kind", "rows"), ("train", TRAIN), ("val", 80), ("test", 80))
    outcome = done(
        "train", "dataset=csv", "dataset.path=data.csv", "model=tiny", "model.skip=ridge", "target=sold", "features=S",
        "seq_len=24", "label_len=12", f"pred_len={STEPS}", "trainer.max_steps=20", "optim.lr=0.01", "run_dir=run",
        "scaler.transform=sqrt", *(f"dataset.split.{key}={value}" for key, value in parts),
    )  # fmt: skip
    assert "fitted to the square root of sold" in " ".join(outcome.out.split())
    content = run_content(Path("run"))
    assert any("the square root of sold" in line for line in content.remarks)

    assert content.losses is not None
    assert "scaled square roots" in content.losses["note"]

    done("predict", "checkpoint=run", "input=data.csv", "mode=rolling", "stride=1", "intervals=[80]")
    rolled = pd.read_csv("forecasts/data.rolling.csv").sort_values(["origin", "step"])
    rolled = rolled.tail(STEPS * json.loads(Path("run/metrics.json").read_text())["windows"])
    errors = ((rolled["forecast"] - rolled["actual"]) / table["sold"].head(TRAIN).std(ddof=0)).to_numpy()
    by_step = (errors.reshape(-1, STEPS) ** 2).mean(axis=0)
    profiles = {profile.key: profile for profile in content.profiles}
    assert profiles["step"].mse["informer"] == pytest.approx(by_step, rel=1e-4)
    assert profiles["contribution"].mse["informer"] == pytest.approx(by_step, rel=1e-4)
    hours = pd.to_datetime(table["date"])[N - 80 :].dt.hour
    assert set(profiles["hour"].labels) == set(hours)
    assert content.residuals is not None
    assert content.residuals["counts"] == np.histogram(np.clip(errors, -3, 3), bins=EDGES)[0].tolist()
    (track,) = content.tracks
    for origin in track.origins[:-1]:
        rows = rolled[rolled["origin"] == content.times[0][origin.row - 1]]
        assert origin.lines["informer"] == pytest.approx(rows["forecast"].tolist(), rel=5e-4)  # rounded to 4 digits
        assert origin.bands["80 %"][0] == pytest.approx(rows["lo80"].tolist(), rel=5e-4, abs=5e-5)
        assert origin.bands["80 %"][1] == pytest.approx(rows["hi80"].tolist(), rel=5e-4)
