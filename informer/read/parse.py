"""The cells of CSV text as columns: pyarrow reads rows of one width, and rows of other widths are made even first.

Text stays text until a whole column is known: a column has numbers if all its cells are numbers or missing. Of a long
file the first rows tell which columns are read as numbers at once; one with another cell below is read again as text.
"""

import codecs
import csv
import ctypes
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Int

from informer.config.data import ISO, DatasetConfig
from informer.read.cells import dictionary_encoded, text_of
from informer.read.dialect import MOST_NOTES, SAMPLED_COLUMNS, SAMPLED_LINES, Layout, column_kinds, is_note
from informer.read.limits import Bounded

if TYPE_CHECKING:
    import pyarrow

LARGE = 1 << 26
"""Smallest size of the numbers of a file, in bytes, after which freed memory is returned; it takes milliseconds."""

SHORT = 1 << 15
"""Bytes of text up to which all columns are read as text first."""

BLOCK = 1 << 19
"""Bytes of text that are parsed at once."""

BLOCKS = 64
"""Blocks after which memory freed by the parser is returned to the operating system."""

GROWTH = 32
"""The array of the numbers grows by 1 / GROWTH of its length."""

MOST_INSERTED = 50
"""Columns other than of numbers that are put among these one by one, which leaves the numbers where they are."""

SAMPLED_ROWS = 1000
"""First rows of a text column that show whether it may have numbers."""

REPEATED = 4
"""Minimum average number of rows per distinct text for dictionary encoding."""

SHOWN = 60
"""Maximum number of characters of a row in a message."""

_BOOLEANS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
_TIME = r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?"
MONTHS = 12
_QUOTED_AFTER_BLANKS = re.compile(r'[\t;|,] +"')


class BrokenRow(ValueError):
    """A row that does not match the header.

    Args:
        row: its number; the header is row 1.
        problem: what is wrong, and how to fix it.
    """

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(f"row {row}: {problem}")


def another_table(row: str) -> str:
    """The problem of a file in which a second table follows an empty line, with this row."""
    return f"another table begins with {row[:SHOWN]!r}; save each table as a file of its own"


def release_free(n_bytes: int) -> None:
    """Return freed memory after `n_bytes` of numbers were read; does nothing if they are fewer than LARGE.

    The C library and Arrow keep freed memory for later use. After a large file this is as much as its numbers take.
    """
    if n_bytes < LARGE:
        return
    if "pyarrow" in sys.modules:  # pandas uses it for text columns
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):  # glibc has it
        library.malloc_trim(0)


