"""Common file formats are detected; ambiguous content is an error."""

import gzip
import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dataset_cases import made, write
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import read_series, read_written

from informer.base.errors import InputError
from informer.config.data import DatasetConfig, Fill
from informer.config.model import WindowSizes
from informer.data.panel import read_panel
from informer.read.dialect import Dialect, find_encoding, find_layout
from informer.read.number_marks import find_marks
from informer.read.series import Series, series_from_table
from informer.read.table import Table, cells_of_content, read_table

HEADERS = {
    "utf-8": ["größe", "温度", "c"],
    "utf-8-sig": ["größe", "温度", "c"],
    "utf-16": ["größe", "温度", "c"],
    "latin-1": ["größe", "température °C", "año"],
    "cp1252": ["größe", "precio €", "año"],
    "gbk": ["时间序列", "温度（℃）", "c"],
}


def table_of(text: str, folder: Path, **settings: object) -> Table:
    (folder / "f.csv").write_text(text)
    return read_table(folder / "f.csv", DatasetConfig(**settings))


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
    content = text.encode(encoding)
    (tmp_path / "f.csv").write_bytes(content)
    (tmp_path / "f.csv.gz").write_bytes(gzip.compress(content))
    with zipfile.ZipFile(tmp_path / "f.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("any.csv", content)
        archive.writestr("__MACOSX/._any.csv", b"\0\0")
    for name in ("f.csv", "f.csv.gz", "f.csv.zip"):
        series = read_series(tmp_path / name, DatasetConfig())
        same(series, frame)
        assert (series.name, series.dialect) == ("f", Dialect(separator, decimal, encoding))


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "gbk"])
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
    assert find_layout("f", "\n".join(lines), DatasetConfig()).dialect.separator == separator


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
    same(read_written(frame.to_csv(index=False) + blank, tmp_path), frame)


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
        "date,a,b", "date,a,", "date, a,b", "date,a ,b", "date,a,a", 'date,"a",b', "date,a.1,a", "0,1,2x", "date,a",
        "date",
    ],
)  # fmt: skip
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
        frame = table_of(f"{header}\n2020-01-01,001,NA\n2020-01-02,NA,2\n", tmp_path, categorical=["store"]).frame
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


