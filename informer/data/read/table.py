"""The cells of a file or frame before their columns are interpreted.

Error messages locate cells with `Table.at`: file, row (the line of a CSV file) and column.
"""

import codecs
import io
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int
from pandas.errors import EmptyDataError, ParserError, ParserWarning

from informer.config.file_format import NO_HINTS, Hints
from informer.config.repairs import Limits
from informer.data.read import assemble
from informer.data.read.assemble import MixedColumnError, assembled, without_blank_end
from informer.data.read.broken_rows import find_broken_row, rows_before
from informer.data.read.cells import check_lengths, read_csv_options, row_numbers
from informer.data.read.dialect import COMMON, Dialect, find_dialect, find_encoding
from informer.data.read.failures import read_errors
from informer.data.read.header import check_is_text, read_header
from informer.data.read.limits import LIMITS, PARQUET, ZIP, check_size, open_table
from informer.data.read.number_marks import Doubt, find_doubts, may_be_thousands
from informer.data.read.partitions import is_partitioned, partitioned_frame
from informer.data.read.workbook import WRITTEN, is_workbook, sheet_text
from informer.errors import MOST_SHOWN, InputError, listed

HEAD = 1 << 16
"""Bytes at the start of a file from which its dialect is detected."""

PIECE = 1 << 25
"""Bytes per piece of a file that is read in pieces."""

_NO_CELLS = pd.Series([], pd.Index([], dtype=np.int64), dtype=object)


@dataclass(frozen=True, slots=True)
class Table:
    """A frame and where it is from.

    Args:
        name, dialect: its name in messages, and the format of the file.
        frame: the cells; its index numbers the rows of the file, of which it may contain only some.
        first_row: number of the first row: 2 in a CSV file (line 1 is the header), 0 for a frame.
        repeated, doubts: names of more than one column; columns whose numbers may be a thousand times larger.
        of_sheet: whether it is a sheet of a workbook.
    """

    name: str
    frame: pd.DataFrame
    first_row: int
    dialect: Dialect = COMMON
    repeated: tuple[str, ...] = ()
    doubts: Mapping[str, Doubt] = field(default_factory=dict)
    of_sheet: bool = False

    @property
    def columns(self) -> list[str]:
        """Column names, in order."""
        return list(self.frame.columns)

    @property
    def lines(self) -> Int[np.ndarray, "t"]:
        """Row numbers, as an editor shows them."""
        return row_numbers(self.frame.index, self.first_row)

    def end(self, n: int) -> "Table":
        """The last n rows, or all if there are fewer."""
        return self if n >= len(self.frame) else replace(self, frame=self.frame.iloc[-n:])

    def without(self, columns: Collection[str]) -> "Table":
        """The table without these columns."""
        return replace(self, frame=self.frame.drop(columns=list(columns)))

    def cells(self, column: str, positions: np.ndarray) -> pd.Series:
        """Cells of a column at these positions, indexed by row number."""
        if not len(positions):
            return _NO_CELLS
        return self.frame[column].iloc[positions].set_axis(self.lines[positions])

    def at(self, row: int, column: str) -> str:
        """Location of a cell, for error messages."""
        return f"{self.name}, row {self.frame.index[row] + self.first_row}, column {column!r}"

    def missing(self, setting: str, column: str) -> InputError:
        """The error for a missing column."""
        return InputError(f"{setting}={column}: {self.name} has no such column, its columns are {listed(self.columns)}")

    def without_rows(self) -> InputError:
        """The error for a table without rows."""
        return InputError(f"{self.name}: a header without rows, expected one row for each time")


def shown(cell: object) -> str:
    """A cell as shown in error messages."""
    if cell is None or cell is pd.NaT or cell is pd.NA or cell == "" or cell != cell:
        return "an empty cell"
    return repr(str(cell) if len(str(cell)) <= MOST_SHOWN else f"{str(cell)[:MOST_SHOWN]}...")


def name_of(path: Path) -> str:
    """Name of the series of a file: x for x.csv, x.csv.gz and x.parquet."""
    return Path(path.name.removesuffix(".gz")).stem


