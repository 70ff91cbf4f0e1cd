"""The order of day and month is that of training; a file whose end is not its latest time is refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT, SMALL, Trained, call, done, refusal

from informer import Forecaster, InputError


def test_predict_continues_in_the_order_of_training(folder: Path) -> None:
    """Red if the last rows are read by themselves: 12/03/2024 is then followed by 12/04/2024."""
    times = pd.date_range("2024-02-28", periods=340, freq="h")
    written = times.strftime("%d/%m/%Y, %H:%M:%S")
    frame = pd.DataFrame({"date": written, "a": np.sin(np.arange(340.0)).round(4)})
    frame.to_csv("hourly.csv", index=False)
    done("train", "dataset=csv", "dataset.path=hourly.csv", *SMALL, "trainer.max_steps=1", "run_dir=run")
    frame[-40:].to_csv("last.csv", index=False)
    done("predict", "checkpoint=run", "input=last.csv", "output=out", "plots=false")
    expected = pd.date_range(times[-1], periods=7, freq="h")[1:].strftime("%d/%m/%Y, %H:%M:%S")
    assert pd.read_csv("out/last.forecast.csv")["date"].tolist() == list(expected)


def test_a_format_with_a_comma_on_the_command_line(tmp_path: Path) -> None:
    """Red if the setting in the error cannot be typed as shown."""
    times = pd.date_range("2024-03-04", periods=24, freq="h")
    frame = pd.DataFrame({"date": times.strftime("%d/%m/%Y, %H:%M"), "a": np.arange(24) + 0.5})
    frame.to_csv(tmp_path / "f.csv", index=False)
    sizes = ("seq_len=6", "label_len=2", "pred_len=1")
    for written in ("%d/%m/%Y, %H:%M", "'%d/%m/%Y, %H:%M'"):
        outcome = call("inspect", str(tmp_path / "f.csv"), f"dataset.time_format={written}", *sizes)
        assert "time:     date, 2024-03-04 00:00:00 to 2024-03-04 23:00:00, hourly (step h)" in outcome.out, outcome.err


Frame = pd.DataFrame


@pytest.fixture(scope="module")
def rows() -> Frame:
    """The first rows of the sample, 200 hours."""
    return pd.read_csv(ROOT / "data/sample.csv", nrows=200)


def newer_half_first(rows: Frame) -> Frame:
    return pd.concat([rows[100:], rows[:100]])


# what is wrong before the last seq_len = 24 rows, and where the line says it is
DAMAGES: dict[str, tuple[Callable[[Frame], Frame], str]] = {
    "newer half first": (newer_half_first, "row 102, column 'date': expected a time after"),
    "a second series below": (lambda rows: pd.concat([rows, rows]), "row 202, column 'date'"),
    "a row again": (lambda rows: pd.concat([rows[:50], rows[49:]]), "row 52, column 'date'"),
    "no date": (
        lambda rows: rows.replace({"date": {rows["date"][10]: "soon"}}),
        "row 12, column 'date': expected a date",
    ),
}


@pytest.mark.parametrize(
    ("damage", "repair"), [*((damage, []) for damage in DAMAGES), ("no date", ["dataset.fill=linear"])]
)
def test_a_file_whose_end_is_not_its_latest_time(
    damage: str, repair: list[str], rows: Frame, trained: Trained, folder: Path
) -> None:
    """Red where only the rows that the model reads are looked at, before or after a repair."""
    change, place = DAMAGES[damage]
    change(rows).to_csv("in.csv", index=False)
    line = refusal("predict", f"checkpoint={trained.run_dir}", "input=in.csv", "output=out", *repair)
    assert place in line
    assert not Path("out").exists()


def test_a_table_of_python(rows: Frame, trained: Trained) -> None:
    forecaster = Forecaster.load(trained.run_dir)
    with pytest.raises(InputError, match="expected a time after"):
        forecaster.predict(newer_half_first(rows))
    by_index = newer_half_first(rows).assign(date=lambda frame: pd.to_datetime(frame["date"])).set_index("date")
    with pytest.raises(InputError, match="expected a time after"):
        forecaster.predict(by_index)
    forecaster.predict(newer_half_first(rows).sort_index())
