"""Excel workbooks: the same series as from CSV, errors at the rows of the sheet, and nothing larger than the limits."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from entry_points import Trained, done
from stores import read_series, series_from_table

from informer import InputError
from informer.config.data import DatasetConfig
from informer.read.table import read_table

TIMES = pd.date_range("2024-02-28", periods=40, freq="h")
VALUES = np.random.default_rng(0).normal(size=40).round(3)


def save(path: Path, rows: list[list[Any]], *, others: int = 0) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for place in range(others):
        book.create_sheet(f"other {place}").append(["not", "read"])
    book.save(path)
    return path


def table(times: list[Any]) -> list[list[Any]]:
    return [["date", "load", "note"], *([time, value, "text"] for time, value in zip(times, VALUES, strict=True))]


def serials() -> list[float]:
    return ((TIMES - pd.Timestamp("1899-12-30")) / pd.Timedelta(days=1)).tolist()


def test_numbers_that_may_be_something_else_are_asked_for(tmp_path: Path) -> None:
    """Fails if years, digits of dates or seconds are read as spreadsheet days, or days in a text file are guessed."""
    for first in (2_020, 20_240_131, 1.7e9, 73_050):
        with pytest.raises(InputError, match="expected dates, found numbers such as"):
            read_series(save(tmp_path / "a.xlsx", table([first + place for place in range(40)])), DatasetConfig())
    text = tmp_path / "a.csv"
    pd.DataFrame({"date": serials(), "load": VALUES}).to_csv(text, index=False)
    with pytest.raises(InputError, match=r"starting at 2024-02-28 00:00:00, set dataset\.time_format=excel"):
        read_series(text, DatasetConfig())
    history = series_from_table(read_table(text), DatasetConfig(frequency="h"), "a", "excel", history=9)
    assert list(history.timestamps) == list(TIMES[-9:])


@pytest.mark.parametrize("above", [0, 3])
def test_errors_name_the_row_of_the_sheet(above: int, tmp_path: Path) -> None:
    """Row 1 is the header, below as many empty rows as there are; a line break in a cell is no row."""
    rows = table([time.to_pydatetime() for time in TIMES])
    rows[4][2] = "two\nlines"
    rows[11][1] = "#DIV/0!"
    path = save(tmp_path / "a.xlsx", [[]] * above + rows)
    with pytest.raises(InputError, match=rf"a\.xlsx, row {12 + above}, column 'load'.*#DIV/0!"):
        read_series(path, DatasetConfig())
    rows[11][1] = None
    with pytest.raises(InputError, match=rf"a\.xlsx, row {12 + above}, column 'load'.*empty"):
        read_series(save(path, [[]] * above + rows), DatasetConfig())


def changed(path: Path, part: str, content: bytes) -> None:
    """The workbook with another content of one part."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()} | {part: content}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)


def sheet(cells: str) -> bytes:
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    return f'<worksheet xmlns="{space}"><sheetData>{cells}</sheetData></worksheet>'.encode()


SHEET = "xl/worksheets/sheet1.xml"


def test_cells_far_away_are_counted_with_those_between(tmp_path: Path) -> None:
    """A cell in the last column of many rows: few bytes, and thousands of cells in memory for each."""
    path = save(tmp_path / "a.xlsx", [["a", "b"]])
    changed(path, SHEET, sheet("".join(f'<row r="{i}"><c r="XFD{i}"><v>1</v></c></row>' for i in range(1, 100))))
    with pytest.raises(InputError, match=r"a\.xlsx: more than 10,000 columns; .* dataset.max_columns"):
        read_table(path)
    with pytest.raises(InputError, match=r"a\.xlsx: more than 100,000 cells; .* dataset.max_cells"):
        read_table(path, DatasetConfig(max_columns=20_000, max_cells=100_000))
    changed(path, SHEET, sheet('<row r="1"><c r="A1"><v>1</v></c></row><row r="99999999"><c r="A9"><v>1</v></c></row>'))
    with pytest.raises(InputError, match=r"more than 1,048,576 rows"):
        read_table(path)


def test_entities_and_damage_are_one_line(tmp_path: Path) -> None:
    """Entities that would unfold to gigabytes, text that is no XML, and half a file."""
    path = save(tmp_path / "a.xlsx", [["a", "b"]])
    levels = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12))
    bomb = (
        f'<!DOCTYPE d [<!ENTITY e0 "aaaaaaaaaa">{levels}]>'
        + sheet('<row r="1"><c r="A1" t="inlineStr"><is><t>&e11;</t></is></c></row>').decode()
    )
    for content in (bomb.encode(), b"no xml", b""):
        changed(path, SHEET, content)
        with pytest.raises(InputError, match=r"a\.xlsx"):
            read_table(path)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("[Content_Types].xml", "<x/>")
        archive.writestr("xl/workbook.xml", "<x/>")
    path.write_bytes(whole.getvalue())
    with pytest.raises(InputError, match=r"a\.xlsx: cannot be read as an Excel workbook"):
        read_table(path)


def test_inspect_and_predict_read_it_as_they_read_csv(trained: Trained, folder: Path) -> None:
    frame = pd.read_csv(Path(__file__).parents[2] / "data/sample.csv").tail(400)
    frame.to_csv("a.csv", index=False)
    times = [time.to_pydatetime() for time in pd.to_datetime(frame["date"])]
    save(Path("b.xlsx"), [list(frame.columns), *map(list, frame.assign(date=times).itertuples(index=False))])
    for name in ("a.csv", "b.xlsx"):
        done("predict", f"checkpoint={trained.run_dir}", f"input={name}", "output=out", "plots=false")
    one, other = (pd.read_csv(f"out/{name}.forecast.csv") for name in "ab")
    pd.testing.assert_frame_equal(one, other)
    done("inspect", "b.xlsx")
