"""Words and numbers that mean a missing value: read like empty cells, everywhere, and proposed where there are few."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, call, done, refusal
from stores import checked, read_series

from informer import Forecaster
from informer.base.errors import ReportError
from informer.commands.plan import find_subjects
from informer.config.commands import ForecastConfig, RepairMode
from informer.config.data import DatasetConfig, Fill
from informer.read.checks import missing_words


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


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["closed", "n/e", "closed"], ["closed", "n/e"]),
        (["off line", "-", "closed"], ["off line", "-", "closed"]),
        (["a", "b", "c", "d"], []),
        (["12 kW"], []),
        (["1,5"], []),
        (["closed"] * 50, []),
        ([], []),
    ],
)
def test_few_words_are_proposed(cells: list[str], expected: list[str]) -> None:
    """Red when numbers with units, many words, or words in most of the cells are proposed as missing values."""
    assert missing_words(pd.Series(cells, dtype=object), 100) == expected


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


def test_a_forecast_can_name_other_words(folder: Path) -> None:
    """Red when `predict` cannot read a file that writes its gaps in another way than the training data."""
    empty, _ = frames(320)
    empty.loc[[3, 310], "y"] = np.nan
    empty.to_csv("own.csv", index=False)
    done(
        "train", "dataset=csv", "dataset.path=own.csv", "targets=[y]", *SMALL, "dataset.fill=linear",
        "trainer.max_steps=1", "run_dir=run",
    )  # fmt: skip
    empty.to_csv("other.csv", index=False, na_rep="shut")
    words = ["predict", "checkpoint=run", "plots=false"]
    assert "'shut'" in refusal(*words, "input=other.csv")
    for name, more in (("own", []), ("other", ["dataset.missing_values=[shut]"])):
        assert call(*words, f"input={name}.csv", *more, "output=out").status == 0
    assert Path("out/other.forecast.csv").read_text() == Path("out/own.forecast.csv").read_text()


def test_a_word_without_letters_is_one_line(folder: Path) -> None:
    _, worded = frames()
    worded.to_csv("own.csv", index=False)
    line = refusal("train", "dataset=csv", "dataset.path=own.csv", "dataset.missing_values=['']")
    assert line == "error: dataset.missing_values: expected words such as closed, found ''\n"


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


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("n", [5, 30])
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
    read = read_series(Path("f.csv"), DatasetConfig(missing_values=[f"{mark:g}"], fill=Fill.mask))
    assert np.flatnonzero(np.isnan(read.values[:, 0])).tolist() == sorted(rows)
    (plain,), _ = find_subjects(ForecastConfig(input="f.csv"))
    assert (plain.panel[0].values[:, 0] == values).all()
    assert line.removeprefix("warning:  ") in plain.warnings
    asked = ForecastConfig(input="f.csv", repair=RepairMode.auto)
    with pytest.raises(ReportError, match=re.escape(f"add repair=auto {argument}")):
        find_subjects(asked)
    (repaired,), _ = find_subjects(replace(asked, dataset=DatasetConfig(missing_values=[f"{mark:g}"])))
    expected = pd.Series(values).where(values != mark)
    filled = expected if repaired.dataset.fill is Fill.mask else expected.interpolate()
    np.testing.assert_allclose(repaired.panel[0].values[:, 0], filled)


@pytest.mark.parametrize("what", ORDINARY)
def test_ordinary_numbers_are_not_named(what: str, folder: Path) -> None:
    """Zero, counts, a maximum that a sensor reaches often, and single spikes."""
    hourly(ORDINARY[what]).to_csv("f.csv", index=False)
    assert "missing_values" not in call("inspect", "f.csv").out


def test_several_codes_of_missing_values_are_named_together() -> None:
    values = USUAL.copy()
    values[:5], values[10:15], values[20:30] = -9999, -8888, 999
    _, report = checked(hourly(values), DatasetConfig(), "mine")
    assert sorted(report.far) == ["-8888", "-9999", "999"]
