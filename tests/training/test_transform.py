"""Runs on roots of the targets: equal to runs on a file that contains the roots; when a root is chosen."""

from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from entry_points import done

DAYS = 420
SPLIT = ["dataset.split.kind=rows", "dataset.split.train=250", "dataset.split.val=80", "dataset.split.test=90"]
KEYS = [
    "dataset=csv", "model=linear", "seq_len=28", "pred_len=7", "non_negative=none", "trainer.calibration_blocks=0",
    *SPLIT,
]  # fmt: skip


def growing(seed: int = 0) -> pd.DataFrame:
    """Two columns whose fluctuations grow with their level."""
    rng, days = np.random.default_rng(seed), np.arange(DAYS)
    level = np.exp(1.5 * np.sin(days / 60) + np.sin(2 * np.pi * days / 7))
    table = pd.DataFrame({"date": pd.date_range("2022-01-01", periods=DAYS, freq="D")})
    return table.assign(a=20 * level * rng.gamma(4.0, 0.25, DAYS), b=level * rng.gamma(4.0, 0.25, DAYS))


def run(name: str, *keys: str) -> None:
    """A run in a folder of this name."""
    done("train", *KEYS, *keys, f"run_dir={name}")


def forecast(name: str, file: str) -> pd.DataFrame:
    keys = (f"checkpoint={name}", f"input={file}", f"output=out_{name}", "intervals=[80]", "plots=false")
    done("predict", *keys)
    return pd.read_csv(f"out_{name}/{Path(file).stem}.forecast.csv").drop(columns="date")


def test_forecasts_are_squares_of_those_of_a_file_of_roots(folder: Path) -> None:
    """With intervals; red if one of both is converted back in another way than the other."""
    table = growing()
    table.to_csv("values.csv", index=False)
    table.assign(a=np.sqrt(table["a"]), b=np.sqrt(table["b"])).to_csv("roots.csv", index=False)
    run("squares", "dataset.path=values.csv", "scaler.transform=sqrt")
    run("roots", "dataset.path=roots.csv")
    predicted, roots = forecast("squares", "values.csv"), forecast("roots", "roots.csv")
    assert "a_lo80" in predicted
    expected = np.sign(roots) * roots**2
    np.testing.assert_allclose(predicted, expected, rtol=1e-4, atol=1e-4 * float(expected["a"].abs().max()))


def test_a_root_is_chosen_where_fluctuations_grow_with_the_level(folder: Path) -> None:
    """Not for the same numbers with negative ones among them. The run keeps what was chosen."""
    table = growing()
    table.to_csv("growing.csv", index=False)
    table.assign(a=table["a"] - 30, b=table["b"] - 1).to_csv("moved.csv", index=False)
    run("chosen", "dataset.path=growing.csv", "scaler.transform=auto")
    run("moved", "dataset.path=moved.csv", "scaler.transform=auto")
    kept = {name: yaml.safe_load(Path(name, "config.yaml").read_text())["scaler"] for name in ("chosen", "moved")}
    assert kept["chosen"]["transform"] in ("sqrt", "fourth_root")
    assert kept["moved"]["transform"] == "none"
    assert f"scaler.transform={kept['chosen']['transform']}, for ridge" in Path("chosen/train.log").read_text()