DAYS = [f"2024-01-{day:02d}" for day in range(1, 31)]
ROWS = "".join(f"{day},{0.5 + i},{3 * i}\n" for i, day in enumerate(DAYS))
BLANKS = ROWS.replace(",", "   ")
BORDERED = "".join(f"| {line.replace(',', ' | ')} |\n" for line in ROWS.splitlines())
# what is around the rows -> text, lines before the rows, part of what is said
LAYOUTS: dict[str, tuple[str, int, str]] = {
    "a title": (f"Report\n\ndate,a,b\n{ROWS}", 3, "header in row 3, above it 'Report'"),
    "a title with commas": (f"Sales, by region, all\ndate,a,b\n{ROWS}", 2, "header in row 2, above it 'Sales,by"),
    "a title with a quotation mark": (f'"My ""own""\ntable"\nsize 5"\ndate,a,b\n{ROWS}', 4, "header in row 4"),
    "a title of a spreadsheet": (f"Report,,\n,,\ndate,a,b\n{ROWS}", 3, "header in row 3, above it 'Report"),
    "comments": (f"# station 12\n# 52.5,13.4,m\n#\ndate,a,b\n{ROWS}", 4, "header in row 4"),
    "many comments": (200 * "% x y\n" + f"date,a,b\n{ROWS}", 201, "header in row 201"),
    "names in a comment": (f"# station 12\n# date,a,b\n{ROWS}", 2, "header in row 2"),
    "an empty comment below names": (f"# station 12\n# date,a,b\n#\n{ROWS}", 3, "header in row 2"),
    "quoted lines": ("".join(f'"{line}"\n' for line in f"date,a,b\n{ROWS}".splitlines()), 1, ""),
    "quoted lines below names": ("date,a,b\n" + re.sub("(?m)^(.*?),(.*?),(.*)$", r'"\1,""\2"",\3"', ROWS), 1, ""),
    "borders": (f"| date | a | b |\n|---|--:|---|\n{BORDERED}", 2, "separator '|'"),
    "rules": (f"+--+--+\n|date|a |b |\n+--+--+\n{BORDERED}+--+--+\n", 3, "header in row 2"),
    "units of some columns": (f"Station, 52.5 N\n  date   a   b\n   kW\n{BLANKS}", 3, "header in row 2"),
    "names with blanks in comments": (f"# station 12\n# date   a   b\n{BLANKS}", 2, "header in row 2"),
    "comments in columns": (f"#group,x,y\n#datatype,x,y\n#default,x,y\ndate,a,b\n{ROWS}", 4, "header in row 4"),
    "facts": (f"Latitude,52.5\nUpdated,2024-02-01\ndate,a,b\n{ROWS}", 3, "above it 'Latitude,52.5'"),
    "facts in columns": (f"lat,lon,zone\n52.5,13.4,GMT\n\ndate,a,b\n{ROWS}", 4, "above it 'lat,lon,zone'"),
    "units": (f"date,a,b\nyyyy-mm-dd,kW,%\n{ROWS}", 2, "header in row 1, below it 'yyyy-mm-dd,kW,%'"),
    "a title and units": (f"Report\ndate,a,b\n,[kW],[%]\n{ROWS}", 3, "header in row 2, above it 'Report', below it"),
    "a blank line below the names": (f"date,a,b\n\n{ROWS}", 2, ""),
    "a blank line between rows": (f"date,a,b\n{ROWS}".replace("2024-01-20", "\n2024-01-20"), 1, ""),
    "a note": (f"date,a,b\n{ROWS}Source: us\n", 1, "last row not read: 'Source: us'"),
    "notes with commas": (f"date,a,b\n{ROWS}\nSource: a, b, c, d\nRevised: 2025\n", 1, "last 2 rows not read: 'Source"),
    "a total": (f"date,a,b\n{ROWS}Total,500,600\n", 1, "last row not read: 'Total,500"),
    "several blanks": (f"date   a   b\n{BLANKS}", 1, "separator several blanks"),
    "one blank": (f"date a b\n{ROWS.replace(',', ' ')}", 1, "separator ' '"),
    "blanks and tabs": (f"date   a\tb\n{BLANKS}".replace("   3", " \t 3"), 1, "several blanks"),
    "aligned columns": (f"  date  a   b\n  {BLANKS}".replace("\n", "  \n  "), 1, "several blanks"),
    "blanks below a title": (
        f"Title: x, y\nUnits: m, s\n\ndate   a   b\n{BLANKS}",
        4,
        "header in row 4, above it 'Title: x, y'",
    ),
    "a sep line and a title": (f"sep=;\nReport\ndate;a;b\n{ROWS.replace(',', ';')}", 3, "header in row 3"),
}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("what", LAYOUTS)
def test_lines_that_are_no_rows(what: str, encoding: str, tmp_path: Path) -> None:
    """Red if a row is lost or made, a name or a row number is wrong, or what is left out is not said."""
    text, n_before, said = LAYOUTS[what]
    (tmp_path / "f.csv").write_bytes(text.encode(encoding))
    table = read_table(tmp_path / "f.csv")
    assert table.columns == ["date", "a", "b"]
    assert table.frame["date"].tolist() == DAYS
    np.testing.assert_array_equal(table.frame[["a", "b"]], [[0.5 + i, 3 * i] for i in range(30)])
    gap = ["between" in what and i >= 19 for i in range(30)]
    assert table.lines.tolist() == [n_before + 1 + i + gap[i] for i in range(30)]
    assert said in table.dialect.uncommon()


def test_blanks_separate_decimal_commas_between_a_title_and_a_note(tmp_path: Path) -> None:
    """Red if decimals are read as a column of whole numbers, with the title as names."""
    rows = "".join(f"{day}   0,{442 + i}\n" for i, day in enumerate(DAYS))
    frame = table_of(f"Sales; by region, all\ndate   a\n{rows}Total\n", tmp_path).frame
    assert frame["date"].tolist() == DAYS
    np.testing.assert_allclose(frame["a"], [0.442 + i / 1000 for i in range(30)])