def cells_below(
    content: Bounded, begin: int, head: str, layout: Layout, config: DatasetConfig, words: Sequence[str]
) -> tuple[pd.DataFrame, list[list[str]]]:
    """The cells of the rows, with column numbers as names and line numbers, from 0, as index; and the rows below them
    that are notes, if these have more cells than the others.

    Args:
        content: the text; the first row begins at `begin`.
        head: the beginning of the text, from the first row on.
        layout: its format.
        config: names columns that stay text; times in another format than ISO 8601 do too.
        words: words that mean a missing value in other columns.

    Raises:
        BrokenRow: a row has more cells than the header, or a quotation mark has no partner.
        UnicodeDecodeError: the text has another encoding.
    """
    kinds = dict.fromkeys(range(len(layout.names)), "text")
    if len(head) >= SHORT:
        kinds |= _kinds_of_first_rows(head, layout, config, words)
    lines, notes = None, list[list[str]]()
    frame = None if _QUOTED_AFTER_BLANKS.search(head) else _even_rows(content, begin, layout, kinds, words)
    if frame is None:
        text, lines, notes = _evened(content, begin, layout)
        content, begin = content.of(text), 0
        frame = _even_rows(content, begin, layout, kinds, words, lines)
    assert frame is not None, "rows of one width"
    for place in [place for place, kind in kinds.items() if kind == "time"]:
        times = frame[place]
        samples = (times.iloc[:: len(times) // SAMPLED_ROWS + 1], times)
        # the day may be before the month
        if times.dtype.kind == "M" and not any(each.dt.day.max() > MONTHS for each in samples):
            codes, distinct = pd.factorize(times)
            once = pd.DatetimeIndex(distinct)
            clock = "" if (once == once.normalize()).all() else " %H:%M:%S"
            frame[place] = dictionary_encoded(codes, once.strftime(f"%Y-%m-%d{clock}")).set_axis(frame.index)
    return frame, notes


def _kinds_of_first_rows(head: str, layout: Layout, config: DatasetConfig, words: Sequence[str]) -> dict[int, str]:
    """How the columns of a long file are read, by its first rows: as in `_types`."""
    names, mark, as_text = layout.names, layout.dialect.parsed_separator, config.as_text
    rows = csv.reader(head.splitlines(keepends=True)[:-1], delimiter=mark, skipinitialspace=True)
    columns = [*zip(*(row for row in rows if len(row) == len(names)), strict=True)]
    kinds: dict[int, str] = {}
    for place, column in enumerate(columns):
        cells = pd.Series(column, dtype="str")
        kind = "U" if names[place] in as_text else typed(cells, layout.dialect.decimal, words).dtype.kind
        if kind == "i":
            kinds[place] = "whole"
        elif kind == "f" and layout.dialect.is_settled:  # else its text is needed, see `find_doubts`
            kinds[place] = "number"
        elif kind != "f" and names[place] not in as_text and cells.str.fullmatch(_TIME).all():
            kinds[place] = "time" if config.time_format in (None, ISO) else "text"
        elif kind != "f" and cells.nunique() * REPEATED <= len(cells):
            kinds[place] = "texts"
    times = [place for place, kind in kinds.items() if kind == "time"]
    return kinds | dict.fromkeys(times if len(times) > 1 else (), "text")  # most of them are not used


def _types(kinds: Mapping[int, str]) -> dict[str, Any]:
    import pyarrow

    types = {
        "whole": pyarrow.int64(),
        "number": pyarrow.float64(),
        "time": pyarrow.timestamp("us"),
        "text": pyarrow.string(),
        "texts": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),  # which repeat
    }
    return {str(place): types[kind] for place, kind in kinds.items()}


class _Lines(io.RawIOBase):
    """Forwards a stream, and counts its lines."""

    def __init__(self, content: io.BufferedIOBase) -> None:
        self._content, self.n = content, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes."""
        piece = self._content.read(size)
        self.n += piece.count(b"\n") or piece.count(b"\r")
        return piece


def _even_rows(
    content: Bounded,
    begin: int,
    layout: Layout,
    kinds: dict[int, str],
    words: Sequence[str],
    lines: Int[np.ndarray, " t"] | None = None,
) -> pd.DataFrame | None:
    """The cells of rows of one width, one in each line unless `lines` has their numbers; None for other rows."""
    import pyarrow
    import pyarrow.csv

    dialect, kinds = layout.dialect, dict(kinds)
    while True:
        content.seek(begin)
        counted = _Lines(content)
        try:
            reader = pyarrow.csv.open_csv(
                counted,
                pyarrow.csv.ReadOptions(
                    use_threads=False,
                    column_names=[*_types(kinds)],
                    block_size=BLOCK,
                    encoding="utf-8" if lines is not None else dialect.parsed_encoding,
                ),
                pyarrow.csv.ParseOptions(
                    delimiter=dialect.parsed_separator, ignore_empty_lines=False, newlines_in_values=lines is not None
                ),
                pyarrow.csv.ConvertOptions(
                    column_types=_types(kinds), null_values=words, decimal_point=dialect.decimal
                ),
            )
            frame = _assembled(reader, kinds)
        except pyarrow.ArrowInvalid as error:
            if "UTF8" in str(error):
                raise UnicodeDecodeError(dialect.encoding, b"", 0, 1, "invalid bytes") from error
            if "Empty CSV" in str(error):
                return pd.DataFrame({place: pd.Series(dtype="str") for place in kinds})
            failed = re.search(r"In CSV column #(\d+)", str(error))
            if failed is None or (kind := kinds[int(failed[1])]).startswith("text"):
                return None
            kinds[int(failed[1])] = "number" if kind == "whole" and dialect.is_settled else "text"
            continue
        if lines is not None:
            return frame.set_axis(lines)
        return frame if len(frame) - counted.n in (0, 1) else None  # else cells have several lines


def _assembled(batches: Iterable["pyarrow.RecordBatch"], kinds: Mapping[int, str]) -> pd.DataFrame:
    """The columns of all batches; those of numbers share one array, which grows in place if the system can."""
    import pyarrow

    floats = [place for place, kind in kinds.items() if kind == "number"]
    parts: dict[int, list[Any]] = {place: [] for place in kinds if place not in floats}
    numbers, n = np.empty((0, len(floats))), 0
    for count, batch in enumerate(batches, start=1):
        end = n + len(batch)
        if end > len(numbers):
            numbers.resize((max(end, len(numbers) + len(numbers) // GROWTH), len(floats)), refcheck=False)
        for i, place in enumerate(floats):
            numbers[n:end, i] = batch.column(place).to_numpy(zero_copy_only=False)
        for place, columns in parts.items():
            columns.append(batch.column(place))
        n = end
        if count % BLOCKS == 0:
            release_free(n * numbers.strides[0])
    numbers.resize((n, len(floats)), refcheck=False)
    others = {place: _column(pyarrow.chunked_array(parts.pop(place)), kinds[place]) for place in [*parts]}
    if floats and len(others) <= MOST_INSERTED:
        frame = pd.DataFrame(numbers, columns=floats, copy=False)
        for place, cells in others.items():
            frame.insert(place, place, cells)
        return frame
    others |= {place: pd.Series(numbers[:, i]) for i, place in enumerate(floats)}
    return pd.DataFrame({place: others[place] for place in kinds}, copy=False)


def _column(cells: "pyarrow.ChunkedArray", kind: str) -> pd.Series:
    """Cells in pandas, text without blanks before it; empty text is missing."""
    import pyarrow.compute

    if kind == "texts":
        codes = cells.unify_dictionaries().to_pandas()
        texts = codes.cat.categories.astype("str").str.lstrip(" ")
        if "" in texts or not texts.is_unique:
            places, texts = pd.factorize(texts.where(texts != ""))
            return dictionary_encoded(places[codes.cat.codes], texts)
        return dictionary_encoded(np.asarray(codes.array.codes), texts)
    if kind != "text":
        return pd.Series(cells.to_pandas())
    compute = pyarrow.compute
    if compute.any(compute.starts_with(cells, " ")).as_py():
        cells = compute.utf8_ltrim(cells, " ")
    if compute.any(is_empty := compute.equal(cells, "")).as_py():
        cells = compute.if_else(is_empty, None, cells)
    texts = pd.Series(cells.to_pandas())
    return text_of(texts) if texts.dtype == object else texts


def typed(cells: pd.Series, decimal: str, words: Sequence[str]) -> pd.Series:
    """A text column as whole numbers, numbers or booleans, if all its cells are such or missing; else as text, without
    the words that mean a missing value."""
    import pyarrow
    import pyarrow.compute as compute

    if len(cells) > SAMPLED_ROWS and typed(cells.iloc[:SAMPLED_ROWS], decimal, words).dtype == cells.dtype:
        is_missing = cells.isin(words)
        return cells.mask(is_missing) if is_missing.any() else cells
    text = compute.utf8_trim_whitespace(pyarrow.array(cells, pyarrow.string(), from_pandas=True))
    is_missing = compute.is_in(text, pyarrow.array(words, pyarrow.string()))
    known = compute.if_else(is_missing, None, text)
    if {*(once := known.unique())[:3].to_pylist()} <= {*_BOOLEANS} and {*once.to_pylist()} <= {*_BOOLEANS}:
        return cells.str.strip().map(_BOOLEANS).astype(bool) if len(cells) else cells
    written, other = known, r"[xX]"  # pyarrow reads 0x1F as a number
    if decimal != ".":
        written, other = compute.replace_substring(known, decimal, "."), r"[xX.]"
    for kind in (pyarrow.int64(), pyarrow.float64()):
        with suppress(pyarrow.ArrowInvalid):
            numbers = compute.cast(written, kind)
            if not compute.any(compute.match_substring_regex(known, other)).as_py():
                return pd.Series(numbers.to_pandas().to_numpy(), index=cells.index)
    return cells.mask(np.asarray(is_missing)) if known.null_count > text.null_count else cells


def _evened(content: Bounded, begin: int, layout: Layout) -> tuple[bytes, Int[np.ndarray, " t"], list[list[str]]]:
    """Text with a cell of each column in every row, the lines in which the rows begin, and the rows below them that are
    notes, if these have more cells than the others, or a row that is not yet written: the only one with fewer cells,
    without a line end.

    Raises:
        BrokenRow: see `cells_below`.
    """
    mark, width = layout.dialect.parsed_separator, len(layout.names)
    content.seek(begin)
    source = _Kept(codecs.getreader(layout.dialect.parsed_encoding)(content))
    reader = csv.reader(source, delimiter=mark, skipinitialspace=True)
    text, lines, first_rows = io.StringIO(newline=""), list[int](), list[list[str]]()
    writer = csv.writer(text, delimiter=mark, lineterminator="\n")
    wide: list[tuple[int, list[str]]] = []
    at, is_below_empty, n_short, end = 0, False, 0, 0
    for row in reader:
        if wide or len(row) > width:
            wide += [(at, row)] if any(row) else []
        else:
            is_below_empty = not any(row)
            n_short += 0 < len(row) < width
            end = text.tell()
            writer.writerow([*row, *[""] * (width - len(row))])
            lines.append(at)
            first_rows += [row] if len(first_rows) < SAMPLED_LINES and len(row) == width else []
        if len(wide) > MOST_NOTES:
            break
        if source.is_open(mark):
            problem = "a quotation mark has no partner; add or remove one"
            raise BrokenRow(layout.n_before + at + 1, problem)
        at = reader.line_num
    kinds = column_kinds([*zip(*(row[:SAMPLED_COLUMNS] for row in first_rows), strict=True)])
    if not wide and n_short == 1 and 0 < len(row) < width and not source.has_end and not is_note(row, kinds):
        text.truncate(end)
        wide = [(lines.pop(), row)]
    elif wide and (len(wide) > MOST_NOTES or not lines or not all(is_note(row, kinds) for _, row in wide)):
        at, row = wide[0]
        if is_below_empty:
            raise BrokenRow(layout.n_before + at + 1, another_table(mark.join(row)))
        raise BrokenRow(
            layout.n_before + at + 1,
            f"expected {width} cells as in the header, found {len(row)} in {mark.join(row)[:SHOWN]!r}; quote the "
            f"cells that contain the separator {mark!r}",
        )
    return text.getvalue().encode(), np.array(lines, dtype=np.int64), [row for _, row in wide]


class _Kept:
    """Lines, of which those of the last row are kept."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines, self._row, self.has_end = iter(lines), list[str](), True

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self._row.append(next(self._lines))
        self.has_end = self._row[-1].endswith(("\n", "\r"))
        return self._row[-1]

    def is_open(self, mark: str) -> bool:
        """Whether the row ends within quotation marks; the next line is that of another row."""
        row, self._row = self._row, []
        if len(row) > 1 or '"' in "".join(row):
            try:
                list(csv.reader(row, delimiter=mark, skipinitialspace=True, strict=True))
            except csv.Error as error:
                return "unexpected end" in str(error)
        return False
