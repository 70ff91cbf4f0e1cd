"""Format of a CSV file: encoding, separator and decimal mark, detected from the first bytes of the file.

The start of a CSV file: text, with a line of column names.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from textwrap import shorten

import pandas as pd

from informer.base.errors import FileError
from informer.base.files import csv_text
from informer.config.data import TAB, DatasetConfig
from informer.read.date_text import date_formats
from informer.read.number_marks import APOSTROPHES, GROUPING, SPACES, find_marks

SEPARATORS = "\t;|,"
"""Possible separators; if two fit the rows equally well, the first is chosen."""

BLANKS = ("  ", " ")
"""Columns separated by two or more blanks or a tab, so that cells may contain a blank; by any blanks."""

BLANKS_AS = ";"
"""Separator with which such rows are written again, for the parser."""

SEPARATOR_LINE = re.compile(r'\ufeff?"?sep=([\t;|,])"?\r?\n')
"""A first line that names the separator for spreadsheet programs."""

_COMMENT = re.compile(r"\ufeff?\s*(?:#|//|%|$)")
_TIMELY = re.compile(
    r"\b(?:date|datum|fecha|ds|time|timestamp|zeit|period|day|week|month|quarter|year|jahr)", re.IGNORECASE
)
"""Names of time columns, by which names are known from a title above and from units below them."""

_YEAR = re.compile(r"(?:1[5-9]|20|21)\d\d")
_DIGITS = re.compile(_YEAR.pattern + r"(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:\d\d){0,3}|1[0-8]\d{8}(?:\d{3}){0,3}")
"""Dates of digits such as 20240131, and counts since 1970 from 2001 to 2030."""

SAMPLED_LINES, SAMPLED_COLUMNS = 60, 50
SETTLING = 300
"""First lines whose numbers settle the decimal mark, unless all of them have three digits after it."""

_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """Separators and encoding of a CSV file; the defaults are the common ones."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    thousands: str = ""
    note: str = ""
    """What is read otherwise than it is written: lines left out (titles, units, notes), values below a limit."""
    is_settled: bool = field(default=False, compare=False)
    """Whether the decimal mark was set, or is unambiguous in some cell of the file."""

    @property
    def parsed_separator(self) -> str:
        """The separator of the text that is parsed."""
        return BLANKS_AS if self.separator in BLANKS else self.separator

    @property
    def parsed_encoding(self) -> str:
        """The encoding of the text that is parsed: UTF-8 for all kinds of Unicode, which is much faster."""
        return "utf-8" if self.separator in BLANKS or self.encoding.lower().startswith("utf") else self.encoding

    def noting(self, *notes: str) -> "Dialect":
        """With further notes."""
        return replace(self, note=", ".join(filter(None, [self.note, *notes])))

    def uncommon(self) -> str:
        """Differences from the common format, for the log; empty if there are none."""
        separator = "several blanks" if self.separator == BLANKS[0] else repr(self.separator)
        differences = [
            f"separator {separator}" if self.separator != COMMON.separator else "",
            f"decimal mark {self.decimal!r}" if self.decimal != COMMON.decimal else "",
            f"thousands separator {self.thousands!r}" if self.thousands else "",
            f"encoding {self.encoding}" if self.encoding not in (COMMON.encoding, "utf-8-sig") else "",
            self.note,
        ]
        return ", ".join(filter(None, differences))


COMMON = Dialect()


_WINDOWS = re.compile(rb"[\x80\x82-\x8c\x8e\x91-\x9c\x9e\x9f]")
"""Characters of Windows-1252 that are control codes in Latin-1, such as the euro sign."""


