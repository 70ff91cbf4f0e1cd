"""Convert a sheet of an Excel workbook (.xlsx, or .xls of older programs) to CSV text, so that both are read alike."""

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
from typing import Any
from xml.etree import ElementTree

from informer.base.errors import FileError, InputError, listed, reason_of
from informer.config.data import DatasetConfig
from informer.read.limits import CELL, check_ratio, check_size, check_table

log = logging.getLogger(__name__)

MOST_ROWS = 1_048_576
"""Maximum number of rows of a sheet in Excel; a damaged file may claim more."""

PEEKED, FEWEST_ROWS = 50, 3
"""First rows of a sheet that are looked at, and how many of them have numbers if it is no title page."""

WRITTEN: dict[str, Any] = {"separator": ",", "decimal": ".", "thousands": "", "encoding": "utf-8"}
"""Format of `sheet_text`."""

DAYS_TO_1970, DAYS_TO_1970_FROM_1904 = 25_569, 24_107
"""Days from the start of spreadsheet dates to 1970, also of workbooks whose calendar begins in 1904."""

EXACT = 1 << 53
"""Integers below this are exact in double precision."""

_BOOK, _LINKS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
_FROM_1904 = re.compile(r'<workbookPr[^>]*\bdate1904="(?:1|true)"')
_ATTRIBUTE = re.compile(r'([\w:]+)="([^"]*)"')


def is_workbook(file: io.BufferedIOBase) -> bool:
    """Whether a zip archive is a workbook; rewinds the file."""
    try:
        with zipfile.ZipFile(file) as archive:
            return {"[Content_Types].xml", _BOOK} <= {*archive.namelist()}
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
    text, skipped = io.StringIO(), None
    writer = csv.writer(text, lineterminator="\n")
    with _damage(path):
        book = _Book(path, file, config)
        for number, row in enumerate(book.rows()):
            cells = [_written(cell) for cell in row]
            while cells and not cells[-1]:
                cells.pop()
            if skipped is None and cells:
                skipped = number
            if skipped is not None:
                writer.writerow(cells)
    if skipped is None:
        which = "first sheet" if config.sheet is None else f"sheet {config.sheet!r}"
        raise FileError(f"{path}: the {which} is empty, expected a header and rows")
    return text.getvalue().encode(), skipped, book.to_1970


