"""The cells of a file or frame before their columns are interpreted.

Error messages locate cells with `Table.at`: file, row (the line of a CSV file) and column.

Return freed memory to the operating system after a large file was read.

The C library and Arrow keep freed memory for later use. After a large file this is as much as its numbers take: the
file's text and the parser's temporary arrays.

Locate rows of a CSV file that do not match its header.

Errors of reading a table as one-line messages.

Assemble the chunks of a long CSV file in one frame with little memory.

pandas concatenates the cells of a file at the end, when it holds them twice. Here each chunk is copied into an array
for all rows and freed, and repeated text is dictionary-encoded.

Read CSV text that is not in a file, such as the body of a request.
"""

import codecs
import csv
import ctypes
import io
import re
import sys
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, takewhile
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int
from pandas.api.types import infer_dtype, is_numeric_dtype, union_categoricals
from pandas.errors import EmptyDataError, ParserError, ParserWarning

from informer.base.errors import MOST_SHOWN, InputError, listed
from informer.base.files import reading
from informer.config.data import LONGEST_CELL, DatasetConfig
from informer.read.cells import check_lengths, dictionary_encoded, read_csv_options
from informer.read.dialect import (
    BLANKS,
    COMMON,
    HAS_TEXT,
    MOST_NOTES,
    SAMPLED_COLUMNS,
    SAMPLED_LINES,
    Dialect,
    Layout,
    column_kinds,
    find_encoding,
    find_layout,
    is_note,
    plain_rows,
    without_blanks,
)
from informer.read.files import is_partitioned, partitioned_frame
from informer.read.limits import (
    CELL,
    LIMITS,
    PARQUET,
    ZIP,
    Bounded,
    check_ratio,
    check_size,
    check_table,
    long_cell,
    open_table,
)
from informer.read.number_marks import find_doubts, may_be_thousands
from informer.read.workbook import WRITTEN, is_workbook, sheet_text

LARGE = 1 << 26
"""Smallest size of the numbers of a file, in bytes, for which this is done; it takes milliseconds."""


def release_free(n_bytes: int) -> None:
    """Return freed memory after `n_bytes` of numbers were read; does nothing if they are fewer than LARGE."""
    if n_bytes < LARGE:
        return
    if "pyarrow" in sys.modules:  # pandas uses it for text columns
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):  # glibc has it
        library.malloc_trim(0)


SHOWN = 60
"""Maximum number of characters of a row in a message."""


class BrokenRow(ValueError):
    """A row that does not match the header.

    Args:
        row: its number; the header is row 1.
        problem: what is wrong, and how to fix it.
    """

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(f"row {row}: {problem}")
        self.row = row


def find_broken_row(content: io.BufferedIOBase, begin: int, layout: Layout, message: str) -> BrokenRow | None:
    """The row at which pandas stopped; None if it is not found.

    Args:
        content, begin: the file, and the position of its first row.
        layout: its format.
        message: error message of pandas.
    """
    if opened := re.search(r"EOF inside string starting at row (\d+)", message):
        return BrokenRow(layout.n_before + int(opened[1]) + 1, "a quotation mark has no partner; add or remove one")
    content.seek(begin)
    separator, expected = layout.dialect.parsed_separator, len(layout.names)
    # not a TextIOWrapper, which would close the file
    lines = codecs.getreader(layout.dialect.parsed_encoding)(content)
    rows = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    before = 0
    for cells in rows:
        if len(cells) > expected:
            return BrokenRow(
                layout.n_before + before + 1,
                f"expected {expected} cells as in the header, found {len(cells)} in "
                f"{separator.join(cells)[:SHOWN]!r}; quote the cells that contain the separator {separator!r}",
            )
        before = rows.line_num
    return None


