"""Words and numbers that mean a missing value: read like empty cells, everywhere, and proposed where there are few."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, call, done

from informer import Forecaster


def frames(n: int = 60) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows with empty cells, and the same with words and a number in their place."""
    rng = np.random.default_rng(0)
    date = pd.date_range("2024-01-01", periods=n, freq="h").astype(str)
    empty = pd.DataFrame({"date": date, "y": rng.normal(size=n).round(2), "z": np.arange(n) % 7.0})
    empty.loc[[3, 4, 50], "y"] = empty.loc[[9, 30], "z"] = np.nan
    worded = empty.astype({"y": object})
    worded.loc[[3, 4, 50], "y"] = ["closed", "off line", "closed"]
    worded["z"] = worded["z"].fillna(-999).astype(int)
    return empty, worded


def test_inspect_proposes_them_and_predict_reads_alike(folder: Path) -> None:
    """The proposed settings train; predictions from the words are those from empty cells, for files and tables."""
    empty, worded = frames(320)
    worded["z"], empty["z"] = empty["z"].ffill(), empty["z"].ffill()
    worded.to_csv("worded.csv", index=False)
    empty.to_csv("empty.csv", index=False)
    outcome = call("inspect", "worded.csv")
    assert "set dataset.missing_values=[closed,off line], or exclude the column" in outcome.out
    assert "\"dataset.missing_values=[closed,'off line']\" dataset.fill=linear" in outcome.out
    wanted = ["dataset.missing_values=[closed,off line]", "dataset.fill=linear", "trainer.max_steps=1"]
    done("train", "dataset=csv", "dataset.path=worded.csv", "targets=[y]", *SMALL, *wanted, "run_dir=run")
    for name in ("worded", "empty"):
        done("predict", "checkpoint=run", f"input={name}.csv", f"output={name}", "plots=false")
    expected = Path("empty/empty.forecast.csv").read_text()
    assert Path("worded/worded.forecast.csv").read_text() == expected
    model = Forecaster.load("run", device="cpu")
    pd.testing.assert_frame_equal(model.predict(worded), model.predict(empty))


USUAL = np.random.default_rng(1).normal(20, 3, 600).round(2)
MARKS = [-200, -9999, -99.9, -32768, 999, 9999.9, 1e20]
"""Numbers that mean a missing value in a column of about 10 to 30."""
ORDINARY = {
    "zeros": np.where(np.arange(600) % 50, USUAL, 0),
    "counts": np.random.default_rng(2).poisson(0.3, 600) * 1.0,
    "lumps": np.where(np.arange(600) % 40, np.random.default_rng(2).poisson(50, 600), 1000.0),
    "clipped": np.minimum(USUAL * 4.5, 100),
    "two states": np.where(np.arange(600) % 3, 0.0, 5000.0),
    "heavy tails": np.exp(USUAL / 3).round(1),
    "one spike": np.where(np.arange(600) == 7, -9999, USUAL),
    "prices": np.random.default_rng(3).choice([9.99, 19.99, 99.99], 600),
    "debts": np.random.default_rng(4).normal(0, 99, 600).round(),
}


def hourly(values: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"date": pd.date_range("2024-01-01", periods=600, freq="h").astype(str), "y": values})


@pytest.mark.parametrize(("mark", "n"), [*zip(MARKS, itertools.cycle([5, 30]), strict=False)])
def test_numbers_far_from_the_others_are_named(mark: float, n: int, folder: Path) -> None:
    """With the argument that reads them as missing, for which `repair=auto` asks."""
    rows = np.random.default_rng(n).choice(600, n, replace=False)
    values = USUAL.copy()
    values[rows] = mark
    hourly(values).to_csv("f.csv", index=False)
    outcome = call("inspect", "f.csv")
    argument = f"dataset.missing_values=[{mark:g}]" if mark < 1e6 else "dataset.missing_values=['1e+20']"
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("warning:")]
    assert f"f.csv, row {rows.min() + 2}, column 'y': {mark:g} in {n} of 600 cells, far from" in line
    assert (
        f"if it means a missing value, set {argument} dataset.fill=mask, if it is right, dataset.outliers=keep" in line
    )
    assert "warning" not in call("inspect", "f.csv", "dataset.outliers=keep").out
    assert f"add repair=auto {argument}" in call("forecast", "f.csv", "repair=auto").err


@pytest.mark.parametrize("what", ORDINARY)
def test_ordinary_numbers_are_not_named(what: str, folder: Path) -> None:
    """Zero, counts, a maximum that a sensor reaches often, and single spikes."""
    hourly(ORDINARY[what]).to_csv("f.csv", index=False)
    assert "missing_values" not in call("inspect", "f.csv").out