class _Book:
    """A workbook within limits; `to_1970` are the days from its first day to 1970."""

    def __init__(self, path: Path, file: io.BufferedIOBase, config: DatasetConfig) -> None:
        self._path, self._file, self._config, self.to_1970 = path, file, config, DAYS_TO_1970
        self._parts: dict[str, str] = {}
        if zipfile.is_zipfile(file):  # an older one is not compressed
            with zipfile.ZipFile(file) as archive:  # no part is read beyond the size it declares
                n_bytes = sum(entry.file_size for entry in archive.infolist())
                check_size(path, n_bytes, config)
                check_ratio(path, n_bytes, path.stat().st_size, config)
                book, links = (archive.read(part).decode() for part in (_BOOK, _LINKS))
            self.to_1970 = DAYS_TO_1970_FROM_1904 if _FROM_1904.search(book) else DAYS_TO_1970
            targets = {link.get("Id"): link.get("Target", "") for link in _tags(links, "Relationship")}
            for sheet in _tags(book, "sheet"):
                target = targets.get(sheet.get("r:id"), "").removeprefix("/xl/")
                self._parts[unescape(sheet.get("name", ""))] = f"xl/{target}"
        file.seek(0)

    def rows(self) -> list[list[Any]]:
        """The rows of the sheet."""
        import python_calamine

        book = python_calamine.CalamineWorkbook.from_filelike(self._file)
        names = book.sheet_names
        if not names:
            raise FileError(f"{self._path}: the workbook has no worksheet")
        wanted = self._config.sheet
        first: tuple[str, list[list[Any]]] | None = None
        for name in names if wanted is None else [names[_place(self._path, names, wanted)]]:
            cells = self._scanned(name) if name in self._parts else {}
            sheet = book.get_sheet_by_name(name)
            rows = [*map(list, sheet.iter_rows())] if sheet.height else []
            self._fill_blanks(rows, cells, (sheet.start or (0, 0))[1])
            first = first or (name, rows)
            if wanted is not None or _has_rows(rows):
                first = name, rows
                break
        assert first is not None, "there is a sheet"
        if len(names) > 1:
            log.info(f"{self._path.name}: reads the sheet {first[0]!r} of {listed(names)} (dataset.sheet)")
        return first[1]

    def _scanned(self, name: str) -> dict[tuple[int, int], tuple[str, str]]:
        """The error and the formula of each cell of a sheet that has an error, or a formula without a value, by row and
        column from 1; checks the limits before the library makes an array of all cells."""
        found: dict[tuple[int, int], tuple[str, str]] = {}
        n_rows = n_columns = row = column = 0
        inside: ElementTree.Element | None = None
        self._file.seek(0)
        with zipfile.ZipFile(self._file) as archive, archive.open(self._parts[name]) as part:
            for event, element in ElementTree.iterparse(part, ("start", "end")):
                kind, place = _name(element), element.get("r", "")
                if kind == "row" and inside is None:
                    inside, row, column = element, int(place or row + 1), 0
                elif inside is not None and inside is element:
                    inside.clear()
                    inside = None
                elif kind == "c" and event == "end":
                    letters = place.rstrip("0123456789").upper()
                    row = int(place[len(letters) :] or row)
                    column = reduce(lambda n, letter: 26 * n + ord(letter) - ord("A") + 1, letters, 0) or column + 1
                    n_rows, n_columns = max(n_rows, row), max(n_columns, column)
                    check_table(self._path, 1, column, self._config)
                    texts = {_name(each): each.text or "" for each in element}
                    formula, value, is_error = texts.get("f", ""), texts.get("v", ""), element.get("t") == "e"
                    if is_error or (formula and not value):
                        found[row, column] = value if is_error else "", formula
                if row > MOST_ROWS:
                    most = f"more than {MOST_ROWS:,} rows, which no sheet has"
                    raise FileError(f"{self._path}: {most}; save the workbook again")
        check_table(self._path, n_rows, n_columns, self._config)
        check_ratio(self._path, n_rows * n_columns * CELL, self._path.stat().st_size, self._config)
        return found

    def _fill_blanks(self, rows: list[list[Any]], found: dict[tuple[int, int], tuple[str, str]], before: int) -> None:
        """Put errors such as #DIV/0!, which the library leaves out, in blank cells, and check that formulas have saved
        values, which programs that only write workbooks leave out; `before`: columns that `rows` lack."""
        for (row, column), (error, formula) in found.items():
            cells = rows[row - 1] if row <= len(rows) else []
            place = column - 1 - before
            if not (0 <= place < len(cells) and cells[place] == ""):
                continue
            if not error:
                raise FileError(
                    f"{self._path}, row {row}, column {column}: the formula ={formula:.80} has no saved value; open "
                    "the workbook in a spreadsheet program and save it, or write values"
                )
            cells[place] = error


def _name(element: ElementTree.Element) -> str:
    """The name of an element, without its namespace."""
    return element.tag.rpartition("}")[2]


def _tags(xml: str, name: str) -> list[dict[str, str]]:
    return [dict(_ATTRIBUTE.findall(tag)) for tag in re.findall(rf"<(?:\w+:)?{name}\s[^>]*>", xml)]


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
    raise FileError(f"{path}: dataset.sheet={sheet_name[:80]}: expected {expected}")


def _written(cell: object) -> str:
    if isinstance(cell, datetime):
        return cell.isoformat(sep=" ")
    if isinstance(cell, date | time):
        return cell.isoformat()
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < EXACT:
        return str(int(cell))
    return " ".join(str(cell).splitlines())  # without line breaks, so that lines are rows


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Turn errors that the library raises for damaged workbooks into an InputError."""
    import python_calamine

    try:
        yield
    except InputError:
        raise
    except (
        *(python_calamine.CalamineError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, KeyError),
        *(ElementTree.ParseError, NotImplementedError, RuntimeError),
    ) as error:
        raise FileError(f"{path}: cannot be read as an Excel workbook ({reason_of(error)}); save it again") from error
