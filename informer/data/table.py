"""Cells with their place: a file or a frame before anything is known about its columns.

Every complaint about a cell goes through `Table.at`: it names the file, the row (of a CSV file: the line), the column.
"""

import codecs
import csv
import gzip
import io
import re
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64
from pandas.api.types import is_bool_dtype, is_numeric_dtype, is_object_dtype, is_string_dtype
from pandas.errors import EmptyDataError, ParserError, ParserWarning

from informer.data.dialect import COMMON, SAMPLED_LINES, Dialect, find_decimal, find_encoding, find_separator
from informer.errors import InputError

HEAD = 1 << 16
"""Bytes of a file that its dialect is found in."""

_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"


@dataclass(frozen=True, slots=True)
class Table:
    """A frame and what to call it.

    `first_row` is the number of its first row: 2 in a CSV file (line 1 is the header), else 0. `dialect` is how the
    file is written. The index of `frame` counts the rows of the file, of which it may hold some.
    """

    name: str
    frame: pd.DataFrame
    first_row: int
    dialect: Dialect = COMMON

    @property
    def columns(self) -> list[str]:
        """Column names, in order."""
        return list(self.frame.columns)

    def at(self, row: int, column: str) -> str:
        """Where a cell is, to begin an error with."""
        return f"{self.name}, row {self.frame.index[row] + self.first_row}, column {column!r}"

    def missing(self, setting: str, column: str) -> InputError:
        """The error for a column that is not there."""
        return InputError(f"{setting}={column}: {self.name} has no such column, its columns are {listed(self.columns)}")


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names as an error lists them."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "none"


def shown(cell: object) -> str:
    """A cell as an error shows it."""
    return (
        "an empty cell"
        if cell is None or cell is pd.NaT or cell is pd.NA or cell == "" or cell != cell
        else repr(str(cell))
    )


def name_of(path: Path) -> str:
    """What the series of a file is called: x for x.csv, x.csv.gz and x.parquet."""
    return Path(path.name.removesuffix(".gz")).stem


