"""Cells with their place: a file or a frame before anything is known about its columns.

Every complaint about a cell goes through `Table.at`: it names the file, the row (of a CSV file: the line), the column.
"""

import codecs
import csv
import gzip
import io
import warnings
import zlib
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int
from pandas.api.types import is_bool_dtype, is_numeric_dtype, is_object_dtype, is_string_dtype
from pandas.errors import EmptyDataError, ParserError, ParserWarning

from informer.data.dialect import COMMON, SAMPLED_LINES, Dialect, find_decimal, find_encoding, find_separator
from informer.errors import InputError

HEAD = 1 << 16
"""Bytes of a file that its dialect is found in."""

PIECE = 1 << 25
"""Bytes of a piece of a file that is read in pieces."""

EMPTY_WORDS = {"", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "NULL", "null", "None", "NaN", "nan"}
EMPTY_WORDS |= {"-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"}
"""Text that pandas takes for an empty cell, which a name may well be."""

_NO_CELLS = pd.Series([], pd.Index([], dtype=np.int64), dtype=object)

_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"


@dataclass(frozen=True, slots=True)
class Table:
    """A frame and what to call it.

    `first_row` is the number of its first row: 2 in a CSV file (line 1 is the header), else 0. `dialect` is how the
    file is written, `repeated` the names that more than one column has there. The index of `frame` counts the rows of
    the file, of which it may hold some.
    """

    name: str
    frame: pd.DataFrame
    first_row: int
    dialect: Dialect = COMMON
    repeated: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """Column names, in order."""
        return list(self.frame.columns)

    @property
    def lines(self) -> Int[np.ndarray, "t"]:
        """Numbers of the rows, as an editor shows them."""
        return self.frame.index.to_numpy() + self.first_row

    def end(self, n: int) -> "Table":
        """The last n rows, or all."""
        return replace(self, frame=self.frame.iloc[-n:])

    def without(self, columns: Collection[str]) -> "Table":
        """The other columns."""
        return replace(self, frame=self.frame.drop(columns=list(columns)))

    def cells(self, column: str, positions: np.ndarray) -> pd.Series:
        """Some cells of a column, by the numbers of their rows."""
        if not len(positions):
            return _NO_CELLS
        return self.frame[column].iloc[positions].set_axis(self.lines[positions])

    def at(self, row: int, column: str) -> str:
        """Where a cell is, to begin an error with."""
        return f"{self.name}, row {self.frame.index[row] + self.first_row}, column {column!r}"

    def missing(self, setting: str, column: str) -> InputError:
        """The error for a column that is not there."""
        return InputError(f"{setting}={column}: {self.name} has no such column, its columns are {listed(self.columns)}")

    def without_rows(self) -> InputError:
        """The error for a table that has none."""
        return InputError(f"{self.name}: a header without rows, expected one row for each time")


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
    path: Path,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    series_col: str | None = None,
) -> Table:
    """The cells of a CSV file with a header, packed by gzip or not, or of a parquet file.

    Args:
        path: of the file; its content says what it is.
        separator, decimal, encoding: of CSV text; None finds them in the head of the file.
        series_col: the column of names, if there is one: read as it is written, 001 and NA too.

    Raises:
        InputError: no such file, nothing in it, not text, or rows of unequal length.
    """
    separator = _separator(separator, decimal)
    with told(path, encoding), _opened(path) as (file, is_parquet):
        if is_parquet:
            return _parquet_table(path, file)
        return _csv_table(path, file, separator, decimal, encoding, series_col)


