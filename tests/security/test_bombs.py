"""Small files that would take much memory and time are refused by their columns, their cells, or what they unpack to.

Without the limits most of these take gigabytes, so that a test that is red may be killed.
"""

import gzip
import io
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest
from entry_points import call, refusal

N = 12_000
"""Columns, of which a file may have 10,000."""

DAYS = [f"2024-01-{day:02d}" for day in range(1, 31)]
NARROW = "".join(f"{day},1\n" for day in DAYS)
WIDE = "".join(day + ",1" * N + "\n" for day in DAYS[:3])
NAMES = ",".join(["time", *(f"c{place}" for place in range(N))]) + "\n"


def packed(path: Path, pieces: Iterable[bytes]) -> None:
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.writelines(pieces)


def in_zip(path: Path, content: str) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", content)


def wide_frame() -> pd.DataFrame:
    values = pd.DataFrame(np.zeros((3, N)), columns=[f"c{place}" for place in range(N)])
    return values.assign(time=pd.date_range("2024", periods=3))


def in_partitions(path: Path) -> None:
    (path / "store=1").mkdir(parents=True)
    wide_frame().to_parquet(path / "store=1" / "part.parquet")


def sheet(path: Path, rows: str, above: str = "") -> None:
    """A workbook with these rows as XML, below a document type."""
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    book, content = openpyxl.Workbook(), io.BytesIO()
    book.save(content)
    with zipfile.ZipFile(content) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            is_sheet = name == "xl/worksheets/sheet1.xml"
            text = f'{above}<worksheet xmlns="{space}"><sheetData>{rows}</sheetData></worksheet>' if is_sheet else None
            target.writestr(name, text or source.read(name))


TOO_WIDE: dict[str, Callable[[Path], object]] = {
    "commas.csv.gz": lambda path: packed(path, [b"," * 1_000_000] * 4),
    "lines.csv.gz": lambda path: packed(path, [b"1|" * 1_000_000]),
    "blanks.csv.gz": lambda path: packed(path, [b"1  " * 1_000_000]),
    "late.csv.gz": lambda path: packed(path, [("time,a\n" + NARROW * 10_000).encode(), b"," * 1_000_000]),
    "unclosed.csv.gz": lambda path: packed(path, [b'time,a\n2024-01-01,"', b"a," * 1_000_000]),
    "member.zip": lambda path: in_zip(path, "," * 1_000_000),
    "wide.csv": lambda path: path.write_text(NAMES + WIDE),
    "header.csv": lambda path: path.write_text(NAMES + NARROW),
    "utf16.csv": lambda path: path.write_text(NAMES + WIDE, encoding="utf-16"),
    "wide.parquet": lambda path: wide_frame().to_parquet(path),
    "partitions": in_partitions,
    "far.xlsx": lambda path: sheet(path, '<row r="1"><c r="XFD1"><v>1</v></c></row>' * 3),
    "nested.xlsx": lambda path: sheet(path, f"<row>{'<c/><c/><row/>' * 400_000}</row>"),
}


@pytest.mark.parametrize("name", TOO_WIDE)
def test_too_many_columns_are_one_line(name: str, folder: Path) -> None:
    """Red if a kind of file, or a separator, is split into cells before its columns are counted."""
    TOO_WIDE[name](folder / name)
    line = refusal("inspect", name)
    assert f"{name}: more than 10,000 columns; " in line
    assert "raise dataset.max_columns" in line


def test_commands_and_settings_have_the_same_limit(folder: Path) -> None:
    """Red if a command reads files without limits, or a separator that is set is free."""
    (folder / "wide.csv").write_text(NAMES + WIDE)
    (folder / "hats.csv").write_text((NAMES + WIDE).replace(",", "^"))
    assert "more than 10,000 columns" in refusal("forecast", "wide.csv", "output=out.csv")
    assert "more than 10,000 columns" in call("inspect", "hats.csv", "dataset.separator=^").err


TOO_MUCH: dict[str, Callable[[Path], object]] = {
    "newlines.csv.gz": lambda path: packed(path, [f"time,a\n{NARROW}".encode(), *[b"\n" * 1_000_000] * 30]),
    "rows.csv.gz": lambda path: packed(path, [b"time,a\n", *[b"2024-01-01 00:00:00,1\n" * 100_000] * 15]),
    "digits.csv.gz": lambda path: packed(path, [b"time,a\n2024-01-01,", *[b"1" * 1_000_000] * 30]),
    "short.csv": lambda path: path.write_text(",".join(map(str, range(9_000))) + "\n" + "2024-01-01,1\n" * 5_000),
    "buffered.csv": lambda path: path.write_text(NAMES[:55_000] + "\n1,1\n" + "\n" * 40_000),
    "rows.parquet": lambda path: pd.DataFrame({"time": pd.Timestamp("2024"), "a": np.zeros(4_000_000)}).to_parquet(
        path
    ),
    "blanks.xlsx": lambda path: sheet(path, " " * 30_000_000),
    "cells.xlsx": lambda path: sheet(
        path, "".join(f'<row r="{i}"><c r="A{i}"/><c r="IVV{i}"><v>1</v></c></row>' for i in range(1, 1_000))
    ),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_a_file_unpacks_to_is_bounded_by_its_size(name: str, folder: Path) -> None:
    """Red if bytes, lines or empty cells that take no space in the file are read without end."""
    TOO_MUCH[name](folder / name)
    line = refusal("inspect", name)
    assert f"{name}: its content is more than 200 times as large as the file" in line
    assert "raise dataset.max_ratio" in line


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_limits_of_columns_and_cells_are_exact(end: str, folder: Path) -> None:
    """Red if a line with one column more is read, or a table at its limit is refused."""
    lines = ["date,a,b,c,d", *(f"2024-01-{day:02},1,2,3,{day}" for day in range(1, 29))]

    def said(*settings: str, place: int = -1) -> str:
        longer = [line + "," * (number == place) for number, line in enumerate(lines)]
        (folder / "a.csv").write_bytes(end.join([*longer, ""]).encode())
        outcome = call("inspect", "a.csv", *settings)
        return outcome.out + outcome.err

    assert "more than" not in said("dataset.max_columns=5", "dataset.max_cells=140")
    assert "more than 139 cells" in said("dataset.max_cells=139")
    for place in (0, 14, 28):
        assert "more than 5 columns" in said("dataset.max_columns=5", place=place)


def test_entities_of_a_workbook_do_not_unfold(folder: Path) -> None:
    """Red if a sheet of 1 KB becomes ten gigabytes of text."""
    levels = "".join(f'<!ENTITY e{k} "{f"&e{k - 1};" * 10}">' for k in range(1, 12))
    cell = '<row r="1"><c r="A1" t="inlineStr"><is><t>&e11;</t></is></c></row>'
    sheet(folder / "a.xlsx", cell, f'<!DOCTYPE d [<!ENTITY e0 "aaaaaaaaaa">{levels}]>')
    outcome = call("inspect", "a.xlsx")
    assert outcome.status != 0
    assert "a.xlsx" in outcome.out + outcome.err
    assert "aaaaaaaaaa" not in outcome.out + outcome.err


def test_long_digits_are_text(folder: Path) -> None:
    """Red, after minutes, if the search for numbers takes time with the square of a cell's length."""
    (folder / "a.csv").write_text(f"time,a\n{NARROW}2024-02-01,{'1' * 100_000}x\n2024-02-02,1\n")
    assert call("inspect", "a.csv").status == 2