def read_table(path: Path, hints: Hints = NO_HINTS, as_text: Sequence[str] = (), limits: Limits = LIMITS) -> Table:
    """The cells of a CSV file with a header, gzipped or not, a parquet file or partitioned folder, or a workbook.

    Args:
        path: path of the file; its type is detected from its content.
        hints: its format, as far as known.
        as_text: columns to read as text, including 001 and NA: names of series, categories.
        limits: limits on its content.

    Raises:
        InputError: no such file, empty, not text, no header, rows longer than the header, or more than `limits`.
    """
    if is_partitioned(path):
        return table_of_frame(partitioned_frame(path, limits), path.name)
    with read_errors(path, hints.encoding), open_table(path, limits) as (file, start):
        typed = _typed_table(path, file, start, hints, as_text, limits)
        table = typed or csv_table(path, file, hints, as_text)
        if typed is not None or file.tell() > limits.cell:  # no cell is longer than its file
            check_lengths(path, table.frame, limits)
    return table


def read_pieces(
    path: Path, hints: Hints = NO_HINTS, as_text: Sequence[str] = (), limits: Limits = LIMITS
) -> Iterator[Table]:
    """A CSV file without line breaks in cells, in pieces of PIECE bytes, in the first's dialect; others as one piece.

    Raises:
        InputError: see `read_table`.
    """
    if is_partitioned(path):
        yield read_table(path, hints, as_text, replace(limits, file_mb=None))
        return
    with read_errors(path, hints.encoding), open_table(path, replace(limits, file_mb=None)) as (file, start):
        if (typed := _typed_table(path, file, start, hints, as_text, limits)) is not None:
            yield typed
            return
        header, n_rows, first = file.readline(), 0, None
        while (lines := file.readlines(PIECE)) or not n_rows:
            with read_errors(path, first.encoding if first else hints.encoding), rows_before(n_rows):
                content = io.BytesIO(header + b"".join(lines))
                table = csv_table(path, content, hints, as_text, first)
                check_lengths(path, table.frame, limits)
            first = first or table.dialect
            if len(table.frame) or not n_rows:  # blank rows at the end of the file may form a piece
                yield replace(table, frame=table.frame.set_axis(table.frame.index + n_rows))
            n_rows += max(len(lines), 1)


def without(names: Sequence[str], excluded: Collection[str]) -> list[str]:
    """Names that are not excluded, in order."""
    excluded = set(excluded)
    return [name for name in names if name not in excluded]


def csv_table(
    path: Path, file: io.BufferedIOBase, hints: Hints, as_text: Sequence[str], dialect: Dialect | None = None
) -> Table:
    """The cells of CSV text; `dialect` is that of earlier pieces of the file."""
    head = file.read(HEAD)
    content = file if len(head) == HEAD else io.BytesIO(head)
    head += file.readline()
    encoding = hints.encoding or (dialect.encoding if dialect else find_encoding(head))
    try:
        return _decoded_table(path, content, head, replace(hints, encoding=encoding), as_text, dialect)
    except UnicodeDecodeError:
        if hints.encoding is not None or dialect is not None:
            raise
    # the first non-ASCII character is late in the file
    content.seek(0)
    hints = replace(hints, encoding=find_encoding(content.read()))
    return _decoded_table(path, content, head, hints, as_text, dialect)


def _decoded_table(
    path: Path,
    content: io.BufferedIOBase,
    head: bytes,
    hints: Hints,
    as_text: Sequence[str],
    known: Dialect | None,
) -> Table:
    text = codecs.getincrementaldecoder(hints.encoding or COMMON.encoding)().decode(head)
    if not text or text.isspace():
        raise EmptyDataError
    check_is_text(path, head, text)
    dialect = find_dialect(text, hints) if known is None else replace(known, encoding=hints.encoding or known.encoding)
    names, by_number = read_header(path.name, text, dialect.separator)
    frame = _parse(content, dialect, **by_number, **read_csv_options(as_text, names, hints.missing_values))
    # lookups in an index of Arrow strings are slow
    frame.columns = pd.Index(names, dtype=object) if by_number else frame.columns.astype(object)
    repeated = tuple(name for name in _repeated(names) if name in frame.columns)  # without dropped empty columns
    doubts = {} if dialect.is_settled else _doubts(content, dialect, frame, hints.missing_values)
    return Table(path.name, frame, first_row=2, dialect=dialect, repeated=repeated, doubts=doubts)


