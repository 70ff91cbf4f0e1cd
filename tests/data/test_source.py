"""Files as people write them are read to the same series."""

import gzip
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from dataset_cases import made, write
from stores import read_series, read_written, series_from_frame

from informer.base.errors import InputError
from informer.config.data import DatasetConfig, Fill, settings_that
from informer.data.diagnosis import survey_file
from informer.data.history import future_index
from informer.data.panel import read_panel
from informer.read.checks import Report
from informer.read.series import cells_of_file, inspect_table, keeping_cells
from informer.read.table import read_table, table_of_frame


@pytest.mark.parametrize("time_format", ["%d %b %Y", "%d %B %Y", "%B %d, %Y %H:%M"])
@pytest.mark.parametrize("rows", [1, 4])
def test_a_file_that_begins_in_may(rows: int, time_format: str, tmp_path: Path) -> None:
    """Fails if May, whose short name is its full name, decides how months are written."""
    dates = pd.date_range("2020-05-29", periods=rows, freq="D")
    frame = pd.DataFrame({"date": dates.strftime(time_format), "a": range(rows)})
    series = read_written(frame, tmp_path, frequency="D")
    assert list(series.timestamps) == list(dates)


@pytest.mark.parametrize("cells", [["2010/9/30 9:00", "2010/9/30 10:00"], ["2010-9-30 9:00", "2010-9-30 10:00"]])
def test_dates_without_leading_zeros(cells: list[str], tmp_path: Path) -> None:
    series = read_written(pd.DataFrame({"date": cells, "a": [1, 2]}), tmp_path)
    assert series.timestamps.tolist() == [pd.Timestamp("2010-09-30 09:00"), pd.Timestamp("2010-09-30 10:00")]


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


def test_whole_counts_keep_every_digit(tmp_path: Path) -> None:
    """Fails if integer counts are rounded like floats."""
    cells = [1700000000000000000 + 7 * i for i in range(30)]
    series = read_written(pd.DataFrame({"date": cells, "a": range(30)}), tmp_path, time_format="ns")
    assert series.timestamps.asi8.tolist() == cells


def test_counts_that_are_no_time(tmp_path: Path) -> None:
    frame = pd.DataFrame({"date": ["0.5", "1e40", "", "2.5"], "a": range(4)})
    with pytest.raises(InputError, match=r"row 3, column 'date': expected a date.*2 such cells"):
        read_written(frame, tmp_path, time_format="s", frequency="s")


@pytest.mark.parametrize("name", ["date", "Date", "ds", "Timestamp", "DATETIME", "when", ""])
def test_the_time_column_is_found_by_name_or_by_content(name: str, tmp_path: Path) -> None:
    frame = made(30).rename(columns={"date": name})[["a", name, "b"]]
    series = read_written(frame, tmp_path)
    assert series.columns == ("a", "b")
    assert series.timestamps[0] == pd.Timestamp("2020-01-01")


def test_row_numbers_without_a_name_are_no_values(tmp_path: Path) -> None:
    """As pandas writes a frame, also in the rows of a series that take turns with others; red if they are a column."""
    frame = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=9, freq="h"), "a": np.arange(9) ** 2})
    frame.to_csv(tmp_path / "f.csv")
    series = read_series(tmp_path / "f.csv", DatasetConfig())
    assert series.columns == ("a",)
    assert series.values[:, 0].tolist() == [i**2 for i in range(9)]
    both = pd.concat([frame.assign(shop=shop) for shop in "AB"]).sort_values("date", kind="stable", ignore_index=True)
    both.to_csv(tmp_path / "long.csv")
    panel = read_panel([tmp_path / "long.csv"], DatasetConfig(series_col="shop"), None)
    assert [series.columns for series in panel] == [("a",), ("a",)]


def test_columns_text_beside_them_and_their_order(tmp_path: Path) -> None:
    frame = made(30).assign(station="north", open=True)
    path = write(frame, tmp_path / "f.csv")
    assert read_series(path, DatasetConfig()).columns == ("a", "b", "c", "open")
    series = read_series(path, DatasetConfig(columns=["c", "a"]))
    np.testing.assert_array_equal(series.values, frame[["c", "a"]])
    # what is not asked for is not looked at
    frame.loc[7, "b"] = np.nan
    assert len(read_series(write(frame, path), DatasetConfig(columns=["c", "a"]))) == 30


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


def test_a_week_without_weekends_is_business_days_where_that_is_said(tmp_path: Path) -> None:
    series = read_written(made(5, start="2020-01-06", freq="B"), tmp_path, frequency="B")
    assert series.frequency.future(series.timestamps[-1], 1)[0] == pd.Timestamp("2020-01-13")