@contextmanager
def read_errors(path: Path, encoding: str | None = None) -> Iterator[None]:
    """Turn errors of reading a file into an InputError."""
    try:
        with reading(path):
            yield
    except EmptyDataError as error:
        raise InputError(f"{path}: the file is empty, expected a header and rows") from error
    except UnicodeError as error:
        raise InputError(f"{path}: not {encoding} text ({error}); set dataset.encoding, such as latin-1") from error
    except MemoryError as error:
        raise InputError(f"{path}: too large for the memory of this machine; use a smaller file") from error
    except BrokenRow as error:
        raise InputError(f"{path}, {error}") from error
    except (ParserError, csv.Error) as error:
        if "field larger than field limit" in str(error):
            raise long_cell(path, LONGEST_CELL) from error
        raise InputError(f"{path}: cannot be split into cells ({' '.join(str(error).split())})") from error
    except (EOFError, LookupError, zlib.error, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error


ROWS = 1 << 16
"""Rows of a chunk."""

CHUNKS = 8
"""Chunks after which memory freed by the parser is returned to the operating system."""

REPEATED = 4
"""Minimum average number of rows per distinct text for dictionary encoding."""

EXACT = 1 << 53
"""Integers below this are exact in double precision."""

GROWTH = 32
"""The array of the numbers grows by 1 / GROWTH of its length."""


class MixedColumnError(ValueError):
    """A column has different types in different chunks, so the file must be read at once."""


def assembled(chunks: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate chunks; a single chunk is returned unchanged.

    Columns that are float in the first chunk share one array, which grows in place if the system can; all others are
    concatenated at the end, one by one. Columns are known by index, since names may repeat.

    Args:
        chunks: chunks with equal columns, in order; at least one.

    Raises:
        MixedColumnError: a column changes its type.
    """
    remaining = iter(chunks)
    first = next(remaining)
    second = next(remaining, None)
    if second is None:
        return first
    types = [_kind(cells) for _, cells in first.items()]
    floats = [i for i, kind in enumerate(types) if kind == "f"]
    repeats = [kind == "t" and first.iloc[:, i].nunique() * REPEATED <= len(first) for i, kind in enumerate(types)]
    numbers, n = np.empty((2 * len(first), len(floats))), 0
    others: dict[int, list[pd.Series]] = {i: [] for i, kind in enumerate(types) if kind != "f"}
    for number, chunk in enumerate(chain([first, second], remaining), start=1):
        kinds, end = [_kind(cells) for _, cells in chunk.items()], n + len(chunk)
        are_mixed = any((kind == "t") != (before == "t") for kind, before in zip(kinds, types, strict=True))
        if are_mixed or not all(_is_exact(chunk.iloc[:, i]) for i in floats if kinds[i] == "i"):
            raise MixedColumnError
        if end > len(numbers):
            numbers.resize((max(end, len(numbers) + len(numbers) // GROWTH), len(floats)), refcheck=False)
        numbers[n:end] = chunk.iloc[:, floats].to_numpy(dtype=np.float64)
        for i, parts in others.items():
            parts.append(dictionary_encoded(*pd.factorize(chunk.iloc[:, i])) if repeats[i] else chunk.iloc[:, i])
        n = end
        if number % CHUNKS == 0:
            release_free(n * numbers.strides[0])
    numbers.resize((n, len(floats)), refcheck=False)
    frame = pd.DataFrame(numbers, columns=floats, copy=False)
    for i in [*others]:
        frame.insert(i, i, _joined(others.pop(i), is_encoded=repeats[i]))
    return frame.set_axis(first.columns, axis="columns")


def _joined(parts: list[pd.Series], *, is_encoded: bool) -> pd.Series:
    """A column of text, dictionary-encoded or plain, or of integers, of which later parts may be float."""
    if is_encoded:
        texts = union_categoricals(parts)
        return dictionary_encoded(texts.codes, texts.categories)
    whole = [part for part in parts if part.dtype == np.int64]
    if 0 < len(whole) < len(parts) and not all(map(_is_exact, whole)):
        raise MixedColumnError
    return pd.concat(parts, ignore_index=True)


def _kind(cells: pd.Series) -> str:
    """The kind of a column: f (float), i (integer) or t (text, which pandas 2 has as objects).

    Raises:
        MixedColumnError: another type.
    """
    if isinstance(cells.dtype, pd.StringDtype) or infer_dtype(cells) == "string":
        return "t"
    if isinstance(cells.dtype, np.dtype) and cells.dtype.kind == "f":
        return "f"
    if cells.dtype == np.int64:
        return "i"
    raise MixedColumnError


def _is_exact(cells: pd.Series) -> bool:
    return bool(cells.min() > -EXACT and cells.max() < EXACT)


HEAD = 1 << 16
"""Bytes at the start of a file from which its dialect is detected."""

ARCHIVES = (ZIP, b"\xd0\xcf\x11\xe0")
"""First bytes of zip archives (including .xlsx and .ods) and of old workbooks (.xls)."""

_BINARY = "a binary file, expected CSV text, parquet or an Excel workbook (.xlsx)"

_NO_TABLES = {
    "JSON; pandas.read_json(FILE).to_csv('table.csv', index=False) makes CSV of many such files": re.compile(
        r'\s*(?:\[\s*)?\{\s*"'
    ),
    "a web page or XML, such as the message of a failed download": re.compile(r"\s*<(?:!doctype|html|\?xml)", re.I),
}
"""Other text, and how it begins."""

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
        repeated, doubts: names of more than one column; columns whose numbers may be a thousand times larger, with one
            of the cells and its row in the frame.
        of_sheet: whether it is a sheet of a workbook.
    """

    name: str
    frame: pd.DataFrame
    first_row: int
    dialect: Dialect = COMMON
    repeated: tuple[str, ...] = ()
    doubts: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    of_sheet: bool = False

    @property
    def columns(self) -> list[str]:
        """Column names, in order."""
        return list(self.frame.columns)

    @property
    def not_numeric(self) -> list[str]:
        """The columns of other types than numeric ones; to select a hundred thousand one by one is slow."""
        types = zip(self.columns, self.frame.dtypes.array, strict=True)
        return [column for column, dtype in types if not is_numeric_dtype(dtype)]

    @property
    def lines(self) -> Int[np.ndarray, "t"]:
        """Row numbers, as an editor shows them."""
        index = self.frame.index
        if isinstance(index, pd.RangeIndex):  # whose own array pandas would keep
            return np.arange(index.start + self.first_row, index.stop + self.first_row, index.step)
        return index.to_numpy() + self.first_row

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
        name = column.replace("\n", "\\n")  # one line, whatever a checkpoint calls it
        return InputError(f"{setting}={name}: {self.name} has no such column, its columns are {listed(self.columns)}")

    def without_rows(self) -> InputError:
        """The error for a table without rows."""
        return InputError(f"{self.name}: a header without rows, expected one row for each time")


def shown(cell: object) -> str:
    """A cell as shown in error messages."""
    if cell is None or cell is pd.NaT or cell is pd.NA or cell == "" or cell != cell:
        return "an empty cell"
    return repr(str(cell) if len(str(cell)) <= MOST_SHOWN else f"{str(cell)[:MOST_SHOWN]}...")


def name_of(path: Path) -> str:
    """Name of the series of a file: x for x.csv, x.csv.gz, x.csv.zip and x.parquet."""
    return Path(path.name.removesuffix(".gz").removesuffix(".zip")).stem


def read_table(path: Path, config: DatasetConfig = LIMITS) -> Table:
    """The cells of a CSV file with a header, gzipped or not, a parquet file or partitioned folder, or a workbook.

    Args:
        path: path of the file; its type is detected from its content.
        config: its format, as far as known, and limits on its content. Names of series and categories are read as text,
            including 001 and NA.

    Raises:
        InputError: no such file, empty, not text, no header, rows longer than the header, or more than `limits`.
    """
    if is_partitioned(path):
        return table_of_frame(partitioned_frame(path, config), path.name)
    with read_errors(path, config.encoding), open_table(path, config) as (file, start):
        typed = _typed_table(path, file, start, config)
        table = typed or _csv_piece(path, file, config)[0]
        if typed is not None or file.tell() > config.max_cell:  # no cell is longer than its file
            check_lengths(path, table.frame, config)
    return table


def without(names: Sequence[str], excluded: Collection[str | None]) -> list[str]:
    """Names that are not excluded, in order."""
    excluded = set(excluded)
    return [name for name in names if name not in excluded]


def _csv_piece(
    path: Path,
    file: Bounded,
    config: DatasetConfig,
    known: Layout | None = None,
    is_last: bool = True,
) -> tuple[Table, Layout]:
    """The cells of CSV text, or of rows that follow others of the layout `known`, and the layout.

    `is_last`: whether the file ends with them, perhaps with notes.
    """
    file.count_columns(1)
    head = file.read(HEAD)
    if head.startswith(ARCHIVES):
        cure = "save the sheet of an older workbook as .xlsx or CSV, or unpack the archive"
        raise InputError(f"{path}: {_BINARY}; {cure}")
    content = file if len(head) == HEAD else file.of(head)
    head += file.readline()
    encoding = config.encoding or (known.dialect.encoding if known else find_encoding(head))
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
        is_wide = codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))  # a line does not end with one byte
        if is_wide or plain_rows(text) is not text:
            content.seek(0)
            text = plain_rows(content.read().decode(encoding))
            head = text.encode("utf-8" if is_wide else encoding)
            content = file.of(head)
        if not text or text.isspace():
            raise EmptyDataError
        if "\0" in text:
            raise InputError(f"{path}: {_BINARY}")
        if found := next((what for what, pattern in _NO_TABLES.items() if pattern.match(text)), None):
            raise InputError(f"{path}: expected CSV text, found {found}")
        layout = known or find_layout(path.name, text, replace(config, encoding=encoding))
        n_lines = 0 if known else layout.n_before
        begin = sum(map(len, head.splitlines(keepends=True)[:n_lines]))
        if layout.dialect.separator in BLANKS:
            content.seek(begin)
            lines = content.read().decode(layout.dialect.parsed_encoding).splitlines(keepends=True)
            content, begin = file.of(without_blanks(lines, layout.dialect.separator).encode()), 0
        content.count_columns(len(layout.names))
        text_options = read_csv_options(config.as_text, layout.names, config.missing_values)
        frame, notes = _rows_and_notes(content, begin, layout, is_last, text_options)
    except UnicodeDecodeError:
        if config.encoding is not None or known is not None:
            raise
        # the first non-ASCII character is late in the file
        file.seek(0)
        config = replace(config, encoding=find_encoding(file.read()))
        file.seek(0)
        return _csv_piece(path, file, config, known, is_last)
    if notes:
        layout = replace(layout, dialect=layout.dialect.noting(*notes))
    doubts = {}
    # columns whose decimals may be digits after a thousands separator are read again as text, without notes and headers
    if not layout.dialect.is_settled and (places := may_be_thousands(frame)):
        options = read_csv_options((), layout.names, config.missing_values) | {"usecols": places, "dtype": str}
        texts = _parse(content, begin, layout, nrows=int(frame.index[-1]) + 1, **options)
        doubts = find_doubts(texts[texts.index.isin(frame.index)], layout.dialect.decimal)
    table = Table(path.name, frame, layout.n_before + 1, layout.dialect, _repeated(layout.names), doubts)
    return table, layout


