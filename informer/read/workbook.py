"""Convert a sheet of a workbook (.xlsx, .xlsb, .xls, .ods) to CSV text, so that both are read and checked alike."""

import csv
import io
import logging
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from functools import reduce
from html import unescape
from pathlib import Path
from typing import IO, Any
from xml.parsers.expat import ExpatError, ParserCreate

from informer.base.errors import InputError, listed, reason_of
from informer.config.data import DatasetConfig
from informer.read.limits import CELL, check_ratio, check_size, check_table

log = logging.getLogger(__name__)

PEEKED, FEWEST_ROWS = 50, 3
"""First rows of a sheet that are looked at, and how many of them have numbers if it is no title page."""

WRITTEN: dict[str, Any] = {"separator": ",", "decimal": ".", "thousands": "", "encoding": "utf-8"}
"""Format of `sheet_text`."""

WORKBOOKS = {"xl/workbook.xml", "xl/workbook.bin", "content.xml"}
"""Parts that make a zip archive a workbook."""

DAYS_TO_1970, DAYS_TO_1970_FROM_1904 = 25_569, 24_107
"""Days from the start of spreadsheet dates to 1970, also of workbooks with the calendar of 1904."""

EXACT = 1 << 53
"""Integers below this are exact in double precision."""

_FROM_1904 = re.compile(rb'<workbookPr[^>]*\bdate1904="(?:1|true)"')
_ATTRIBUTE = re.compile(r'([\w:]+)="([^"]*)"')


def is_workbook(file: io.BufferedIOBase) -> bool:
    """Whether a zip archive is a workbook; rewinds the file."""
    try:
        with zipfile.ZipFile(file) as archive:
            return not WORKBOOKS.isdisjoint(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError):
        return False
    finally:
        file.seek(0)


def sheet_text(path: Path, file: io.BufferedIOBase, config: DatasetConfig) -> tuple[bytes, int, int]:
    """A sheet as CSV text, the number of blank rows before its first row, and the days from its first day to 1970.

    Dates are written as ISO 8601, formulas as their saved values.

    Args:
        path, file: the workbook; `path` is for errors.
        config: its `sheet` is the name of the sheet, or its number from 1 if no sheet has that name; None: the first
            with rows of numbers or dates, or else the first.

    Raises:
        InputError: the workbook is damaged, empty or without that sheet, or more than the limits of `config`.
    """
    with _errors(path):
        from_1904 = _check_parts(path, file, config)
        rows, name, (above, before) = _rows(path, file, config)
        if any("" in row for row in rows):
            _fill_blanks(path, file, name, rows, (above, before))
        text, skipped = io.StringIO(), None
        writer = csv.writer(text, lineterminator="\n")
        for number, row in enumerate(rows, start=above):
            cells = [_written(cell) for cell in row]
            while cells and not cells[-1]:
                cells.pop()
            if skipped is None and cells:
                skipped = number
            if skipped is not None:
                writer.writerow(cells)
    if skipped is None:
        which = "first sheet" if config.sheet is None else f"sheet {config.sheet!r}"
        raise InputError(f"{path}: the {which} is empty, expected a header and rows")
    return text.getvalue().encode(), skipped, DAYS_TO_1970_FROM_1904 if from_1904 else DAYS_TO_1970


def _check_parts(path: Path, file: io.BufferedIOBase, config: DatasetConfig) -> bool:
    """Check the size of all parts; returns whether the calendar begins in 1904. Rewinds the file."""
    if not zipfile.is_zipfile(file):  # .xls, which is not compressed
        file.seek(0)
        return False
    with zipfile.ZipFile(file) as archive:  # no part is read beyond the size it declares
        n_bytes = sum(entry.file_size for entry in archive.infolist())
        check_size(path, n_bytes, config)
        check_ratio(path, n_bytes, path.stat().st_size, config)
        book = archive.read("xl/workbook.xml") if "xl/workbook.xml" in archive.namelist() else b""
    file.seek(0)
    return _FROM_1904.search(book) is not None


def _rows(path: Path, file: io.BufferedIOBase, config: DatasetConfig) -> tuple[list[list[Any]], str, tuple[int, int]]:
    """The rows of the sheet from its first cell on, its name, and the numbers of rows above and of columns before."""
    import python_calamine

    book = python_calamine.CalamineWorkbook.from_filelike(file)
    names = book.sheet_names
    if not names:
        raise InputError(f"{path}: the workbook has no worksheet")
    places = range(len(names)) if config.sheet is None else [_place(path, names, config.sheet)]
    first: tuple[list[list[Any]], str, tuple[int, int]] | None = None
    for place in places:
        sheet = book.get_sheet_by_index(place)
        check_table(path, sheet.height, sheet.width, config)
        check_ratio(path, sheet.height * sheet.width * CELL, path.stat().st_size, config)
        found = [*map(list, sheet.iter_rows())] if sheet.height else [], names[place], sheet.start or (0, 0)
        first = first or found
        if config.sheet is not None or _has_rows(found[0]):
            first = found
            break
    assert first is not None, "a workbook has a sheet"
    if len(names) > 1:
        log.info(f"{path.name}: reads the sheet {first[1]!r} of {listed(names)} (dataset.sheet)")
    return first