def read_pieces(
    path: Path,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    series_col: str | None = None,
) -> Iterator[Table]:
    """The same, PIECE bytes at a time, for CSV files larger than memory; no cell may run over the end of its line.

    The first piece settles the dialect; a parquet file comes in one piece.

    Raises:
        InputError: see `read_table`.
    """
    separator = _separator(separator, decimal)
    with told(path, encoding), _opened(path) as (file, is_parquet):
        if is_parquet:
            yield _parquet_table(path, file)
            return
        header, n_rows = file.readline(), 0
        while (lines := file.readlines(PIECE)) or not n_rows:
            with told(path, encoding):
                content = io.BytesIO(header + b"".join(lines))
                table = _csv_table(path, content, separator, decimal, encoding, series_col)
            separator, decimal, encoding = astuple(table.dialect)
            if len(table.frame) or not n_rows:  # what spreadsheets leave at the end may be a piece of its own
                yield replace(table, frame=table.frame.set_axis(table.frame.index + n_rows))
            n_rows += max(len(lines), 1)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[io.BufferedIOBase, bool]]:
    """The content of a file, unpacked, and whether it is parquet."""
    with path.open("rb") as raw:
        start = raw.read(4)
        raw.seek(0)
        yield gzip.GzipFile(fileobj=raw) if start.startswith(_GZIP) else raw, start == _PARQUET


@contextmanager
def told(path: Path, encoding: str | None = None) -> Iterator[None]:
    """What goes wrong in reading, as a user's mistake."""
    try:
        yield
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


def _separator(separator: str | None, decimal: str | None) -> str | None:
    """As it was meant, where it is one character and `decimal` is."""
    if separator == r"\t":  # a tab as a command line writes it
        separator = "\t"
    for setting, mark in (("separator", separator), ("decimal", decimal)):
        if mark is not None and len(mark) != 1:
            raise InputError(f"dataset.{setting}: expected one character, found {mark!r}")
    return separator


def numbers(table: Table, columns: Sequence[str]) -> tuple[Float64[np.ndarray, "t c"], dict[str, np.ndarray]]:
    """Columns as numbers, NaN for every cell that is none; and for each column the positions of those that are text."""
    found = {column: table.frame[column] for column in columns}
    values = np.stack([_to_numbers(cells, table.dialect.decimal) for cells in found.values()], axis=1)
    texts: dict[str, np.ndarray] = {}
    for i, (column, cells) in enumerate(found.items()):
        if not _is_plain(cells):
            positions = np.flatnonzero(np.isnan(values[:, i]) & cells.notna().to_numpy())
            texts |= {column: positions} if len(positions) else {}
    return values, texts


def is_number_column(table: Table, column: str) -> bool:
    """Whether a column is meant as numbers: some cell is one, or none has a letter."""
    return not has_words(table, column) or has_numbers(table, column)


def has_numbers(table: Table, column: str) -> bool:
    """Whether some cell is a number."""
    cells = table.frame[column]
    if is_numeric_dtype(cells):
        return bool(cells.notna().any())
    return _may_be_text(cells) and not np.isnan(_to_numbers(cells.dropna(), table.dialect.decimal)).all()


def has_words(table: Table, column: str) -> bool:
    """Whether some cell has a letter, or all are of a type beside text and numbers, such as times."""
    cells = table.frame[column]
    if is_numeric_dtype(cells):
        return False
    return not _may_be_text(cells) or bool(cells.dropna().astype(str).str.contains(r"[^\s\d.,+-]").any())


def _may_be_text(cells: pd.Series) -> bool:
    return is_string_dtype(cells) or is_object_dtype(cells)


def _is_plain(cells: pd.Series) -> bool:
    """Numbers of numpy's, which may be NaN and are never text."""
    return isinstance(cells.dtype, np.dtype) and cells.dtype.kind in "iuf"