def _rows_and_notes(
    content: io.BufferedIOBase, begin: int, layout: Layout, is_last: bool, options: Mapping[str, Any]
) -> tuple[pd.DataFrame, list[str]]:
    """The cells, and which lines are not read: notes and totals below them, and headers between them."""
    below, n_rows = list[list[str]](), None
    try:
        frame = _parse(content, begin, layout, **options)
    except BrokenRow as error:  # perhaps a note with more cells than the rows
        n_rows = error.row - layout.n_before - 1
        if not is_last or n_rows < 1:
            raise
        frame = _parse(content, begin, layout, nrows=n_rows, **options)
        content.seek(begin)
        lines = islice(codecs.getreader(layout.dialect.parsed_encoding)(content), n_rows, n_rows + MOST_NOTES + 1)
        below = [row for row in csv.reader(lines, delimiter=layout.dialect.parsed_separator) if any(row)]
        kinds = _kinds(frame)
        if len(below) > MOST_NOTES or not all(is_note(row, kinds) for row in below):
            raise
    said, n, headers = list[str](), _n_notes(frame) if is_last else 0, _headers_again(frame, layout.names)
    if headers:
        again = [str(layout.n_before + 1 + line) for line in headers]
        said.append(f"{'row' if len(again) == 1 else 'rows'} {listed(again, 3)} not read: the header again")
    if n_notes := n + len(below):
        first = layout.dialect.separator.join(filter(None, [*(_texts(frame.iloc[-n:]) if n else []), *below][0]))
        said.append(f"{'last row' if n_notes == 1 else f'last {n_notes} rows'} not read: {shorten(first, 60)!r}")
    if n or headers:  # the columns get other types without them
        n_rows = int(frame.index[-n]) if n else n_rows
        left = None if n_rows is None else n_rows - len(headers)
        frame = _parse(content, begin, layout, nrows=left, skiprows=headers, **options)
        frame.index += np.searchsorted(np.array(headers) - np.arange(len(headers)), frame.index, side="right")
    return frame, said


