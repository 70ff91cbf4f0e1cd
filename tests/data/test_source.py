"""Files as people write them are read to the same series."""

from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dataset_cases import made
from stores import checked, read_written, series_from_frame

from informer.config.data import DatasetConfig
from informer.data.history import future_index


@pytest.mark.parametrize(
    ("unit", "step"), [("s", "100ms"), ("s", "500ms"), ("s", "40us"), ("ms", "250us"), ("us", "1us")]
)
@pytest.mark.parametrize("start", ["1970-01-01", "2023-11-14 22:13:20", "2061-05-04"])
def test_counts_with_fractions(unit: str, step: str, start: str, tmp_path: Path) -> None:
    """Red if the noise in the last digits of a float64 count stays in the times: steps are then unequal."""
    times = pd.date_range(start, periods=300, freq=step)
    ticks = (times - pd.Timestamp(0)) // pd.Timedelta("1us")
    digits = {"s": 6, "ms": 3, "us": 0}[unit]
    cells = [format(Decimal(int(tick)).scaleb(-digits), "f") for tick in ticks]
    series = read_written(pd.DataFrame({"date": cells, "a": range(300)}), tmp_path, time_format=unit)
    assert (series.timestamps == times).all()
    assert series.frequency.code == {"1us": "us"}.get(step, step)


@pytest.mark.parametrize(
    ("given", "freq", "found"),
    [
        ("W", "W-WED", "W-WED"),
        ("M", "MS", "MS"),
        ("MS", "ME", "ME"),
        ("Q", "QS-JAN", "QS-JAN"),
        ("7D", "W-WED", "7D"),
        ("B", "B", "B"),
        ("C", "B", "C"),
        ("60min", "h", "h"),
        ("T", "min", "min"),
    ],
)
def test_a_given_step_takes_the_anchor_of_the_file(given: str, freq: str, found: str, tmp_path: Path) -> None:
    assert read_written(made(40, freq), tmp_path, frequency=given).frequency.code == found


@pytest.mark.parametrize("bad", ["x", "", "7"])
def test_only_the_last_rows_are_read_as_numbers(bad: str) -> None:
    """Red if a text cell before the history is a problem, or one within it is located in another row."""
    frame = made(30).astype({"date": "str", "a": "str"})
    for row in (3, 25):
        own = frame.copy()
        own.loc[row, "a"] = bad
        series, report = checked(own, DatasetConfig(columns=["a", "b"]), "f", history=10)
        if row == 3 or bad == "7":
            assert not report.problems
            assert series is not None
            expected = own.tail(10).astype({"a": float})[["a", "b"]]
            np.testing.assert_array_equal(series.values, expected)
        else:
            assert str(report.problems[0]).startswith("f, row 25, column 'a': expected a number")


def test_the_horizon_of_an_equal_time_keeps_its_zone() -> None:
    """Red if one series gets the timestamps of another that ends at the same moment elsewhere."""
    frame, zones = made(30), ("UTC", "Asia/Tokyo", "UTC")
    times = frame["date"].dt.tz_localize("UTC").dt
    series = [series_from_frame(frame.assign(date=times.tz_convert(zone)), DatasetConfig(), "f") for zone in zones]
    assert [str(future_index(one, 3).tz) for one in series] == ["UTC", "Asia/Tokyo", "UTC"]
