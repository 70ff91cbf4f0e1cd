"""Whether a file starts like a CSV file: with text, and a line of column names."""

import re
from collections.abc import Sequence
from pathlib import Path

from informer.data.read.date_text import date_formats
from informer.data.read.number_marks import GROUPING
from informer.errors import InputError

_NUMBER = re.compile(rf"[+-]?[\d{GROUPING}]*\d[\d{GROUPING}]*(?:[eE][+-]?\d+)?")

ARCHIVES = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""How zip archives (.xlsx and .ods are such) and workbooks of older programs (.xls) begin."""


def check_is_text(path: Path, head: bytes, text: str) -> None:
    """Refuse a file that is no text.

    Args:
        head, text: its first bytes, and what they are as text.

    Raises:
        InputError: it is a workbook, an archive or something else.
    """
    is_archive = head.startswith(ARCHIVES)
    if is_archive or "\0" in text:
        advice = "; save the sheet of an older workbook as .xlsx or CSV, or unpack the archive" if is_archive else ""
        raise InputError(f"{path}: a binary file, expected CSV text, parquet or an Excel workbook (.xlsx){advice}")


def check_header(file: str, names: Sequence[str], first_row: Sequence[str]) -> None:
    """Refuse a file whose first line looks like its data.

    That is a line with a date above a date, or of numbers only, except column numbers from 0.

    Raises:
        InputError: the file has no header.
    """
    cells = [name.strip() for name in names]
    dated = any(
        date_formats(cell) and date_formats(below.strip()) for cell, below in zip(cells, first_row, strict=False)
    )
    counted = cells == [str(place) for place in range(len(cells))]
    if dated or (not counted and all(map(_NUMBER.fullmatch, cells))):
        shown = ", ".join(cell[:40] for cell in cells[:3])
        raise InputError(
            f"{file}, row 1: expected column names, found {shown!r}; add a line with one name per column before it"
        )