def _headers_again(frame: pd.DataFrame, names: Sequence[str]) -> list[int]:
    """Lines below the header that repeat it, as in files that were written one after the other into one."""
    if not len(frame) or is_numeric_dtype(frame.iloc[:, 0]):
        return []
    rows = frame[(frame.iloc[:, 0] == names[0]).fillna(False).to_numpy(dtype=bool)]
    are_headers = [row == [*names[:SAMPLED_COLUMNS]] for row in _texts(rows)]
    return [int(line) for line in rows.index[are_headers]]


def _n_notes(frame: pd.DataFrame) -> int:
    if _ends_with_sums(frame):
        return 1
    columns = range(min(len(frame.columns), SAMPLED_COLUMNS) if len(frame) else 0)
    if not any(isinstance(cell := frame.iat[-1, place], str) and HAS_TEXT.search(cell) for place in columns):
        return 0
    kinds, last = _kinds(frame), _texts(frame.iloc[-MOST_NOTES:])
    n = len(list(takewhile(lambda row: is_note(row, kinds), reversed(last))))
    return n if n < min(MOST_NOTES, len(frame) / 2) else 0


def _ends_with_sums(frame: pd.DataFrame) -> bool:
    """Whether the last row alone has no first cell, and has the sum of several values of a column, as exports of web
    statistics do."""
    if len(frame) < 3 or frame.iloc[-1:, 0].notna().all() or frame.iloc[:-1, 0].isna().any():
        return False
    cells = frame.iloc[:, 1:SAMPLED_COLUMNS].select_dtypes("number").to_numpy(np.float64)
    counted = (np.nan_to_num(cells[:-1]) != 0).sum(axis=0) > 2
    return bool((np.isclose(cells[-1], np.nansum(cells[:-1], axis=0), rtol=1e-9) & counted & (cells[-1] != 0)).any())