def find_encoding(content: bytes) -> str:
    """The encoding of a file from its first bytes: UTF-8 or UTF-16 by its BOM, otherwise UTF-8, one of `_SCRIPTS`, or
    Latin-1, or Windows-1252, which has characters where Latin-1 has control codes.

    Every byte sequence is valid Latin-1, and many are valid in other encodings, so these need signs of their script.
    """
    marked = next((encoding for bom, encoding in _BOMS.items() if content.startswith(bom)), None)
    if marked is not None or content.isascii():
        return marked or "utf-8"
    if _decoded(content, "utf-8"):
        return "utf-8"
    written = (encoding for encoding, is_written in _SCRIPTS.items() if is_written(_decoded(content, encoding)))
    if (found := next(written, None)) is not None:
        return found
    return "cp1252" if _WINDOWS.search(content) and _decoded(content, "cp1252") else "latin-1"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the rows of CSV text begin, and how to read them.

    Args:
        dialect: format of the text.
        names: column names.
        n_before: number of lines before the first row: titles, comments, names of columns, units.
    """

    dialect: Dialect
    names: Sequence[str]
    n_before: int


_QUOTED = re.compile(r'"((?:[^"]|"")*)"\s*')
_BORDERED, _RULE = re.compile(r"\s*\|(.*)\|\s*"), re.compile(r"[\s+|:=-]*")


def plain_rows(text: str) -> str:
    """The text without quotation marks around whole lines, as spreadsheets write rows that they have read as text, and
    without the borders of a table that is drawn with | and -; other text as it is."""
    lines = text.splitlines()
    first, *others = [line for line in lines[:SAMPLED_LINES] if line.strip()] or [""]
    marks = set(first) & set(SEPARATORS)
    if len(others) > 1 and all((cell := _QUOTED.fullmatch(line)) and marks & set(cell[1]) for line in others):
        cells = [(line, _QUOTED.fullmatch(line)) for line in lines]
        return "".join((cell[1].replace('""', '"') if cell else line) + "\n" for line, cell in cells)
    if 2 * sum(map(bool, map(_BORDERED.fullmatch, others))) > len(others):
        lines = ["" if _RULE.fullmatch(line) else line for line in lines]
        rows = [(line, _BORDERED.fullmatch(line)) for line in lines]
        return "".join(re.sub(r" *\| *", "|", (row[1] if row else line).strip()) + "\n" for line, row in rows)
    return text


def find_layout(file: str, text: str, config: DatasetConfig) -> Layout:
    """The format of a file and the place of its rows, from its first lines and the user's config.

    Above the names of the columns there may be comments (#, //, %), and titles, which have no date or number where the
    rows have one. Between the names and the rows there may be lines without any date or number, such as units.

    Raises:
        InputError: the file has no header, or not enough lines.
    """
    lines = list(io.StringIO(text, newline=""))
    named = SEPARATOR_LINE.match(lines[0])
    start = int(named is not None) if config.skip_rows is None else config.skip_rows
    if start >= len(lines):
        raise FileError(f"{file}: expected more than dataset.skip_rows={start} lines, found {len(lines)}")
    if config.skip_rows is None:
        start = _after_comments(lines, start)
    sampled = lines[start : start + SAMPLED_LINES]
    given = "\t" if config.separator == TAB else config.separator or (named[1] if named else None)
    present = set(chain(*sampled))
    marks = [mark for mark in SEPARATORS if mark in present] if given is None else given.strip(" ")
    heads = [head for head in (_Head(sampled, mark, config) for mark in marks) if head.is_table]
    fitting = [head for head in heads if head.has_names and head.fit > 0.5]
    if given in (None, " ") and not any(head.is_above for head in fitting):
        blank = [head for head in (_Head(sampled, mark, config) for mark in BLANKS) if head.is_table][:1]
        by_tabs = max((len(head.names) for head in fitting if head.mark == "\t"), default=0)
        heads = [*fitting, *blank] if blank and len(blank[0].names) > by_tabs else heads
    heads = heads or [_Head(sampled, given or ",", config)]
    if len(heads) > 1:
        heads.sort(key=lambda each: (-each.fit, -each._whole(each.below), not each.is_above, -len(each.names)))
    head = heads[0]
    if config.header != 0 and not head.has_names:
        raise FileError(
            f"{file}, row {start + head.ends[head.header]}: expected column names, found "
            f"{', '.join(cell.strip()[:40] for cell in head.names[:3])!r}; add a line with one name per column before "
            "it, or set dataset.header=0"
        )
    n_before = start + (head.ends[head.first - 1] if head.first else 0)
    rest, mark = lines[max(n_before - 1, 0) :], head.mark
    if mark in BLANKS:
        rest, mark = [without_blanks(rest, mark)], BLANKS_AS
    decimal, thousands, is_settled = _marks("".join(rest[:SETTLING]), mark, config)
    if not is_settled and len(rest) > SETTLING:
        decimal, thousands, is_settled = _marks("".join(rest), mark, config)
    encoding = config.encoding or COMMON.encoding
    return Layout(Dialect(head.mark, decimal, encoding, thousands, head.note(start), is_settled), head.names, n_before)


def _marks(text: str, separator: str, config: DatasetConfig) -> tuple[str, str, bool]:
    """Decimal mark, thousands separator, and whether they are settled; see `find_marks`."""
    if config.decimal is None and config.thousands is None:
        return find_marks(text, separator)
    thousands = config.thousands or ""
    decimal = config.decimal or ("," if thousands == "." else find_marks(text, separator)[0])
    return "." if decimal == thousands else decimal, thousands, True


def _after_comments(lines: list[str], start: int) -> int:
    """Index of the last of several comments, which may have the names of the columns and loses its mark, or of the
    first other line, if that has no date or number."""
    comments = list(takewhile(_COMMENT.match, lines[start:]))
    marked = [place for place, line in enumerate(comments, start) if line.strip("\ufeff#/% \t\r\n")]
    if len(marked) < 2:
        return start if marked else min(start + len(comments), len(lines) - 1)
    after = start + len(comments)
    cells = [*lines[after].split()[:1], *re.split(rf"[{SEPARATORS}]", lines[after])] if after < len(lines) else []
    if cells and not any(map(is_value, cells)):
        return after  # the names are below all comments
    lines[marked[-1]] = lines[marked[-1]].lstrip("\ufeff#/% \t")
    lines[marked[-1] + 1 : after] = ["\n"] * (after - marked[-1] - 1)
    return marked[-1]


class _Head:
    """The first lines of a file, split at a separator.

    Attributes:
        mark, rows: the separator, and the cells of each row.
        ends: number of lines up to the end of each row.
        header, first: indices of the row with the names of the columns, and of the first data row.
        names: names of the columns.
        below: the data rows.
        is_above: whether no line between the names and the rows is left out.
    """

    def __init__(self, lines: Sequence[str], mark: str, config: DatasetConfig) -> None:
        rows, ends = split_lines(lines, mark)
        header, first, width = _places(rows)
        if config.skip_rows is not None or config.header is not None:
            filled = [place for place, row in enumerate(rows) if any(row)] or [0]
            header = filled[0] if config.skip_rows is not None else header
            after = [place for place in filled if place >= header][1 if config.header is None else config.header :]
            first = after[0] if after else len(rows)
        names, between, self.below = list(rows[header]), rows[header + 1 : first], rows[first:]
        self.is_above = not any(map(any, between))
        if not self.is_above:  # merged cells of a sheet are written as one
            names += [""] * (width - len(names))
        if config.header == 0:
            names = [f"column_{place}" for place in range(1, width + 1)]
        elif (config.header or 0) > 1 or len(set(names)) < len(names) or _is_named_below(names, between):
            names = _joined(rows[header:first])
        if mark in BLANKS and width == len(names) + 1:  # times of two words, or row numbers without a name
            place = int(bool(date_formats(rows[first][0]))) if first < len(rows) else 0
            names.insert(place, "clock" if place else "")
        self.mark, self.rows, self.ends, self.header, self.first = mark, rows, ends, header, first
        self.names = [name.lstrip("\ufeff ") for name in names]

    @property
    def has_names(self) -> bool:
        """Whether its names do not look like data."""
        return may_be_names(self.names, next(iter(self.below), []))

    @property
    def is_table(self) -> bool:
        """Whether the separator makes columns; if it is of blanks, of whole cells in every row but notes below them,
        and without a longer row below the names, since that may have the names."""
        rows = list(self.below)
        while self.mark in BLANKS and rows and (len(rows[-1]) != len(self.names) or self._whole(rows[-1:]) < 1.0):
            rows.pop()
        lengths = {len(row) for row in rows if any(row)}
        if self.mark in BLANKS and any(len(row) > len(self.names) for row in self.rows[self.header : self.first]):
            return False
        is_even = self.mark not in BLANKS or (lengths == {len(self.names)} and self._whole(rows) == 1.0)
        return len(self.names) > 1 and lengths != {1} and is_even

    @property
    def fit(self) -> float:
        """Share of rows with as many cells as the header."""
        return (1 + sum(len(row) == len(self.names) for row in self.below)) / (1 + len(self.below))

    def _whole(self, rows: Sequence[Sequence[str]]) -> float:
        """Share of cells that are numbers, dates, empty or text without another separator."""
        cells = [cell for row in rows for cell in row]
        others = SEPARATORS.replace(self.mark, "")
        return sum(not any(mark in cell for mark in others) or is_value(cell) for cell in cells) / max(len(cells), 1)

    def note(self, start: int) -> str:
        """The lines that are not read, as text; `start` lines are before these."""
        above = [self.mark.join(row) for row in self.rows[: self.header] if any(row)]
        units = [self.mark.join(row) for row in self.rows[self.header + 1 : self.first] if any(row)]
        if self.header == self.first or not (start or above or units):
            return ""
        more = [f"{what} it {shorten(rows[0], 60)!r}" for what, rows in (("above", above), ("below", units)) if rows]
        return ", ".join([f"header in row {start + self.ends[self.header]}", *more])


def split_lines(lines: Sequence[str], mark: str) -> tuple[list[list[str]], list[int]]:
    """The cells of rows, without blanks before them, and the number of lines up to the end of each row."""
    if mark == BLANKS[0]:
        return [re.split(r" {2,}|\s*\t\s*", line.strip()) for line in lines], [*range(1, len(lines) + 1)]
    if mark == BLANKS[1]:
        lines = [f"{line.expandtabs(1).strip()}\n" for line in lines]
    reader = csv.reader(lines, delimiter=mark, skipinitialspace=True)
    found = [(row, reader.line_num) for row in reader]
    return [row for row, _ in found], [end for _, end in found]


def without_blanks(lines: Sequence[str], mark: str) -> str:
    """Rows whose cells are separated by blanks, with `BLANKS_AS` instead."""
    return csv_text(split_lines(lines, mark)[0], separator=BLANKS_AS)


def _places(rows: Sequence[Sequence[str]]) -> tuple[int, int, int]:
    """Indices of the row with the names of the columns and of the first data row, and the usual number of cells.

    The first column in which most of the later rows have dates, or numbers, tells rows from titles.
    """
    filled = [place for place, row in enumerate(rows) if any(row)] or [0]
    later = [rows[place] for place in filled[len(filled) // 2 :]]
    width = Counter(map(len, later)).most_common(1)[0][0] if later else 0
    columns = range(min(width, SAMPLED_COLUMNS))
    typed = column_kinds([[row[column] for row in later[-10:] if len(row) > column] for column in columns])
    key = min(typed, default=-1)

    def has_value(place: int) -> bool:
        cell = rows[place][key] if typed.get(key) == "date" and len(rows[place]) > key else ""
        is_described = HAS_TEXT.search(cell) and not is_value(cell) and not TOTAL.match(cell)  # such as unit or source
        return not is_described and any(is_value(cell) for column, cell in enumerate(rows[place]) if column in typed)

    def is_row(place: int) -> bool:
        row = rows[place]
        cell = row[key] if len(row) > key else ""
        return bool(cell) and len(row) <= width and has_value(place) and typed[key] in (_kind(cell), "number")

    first = next((order for order, place in enumerate(filled) if is_row(place)), None)
    if first is not None:
        while first and has_value(filled[first - 1]):
            first -= 1
        names: list[int] = []
        for place in reversed(filled[:first]):
            row = rows[place]
            are_few, is_short = sum(map(bool, row)) < 2, len(row) < width - 1
            are_above = place > 0 and len(rows[place - 1]) >= width - 1 and not has_value(place - 1)
            if not names and (are_few or (are_above and is_short)):
                continue  # part of a header, such as the name of the index alone, or units of some columns
            if are_few or is_short or has_value(place) or (names and not any(rows[names[0] - 1])):
                break
            names.insert(0, place)
        if names:
            words = [place for place in names if not any(map(is_value, rows[place]))] or names
            header = next((place for place in words if any(map(_TIMELY.search, rows[place]))), words[0])
            header = header if len(set(rows[header])) == len(rows[header]) else names[0]
            return header, filled[first], width
    header = 0
    if first is not None:
        order = next(order for order, place in enumerate(filled) if len(rows[place]) == width)
        cells = [cell for column, cell in enumerate(rows[filled[order]]) if column in typed]
        are_dates = all(date_formats(cell) or _YEAR.fullmatch(cell) for cell in cells)
        # names that are dates or years, or rows below a title without names
        header = order if are_dates or (typed[key] == "date" and sum(map(bool, rows[filled[0]])) < 2) else 0
    return filled[header], [*filled, len(rows)][header + 1], width


def _is_named_below(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a column of times without a name has one in a later row of names."""
    unnamed = [place for place, name in enumerate(names) if not name]
    return any(_TIMELY.search(row[place]) for row in rows for place in unnamed if place < len(row))


def _joined(rows: Sequence[Sequence[str]]) -> list[str]:
    """Names from several rows: cells of merged columns hold for the columns after them, except in the last row."""
    width = max(map(len, rows))
    words = pd.DataFrame([[*row, *[""] * (width - len(row))] for row in rows], dtype=object)
    words.iloc[:-1] = words.iloc[:-1].replace("", None).ffill(axis=1)
    return [" ".join(word for word in words[column] if word) for column in words]


_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def _decoded(content: bytes, encoding: str) -> str:
    """The text, whose last character may be cut; empty if it has another encoding."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(content)
    except UnicodeDecodeError:
        return ""


def _is_japanese(text: str) -> bool:
    """Whether nearly all signs are Japanese, and some are syllables or two usual characters (JIS level 1) in a row.
    Windows-1252 has signs of print at the bytes that begin these, of which two never follow each other."""
    signs = _BEYOND_ASCII.findall(text)
    usual = sum("\u3000" <= sign <= "\u9fff" or "\uff01" <= sign <= "\uff5e" for sign in signs)
    pairs = [pair.encode("shift_jis") for pair in re.findall(r"[\u4e00-\u9fff]{2}", text)]
    is_sure = re.search(r"[\u3041-\u30ff]", text) or any(max(pair[::2]) < 0x98 for pair in pairs)
    return bool(is_sure) and usual > 0.9 * len(signs)


def _is_korean(text: str) -> bool:
    """Whether all signs are Korean syllables, and at least `LEAST_SYLLABLES` differ: some Chinese names may be too."""
    signs = _BEYOND_ASCII.findall(text)
    return len({*signs}) >= LEAST_SYLLABLES and all("\uac00" <= sign <= "\ud7a3" for sign in signs)


def _is_chinese(text: str) -> bool:
    """Whether most signs are among the 3755 usual characters or punctuation, which accented letters hardly ever are."""
    pairs = [sign.encode("gbk") for sign in _BEYOND_ASCII.findall(text)]
    # rows of the GB 2312 table: A1-A3 punctuation, B0-D7 the usual characters
    usual = sum(first in b"\xa1\xa2\xa3" or 0xB0 <= first <= 0xD7 for first, second in pairs if second >= 0xA1)
    return usual > 0.8 * len(pairs)


def _is_russian(text: str) -> bool:
    """Whether nearly all letters beyond ASCII stand in words of Cyrillic letters, capitals first or throughout."""
    words = re.findall(r"[^\W\d_]*[^\W\d_a-zA-Z][^\W\d_]*", text)
    pattern = r"[\u0410-\u042f\u0401]?[\u0430-\u044f\u0451]+|[\u0410-\u042f\u0401]+"
    written = [word for word in words if re.fullmatch(pattern, word)]
    return any(len(word) > 3 for word in written) and sum(map(len, written)) > 0.9 * sum(map(len, words))


LEAST_SYLLABLES = 6
"""Number of different syllables from which a text is Korean."""

_SCRIPTS = {"shift_jis": _is_japanese, "cp949": _is_korean, "gbk": _is_chinese, "cp1251": _is_russian}
"""Encoding -> whether a text is written in its language, in the order in which they are tried."""


def is_value(cell: str) -> bool:
    """Whether a cell is a date or a number."""
    return _kind(cell) != ""


def _kind(cell: str) -> str:
    cell = cell.strip()
    if re.fullmatch(r"[+-]?(?:\d*[.,])?\d+(?:[eE][+-]?\d+)?", cell):
        return "number"
    if date_formats(cell):
        return "date"
    return "number" if _GROUPED.fullmatch(cell) else ""


_GROUPED = re.compile(rf"[+-]?[\d.,]+(?:[{SPACES}{APOSTROPHES}]\d{{3}})*(?:[.,]\d+)?(?:[eE][+-]?\d+)?")
"""A number, perhaps with blanks or apostrophes between its thousands."""

HAS_TEXT = re.compile(r"[^\W\d_]{3}")
TOTAL = re.compile(
    r"\s*(?:(?:grand |sub)?total|sum|summe|gesamt|average|mean|median|min|max|count|mittelwert|moyenne|suma)\b",
    re.IGNORECASE,
)

MOST_NOTES = 50
"""Maximum number of rows below the data that are taken for notes."""


def column_kinds(columns: Sequence[Sequence[str]]) -> dict[int, str]:
    """The columns in which most cells are dates, or numbers, by index: "date" or "number"."""
    kinds = {}
    for column, cells in enumerate(columns):
        usual = Counter(_kind(cell) for cell in cells if cell).most_common(1)
        if usual and usual[0][0]:
            kinds[column] = usual[0][0]
    return kinds


def is_note(row: Sequence[str], kinds: Mapping[int, str]) -> bool:
    """Whether a row is a note or a total: text, and no date or number where rows have one; totals have numbers."""
    texts = [cell for cell in row if HAS_TEXT.search(cell) and not cell.lstrip()[:1].isdigit() and not is_value(cell)]
    valued = [column for column, cell in enumerate(row) if column in kinds and is_value(cell)]
    key = next((column for column, kind in kinds.items() if kind == "date"), min(kinds, default=0))
    is_total = any(map(TOTAL.match, texts)) and key not in valued
    return bool(texts and kinds) and (is_total or not valued)


_NUMBER = re.compile(rf"[+-]?[\d{GROUPING}]*\d[\d{GROUPING}]*(?:[eE][+-]?\d+)?")


def may_be_names(names: Sequence[str], first_row: Sequence[str]) -> bool:
    """Whether cells do not look like data: two dates, or what begins with them, also of digits only, or numbers other
    than 0, 1, 2, ..."""
    cells = [name.strip() for name in names]
    dated = any(
        ((date_formats(cell) or date_formats(cell.partition(" ")[0])) and _kind(below) == "date")
        or (_DIGITS.fullmatch(cell) and _DIGITS.fullmatch(below.strip()) and len(cell) == len(below.strip()))
        for cell, below in zip(cells, first_row, strict=False)
    )
    counted = cells == [str(position) for position in range(len(cells))]
    return not dated and (counted or not all(map(_NUMBER.fullmatch, cells)))
