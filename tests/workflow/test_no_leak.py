"""Rows of the test part decide nothing: settings, scaler, weights and intervals of what is scored stay the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import done

from informer import checkpoint
from informer.checkpoint.format import Checkpoint
from informer.scoring.intervals import RECENT

ROWS, TEST = 400, 80


def scored(folder: Path, model: str, values: np.ndarray) -> Checkpoint:
    """What `informer forecast` trains on the rows before the test part."""
    folder.mkdir()
    times = pd.date_range("2024-01-01", periods=ROWS, freq="h")
    pd.DataFrame({"date": times, "y": values}).to_csv(folder / "data.csv", index=False)
    shares = [f"dataset.split.{name}={share}" for name, share in (("train", 0.6), ("val", 0.2), ("test", 0.2))]
    done(
        "forecast",
        str(folder / "data.csv"),
        f"model={model}",
        "horizon=6",
        "budget=1",
        f"output={folder / 'run'}",
        *shares,
    )
    return checkpoint.load(folder / "run")


@pytest.mark.parametrize("model", ["linear", pytest.param("tiny", marks=pytest.mark.slow)])
def test_rows_of_the_test_part_decide_nothing(model: str, tmp_path: Path) -> None:
    """Red when a season of the whole file decides the history, or a scaler, a fit or a calibration sees test rows."""
    plain = np.random.default_rng(0).normal(size=ROWS)
    seasonal = plain.copy()
    seasonal[-TEST:] = 1e3 * np.sin(2 * np.pi * np.arange(TEST) / 10)
    first, second = (scored(tmp_path / name, model, values) for name, values in (("a", plain), ("b", seasonal)))
    assert settings_of(first) == settings_of(second)
    assert first.scaler == second.scaler
    assert list(first.weights) == list(second.weights)
    for name, weight in first.weights.items():
        torch.testing.assert_close(weight, second.weights[name], rtol=0, atol=0, msg=name)
    assert first.calibration is not None
    assert second.calibration is not None
    for name, state in first.calibration.items():
        if not name.startswith(RECENT):  # for forecasts after the end of the data, calibrated on the test part too
            torch.testing.assert_close(state, second.calibration[name], rtol=0, atol=0, equal_nan=True, msg=name)


def settings_of(trained: Checkpoint) -> dict[str, Any]:
    """The configuration without the paths of the file and the run."""
    dataset = {key: value for key, value in trained.config["dataset"].items() if key != "path"}
    return {key: value for key, value in trained.config.items() if key != "run_dir"} | {"dataset": dataset}