def _kinds(frame: pd.DataFrame) -> dict[int, str]:
    return column_kinds(list(zip(*_texts(frame.iloc[:SAMPLED_LINES]), strict=True)))


def _texts(rows: pd.DataFrame) -> list[list[str]]:
    """Cells of the first columns as text."""
    first = rows.iloc[:, :SAMPLED_COLUMNS].astype(object)
    return first.where(first.notna(), "").astype(str).to_numpy().tolist()


def _parse(content: io.BufferedIOBase, begin: int, layout: Layout, **special: Any) -> pd.DataFrame:
    content.seek(begin)
    if not content.read(1):
        return pd.DataFrame(columns=pd.Index(_distinct(layout.names), dtype=object))
    try:
        frame = _frame(content, begin, layout, chunksize=ROWS, **special)
    except MixedColumnError:
        frame = _frame(content, begin, layout, **special)
    if frame.iloc[:, 0].hasnans:  # rows without cells, which spreadsheets leave at the end
        frame = frame.dropna(how="all")
    # lookups in an index of Arrow strings are slow
    names = pd.Index(_distinct(layout.names), dtype=object)
    return frame.set_axis(names[frame.columns], axis="columns")


def _distinct(names: Sequence[str]) -> list[str]:
    """Names as pandas makes them: those without text are numbered, and those that occur again."""
    seen: Counter[str] = Counter()
    distinct: list[str] = []
    for place, name in enumerate(names):
        distinct.append((f"{name}.{seen[name]}" if seen[name] else name) if name else f"Unnamed: {place}")
        seen[name] += 1
    return distinct


