"""Common file formats are detected; ambiguous content is an error."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dataset_cases import made, write
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import read_series

from informer.base.errors import InputError
from informer.config.data import DatasetConfig
from informer.config.model import WindowSizes
from informer.data.panel import read_panel
from informer.read.dialect import Dialect, find_encoding, find_separator
from informer.read.number_marks import find_marks
from informer.read.series import Series, series_from_table
from informer.read.table import cells_of_content, read_table

HEADERS = {
    "utf-8": ["größe", "温度", "c"],
    "utf-8-sig": ["größe", "温度", "c"],
    "utf-16": ["größe", "温度", "c"],
    "latin-1": ["größe", "température °C", "año"],
    "gbk": ["时间序列", "温度（℃）", "c"],
}


def same(series: Series, frame: pd.DataFrame) -> None:
    columns = [column for column in frame.columns if column != "date"]
    assert series.columns == tuple(columns)
    assert (series.timestamps == pd.DatetimeIndex(frame["date"])).all()
    np.testing.assert_array_equal(series.values, frame[columns])


@pytest.mark.parametrize("encoding", HEADERS)
@pytest.mark.parametrize(("separator", "decimal"), [(",", "."), (";", ","), (";", "."), ("\t", ","), ("|", ".")])
def test_written_in_any_way(separator: str, decimal: str, encoding: str, tmp_path: Path) -> None:
    frame = made(40).set_axis(["date", *HEADERS[encoding]], axis="columns")
    text = frame.to_csv(index=False, sep=separator, decimal=decimal)
    for name, content in (("f.csv", text.encode(encoding)), ("f.csv.gz", gzip.compress(text.encode(encoding)))):
        (tmp_path / name).write_bytes(content)
        series = read_series(tmp_path / name, DatasetConfig())
        same(series, frame)
        assert (series.name, series.dialect) == ("f", Dialect(separator, decimal, encoding))


@pytest.mark.parametrize("encoding", ["latin-1", "gbk"])
def test_an_accent_after_a_long_way(encoding: str, tmp_path: Path) -> None:
    """Far after the part of the file that is inspected first."""
    frame = made(4000).assign(note="plain")
    frame.loc[3900, "note"] = HEADERS[encoding][1]
    (tmp_path / "f.csv").write_bytes(frame.to_csv(index=False).encode(encoding))
    series = read_series(tmp_path / "f.csv", DatasetConfig())
    same(series, frame.drop(columns="note"))
    assert series.dialect.encoding == encoding


def test_a_character_cut_by_the_end_of_the_head() -> None:
    for text, encoding in (("温度" * 9, "utf-8"), ("温度" * 9, "gbk")):
        assert find_encoding(text.encode(encoding)[:-1]) == encoding


@pytest.mark.parametrize(
    ("lines", "separator"),
    [
        (["date,a", "2020-01-01,1"], ","),
        (["date;a", "2020-01-01;1,5"], ";"),
        (["date;price, EUR", "2020-01-01;1,5", "2020-01-02;1,5"], ";"),
        (["date,a;b", "2020-01-01,1"], ","),
        (['"date","a;b;c"', '"2020-01-01","1"'], ","),
        (["date\ta,b\tc|d", "2020-01-01\t1,5\t3"], "\t"),
        (["alone", "1"], ","),
    ],
)
def test_separators(lines: list[str], separator: str) -> None:
    assert find_separator(lines) == separator


@pytest.mark.parametrize(
    ("text", "separator", "decimal", "thousands"),
    [
        ("date;a\n2020-01-01;1,5\n", ";", ",", ""),
        ("date;a\r\n2020-01-01;-1,5e3\r\n", ";", ",", ""),
        ('date;a;b\n2020-01-01;"1,5";7\n', ";", ",", ""),
        ("date;a\n2020-01-01;1.5\n", ";", ".", ""),
        ("date;a;b\n2020-01-01;1.250;2,5\n", ";", ",", ""),
        ("date;a;b\n2020-01-01;1.5;2,5\n", ";", ".", ""),
        ("date;a\n01.02.2020;7\n", ";", ".", ""),
        ('date,a\n2020-01-01,"1,250"\n', ",", ".", ""),
        ("date;a\n2020-01-01;1,5 EUR\n", ";", ".", ""),
        ("date;a\n2020-01-01;46.184,65\n", ";", ",", "."),
        ('date,a\n2020-01-01,"46,184.65"\n', ",", ".", ","),
        ("date;a\n2020-01-01;1.046.184\n", ";", ",", "."),
        ("date\ta\n2020-01-01\t46 184,65\n", "\t", ",", " "),
        ("date\ta\n2020-01-01\t46\u202f184\n", "\t", ".", " "),
        ("date;a\n2020-01-01;46'184.65\n", ";", ".", "'"),
        ("date;a;b\n2020-01-01;46'184.65;1 000 000\n", ";", ".", ""),
    ],
)
def test_marks_of_numbers(text: str, separator: str, decimal: str, thousands: str) -> None:
    assert find_marks(text, separator)[:2] == (decimal, thousands)


def test_what_was_found_is_logged_where_it_is_not_common(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "informer")
    sizes = WindowSizes(seq_len=4, label_len=2, pred_len=1)
    read_panel([write(made(30), tmp_path / "f.csv")], DatasetConfig(), sizes)
    assert caplog.text == ""
    made(30).rename(columns={"a": "größe"}).to_csv(
        tmp_path / "f.csv", index=False, sep=";", decimal=",", encoding="latin-1"
    )
    read_panel([tmp_path / "f.csv"], DatasetConfig(), sizes)
    assert caplog.messages == ["f.csv: separator ';', decimal mark ',', encoding latin-1"]


@pytest.mark.parametrize("index", [None, "date", "when"])
def test_parquet(index: str | None, tmp_path: Path) -> None:
    frame = made(40)
    stored = (
        frame if index is None else frame.set_index(pd.DatetimeIndex(frame["date"], name=index)).drop(columns="date")
    )
    stored.to_parquet(tmp_path / "f.parquet")
    series = read_series(tmp_path / "f.parquet", DatasetConfig())
    same(series, frame)
    assert (series.name, series.time_col) == ("f", index or "date")


@pytest.mark.parametrize("blank", ["\n", "\n\r\n\n", ",,,\n,,,\n", "   \n", " , ,,\n"])
def test_blank_rows_at_the_end(blank: str, tmp_path: Path) -> None:
    """Numbers keep their columns, rows before the end are not passed over."""
    frame = made(40)
    (tmp_path / "f.csv").write_text(frame.to_csv(index=False) + blank)
    same(read_series(tmp_path / "f.csv", DatasetConfig()), frame)


NUMBERS = (
    "0.123 1.234 12.34 12.2024 2024.12 1,234 1.234.567 1,234,567.8 1'234 007.125 3 -4.5 +1.25e5 1e3 x 13.45 0,5 "
    "9.999,5 1.011.01 .5 5. \u0663.\u0664"
)
OTHERS = ["", "1 234,5", "2020-01-01 00:00", "1\u00a0234", "  7.25 ", "1\u202f234,12", "x,2.5", "\x1c1,5"]
CELL = st.sampled_from([*NUMBERS.split(" "), *OTHERS])


@settings(max_examples=500, deadline=None)
@given(
    rows=st.lists(st.lists(CELL, min_size=3, max_size=3), max_size=5),
    separator=st.sampled_from(",;\t|"),
    name=st.sampled_from(["c", "0.5", "1,5", "'"]),
)
def test_marks_by_shapes_are_those_by_cells(rows: list[list[str]], separator: str, name: str) -> None:
    """A quote makes the reader check each cell; fails if digits that are counts or times are interpreted
    differently."""
    lines = [separator.join(row) for row in [["a", "b", name], *rows]]
    by_cells = find_marks("\n".join(['"a"' + lines[0][1:], *lines[1:]]), separator)
    for end in ("\n", "\r\n", "\r"):
        assert find_marks(end.join(lines), separator) == by_cells


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize(
    "header",
    [
        "date,a,b",
        "date,a,",
        "date, a,b",
        "date,a ,b",
        "date,a,a",
        'date,"a",b',
        "date,a.1,a",
        "0,1,2x",
        "date,a",
        "date",
    ],
)
def test_names_of_columns_are_those_of_pandas(header: str, start: str, end: str, tmp_path: Path) -> None:
    """Red if columns that are numbered while reading get other names, cells or types than pandas gives them."""
    (tmp_path / "f.csv").write_bytes((start + end.join([header, "x,1,2.5", "y,,3", ""])).encode())
    usual = {"index_col": False, "skipinitialspace": True}
    n_cells = header.count(",") + 1
    if n_cells < 3:
        with pytest.raises(InputError, match=f"f.csv, row 2: expected {n_cells} cells as in the header, found 3"):
            read_table(tmp_path / "f.csv")
        return
    expected = pd.read_csv(tmp_path / "f.csv", encoding="utf-8", **usual)
    pd.testing.assert_frame_equal(read_table(tmp_path / "f.csv").frame, expected, check_column_type=False)


def test_text_columns_keep_their_cells(tmp_path: Path) -> None:
    """Red if `as_text` reaches another column than the named one, with numbered columns or with pandas' names."""
    for header in ("date,store,a", 'date,store,"a"'):
        (tmp_path / "f.csv").write_text(f"{header}\n2020-01-01,001,NA\n2020-01-02,NA,2\n")
        frame = read_table(tmp_path / "f.csv", as_text=["store"]).frame
        assert list(frame["store"]) == ["001", "NA"]
        np.testing.assert_array_equal(frame["a"], [np.nan, 2.0])


@pytest.mark.parametrize("digits", [400, 5000])
def test_whole_numbers_beyond_all_floats_are_a_problem_of_the_cell(digits: int, tmp_path: Path) -> None:
    """Red if a number that pandas keeps as an object of Python ends in a traceback, in a file or in memory."""
    text = made(40).assign(a=range(40)).astype({"a": object})
    text.loc[7, "a"] = "9" * digits
    path = write(text, tmp_path / "f.csv")
    with pytest.raises(InputError, match=r"^f.csv, row 9, column 'a': expected a number, found '(inf|9+)"):
        read_series(path, DatasetConfig())
    table = cells_of_content(path.read_bytes(), "f.csv", DatasetConfig())
    with pytest.raises(InputError, match=r"^f.csv, row 9, column 'a': expected a number, found '(inf|9+)"):
        series_from_table(table, DatasetConfig(), "f")