def _has_rows(rows: Sequence[Sequence[object]]) -> bool:
    """Whether a sheet has rows of several cells with numbers or dates among its first ones; a title page has none."""
    kinds = (int, float, datetime, date)
    valued = (row for row in rows[:PEEKED] if any(isinstance(cell, kinds) for cell in row))
    return sum(sum(cell != "" for cell in row) > 1 for row in valued) >= FEWEST_ROWS


def _place(path: Path, names: Sequence[str], sheet_name: str) -> int:
    if sheet_name in names:
        return names.index(sheet_name)
    if sheet_name.isdecimal() and len(sheet_name) < 5 and 1 <= int(sheet_name) <= len(names):
        return int(sheet_name) - 1
    expected = f"one of its sheets ({listed(names)}) or a number up to {len(names)}"
    raise InputError(f"{path}: dataset.sheet={sheet_name[:80]}: expected {expected}")


def _written(cell: object) -> str:
    if isinstance(cell, datetime):
        return cell.isoformat(sep=" ")
    if isinstance(cell, date | time):
        return cell.isoformat()
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < EXACT:
        return str(int(cell))
    return " ".join(str(cell).splitlines())  # without line breaks, so that lines are rows


def _fill_blanks(path: Path, file: io.BufferedIOBase, name: str, rows: list[list[Any]], start: tuple[int, int]) -> None:
    """Put errors such as #DIV/0!, which the library leaves out, in the blank cells of an .xlsx sheet, and check that
    formulas have saved values, which programs that only write workbooks leave out."""
    file.seek(0)
    if not zipfile.is_zipfile(file):
        return
    with zipfile.ZipFile(file) as archive:
        if (part := _part_of(archive, name)) is None:
            return
        with archive.open(part) as content:
            found = _errors_and_formulas(content)
    for place, (error, formula) in found.items():
        letters, number = place.rstrip("0123456789"), int(place.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        column = reduce(lambda count, letter: 26 * count + ord(letter) - 64, letters, 0)
        row, cell = number - 1 - start[0], column - 1 - start[1]
        if not (0 <= row < len(rows) and 0 <= cell < len(rows[row]) and rows[row][cell] == ""):
            continue
        if not error:
            raise InputError(
                f"{path}, row {number}, column {column}: the formula ={formula:.80} has no saved value; open the "
                "workbook in a spreadsheet program and save it, or write values"
            )
        rows[row][cell] = error


def _part_of(archive: zipfile.ZipFile, name: str) -> str | None:
    """The part of an .xlsx workbook with the sheet of this name; None for other workbooks."""
    if not {"xl/workbook.xml", "xl/_rels/workbook.xml.rels"} <= {*archive.namelist()}:
        return None
    sheets, links = (
        [dict(_ATTRIBUTE.findall(tag)) for tag in re.findall(pattern, archive.read(part).decode())]
        for part, pattern in (
            ("xl/workbook.xml", r"<(?:\w+:)?sheet\s[^>]*>"),
            ("xl/_rels/workbook.xml.rels", r"<Relationship\s[^>]*>"),
        )
    )
    target = {link.get("Id"): link.get("Target", "") for link in links}
    parts = [target.get(sheet.get("r:id"), "") for sheet in sheets if unescape(sheet.get("name", "")) == name]
    return next(
        (part for part in (f"xl/{part.removeprefix('/xl/')}" for part in parts) if part in archive.namelist()), None
    )


def _errors_and_formulas(content: IO[bytes]) -> dict[str, tuple[str, str]]:
    """The error and the formula of each cell of a sheet that has an error, or a formula without a value, by place."""
    found: dict[str, tuple[str, str]] = {}
    cell, texts, inside = dict[str, str](), {"f": "", "v": ""}, ""

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal cell, texts, inside
        inside = name
        if name == "c":
            cell, texts = attributes, {"f": "", "v": ""}

    def text(piece: str) -> None:
        if inside in texts:
            texts[inside] += piece

    def end(name: str) -> None:
        nonlocal inside
        inside = ""
        if name == "c" and "r" in cell:
            is_error = cell.get("t") == "e"
            if is_error or (texts["f"] and not texts["v"]):
                found[cell["r"]] = texts["v"] if is_error else "", texts["f"]

    parser = ParserCreate()
    parser.StartElementHandler, parser.CharacterDataHandler, parser.EndElementHandler = start, text, end
    parser.ParseFile(content)
    return found


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Turn errors that the library raises for damaged workbooks into an InputError."""
    import python_calamine

    try:
        yield
    except InputError:
        raise
    except (
        *(python_calamine.CalamineError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, KeyError),
        *(ExpatError, NotImplementedError, RuntimeError),
    ) as error:
        raise InputError(f"{path}: cannot be read as a workbook ({reason_of(error)}); save it again") from error
