"""The cells of a file or frame before their columns are interpreted.

Error messages locate cells with `Table.at`: file, row (the line of a CSV file) and column.
"""

import codecs
import csv
import io
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from textwrap import shorten

import numpy as np
import pandas as pd
from jaxtyping import Int
from pandas.api.types import infer_dtype, is_hashable, is_numeric_dtype, is_string_dtype

from informer.base.errors import MOST_SHOWN, ColumnError, FileError, InputError, counted, listed, nearest, reason_of
from informer.base.files import csv_text, reading
from informer.config.data import LONGEST_CELL, DatasetConfig
from informer.read.cells import EMPTY_MARKS, EMPTY_WORDS, check_lengths
from informer.read.dialect import (
    BLANKS,
    COMMON,
    HAS_TEXT,
    MOST_NOTES,
    SAMPLED_COLUMNS,
    SAMPLED_LINES,
    TOTAL,
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
from informer.read.number_marks import find_doubts, without_thousands
from informer.read.parse import BrokenRow, another_table, cells_below, typed
from informer.read.workbook import WRITTEN, is_workbook, sheet_text


@contextmanager
def read_errors(path: Path, encoding: str | None = None) -> Iterator[None]:
    """Turn errors of reading a file into an InputError."""
    try:
        with reading(path):
            yield
    except UnicodeError as error:
        what = f"not {encoding} text" if encoding else "text in no encoding that was tried"
        raise FileError(f"{path}: {what} ({error}); set dataset.encoding, such as latin-1") from error
    except MemoryError as error:
        raise FileError(f"{path}: too large for the memory of this machine; use a smaller file") from error
    except BrokenRow as error:
        raise FileError(f"{path}, {error}") from error
    except csv.Error as error:
        if "field larger than field limit" in str(error):
            raise long_cell(path, LONGEST_CELL) from error
        raise FileError(f"{path}: cannot be split into cells ({' '.join(str(error).split())})") from error
    except (EOFError, LookupError, NotImplementedError, zlib.error, zipfile.BadZipFile) as error:
        raise FileError(f"{path}: cannot be read ({error})") from error


HEAD = 1 << 16
"""Bytes at the start of a file from which its dialect is detected."""

OLD_BOOK = b"\xd0\xcf\x11\xe0"
"""First bytes of an old workbook (.xls)."""

_BINARY = "a binary file, expected CSV text, parquet or an Excel workbook (.xlsx)"

_NO_TABLES = {
    "JSON; pandas.read_json(FILE).to_csv('table.csv', index=False) makes CSV of many such files": re.compile(
        r'\s*(?:\[\s*)?\{\s*"'
    ),
    "a web page or XML, such as the message of a failed download": re.compile(r"\s*<(?:!doctype|html|\?xml)", re.I),
}
"""Other text, and how it begins."""

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
        to_1970: days from the first day of a workbook's calendar to 1970; None: no workbook.
    """

    name: str
    frame: pd.DataFrame
    first_row: int
    dialect: Dialect = COMMON
    repeated: tuple[str, ...] = ()
    doubts: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    to_1970: int | None = None

    @property
    def columns(self) -> list[str]:
        """Column names, in order."""
        return list(self.frame.columns)

    @property
    def is_frame(self) -> bool:
        """Whether its columns had types before it was read, unlike those of text."""
        return self.first_row == 0

    @property
    def not_numeric(self) -> list[str]:
        """The columns of other types than numeric ones; to select a hundred thousand one by one is slow."""
        types = zip(self.columns, self.frame.dtypes.array, strict=True)
        return [column for column, dtype in types if not is_numeric_dtype(dtype)]

    @property
    def lines(self) -> Int[np.ndarray, " t"]:
        """Row numbers, as an editor shows them."""
        index = self.frame.index
        if isinstance(index, pd.RangeIndex):  # whose own array pandas would keep
            return np.arange(index.start + self.first_row, index.stop + self.first_row, index.step)
        return index.to_numpy() + self.first_row

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
        columns = f"{listed(self.columns)}{nearest(column, self.columns)}"
        return ColumnError(f"{setting}={name}: {self.name} has no such column, its columns are {columns}")

    def without_rows(self) -> InputError:
        """The error for a table without rows."""
        return FileError(f"{self.name}: a header without rows, expected one row for each time")


def shown(cell: object) -> str:
    """A cell as shown in error messages."""
    if cell is None or cell is pd.NaT or cell is pd.NA or cell == "" or cell != cell:
        return "an empty cell"
    return repr(str(cell) if len(str(cell)) <= MOST_SHOWN else f"{str(cell)[:MOST_SHOWN]}...")


def name_of(path: Path) -> str:
    """Name of the series of a file: x for x.csv, x.csv.gz, x.csv.zip and x.parquet."""
    stem = Path(path.name.removesuffix(".gz").removesuffix(".zip")).stem
    return os.fsencode(stem).decode(errors="replace")


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
        table = typed or _table_of_text(path, file, config)
        if typed is not None or file.tell() > config.max_cell:  # no cell is longer than its file
            check_lengths(path, table.frame, config)
    return table


def without(names: Sequence[str], excluded: Collection[str | None]) -> list[str]:
    """Names that are not excluded, in order."""
    excluded = set(excluded)
    return [name for name in names if name not in excluded]


def _table_of_text(path: Path, file: Bounded, config: DatasetConfig) -> Table:
    """The cells of CSV text."""
    file.count_columns(1)
    head = file.read(HEAD)
    if head.startswith(ZIP):
        cure = "save the sheet of another workbook as .xlsx or CSV, or unpack the archive"
        raise FileError(f"{path}: {_BINARY}; {cure}")
    content = file if len(head) == HEAD else file.of(head)
    head += file.readline()
    encoding = config.encoding or find_encoding(head)
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
        is_wide = codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))  # a line does not end with one byte
        if is_wide or plain_rows(text) is not text:
            content.seek(0)
            text = plain_rows(content.read().decode(encoding))
            head = text.encode("utf-8" if is_wide else encoding)
            content = file.of(head)
        if not text or text.isspace():
            raise FileError(f"{path}: the file is empty, expected a header and rows")
        if "\0" in text:
            raise FileError(f"{path}: {_BINARY}")
        if found := next((what for what, pattern in _NO_TABLES.items() if pattern.match(text)), None):
            raise FileError(f"{path}: expected CSV text, found {found}")
        layout = find_layout(path.name, text, replace(config, encoding=encoding))
        begin = sum(map(len, head.splitlines(keepends=True)[: layout.n_before]))
        if layout.dialect.separator in BLANKS:
            content.seek(begin)
            lines = content.read().decode(layout.dialect.parsed_encoding).splitlines(keepends=True)
            content, begin = file.of(without_blanks(lines, layout.dialect.separator).encode()), 0
        content.count_columns(len(layout.names))
        return _cells_of_layout(path, content, begin, text, layout, config)
    except UnicodeDecodeError:
        if config.encoding is not None:
            raise
        # the first non-ASCII character is late in the file
        file.seek(0)
        config = replace(config, encoding=find_encoding(file.read()))
        file.seek(0)
        return _table_of_text(path, file, config)


def _cells_of_layout(
    path: Path, content: Bounded, begin: int, text: str, layout: Layout, config: DatasetConfig
) -> Table:
    """The rows without headers between them, and notes and totals below them; columns of numbers as such."""
    words = [*EMPTY_WORDS, *EMPTY_MARKS, *config.missing_values]
    head = "".join(io.StringIO(text, newline="").readlines()[layout.n_before :])
    head = "" if layout.dialect.separator in BLANKS else head
    frame, below = cells_below(content, begin, head, layout, config, words)
    lines = frame.index
    if len(frame) and frame.iloc[:, 0].hasnans:  # rows without cells, which spreadsheets leave at the end
        frame = frame.dropna(how="all")
    empty = lines.difference(frame.index) if len(frame) < len(lines) else lines[:0]
    frame, notes = _without_notes(frame, below, layout, words, empty)
    texts = {
        place: frame[place]
        for place, name in enumerate(layout.names)
        if name not in config.as_text and _is_text(frame[place])
    }
    frame, doubts = frame.copy(deep=False), {}
    for place, cells in texts.items():
        frame[place] = typed(cells, layout.dialect.decimal, words)
    names = _distinct(layout.names)
    if not layout.dialect.is_settled:
        written = {
            names[place]: cells.where(frame[place].notna())
            for place, cells in texts.items()
            if frame[place].dtype.kind == "f"
        }
        doubts = find_doubts(pd.DataFrame(written), layout.dialect.decimal)
    frame.columns = pd.Index(names, dtype=object)  # lookups in an index of Arrow strings are slow
    layout = replace(layout, dialect=layout.dialect.noting(*notes)) if notes else layout
    repeated = _repeated(layout.names)
    return Table(path.name, frame, layout.n_before + 1, layout.dialect, repeated, doubts)


def _without_notes(
    frame: pd.DataFrame, below: Sequence[Sequence[str]], layout: Layout, words: Sequence[str], empty: pd.Index
) -> tuple[pd.DataFrame, list[str]]:
    """The rows without headers between them, a total above them, and notes and totals below; and what is not read.

    Raises:
        BrokenRow: after one of the lines that are `empty`, another table begins.
    """
    mark, said = layout.dialect.separator, list[str]()
    kinds = column_kinds([*zip(*_texts(frame.iloc[:SAMPLED_LINES], words), strict=True)])
    if headers := _headers_again(frame, layout.names):
        again = [str(layout.n_before + 1 + line) for line in headers]
        said.append(f"{'row' if len(again) == 1 else 'rows'} {listed(again, 3)} not read: the header again")
        frame = frame.drop(index=[*headers, *_comments_above(frame, headers, empty, kinds, words)])
    n = _n_notes(frame, layout, kinds, words)
    if n_notes := n + len(below):
        note = mark.join(filter(None, [*(_texts(frame.iloc[-n:]) if n else []), *below][0]))
        said.append(f"{'last row' if n_notes == 1 else f'last {n_notes} rows'} not read: {shorten(note, 60)!r}")
    frame = frame.iloc[: len(frame) - n] if n else frame
    if totals := _totals_between(frame, kinds, words):
        which = "first row" if [*totals] == [frame.index[0]] else counted(len(totals), "total")
        said.append(f"{which} not read: {shorten(mark.join(next(iter(totals.values()))).rstrip(mark), 60)!r}")
        frame = frame.drop(index=[*totals])
    after = np.unique(frame.index.searchsorted(empty))
    for line, row in _rows_at(frame, after[(after > 0) & (after < len(frame))][:SAMPLED_LINES], words):
        if is_note(row, kinds):
            raise BrokenRow(layout.n_before + 1 + line, another_table(mark.join(filter(None, row))))
    return frame, said


def _rows_at(frame: pd.DataFrame, places: np.ndarray, words: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of the rows at these positions."""
    rows = frame.iloc[places]
    return zip(map(int, rows.index), _texts(rows, words), strict=True)


def _comments_above(
    frame: pd.DataFrame, headers: Sequence[int], empty: pd.Index, kinds: Mapping[int, str], words: Sequence[str]
) -> list[int]:
    """Lines without a date or number between an empty one and one of these headers, which are those of another part."""
    comments = list[int]()
    for header in headers if len(empty) else ():
        first = empty[max(int(empty.searchsorted(header)) - 1, 0)]
        above = np.arange(*frame.index.searchsorted([first, header]))
        rows = [*_rows_at(frame, above, words)] if len(above) <= MOST_NOTES else []
        comments += [line for line, row in rows] if all(is_note(row, kinds) for _, row in rows) else []
    return comments


def _totals_between(frame: pd.DataFrame, kinds: Mapping[int, str], words: Sequence[str]) -> dict[int, list[str]]:
    """Lines above and between others that are named as totals and have no date: of a year below its months."""
    first = frame.iloc[:, 0]
    cells = pd.Series(first.cat.categories) if isinstance(first.dtype, pd.CategoricalDtype) else first
    has_times = 0 in kinds or "date" in kinds.values()  # without, the rows of a wide table have such names
    if len(frame) < 2 or not has_times or not is_string_dtype(cells) or not str(cells.max())[:1].isalpha():
        return {}
    named = frame[first.str.match(TOTAL).fillna(False).to_numpy(dtype=bool)]
    rows = dict(zip(named.index, _texts(named, words), strict=True)) if 2 * len(named) < len(frame) else {}
    return {line: row for line, row in rows.items() if is_note(row, kinds)}


def _headers_again(frame: pd.DataFrame, names: Sequence[str]) -> list[int]:
    """Lines below the header that repeat it, as in files that were written one after the other into one."""
    place = next((place for place, name in enumerate(names) if name), 0)
    if not len(frame) or is_numeric_dtype(frame.iloc[:, place]):
        return []
    rows = frame[(frame.iloc[:, place] == names[place]).fillna(False).to_numpy(dtype=bool)]
    are_headers = [row == [*names[:SAMPLED_COLUMNS]] for row in _texts(rows)]
    return [int(line) for line in rows.index[are_headers]]


def _n_notes(frame: pd.DataFrame, layout: Layout, kinds: Mapping[int, str], words: Sequence[str]) -> int:
    last = _texts(frame.iloc[-MOST_NOTES:], words)
    if _ends_with_sums(frame, layout.dialect) or (last and _is_count(last[-1], kinds, len(frame) - 1)):
        return 1
    if not last or not any(map(HAS_TEXT.search, last[-1])):
        return 0
    n = len(list(takewhile(lambda row: is_note(row, kinds), reversed(last))))
    return n if n < min(MOST_NOTES, len(frame) / 2) else 0


def _is_count(row: Sequence[str], kinds: Mapping[int, str], n: int) -> bool:
    """Whether a row has the number of those above it where these have dates, and no numbers."""
    dates = [row[place] for place, kind in kinds.items() if kind == "date"]
    others = [row[place] for place, kind in kinds.items() if kind == "number"]
    return dates == [str(n)] and bool(others) and not any(others)


ROUNDED = 1e-5
"""Relative difference of a sum from that of the rounded numbers above it."""


def _ends_with_sums(frame: pd.DataFrame, dialect: Dialect) -> bool:
    """Whether the last row alone has no first cell, and has the sum of a column, or no number below the sum of the
    others, as in exports of web statistics, which may have only the first of all rows."""
    if len(frame) < 3 or frame.iloc[-1:, 0].notna().all() or frame.iloc[:-1, 0].isna().any():
        return False
    excess = list[float]()  # of the last row, relative to the sum
    for place in range(1, min(len(frame.columns), SAMPLED_COLUMNS)):
        cells = frame.iloc[:, place]
        if _is_text(cells):
            plain = without_thousands(cells.dropna(), dialect.thousands, dialect.decimal)
            cells = pd.to_numeric(plain, errors="coerce").reindex(cells.index)
        values = cells.to_numpy(np.float64)
        if (np.nan_to_num(values[:-1]) != 0).sum() > 2 and (total := np.nansum(values[:-1])):
            excess.append(np.nan_to_num(values[-1]) / total - 1)
    are_more = len(excess) > 0 and min(excess) > -ROUNDED
    return bool(are_more or (np.abs(excess) < ROUNDED).any())


def _is_text(cells: pd.Series) -> bool:
    return isinstance(cells.dtype, pd.StringDtype) or cells.dtype == object


def _texts(rows: pd.DataFrame, words: Sequence[str] = ()) -> list[list[str]]:
    """Cells of the first columns as text, without the words that mean a missing value."""
    cells = rows.iloc[:, :SAMPLED_COLUMNS].astype(object).to_numpy()
    rows_kept = zip(cells.tolist(), (~pd.isna(cells)).tolist(), strict=True)
    return [
        [str(cell) if is_kept and cell not in words else "" for cell, is_kept in zip(*row, strict=True)]
        for row in rows_kept
    ]


def _distinct(names: Sequence[str]) -> list[str]:
    """Names as pandas makes them: those without text are numbered, and those that occur again."""
    return [*pd.read_csv(io.StringIO(csv_text([names], quoting=csv.QUOTE_ALL)), nrows=0, index_col=False).columns]


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
        except InputError:
            raise
        except (pyarrow.ArrowException, ValueError, LookupError, TypeError, AttributeError) as error:
            # what pandas has noted in a damaged file is any text
            raise FileError(f"{path}: cannot be read as parquet ({reason_of(error)})") from error
    if start == OLD_BOOK or (start == ZIP and is_workbook(file)):
        content, skipped, to_1970 = sheet_text(path, file, config)
        above = None if config.skip_rows is None else max(config.skip_rows - skipped, 0)
        table = _table_of_text(path, file.of(content), replace(config, **WRITTEN, skip_rows=above))
        return replace(table, first_row=table.first_row + skipped, to_1970=to_1970)
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
        raise InputError(f"{name}: column names repeat: {', '.join(map(repr, repeated))}; rename them", code="names")
    for column, cells in frame.items():
        if infer_dtype(cells) == "mixed":  # lists and the like, which cannot be compared, are read as text
            frame[column] = cells.map(lambda cell: cell if is_hashable(cell) else str(cell))
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
        table = _table_of_text(label, file, config)
        check_lengths(label, table.frame, config)
    return table