def _to_numbers(cells: pd.Series, decimal: str) -> Float64[np.ndarray, "t"]:
    if _is_plain(cells):
        return cells.to_numpy(dtype=np.float64)
    if is_bool_dtype(cells):
        cells = cells.astype("float64")
    elif decimal != "." and not is_numeric_dtype(cells):
        # swapped, so that a point does not pass for a decimal mark
        cells = cells.astype(str).str.translate(str.maketrans(f"{decimal}.", f".{decimal}"))
    return pd.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _csv_table(
    path: Path,
    file: io.BufferedIOBase,
    separator: str | None,
    decimal: str | None,
    encoding: str | None,
    series_col: str | None,
) -> Table:
    head = file.read(HEAD)
    content = file if len(head) == HEAD else io.BytesIO(head)
    head += file.readline()
    try:
        return _decoded_table(path, content, head, separator, decimal, encoding or find_encoding(head), series_col)
    except UnicodeDecodeError:
        if encoding is not None:
            raise
    # the first accented letter comes late in the file
    content.seek(0)
    return _decoded_table(path, content, head, separator, decimal, find_encoding(content.read()), series_col)


def _decoded_table(
    path: Path,
    content: io.BufferedIOBase,
    head: bytes,
    separator: str | None,
    decimal: str | None,
    encoding: str,
    series_col: str | None,
) -> Table:
    text = codecs.getincrementaldecoder(encoding)().decode(head)
    if not text.strip():
        raise EmptyDataError
    if "\0" in text:
        raise InputError(f"{path}: a binary file, expected CSV text or parquet")
    lines = "\n".join(text.split("\n", SAMPLED_LINES)[:SAMPLED_LINES]).splitlines()[:SAMPLED_LINES]
    separator = separator or find_separator(lines)
    dialect = Dialect(separator, decimal or find_decimal(text, separator), encoding)
    header = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    names = [name.lstrip() for name in next(header)]
    frame = _parse(content, dialect, _as_written(series_col, names))
    repeated = tuple(name for name in _repeated(names) if name in frame.columns)  # empty columns are gone
    return Table(path.name, frame, first_row=2, dialect=dialect, repeated=repeated)


def _as_written(series_col: str | None, names: Sequence[str]) -> dict[str, Any]:
    """What tells pandas to leave the text of this column as it is, and the others to their types."""
    if series_col is None or series_col not in names:
        return {}
    empty: dict[Hashable, Iterable[str]] = dict.fromkeys(range(len(names)), EMPTY_WORDS)  # by place: names may repeat
    empty[names.index(series_col)] = {""}
    return {"dtype": {series_col: str}, "keep_default_na": False, "na_values": empty}


def _parse(content: io.BufferedIOBase, dialect: Dialect, as_written: dict[str, Any]) -> pd.DataFrame:
    content.seek(0)
    with warnings.catch_warnings():
        # pandas warns, and drops cells, where rows are longer than the header
        warnings.simplefilter("error", ParserWarning)
        reader = pd.read_csv(
            content,
            iterator=True,  # else pandas counts the CPUs of the machine first, for every file
            sep=dialect.separator,
            decimal=dialect.decimal,
            # which passes over the mark by itself, and much faster
            encoding="utf-8" if dialect.encoding == "utf-8-sig" else dialect.encoding,
            skip_blank_lines=False,  # rows stay at their lines
            skipinitialspace=True,
            index_col=False,
            low_memory=False,
            **as_written,
        )
        with reader:
            frame = reader.read()
    frame.columns = frame.columns.astype(object)  # names in an index of Arrow strings are found slowly
    return _without_blank_end(frame)


def _without_blank_end(frame: pd.DataFrame) -> pd.DataFrame:
    """Without the blank rows that spreadsheets leave at the end of a file."""
    if not len(frame) or pd.notna(frame[frame.columns[0]].array[-1]):
        return frame
    filled = np.flatnonzero(frame.notna().any(axis=1))
    return frame.iloc[: filled[-1] + 1 if len(filled) else 0]


def _repeated(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name, n in Counter(names).items() if n > 1))


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
    repeated = _repeated(list(frame.columns))
    if repeated:
        raise InputError(f"{name}: column names repeat: {', '.join(map(repr, repeated))}; rename them")
    return Table(name, frame.reset_index(drop=True), first_row=0)