def test_a_frame_is_the_file(tmp_path: Path) -> None:
    frame = made(40)
    read = read_written(frame, tmp_path)
    indexed = frame.set_index("date")
    nullable = frame.convert_dtypes()
    for given in (frame, indexed, indexed.rename_axis(None), nullable, frame.astype({"date": str})):
        series = series_from_frame(given, DatasetConfig(), "mine")
        assert (series.timestamps == read.timestamps).all()
        np.testing.assert_array_equal(series.values, read.values)
        assert (series.name, series.time_col, series.columns) == ("mine", "date", read.columns)
    assert list(frame.columns) == ["date", "a", "b", "c"]


def said(report: Report) -> list[Any]:
    """All that a report says."""
    errors = [(str(error), error.repairs, error.column) for error in (*report.problems, *report.outliers)]
    return [*errors, report.warnings, report.repairs, report.far]


@pytest.mark.parametrize("bad", ["x", "", "7"])
def test_only_the_last_rows_are_read_as_numbers(bad: str) -> None:
    """Red if a text cell before the history is a problem, or one within it is located in another row."""
    frame = made(30).astype({"date": "str", "a": "str"})
    for row in (3, 25):
        own = frame.copy()
        own.loc[row, "a"] = bad
        series, report = inspect_table(table_of_frame(own, "f"), DatasetConfig(columns=["a", "b"]), "f", history=10)
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


class Recording(DatasetConfig):
    """Remembers which settings are looked at."""

    seen: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> Any:
        Recording.seen.add(name)
        return super().__getattribute__(name)

    @staticmethod
    def replaced(config: Any, **changes: Any) -> Any:
        """As `dataclasses.replace`, whose looks at all settings do not count."""
        seen = set(Recording.seen)
        config, Recording.seen = replace(config, **changes), seen
        return config


@pytest.mark.parametrize("name", ["f.csv", "f.csv.gz", "f.parquet", "f.xlsx"])
def test_cells_depend_on_the_settings_that_say_so(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if reading cells looks at another setting, with which kept cells would be of the wrong reading."""
    path = write(made(40), tmp_path / "f.csv")
    if name == "f.csv.gz":
        path = tmp_path / name
        path.write_bytes(gzip.compress((tmp_path / "f.csv").read_bytes()))
    elif name == "f.parquet":
        path = tmp_path / name
        made(40).to_parquet(path)
    elif name == "f.xlsx":
        path = tmp_path / name
        made(40).to_excel(path, index=False)
    config = Recording()
    Recording.seen.clear()
    monkeypatch.setattr("informer.read.table.replace", Recording.replaced)
    cells_of_file(path, config)
    looked_at = Recording.seen & {field.name for field in fields(DatasetConfig)}
    assert looked_at
    assert looked_at <= {*settings_that(of_cells=True)}


def test_a_file_is_opened_once_while_its_cells_are_kept(tmp_path: Path) -> None:
    """Red if it is opened again for other rows, or not again for other cells or after a change of the file."""
    path = write(made(40), tmp_path / "f.csv")
    with keeping_cells():
        cells = cells_of_file(path, DatasetConfig())
        assert cells_of_file(path, DatasetConfig(fill=Fill.linear, target="a")) is cells
        assert cells_of_file(path, DatasetConfig(missing_values=["closed"])) is not cells
        path.write_text(path.read_text() + "\n")
        again = cells_of_file(path, DatasetConfig())
        assert again is not cells
    assert cells_of_file(path, DatasetConfig()) is not again


def test_cells_of_data_and_of_what_is_known_ahead_are_kept_together(tmp_path: Path) -> None:
    """Red if one drives the other out, so that both are opened for every stage, or if all files of a folder stay."""
    data, ahead, other = (write(made(n), tmp_path / f"{n}.csv") for n in (40, 30, 20))
    with keeping_cells():
        cells, known = (cells_of_file(path, DatasetConfig()) for path in (data, ahead))
        assert cells_of_file(data, DatasetConfig()) is cells
        assert cells_of_file(ahead, DatasetConfig()) is known
        cells_of_file(other, DatasetConfig())
        assert cells_of_file(ahead, DatasetConfig()) is known
        assert cells_of_file(data, DatasetConfig()) is not cells


@pytest.mark.parametrize(("names", "is_opened_again"), [(("north", "south"), False), (("001", "002"), True)])
def test_a_file_of_several_series_is_opened_again_only_for_names_that_are_numbers(
    names: tuple[str, str], is_opened_again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red if it is opened once more though its cells are the same, or if 001 becomes 1 since it is not."""
    long = pd.concat([made(40).assign(shop=name) for name in names])
    path, opened = write(long, tmp_path / "f.csv"), []
    whole = read_table
    monkeypatch.setattr("informer.read.series.read_table", lambda *a: opened.append(a) or whole(*a))
    with keeping_cells():
        survey = survey_file(path, DatasetConfig())
        cells = cells_of_file(path, survey.dataset)
    assert survey.dataset.series_col == "shop"
    assert [series.name for series in survey.panel] == [*names]
    assert set(cells.frame["shop"]) == {*names}
    assert len(opened) == 1 + is_opened_again
