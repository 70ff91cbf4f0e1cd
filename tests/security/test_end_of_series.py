"""A forecast continues the latest time of a file, or the file is refused: its last rows may be anything else."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from entry_points import Trained, call, done, refusal

from informer import Forecaster
from informer.base.errors import InputError
from informer.base.runtime import resource

Frame = pd.DataFrame


@pytest.fixture(scope="module")
def rows() -> Frame:
    """The first rows of the sample, 200 hours."""
    return pd.read_csv(resource("data/sample.csv"), nrows=200)


def newer_half_first(rows: Frame) -> Frame:
    return pd.concat([rows[100:], rows[:100]])


def second_series_below(rows: Frame) -> Frame:
    return pd.concat([rows, rows])


def one_row_again(rows: Frame) -> Frame:
    return pd.concat([rows[:50], rows[49:]])


def one_time_unread(rows: Frame) -> Frame:
    return rows.assign(date=rows["date"].where(rows.index != 10, "soon"))


DAMAGES = {
    newer_half_first: "row 102, column 'date': expected a time after",
    second_series_below: "row 202, column 'date'",
    one_row_again: "row 52, column 'date'",
    one_time_unread: "row 12, column 'date': expected a date",
}
"""What is wrong before the last seq_len = 24 rows, and where the line says it is."""


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("repair", [[], ["dataset.fill=linear"]])
def test_a_file_whose_end_is_not_its_latest_time(
    damage: Callable[[Frame], Frame], repair: list[str], rows: Frame, trained: Trained, folder: Path
) -> None:
    """Red where only the rows that the model reads are looked at, before or after a repair."""
    damage(rows).to_csv("in.csv", index=False)
    line = refusal("predict", f"checkpoint={trained.run_dir}", "input=in.csv", "output=out", *repair)
    assert DAMAGES[damage] in line
    assert not Path("out").exists()


def test_the_line_is_that_of_training(rows: Frame, trained: Trained, folder: Path) -> None:
    newer_half_first(rows).to_csv("in.csv", index=False)
    predicted = call("predict", f"checkpoint={trained.run_dir}", "input=in.csv", "output=out")
    trained_on = call("train", "dataset=csv", "dataset.path=in.csv", "seq_len=24", "label_len=12", "pred_len=6")
    assert predicted.err == trained_on.err


def test_one_series_of_many(rows: Frame, trained: Trained, folder: Path) -> None:
    """The rows of each series are in order, with rows of other series between them."""
    names = pd.Series(["a", "b"] * 200)
    both = pd.concat([rows, rows]).sort_index(kind="stable").assign(site=names.to_numpy())
    both.to_csv("in.csv", index=False)
    arguments = [f"checkpoint={trained.run_dir}", "input=in.csv", "dataset.series_col=site"]
    done("predict", *arguments, "output=out")
    swapped = pd.concat([both[200:], both[:200]])
    swapped.to_csv("in.csv", index=False)
    outcome = call("predict", *arguments, "output=swapped")
    assert outcome.status == 2
    assert outcome.err.count("go back in time") + outcome.err.count("expected a time after") >= 2


def test_a_table_of_python(rows: Frame, trained: Trained) -> None:
    forecaster = Forecaster.load(trained.run_dir)
    with pytest.raises(InputError, match="expected a time after"):
        forecaster.predict(newer_half_first(rows))
    by_index = newer_half_first(rows).assign(date=lambda frame: pd.to_datetime(frame["date"])).set_index("date")
    with pytest.raises(InputError, match="expected a time after"):
        forecaster.predict(by_index)
    forecaster.predict(newer_half_first(rows).sort_index())
