"""Format of a CSV file: encoding, separator and decimal mark, detected from the first bytes of the file.

The start of a CSV file: text, with a line of column names.
"""

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from informer.base.errors import InputError
from informer.config.data import Hints
from informer.read.date_text import date_formats
from informer.read.number_marks import GROUPING, find_marks

SEPARATORS = "\t;|,"
"""Possible separators; if two fit the rows equally well, the first is chosen."""

SAMPLED_LINES = 20

_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """Separators and encoding of a CSV file; the defaults are the common ones."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    thousands: str = ""
    is_settled: bool = field(default=False, compare=False)
    """Whether the decimal mark was set, or is unambiguous in some cell of the file."""

    def uncommon(self) -> str:
        """Differences from the common format, for the log; empty if there are none."""
        differences = [
            f"separator {self.separator!r}" if self.separator != COMMON.separator else "",
            f"decimal mark {self.decimal!r}" if self.decimal != COMMON.decimal else "",
            f"thousands separator {self.thousands!r}" if self.thousands else "",
            f"encoding {self.encoding}" if self.encoding not in (COMMON.encoding, "utf-8-sig") else "",
        ]
        return ", ".join(filter(None, differences))


COMMON = Dialect()


def known_marks(dialect: Dialect) -> list[str] | None:
    """Decimal and thousands separator, if unambiguous in the file: stored in checkpoints."""
    return [dialect.decimal, dialect.thousands] if dialect.is_settled else None


def find_encoding(content: bytes) -> str:
    """The encoding of a file from its first bytes: UTF-8 or UTF-16 by its BOM, otherwise UTF-8, GBK or Latin-1.

    Every byte sequence is valid Latin-1, and many are valid GBK. Bytes above 127 are taken for Chinese if nearly all of
    them form pairs of the 3755 most common characters or punctuation, which accented letters hardly ever do.
    """
    marked = next((encoding for bom, encoding in _BOMS.items() if content.startswith(bom)), None)
    if marked is not None or content.isascii():
        return marked or "utf-8"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(content)  # incremental: the last character may be cut
        return "utf-8"
    except UnicodeDecodeError:
        return "gbk" if _is_chinese(content) else "latin-1"


def find_dialect(text: str, hints: Hints) -> Dialect:
    """The format of a file, from its first lines and the user's hints."""
    separator = hints.separator or find_separator(sampled_lines(text))
    if hints.decimal is not None or hints.thousands is not None:
        thousands = hints.thousands or ""
        decimal = hints.decimal or ("," if thousands == "." else find_marks(text, separator)[0])
        if decimal == thousands:
            decimal = "."
        return Dialect(separator, decimal, hints.encoding or COMMON.encoding, thousands, is_settled=True)
    decimal, thousands, is_settled = find_marks(text, separator)
    return Dialect(separator, decimal, hints.encoding or COMMON.encoding, thousands, is_settled=is_settled)


def sampled_lines(text: str) -> list[str]:
    """The first lines of a file: its header and some rows."""
    return list(islice(io.StringIO(text, newline=""), SAMPLED_LINES))


def find_separator(lines: Sequence[str]) -> str:
    """The separator: the character that splits the header and most rows into the same number of cells.

    Args:
        lines: the header and some rows.
    """
    present = [mark for mark in SEPARATORS if mark in lines[0]]
    if len(present) < 2:
        return present[0] if present else ","
    return max(present, key=lambda mark: _agreement(lines, mark))


def _is_chinese(content: bytes) -> bool:
    try:
        text = codecs.getincrementaldecoder("gbk")().decode(content)
    except UnicodeDecodeError:
        return False
    pairs = [sign.encode("gbk") for sign in text if sign > "\x7f"]
    # rows of the GB 2312 table: A1-A3 punctuation, B0-D7 the usual characters
    usual = sum(first in b"\xa1\xa2\xa3" or 0xB0 <= first <= 0xD7 for first, second in pairs if second >= 0xA1)
    return usual > 0.8 * len(pairs)


def _agreement(lines: Sequence[str], separator: str) -> tuple[float, float, int]:
    """Share of rows with as many cells as the header, share of their cells that are whole, and their number.

    A cell is whole if it is a number, a date, empty or text without another separator.
    """
    rows = list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    cells = [cell.strip() for row in rows[1:] for cell in row]
    separators = SEPARATORS.replace(separator, "")
    whole = sum(not any(mark in cell for mark in separators) or _is_value(cell) for cell in cells)
    width = len(rows[0])
    return sum(len(row) == width for row in rows) / len(rows), whole / max(len(cells), 1), width


def _is_value(cell: str) -> bool:
    return bool(date_formats(cell)) or re.fullmatch(r"[+-]?[\d.,]+(?:[eE][+-]?\d+)?", cell) is not None


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