def _doubts(
    content: io.BufferedIOBase, dialect: Dialect, frame: pd.DataFrame, missing_values: Sequence[str]
) -> dict[str, Doubt]:
    """Columns whose decimals may be digits after a thousands separator; reads the possible ones again as text."""
    positions = may_be_thousands(frame)
    if not positions:
        return {}
    text = _parse(content, dialect, usecols=positions, dtype=str, na_values=[*missing_values])
    return find_doubts(text.set_axis(frame.columns[positions], axis="columns"), dialect.decimal)


def _parse(content: io.BufferedIOBase, dialect: Dialect, **special: Any) -> pd.DataFrame:
    try:
        return _frame(content, dialect, chunksize=assemble.ROWS, **special)
    except MixedColumnError:
        return _frame(content, dialect, **special)


def _frame(content: io.BufferedIOBase, dialect: Dialect, **special: Any) -> pd.DataFrame:
    """The cells; with a chunksize, a column with different types in different chunks is a MixedColumnError."""
    content.seek(0)
    with warnings.catch_warnings():
        # pandas only warns, and drops cells, if rows are longer than the header
        warnings.simplefilter("error", ParserWarning)
        try:
            with pd.read_csv(
                content,
                iterator=True,  # otherwise pandas counts the CPUs of the machine for every file
                sep=dialect.separator,
                decimal=dialect.decimal,
                # utf-8 also skips the BOM, and is much faster
                encoding="utf-8" if dialect.encoding == "utf-8-sig" else dialect.encoding,
                skip_blank_lines=False,  # so that row numbers are line numbers
                skipinitialspace=True,
                index_col=False,
                low_memory=False,
                **special,
            ) as reader:
                frame = assembled(reader) if "chunksize" in special else reader.read()
        except (ParserError, ParserWarning) as error:
            broken = find_broken_row(content, dialect.encoding, dialect.separator, str(error))
            raise broken or ParserError(str(error)) from error
    return without_blank_end(frame)


def _repeated(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name, n in Counter(names).items() if n > 1))


def _typed_table(
    path: Path, file: io.BufferedIOBase, start: bytes, hints: Hints, as_text: Sequence[str], limits: Limits
) -> Table | None:
    """The cells of a parquet file or workbook, detected from its first bytes; None for other files."""
    if start == PARQUET:
        return _parquet_table(path, file, limits)
    if start == ZIP and is_workbook(file):
        content, skipped = sheet_text(path, file, hints.sheet, limits)
        table = csv_table(path, content, WRITTEN, as_text)
        return replace(table, first_row=table.first_row + skipped, of_sheet=True)
    return None


def _parquet_table(path: Path, file: io.BufferedIOBase, limits: Limits) -> Table:
    import pyarrow.parquet

    try:
        about = pyarrow.parquet.read_metadata(file)
        check_size(path, about.num_rows * about.num_columns * 8, limits)  # compressed, equal cells take no space
        frame = pd.read_parquet(file, engine="pyarrow")
    except pyarrow.ArrowException as error:
        raise InputError(f"{path}: cannot be read as parquet ({' '.join(str(error).split())})") from error
    return table_of_frame(frame, path.name)


def table_of_frame(frame: pd.DataFrame, name: str, index_name: str | None = None) -> Table:
    """A frame as a table; a DatetimeIndex becomes the column `index_name` (None: the index's name, or "date").

    Repeated column names are an InputError.
    """
    frame = frame.set_axis([str(column) for column in frame.columns], axis="columns")
    time_col, is_timed = index_name or str(frame.index.name or "date"), isinstance(frame.index, pd.DatetimeIndex)
    frame = frame.reset_index(names=time_col) if is_timed and time_col not in frame.columns else frame
    if repeated := _repeated(list(frame.columns)):
        raise InputError(f"{name}: column names repeat: {', '.join(map(repr, repeated))}; rename them")
    return Table(name, frame.reset_index(drop=True), first_row=0)
