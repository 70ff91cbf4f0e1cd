"""Convert a sheet of an Excel workbook (.xlsx) to CSV text, so that both are read and checked alike."""

import csv
import io
import logging
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import IO, Any
from warnings import catch_warnings
from xml.parsers.expat import ExpatError, ParserCreate

from informer.base.errors import InputError, listed, reason_of
from informer.config.data import DatasetConfig
from informer.read.limits import CELL, MB, check_ratio, check_size, check_table

log = logging.getLogger(__name__)

MOST_ROWS = 1_048_576
"""Maximum number of rows of a sheet in Excel; a damaged file may claim more."""

PEEKED, FEWEST_ROWS = 50, 3
"""First rows of a sheet that are looked at, and how many of them have numbers if it is no title page."""

WRITTEN: dict[str, Any] = {"separator": ",", "decimal": ".", "thousands": "", "encoding": "utf-8"}
"""Format of `sheet_text`."""

ROW_DEPTH, ELEMENTS = 3, 3
"""Depth of a row in a sheet (worksheet, sheetData, row), and elements of a cell with a formula and a value."""

_PARTS = {"[Content_Types].xml", "xl/workbook.xml"}


def is_workbook(file: io.BufferedIOBase) -> bool:
    """Whether a zip archive is a workbook; rewinds the file."""
    try:
        with zipfile.ZipFile(file) as archive:
            return set(archive.namelist()) >= _PARTS
    except (zipfile.BadZipFile, OSError, ValueError):
        return False
    finally:
        file.seek(0)


def sheet_text(path: Path, file: io.BufferedIOBase, config: DatasetConfig) -> tuple[bytes, int]:
    """A sheet as CSV text, and the number of blank rows before its first row.

    Dates are written as ISO 8601, formulas as their saved values.

    Args:
        path, file: the workbook; `path` is for errors.
        config: its `sheet` is the name of the sheet, or its number from 1 if no sheet has that name; None: the first
            with rows of numbers or dates, or else the first.

    Raises:
        InputError: the workbook is damaged, empty or without that sheet, or more than the limits of `config`.
    """
    text, skipped, n_cells, has_blanks = io.StringIO(), None, 0, False
    writer = csv.writer(text, lineterminator="\n")
    with _errors(path):
        _check_parts(path, file, config)
        for number, row in enumerate(_rows(path, file, config)):
            if number >= MOST_ROWS:
                raise InputError(f"{path}: more than {MOST_ROWS:,} rows, which no sheet has; save the workbook again")
            n_cells += max(len(row), 1)
            check_table(path, n_cells, 1, config)
            check_ratio(path, n_cells * CELL, path.stat().st_size, config)
            cells = [_written(cell) for cell in row]
            has_blanks = has_blanks or None in row
            while cells and not cells[-1]:
                cells.pop()
            if skipped is None and cells:
                skipped = number
            if skipped is not None:
                writer.writerow(cells)
        if has_blanks:
            _check_formulas(path, file, config)
    if skipped is None:
        which = "first sheet" if config.sheet is None else f"sheet {config.sheet!r}"
        raise InputError(f"{path}: the {which} is empty, expected a header and rows")
    return text.getvalue().encode(), skipped


def _check_parts(path: Path, file: io.BufferedIOBase, config: DatasetConfig) -> None:
    """Check the size of all parts, and the elements in each row of a large sheet, since openpyxl holds whole rows;
    rewinds the file."""
    with zipfile.ZipFile(file) as archive:  # no part is read beyond the size it declares
        n_bytes = sum(entry.file_size for entry in archive.infolist())
        check_size(path, n_bytes, config)
        check_ratio(path, n_bytes, path.stat().st_size, config)
        for entry in archive.infolist():
            if entry.file_size > MB and entry.filename.endswith(".xml"):
                with archive.open(entry) as part:
                    _check_rows(path, part, config)
    file.seek(0)