def _frame(content: io.BufferedIOBase, begin: int, layout: Layout, **special: Any) -> pd.DataFrame:
    """The cells; with a chunksize, a column with different types in different chunks is a MixedColumnError."""
    content.seek(begin)
    with warnings.catch_warnings():
        # pandas only warns, and drops cells, if rows are longer than the header
        warnings.simplefilter("error", ParserWarning)
        try:
            with pd.read_csv(
                content,
                iterator=True,  # otherwise pandas counts the CPUs of the machine for every file
                names=range(len(layout.names)),  # pandas takes as long to make names as for 100 rows
                header=None,
                sep=layout.dialect.parsed_separator,
                decimal=layout.dialect.decimal,
                encoding=layout.dialect.parsed_encoding,
                skip_blank_lines=False,  # so that row numbers are line numbers
                skipinitialspace=True,
                index_col=False,
                low_memory=False,
                **special,
            ) as reader:
                frame = assembled(reader) if "chunksize" in special else reader.read()
        except (ParserError, ParserWarning) as error:
            broken = find_broken_row(content, begin, layout, str(error))
            raise broken or ParserError(str(error)) from error
    return frame


def _repeated(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name, n in Counter(filter(None, names)).items() if n > 1))


def _typed_table(path: Path, file: Bounded, start: bytes, config: DatasetConfig) -> Table | None:
    """The cells of a parquet file or workbook, detected from its first bytes; None for other files."""
    if start == PARQUET:
        import pyarrow.parquet

        try:
            about = pyarrow.parquet.read_metadata(file)
            check_table(path, about.num_rows, about.num_columns, config)
            # equal cells take no space in the file
            size = about.num_rows * about.num_columns * CELL
            check_size(path, size, config)
            check_ratio(path, size, path.stat().st_size, config)
            return table_of_frame(pd.read_parquet(file, engine="pyarrow"), path.name)
        except pyarrow.ArrowException as error:
            raise InputError(f"{path}: cannot be read as parquet ({' '.join(str(error).split())})") from error
    if start == ZIP and is_workbook(file):
        content, skipped = sheet_text(path, file, config)
        above = None if config.skip_rows is None else max(config.skip_rows - skipped, 0)
        table = _csv_piece(path, file.of(content), replace(config, **WRITTEN, skip_rows=above))[0]
        return replace(table, first_row=table.first_row + skipped, of_sheet=True)
    return None


def table_of_frame(frame: pd.DataFrame, name: str, index_name: str | None = None) -> Table:
    """A frame as a table, with the times in its index, and everything there that has a name, as columns.

    Args:
        frame: the frame; its numbers are not copied.
        name: the table's name in errors.
        index_name: column of the times; None: their name in the index, or "date".

    Raises:
        InputError: column names repeat.
    """
    frame = frame.set_axis([str(column) for column in frame.columns], axis="columns")
    if repeated := _repeated(list(frame.columns)):
        raise InputError(f"{name}: column names repeat: {', '.join(map(repr, repeated))}; rename them")
    levels = [frame.index.get_level_values(place) for place in range(frame.index.nlevels)]
    for level in reversed(levels):
        column, is_single = level.name, len(levels) == 1
        if are_dates(level):
            column = index_name if is_single and index_name else column or index_name or "date"
            level = level.to_timestamp() if isinstance(level, pd.PeriodIndex) else level
        elif is_numeric_dtype(level) and (level.is_unique if column is not None else not any(map(are_dates, levels))):
            continue  # row numbers
        elif column is None and not is_single:
            column = "series"
        if column is not None and str(column) not in frame.columns:
            frame.insert(0, str(column), level)
    return Table(name, frame.reset_index(drop=True), first_row=0)


def are_dates(level: pd.Index) -> bool:
    """Whether part of an index are times."""
    return isinstance(level, pd.DatetimeIndex | pd.PeriodIndex)


def cells_of_content(content: bytes, name: str, config: DatasetConfig) -> Table:
    """The cells of CSV text, which must not be compressed.

    Args:
        content: the text, encoded.
        name: its name in errors.
        config: its format.

    Raises:
        InputError: see `read_table`.
    """
    label = Path(name)
    with (
        read_errors(label, config.encoding),
        Bounded(io.BytesIO(content), label, config, partial(len, content)) as file,
    ):
        table = _csv_piece(label, file, config)[0]
        check_lengths(label, table.frame, config)
    return table