def read_table(
    path: Path, *, separator: str | None = None, decimal: str | None = None, encoding: str | None = None
) -> Table:
    """The cells of a CSV file with a header, packed by gzip or not, or of a parquet file.

    Args:
        path: of the file; its content says what it is.
        separator, decimal, encoding: of CSV text; None finds them in the head of the file.

    Raises:
        InputError: no such file, nothing in it, not text, or rows of unequal length.
    """
    if separator == r"\t":  # a tab as a command line writes it
        separator = "\t"
    for setting, mark in (("separator", separator), ("decimal", decimal)):
        if mark is not None and len(mark) != 1:
            raise InputError(f"dataset.{setting}: expected one character, found {mark!r}")
    try:
        with path.open("rb") as raw:
            start = raw.read(4)
            raw.seek(0)
            if start == _PARQUET:
                return _parquet_table(path, raw)
            file: io.BufferedIOBase = gzip.GzipFile(fileobj=raw) if start.startswith(_GZIP) else raw
            return _csv_table(path, file, separator, decimal, encoding)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file, check the path") from error
    except EmptyDataError as error:
        raise InputError(f"{path}: the file is empty, expected a header and rows") from error
    except UnicodeError as error:
        raise InputError(f"{path}: not {encoding} text ({error}); set dataset.encoding, such as latin-1") from error
    except (ParserError, ParserWarning, csv.Error) as error:
        raise InputError(f"{path}: rows of unequal length ({' '.join(str(error).split())})") from error
    except (OSError, EOFError, LookupError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error


def numbers(table: Table, column: str) -> Float64[np.ndarray, "t"]:
    """A column as finite numbers.

    Raises:
        InputError: the first cell that is none.
    """
    cells = table.frame[column]
    values = _to_numbers(cells, table.dialect.decimal)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        row = int(bad[0])
        cell = cells.iloc[row]
        comma = re.fullmatch(r"\s*[+-]?\d+,\d+\s*", str(cell)) is not None
        advice = "if the comma is its decimal mark, set dataset.decimal=','" if comma else "mend the cell"
        raise InputError(
            f"{table.at(row, column)}: expected a number, found {shown(cell)}; {advice}, or leave the column out of "
            "dataset.columns"
        )
    return values


def is_number_column(table: Table, column: str) -> bool:
    """Whether a column is meant as numbers (some cell is one, or none has a letter): `numbers` reads or refuses it."""
    cells = table.frame[column]
    if is_numeric_dtype(cells):
        return True
    if not (is_string_dtype(cells) or is_object_dtype(cells)):
        return False
    wordless = not cells.astype(str).str.contains(r"[^\s\d.,+-]").any()
    return wordless or not np.isnan(_to_numbers(cells, table.dialect.decimal)).all()


def _to_numbers(cells: pd.Series, decimal: str) -> Float64[np.ndarray, "t"]:
    if is_bool_dtype(cells):
        cells = cells.astype("float64")
    elif decimal != "." and not is_numeric_dtype(cells):
        # swapped, so that a point does not pass for a decimal mark
        cells = cells.astype(str).str.translate(str.maketrans(f"{decimal}.", f".{decimal}"))
    return pd.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _csv_table(
    path: Path, file: io.BufferedIOBase, separator: str | None, decimal: str | None, encoding: str | None
) -> Table:
    head = file.read(HEAD)
    content = file if len(head) == HEAD else io.BytesIO(head)
    head += file.readline()
    try:
        return _parse(path, content, _find_dialect(path, head, separator, decimal, encoding or find_encoding(head)))
    except UnicodeDecodeError:
        if encoding is not None:
            raise
    # the first accented letter comes late in the file
    content.seek(0)
    later = find_encoding(content.read())
    return _parse(path, content, _find_dialect(path, head, separator, decimal, later))


def _find_dialect(path: Path, head: bytes, separator: str | None, decimal: str | None, encoding: str) -> Dialect:
    text = codecs.getincrementaldecoder(encoding)().decode(head)
    if not text.strip():
        raise EmptyDataError
    if "\0" in text:
        raise InputError(f"{path}: a binary file, expected CSV text or parquet")
    lines = text.splitlines()[:SAMPLED_LINES]
    separator = separator or find_separator(lines)
    _refuse_repeats(path, lines[0], separator)
    return Dialect(separator, decimal or find_decimal(text, separator), encoding)


def _parse(path: Path, content: io.BufferedIOBase, dialect: Dialect) -> Table:
    content.seek(0)
    with warnings.catch_warnings():
        # pandas warns, and drops cells, where rows are longer than the header
        warnings.simplefilter("error", ParserWarning)
        frame = pd.read_csv(
            content,
            sep=dialect.separator,
            decimal=dialect.decimal,
            # which passes over the mark by itself, and much faster
            encoding="utf-8" if dialect.encoding == "utf-8-sig" else dialect.encoding,
            # other cells stay as written, so that an error can show them; rows stay at their lines
            keep_default_na=False,
            na_values=[""],
            skip_blank_lines=False,
            skipinitialspace=True,
            index_col=False,
            low_memory=False,
        )
    return Table(path.name, _without_blank_end(frame), first_row=2, dialect=dialect)


def _without_blank_end(frame: pd.DataFrame) -> pd.DataFrame:
    """Without the blank rows that spreadsheets leave at the end of a file."""
    if not len(frame) or pd.notna(frame.iloc[-1:, 0]).all():
        return frame
    filled = np.flatnonzero(frame.notna().any(axis=1))
    return frame.iloc[: filled[-1] + 1 if len(filled) else 0]


def _refuse_repeats(path: Path, header: str, separator: str) -> None:
    names = [cell.strip() for cell in next(csv.reader([header], delimiter=separator), [])]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"{path.name}, row 1: column names repeat: {', '.join(map(repr, repeated))}; rename them")


def _parquet_table(path: Path, file: io.BufferedIOBase) -> Table:
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(f"{path}: a parquet file needs pyarrow: pip install 'informer[parquet]'") from error
    try:
        frame = pd.read_parquet(file, engine="pyarrow")
    except pyarrow.ArrowException as error:
        raise InputError(f"{path}: cannot be read as parquet ({' '.join(str(error).split())})") from error
    return table_of_frame(frame, path.name)


def table_of_frame(frame: pd.DataFrame, name: str, index_name: str | None = None) -> Table:
    """A frame's columns, and its DatetimeIndex as the column `index_name` (None: its own name, else "date").

    Raises:
        InputError: column names repeat.
    """
    frame = frame.set_axis([str(column) for column in frame.columns], axis="columns")
    index_name = index_name or str(frame.index.name or "date")
    if isinstance(frame.index, pd.DatetimeIndex) and index_name not in frame.columns:
        frame = frame.reset_index(names=index_name)
    repeated = sorted(set(frame.columns[frame.columns.duplicated()]))
    if repeated:
        raise InputError(f"{name}: column names repeat: {', '.join(map(repr, repeated))}; rename them")
    return Table(name, frame.reset_index(drop=True), first_row=0)
