"""Numbers and columns are read as they were meant, or refused: thousands, headers, shifted columns, other types."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from stores import read_series, series_from_frame

from informer.base.errors import InputError
from informer.config.data import THOUSANDS, DatasetConfig
from informer.read.series import Series, inspect_table
from informer.read.table import read_table

DAYS = [f"2024-03-{day:02}" for day in range(1, 31)]
COUNTS = np.array([950, 972, 993, 1011, 1025, 1104, 1250, 998, 987, 1002])


def write(path: Path, cells: list[list[str]], separator: str = ";", header: str = "date a") -> Path:
    lines = [separator.join(header.split()), *(separator.join(row) for row in cells)]
    path.write_text("\n".join(lines) + "\n")
    return path


def counts(path: Path, mark: str, separator: str) -> Path:
    """Whole numbers below and above a thousand, with a mark between thousands."""
    return write(path, [[day, f"{n:,}".replace(",", mark)] for day, n in zip(DAYS, COUNTS, strict=False)], separator)


def read(path: Path, **config: str) -> Series:
    return read_series(path, DatasetConfig(**config))


@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize("mark", [".", ","])
@pytest.mark.parametrize("smallest", [950, 1011])
def test_a_mark_before_three_digits_is_asked_for(separator: str, mark: str, smallest: int, tmp_path: Path) -> None:
    """Red if 1.011 after 993 is read as one and a bit, or every number as a thousandth of itself."""
    path = counts(tmp_path / "f.csv", mark, separator)
    if smallest == 1011:
        write(path, [[day, f"1{mark}0{20 + i}"] for i, day in enumerate(DAYS)], separator)
    expected = COUNTS if smallest == 950 else np.arange(1020, 1050)
    with pytest.raises(InputError, match=rf"may be 10\d\d or 1\.0\d\d, .*; set dataset.thousands='[{mark}]' or"):
        read(path)
    assert read(path, thousands=mark).values[:, 0].tolist() == expected.tolist()
    decimals = [float(line.split(separator)[1].replace(mark, ".")) for line in path.read_text().splitlines()[1:]]
    assert read(path, decimal=mark).values[:, 0].tolist() == decimals


def test_a_mark_far_behind_the_first_rows(tmp_path: Path) -> None:
    """Red if only the start of a file is checked, where the decimal mark is ambiguous."""
    times = pd.date_range("2020-01-01", periods=9000, freq="h").astype(str)
    path = write(tmp_path / "f.csv", [[time, "950" if i < 8000 else "1.011"] for i, time in enumerate(times)])
    with pytest.raises(InputError, match=r"row 8002, column 'a': '1\.011' may be 1011 or 1\.011"):
        read(path)


@pytest.mark.parametrize("other", ["0.5", "27.25", "1250.125", "1.011e3"])
def test_one_cell_that_can_only_be_decimal_settles_the_file(other: str, tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", [[day, "1.011", other] for day in DAYS], header="date a b")
    assert read(path).values[0].tolist() == [1.011, float(other)]


@pytest.mark.parametrize("other", ["{:02}.15", "{:02}.45", "04.20{:02}", "20{:02}.04"])
def test_points_of_times_say_nothing_of_those_of_numbers(other: str, tmp_path: Path) -> None:
    """Red if an hour such as 13.45, or a month such as 12.2024, settles what a point in a number is."""
    rows = [[day, other.format(i % 20 + 3), "1.011"] for i, day in enumerate(DAYS)]
    with pytest.raises(InputError, match=r"column 'b': '1\.011' may be 1011 or 1\.011"):
        read(write(tmp_path / "f.csv", rows, header="date a b"))


@pytest.mark.parametrize(
    ("cells", "value"),
    [
        ("46.184,65", 46184.65),
        ("1.046.184", 1046184.0),
        ("46'184.65", 46184.65),
        ("46 184,65", 46184.65),
        ("46\u00a0184", 46184.0),
        ("46\u202f184.5", 46184.5),
        ("-1.046.184,5", -1046184.5),
    ],
)
def test_marks_that_can_only_group_are_found(cells: str, value: float, tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", [[day, cells if i % 2 else "7"] for i, day in enumerate(DAYS)])
    series = read(path)
    assert series.values[:2, 0].tolist() == [7.0, value]
    assert series.dialect.thousands in THOUSANDS[1:]


@pytest.mark.parametrize("cell", ["1.01", "1.0111", "1011.011", "1,5,5", "1..011", ".011.011", "1.011.01", "1.5"])
def test_digits_that_are_not_grouped_by_three_are_no_number(cell: str, tmp_path: Path) -> None:
    """Red if a thousands separator is removed at any position."""
    path = write(tmp_path / "f.csv", [[day, cell if i == 3 else "1.011"] for i, day in enumerate(DAYS)])
    with pytest.raises(InputError, match=r"row 5, column 'a': expected a number, found"):
        read(path, thousands=".")


def test_a_number_that_is_none_but_for_its_mark_names_the_setting(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", [[day, '"1,011"' if i == 3 else "950"] for i, day in enumerate(DAYS)], ",")
    with pytest.raises(InputError, match=r"found '1,011'; if ',' groups thousands, set dataset.thousands=\",\""):
        read(path)
    assert read(path, thousands=",").values[:5, 0].tolist() == [950, 950, 950, 1011, 950]


def test_points_among_whole_numbers_between_commas_are_doubtful(tmp_path: Path) -> None:
    """Red if it is an error, or there is no warning; values that are smoother as decimals give none."""
    path = counts(tmp_path / "f.csv", ".", ",")
    series, report = inspect_table(read_table(path), DatasetConfig(), "f")
    assert series is not None
    assert [line for line in report.warnings if "may be 1011 or 1.011" in line] == report.warnings[:1]
    write(path, [[day, "1" if i % 3 else "1.125"] for i, day in enumerate(DAYS)], ",")
    assert inspect_table(read_table(path), DatasetConfig(), "f")[1].warnings == []


@pytest.mark.parametrize(
    "row",
    [
        *("2024-03-01,1.5,2", "1709251200,1.5,2", "04/03/2024 00:00,1,2", "1,2,3", "-1.5,2,1e5"),
        *('"04.03.2024, 00:00",7,8', "USW00094728,20240304,TMAX,7", "BTC,1709251200000,7.5"),
    ],
)
def test_a_first_line_of_values_is_no_header(row: str, tmp_path: Path) -> None:
    """Red if a row becomes the names of the columns, and is lost."""
    path = tmp_path / "f.csv"
    path.write_text("\n".join([row] * 9) + "\n")
    with pytest.raises(InputError, match=r"f.csv, row 1: expected column names, found '.*add a line with one name"):
        read(path)


@pytest.mark.parametrize("header", ["date,1,2", "date,0.5,0.9", "0,1,2", "id,2024-03-01,2024-03-02", ",1,2", "t,,"])
def test_names_that_are_numbers_or_dates(header: str, tmp_path: Path) -> None:
    """Red if a header is refused in which some names are words, or that counts the columns."""
    path = tmp_path / "f.csv"
    path.write_text("\n".join([header, *(f"{day},1,2" for day in DAYS)]) + "\n")
    assert read_table(path).frame.shape == (30, 3)


@pytest.mark.parametrize(
    ("header", "row"),
    [("date,a", "1,5"), ("date,a,b", "1,5,2,5"), ("date,a,b", "1,5,2"), ("date,a,", "1,5,"), ("date,a,", "1,5,7")],
)
def test_rows_that_are_longer_than_the_header(header: str, row: str, tmp_path: Path) -> None:
    """Red if decimal commas without quotes shift the columns, in all rows or in some."""
    path = tmp_path / "f.csv"
    for longer in (DAYS, DAYS[:1], DAYS[7:9]):
        path.write_text(
            "\n".join([header, *(f"{day},{row if day in longer else '1,2'[: len(header) - 5]}" for day in DAYS)])
        )
        with pytest.raises(InputError, match=r"as in the header, found|a column has no name|expected a number"):
            read(path)


def test_a_separator_that_also_stands_within_cells(tmp_path: Path) -> None:
    """Red if only the header determines the separator: both split header and rows into equally many cells."""
    path = tmp_path / "f.csv"
    rows = [f"{hour // 24 + 4:02}.03.2024, {hour % 24:02}:00;{hour},5;{hour},25" for hour in range(400)]
    path.write_text("\n".join(["Datum, Zeit;a, x;b, y", *rows]))
    series = read(path)
    assert series.columns == ("a, x", "b, y")
    assert series.values[-1].tolist() == [399.5, 399.25]
    assert list(series.timestamps) == list(pd.date_range("2024-03-04", periods=400, freq="h"))


@pytest.mark.parametrize(
    "values",
    [
        pd.date_range("2020", periods=30),
        pd.timedelta_range("0s", periods=30, freq="h"),
        pd.period_range("2020-01", periods=30, freq="M"),
        pd.array([1 + 2j] * 30),
        pd.Series(pd.date_range("2020", periods=30)).dt.date,
        pd.date_range("2020", periods=30, tz="UTC").astype(object),
        list(pd.timedelta_range("0s", periods=30, freq="h")),
    ],
)
def test_times_and_durations_are_no_values(values: object) -> None:
    """Red if pandas counts them in nanoseconds, or drops a part of a complex number."""
    frame = pd.DataFrame({"date": pd.date_range("2020", periods=30), "a": 1.5, "b": values})
    with pytest.raises(InputError, match=r"row 0, column 'b': expected a number, found '.*30 such cells"):
        series_from_frame(frame, DatasetConfig(columns=["a", "b"]), "typed")


def test_times_and_durations_in_parquet(tmp_path: Path) -> None:
    times = pd.date_range("2020", periods=30)
    frame = pd.DataFrame({"date": times, "a": 1.5, "b": times, "c": times - times[0]})
    frame.to_parquet(tmp_path / "f.parquet")
    for column in "bc":
        with pytest.raises(InputError, match=rf"column '{column}': expected a number"):
            read_series(tmp_path / "f.parquet", DatasetConfig(columns=["a", column]))
        others = [other for other in "bc" if other != column]
        with pytest.raises(InputError, match=rf"column '{column}': expected numbers, found .*exclude=\[{column}\]"):
            read_series(tmp_path / "f.parquet", DatasetConfig(exclude=others))
    assert read_series(tmp_path / "f.parquet", DatasetConfig(exclude=["b", "c"])).columns == ("a",)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("encoding", name) for name in ("rot13", "hex", "zlib", "base64", "undefined", "no\0such", "")),
        *(("separator", mark) for mark in ("\n", "\r", "😀", "", "ab", "5", "a", '"', "\0")),
        *(("decimal", mark) for mark in ("", "5", ";", "😀")),
        *(("thousands", mark) for mark in ("5", ", ", "😀")),
        *(("time_format", text) for text in ("%d/%m/%Y %f %f", "%Y %Y", "%Q", "date", "%d/%m/%Y%")),
    ],
)
def test_settings_that_no_file_has(setting: str, value: str) -> None:
    """Red if one of them ends in a traceback, or is taken."""
    config = DatasetConfig(**{setting: value})
    assert [line.startswith(f"dataset.{setting}: expected ") for line in config.problems()] == [True]


def test_a_null_character_in_a_path() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read(Path("a\0b.csv"))