@pytest.mark.parametrize("note", ["", "\nSource: a, b; c|d\te, f\n"])
def test_several_blanks_separate_numbers_with_blanks_between_thousands(tmp_path: Path, note: str) -> None:
    """Fails if such a number is taken for text with another separator, or the note for a row."""
    rows = "".join(f"2018-09-{day:02}   -{day} 652,{day}   {day},5\n" for day in range(11, 21))
    series = read_written(f"date   a   b\n{rows}{note}", tmp_path)
    assert series.columns == ("a", "b")
    np.testing.assert_allclose(series.values[:, 0], [-(day * 1000 + 652 + day / 100) for day in range(11, 21)])


def test_names_with_unquoted_separators_are_no_reason_to_separate_at_blanks(tmp_path: Path) -> None:
    """Red if months of dates become the numbers of rows."""
    rows = "".join(f"{month:02d} 01 2022 00.00Z,{month}\n" for month in (4, 7, 10))
    with pytest.raises(InputError):
        read_written(f"date, date,a, a\n{rows}", tmp_path)


def test_sums_without_a_name_are_no_row(tmp_path: Path) -> None:
    """Red if a last row of sums is a row without a date, or another one without a date is left out."""
    sums = f",{sum(0.5 + i for i in range(30))},7.5\n"
    table = table_of(f"date,a,b\n{ROWS}{sums}", tmp_path)
    assert table.frame["date"].tolist() == DAYS
    assert "last row not read: '450" in table.dialect.uncommon()
    for last in (",449.0,7.5\n", ",,\n2024-02-01,450.0,1\n"):
        assert len(table_of(f"date,a,b\n{ROWS}{last}", tmp_path).frame) == 31
    flags = "".join(f"{day},{int(i == 3)}\n" for i, day in enumerate(DAYS))
    assert len(table_of(f"date,a\n{flags},1\n", tmp_path).frame) == 31


def test_rows_that_might_be_notes_are_kept(tmp_path: Path) -> None:
    """Red if a row of data is left out."""
    for last in ("Total,,\n" * 40, "2024-02-0,5,6\n", "sometime,5,6\n", "2024-01-31,,\n"):
        assert len(table_of(f"date,a,b\n{ROWS}{last}", tmp_path).frame) > 30
    named = "".join(f"Total,2024,{i}\nOther,2024,{i}\n" for i in range(20)) + "Total,2025,3\n"
    assert len(table_of(f"name,year,a\n{named}", tmp_path).frame) == 41


@pytest.mark.parametrize(
    ("text", "hints", "columns"),
    [
        (f"one,two,three\nx,y,z\n{ROWS}", {"skip_rows": 1}, ["x", "y", "z"]),
        (f"Year,A,A\n,low,high\n{ROWS}", {"header": 2}, ["Year", "A low", "A high"]),
        (f"Year,A,A\n,low,high\n{ROWS}", {}, ["Year", "A low", "A high"]),
        (f"\tA\tB\nYear\tlow\tlow\n{ROWS}".replace(",", "\t"), {}, ["Year", "A low", "B low"]),
        (f",A,\nYear,low,high\n{ROWS}", {"header": 2, "skip_rows": 0}, ["Year", "A low", "A high"]),
        (ROWS, {"header": 0}, ["column_1", "column_2", "column_3"]),
        (f"Report\n{ROWS}", {"header": 0, "skip_rows": 1}, ["column_1", "column_2", "column_3"]),
    ],
)
def test_the_place_of_the_names_can_be_set(text: str, hints: dict, columns: list[str], tmp_path: Path) -> None:
    table = table_of(text, tmp_path, **hints)
    assert (table.columns, len(table.frame)) == (columns, 30)