def _check_rows(path: Path, part: IO[bytes], config: DatasetConfig) -> None:
    depth = n_elements = 0

    def start(name: str, _attributes: object) -> None:
        nonlocal depth, n_elements
        depth += 1
        if depth == 1 and not name.endswith("worksheet"):
            parser.StartElementHandler = parser.EndElementHandler = None
        n_elements = 0 if depth == ROW_DEPTH else n_elements + 1
        check_table(path, 1, n_elements // ELEMENTS, config)

    def end(_name: str) -> None:
        nonlocal depth
        depth -= 1

    parser = ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.ParseFile(part)


def _check_formulas(path: Path, file: io.BufferedIOBase, config: DatasetConfig) -> None:
    """Check that formulas have saved values, which programs that only write workbooks leave out."""
    both = zip(_rows(path, file, config), _rows(path, file, config, formulas=True), strict=True)
    for number, (values, formulas) in enumerate(both, start=1):
        for column, (value, formula) in enumerate(zip(values, formulas, strict=False), start=1):
            if value is None and formula is not None:
                raise InputError(
                    f"{path}, row {number}, column {column}: the formula {formula!s:.80} has no saved value; open the "
                    "workbook in a spreadsheet program and save it, or write values"
                )


def _rows(
    path: Path, file: io.BufferedIOBase, config: DatasetConfig, *, formulas: bool = False
) -> Iterator[tuple[object, ...]]:
    """Rows of the sheet, with the values of formulas, or with the formulas."""
    import openpyxl

    with catch_warnings(record=True) as caught:  # about styles and extensions, which are not read
        book = openpyxl.load_workbook(file, read_only=True, data_only=not formulas, keep_links=False)
        if not book.worksheets:
            raise InputError(f"{path}: the workbook has no worksheet")
        names = [sheet.title for sheet in book.worksheets]
        if config.sheet is None:
            found = (sheet for sheet in book.worksheets if _has_rows(_cells(path, sheet, config)))
            sheet = next(found, book.worksheets[0])
        else:
            sheet = book.worksheets[_place(path, names, config.sheet)]
        if len(names) > 1 and not formulas:
            log.info(f"{path.name}: reads the sheet {sheet.title!r} of {listed(names)} (dataset.sheet)")
        sheet.reset_dimensions()  # the file may overstate them
        yield from _cells(path, sheet, config)
    for warning in caught:
        log.debug(f"{path.name}: {warning.message}")


def _cells(path: Path, sheet: Any, config: DatasetConfig) -> Iterator[tuple[object, ...]]:
    for row in sheet.iter_rows(values_only=True):
        check_table(path, 1, len(row), config)
        yield row


def _has_rows(rows: Iterator[tuple[object, ...]]) -> bool:
    """Whether a sheet has rows of several cells with numbers or dates among its first ones; a title page has none."""
    kinds = (int, float, datetime, date)
    rows = (row for row in islice(rows, PEEKED) if any(isinstance(cell, kinds) for cell in row))
    return sum(sum(cell is not None for cell in row) > 1 for row in rows) >= FEWEST_ROWS


def _place(path: Path, names: Sequence[str], sheet_name: str) -> int:
    if sheet_name in names:
        return names.index(sheet_name)
    if sheet_name.isdecimal() and len(sheet_name) < 5 and 1 <= int(sheet_name) <= len(names):
        return int(sheet_name) - 1
    expected = f"one of its sheets ({listed(names)}) or a number up to {len(names)}"
    raise InputError(f"{path}: dataset.sheet={sheet_name[:80]}: expected {expected}")


def _written(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return cell.isoformat(sep=" ")
    if isinstance(cell, date | time):
        return cell.isoformat()
    return " ".join(str(cell).splitlines())  # without line breaks, so that lines are rows


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Turn errors that openpyxl and its libraries raise for damaged workbooks into an InputError."""
    try:
        yield
    except InputError:
        raise
    except (
        *(zipfile.BadZipFile, zlib.error, EOFError, OSError, SyntaxError, ValueError, TypeError, KeyError, IndexError),
        *(ExpatError, AttributeError, OverflowError, NotImplementedError, RuntimeError, AssertionError),
    ) as error:
        raise InputError(f"{path}: cannot be read as an Excel workbook ({reason_of(error)}); save it again") from error
