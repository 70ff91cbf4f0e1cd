"""The start of a CSV file: text, with a line of column names."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from informer.data.read.date_text import date_formats
from informer.data.read.dialect import sampled_lines
from informer.data.read.number_marks import GROUPING
from informer.errors import InputError

_NUMBER = re.compile(rf"[+-]?[\d{GROUPING}]*\d[\d{GROUPING}]*(?:[eE][+-]?\d+)?")

ARCHIVES = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""First bytes of zip archives (including .xlsx and .ods) and of old workbooks (.xls)."""


def check_is_text(path: Path, head: bytes, text: str) -> None:
    """Check that a file is text.

    Args:
        path: the file, for errors.
        head, text: its first bytes, raw and decoded.

    Raises:
        InputError: it is a workbook, an archive or another binary file.
    """
    is_archive = head.startswith(ARCHIVES)
    if is_archive or "\0" in text:
        advice = "; save the sheet of an older workbook as .xlsx or CSV, or unpack the archive" if is_archive else ""
        raise InputError(f"{path}: a binary file, expected CSV text, parquet or an Excel workbook (.xlsx){advice}")


def check_header(file: str, names: Sequence[str], first_row: Sequence[str]) -> None:
    """Check that the first line of a file does not look like data.

    It does if it has a date above a date, or only numbers, except column numbers from 0.

    Raises:
        InputError: the file has no header.
    """
    cells = [name.strip() for name in names]
    dated = any(
        date_formats(cell) and date_formats(below.strip()) for cell, below in zip(cells, first_row, strict=False)
    )
    counted = cells == [str(position) for position in range(len(cells))]
    if dated or (not counted and all(map(_NUMBER.fullmatch, cells))):
        names_text = ", ".join(cell[:40] for cell in cells[:3])
        raise InputError(
            f"{file}, row 1: expected column names, found {names_text!r}; add a line with one name per column before it"
        )


def read_header(file: str, text: str, separator: str) -> tuple[list[str], dict[str, Any]]:
    """The names of the columns, without spaces before them, and the arguments of `numbered`.

    Raises:
        InputError: see `check_header`.
    """
    lines = sampled_lines(text)
    rows = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    header = next(rows)
    names = [name.lstrip() for name in header]
    check_header(file, names, next(rows, []))
    return names, numbered(lines[0], header)


def numbered(line: str, names: Sequence[str]) -> dict[str, Any]:
    """Arguments of `pandas.read_csv` that number the columns, whose names pandas takes as long to make as 100 rows.

    Empty if pandas would change a name, because it is empty, occurs twice or has spaces or quotes around it.

    Args:
        line: the header.
        names: its cells, as the csv module reads them.
    """
    are_kept = all(names) and len(set(names)) == len(names) and list(map(str.strip, names)) == names
    return {"names": range(len(names)), "header": 0} if are_kept and names and '"' not in line else {}