AMOUNTS = {
    "${:,.2f}": "$", "-${:,.2f}": "$", "$ {:,.0f}": "$", "({:,.2f})": "brackets", "(${:,.0f})": "$", "{:.2f}%": "%",
    "{:.1f} %": "%", "\u2212{:.2f}": "signs of print", "{:.1f} kW": "kW", "{:.1f} m/s": "m/s", "{:,.0f} USD": "USD",
    "USD {:,.2f}": "USD", "{:.2f}-": "signs of print", "\u00a3{:.0f}": "\u00a3", "{:.1f}\u00b0C": "\u00b0C",
}  # fmt: skip


@pytest.mark.parametrize("european", [False, True])
@pytest.mark.parametrize("written", AMOUNTS)
def test_amounts_are_numbers(written: str, european: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Red if a sign, a mark or a factor of a thousand is lost, or what is left out is not said."""
    caplog.set_level("INFO", "informer")
    numbers = np.array([1234.5, 53000.25, 12.75, 1000000.0, *range(100, 120)])
    numbers = numbers.round(int(written.partition(".")[2][:1]))
    cells = [written.format(number) for number in numbers]
    if european:
        cells = [cell.translate(str.maketrans(",.", ".,")) for cell in cells]
    frame = pd.DataFrame({"date": DAYS[:24], "y": cells})
    frame.loc[20, "y"] = None
    frame.to_csv(tmp_path / "f.csv", index=False, sep=";" if european else ",")
    series = read_series(tmp_path / "f.csv", DatasetConfig(fill=Fill.mask))
    negative = written[0] in "-(\u2212" or written.endswith("-")
    expected = np.where(np.arange(24) == 20, np.nan, -numbers if negative else numbers)
    np.testing.assert_allclose(series.values[:, 0], expected)
    assert AMOUNTS[written] in caplog.text


def test_values_below_a_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Red if <1 stays text, or is read in silence."""
    caplog.set_level("INFO", "informer")
    cells = ["5", "<1", "3", "< 0.5", *map(str, range(20))]
    series = read_written(pd.DataFrame({"date": DAYS[:24], "y": cells}), tmp_path)
    np.testing.assert_array_equal(series.values[:, 0], [5, 0.5, 3, 0.25, *range(20)])
    assert series.dialect.note == "y: <1 as half of it"
    assert "column 'y' is read as numbers, <1 as half of it" in caplog.text


def test_letters_for_thousands_and_millions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Red if a letter is left out as a unit is, or months such as 3M become millions."""
    caplog.set_level("INFO", "informer")
    volume = ["1.5M", "20K", "950", "2.25B", "-0.5k", *["1.25T"] * 19]
    frame = pd.DataFrame({"date": DAYS[:24], "y": volume, "term": ["3M", "6M"] * 12})
    series = read_written(frame, tmp_path)
    assert series.columns == ("y",)
    np.testing.assert_allclose(series.values[:, 0], [1.5e6, 2e4, 950, 2.25e9, -500, *[1.25e12] * 19])
    assert "column 'y' is read as numbers, B as 10^9, K as 10^3, M as 10^6, T as 10^12, k as 10^3" in caplog.text


@pytest.mark.parametrize("mark", [".", "..", ":", ": ", "…"])
def test_marks_of_missing_values(mark: str, tmp_path: Path) -> None:
    """Red if a column of numbers becomes text."""
    frame = pd.DataFrame({"date": DAYS[:24], "y": [1.5, mark, *range(22)]})
    values = read_written(frame, tmp_path, fill=Fill.mask).values[:, 0]
    np.testing.assert_array_equal(values, [1.5, np.nan, *range(22)])


def test_empty_cells_within_borders(tmp_path: Path) -> None:
    """Red if cells move to the left where the first is empty."""
    rows = "".join(f"| {day if day != 5 else ''} | 2024-01-{day:02d} | {day % 7 or ''} |\n" for day in range(1, 31))
    frame = table_of(f"| a | date | b |\n|---|---|---|\n{rows}", tmp_path).frame
    assert list(frame.columns) == ["a", "date", "b"]
    assert frame["date"].tolist() == DAYS
    assert frame["a"].isna().to_numpy().nonzero()[0].tolist() == [4]
    assert frame["b"].isna().sum() == 4


def test_numbers_of_meters_may_be_names(tmp_path: Path) -> None:
    """Red if names of eight digits above numbers of eight digits are taken for data, unless both are dates."""
    names = "date,10203040,20481234"
    rows = "".join(f"2024-01-{day},532012{day},302012{day}\n" for day in range(10, 31))
    assert table_of(f"{names}\n{rows}", tmp_path).columns == names.split(",")
    with pytest.raises(InputError, match=r"expected column names, found 'DE, 20240110, 5.5'"):
        table_of("".join(f"DE,202401{day},5.5\n" for day in range(10, 31)), tmp_path)


def test_a_header_again_between_the_rows(tmp_path: Path) -> None:
    """Files written one after the other into one: red if a header is a row, or later rows get other numbers."""
    parts = [pd.DataFrame({"date": DAYS[k : k + 10], "y": np.arange(k, k + 10)}) for k in (0, 10, 20)]
    table = table_of("\n".join(part.to_csv(index=False) for part in parts) + "\nTotal,435\n", tmp_path)
    np.testing.assert_array_equal(table.frame["y"], np.arange(30))
    assert [*table.lines[[0, 9, 10, 20, 29]]] == [2, 11, 14, 26, 35]
    assert table.dialect.note == "rows 13, 25 not read: the header again, last row not read: 'Total,435'"


@pytest.mark.parametrize("line", ["2024-02-01;.", "day;load.kw"])
def test_what_is_no_number_decides_no_mark(line: str, tmp_path: Path) -> None:
    """Red if a missing value or a header, which have a point, hide that 1.250 may be 1250."""
    rows = [f"{day};{1 + i % 9}.{100 + 7 * i}" for i, day in enumerate(DAYS)]
    assert [*table_of("\n".join(["day;load.kw", *rows[:9], line, *rows[9:]]), tmp_path).doubts] == ["load.kw"]
    commas = [row.replace(".", ",") + "5" for row in rows]
    assert table_of("\n".join(["day;load.kw", *commas[:9], line, *commas[9:]]), tmp_path).dialect.decimal == ","


@pytest.mark.parametrize(
    "written", ["R{:.0f}", "{:.0f}K", "SKU{:.0f}", "{:.0f} AM", "no {:.0f}", "{:.0f}. of May", "#{}"]
)
def test_labels_are_no_amounts(written: str, tmp_path: Path) -> None:
    """Red if names become numbers."""
    cells = [written.format(number % 9) for number in range(24)]
    assert read_written(pd.DataFrame({"date": DAYS[:24], "y": range(24), "z": cells}), tmp_path).columns == ("y",)
    pd.DataFrame({"date": DAYS[:24], "z": [f"{i} {'kWMW'[i % 2 * 2 :][:2]}" for i in range(24)]}).to_csv(
        tmp_path / "f.csv", index=False
    )
    with pytest.raises(InputError, match=r"no numeric column .* found z \(text such as '0 kW'\)"):
        read_series(tmp_path / "f.csv", DatasetConfig())


def test_the_command_for_empty_cells_between_blanks_works(tmp_path: Path) -> None:
    """The proposed command is run; red if the file that it writes has other cells."""
    rows = [f"{day}  {'' if i == 5 else i:>4}  {2 * i:>4}" for i, day in enumerate(DAYS)]
    (tmp_path / "f.txt").write_text("\n".join(["date           a     b", *rows]))
    with pytest.raises(InputError, match="separated by blanks, and some cells to be empty") as error:
        read_series(tmp_path / "f.txt", DatasetConfig())
    assert "pandas.read_fwf('f.txt').to_csv('table.csv', index=False)" in str(error.value)
    pd.read_fwf(tmp_path / "f.txt").to_csv(tmp_path / "table.csv", index=False)
    read = read_series(tmp_path / "table.csv", DatasetConfig(fill=Fill.mask)).values
    np.testing.assert_array_equal(read, [[np.nan if i == 5 else i, 2 * i] for i in range(30)])
