"""The order of day and month is that of training; a file whose end is not its latest time is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT, SMALL, Trained, done, refusal

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


def test_a_file_whose_end_is_not_its_latest_time(trained: Trained, folder: Path) -> None:
    """Red where only the rows that the model reads are looked at, before or after a repair, in a file or a table."""
    rows = pd.read_csv(ROOT / "data/sample.csv", nrows=200)
    newer_first = pd.concat([rows[100:], rows[:100]])
    no_date = rows.replace({"date": {rows["date"][10]: "soon"}})
    predict = ["predict", f"checkpoint={trained.run_dir}", "input=in.csv", "output=out"]
    for damaged, repair, place in (
        (newer_first, [], "row 102, column 'date': expected a time after"),
        (no_date, [], "row 12, column 'date': expected a date"),
        (no_date, ["dataset.fill=linear"], "row 12, column 'date': expected a date"),
    ):
        damaged.to_csv("in.csv", index=False)
        assert place in refusal(*predict, *repair)
        assert not Path("out").exists()
    forecaster = Forecaster.load(trained.run_dir)
    by_index = newer_first.assign(date=pd.to_datetime(newer_first["date"])).set_index("date")
    for table in (newer_first, by_index):
        with pytest.raises(InputError, match="expected a time after"):
            forecaster.predict(table)
    forecaster.predict(by_index.sort_index())
