"""Open untrusted data files: only regular files, with limits on their content."""

import gzip
import io
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from informer.base.errors import FileError
from informer.config.data import DatasetConfig

MB = 1_000_000
GZIP, PARQUET, ZIP = b"\x1f\x8b", b"PAR1", b"PK\x03\x04"
ENCRYPTED, USUAL_METHODS = 1, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""A flag of files in a zip archive, and how those that can be read are stored."""
LIMITS = DatasetConfig()
"""Settings of a dataset with the usual limits, `max_file_mb`, `max_columns` and so on."""

SMALL = 20 * MB
"""Bytes that a file may unpack to whatever its size is: small files of equal rows pack best, and cost little."""

CELL = 8
"""Bytes of a number in memory."""

FEW = SMALL // CELL
"""Cells that a file may have whatever its size is."""

_MARKS = (b"\t", b";", b"|", b",")
"""Characters that may separate cells, besides runs of blanks."""
_BLANKS = re.compile(rb" +")

BUFFER = 1 << 17
"""Bytes read at once. Larger buffers are new memory of the system for each file, which costs more than opening it."""


def long_cell(path: Path, limit: int) -> FileError:
    """The error for a cell that is too long."""
    return FileError(
        f"{path}: a cell of more than {limit} characters (dataset.max_cell); expected a table of numbers: look for an "
        "unclosed quote"
    )


@contextmanager
def open_regular(path: Path) -> Iterator[io.BufferedReader]:
    """Open a regular file; devices and pipes may hang or never end.

    Raises:
        InputError: not a regular file.
    """
    if "\0" in str(path):
        raise FileError(f"{str(path)!r}: cannot be read (file names cannot contain a null character)")
    kind = path.stat().st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):  # opening reports folders
        names = {stat.S_IFIFO: "pipe", stat.S_IFCHR: "device", stat.S_IFBLK: "device", stat.S_IFSOCK: "socket"}
        found = names.get(stat.S_IFMT(kind), "special file")
        raise FileError(f"{path}: expected a regular file, found a {found}; copy its content into a file")
    with path.open("rb") as file:
        yield file


@contextmanager
def open_table(path: Path, limits: DatasetConfig) -> Iterator[tuple["Bounded", bytes]]:
    """Open a file, or the only one of a zip archive; yields its content, decompressed and within limits, and its first
    four bytes, which show its type.

    Raises:
        InputError: not a regular file; while reading, a limit was exceeded.
    """
    with open_regular(path) as raw, ExitStack() as stack:
        start = raw.read(4)
        content: Any = gzip.GzipFile(fileobj=raw) if start.startswith(GZIP) else raw
        if start == ZIP and zipfile.is_zipfile(raw):
            archive = stack.enter_context(zipfile.ZipFile(raw))
            members = [member for member in archive.infolist() if not member.filename.startswith("__MACOSX/")]
            if len(members) == 1 and not members[0].flag_bits & ENCRYPTED and members[0].compress_type in USUAL_METHODS:
                content = stack.enter_context(archive.open(members[0]))
                start = content.read(4)
                content.seek(0)
                content = gzip.GzipFile(fileobj=content) if start.startswith(GZIP) else content
        raw.seek(0)
        is_text = start not in (PARQUET, ZIP)
        with Bounded(content, path, limits, raw.tell, is_text=is_text) as file:
            yield file, start


def check_table(path: Path, n_rows: int, n_columns: int, limits: DatasetConfig) -> None:
    """Raise an InputError if a table has too many columns or cells."""
    for what, found, most in (
        ("columns", n_columns, limits.max_columns),
        ("cells", n_rows * n_columns, limits.max_cells),
    ):
        if found > most:
            raise FileError(
                f"{path}: more than {most:,} {what}; expected a table with one row per time; raise dataset.max_{what} "
                "if it is one"
            )


def check_ratio(path: Path, size: int, packed: int, limits: DatasetConfig, small: int = SMALL) -> None:
    """Raise an InputError if `packed` bytes of a file become more than `small` bytes or cells, and too many of them."""
    if size > max(small, limits.max_ratio * packed):
        raise FileError(
            f"{path}: its content is more than {limits.max_ratio:g} times as large as the file; expected a table, not "
            "the same bytes again and again; raise dataset.max_ratio if it is one"
        )


def check_size(path: Path, n_bytes: int, limits: DatasetConfig) -> None:
    """Raise an InputError if the content exceeds the size limit."""
    if n_bytes > limits.max_file_mb * MB:
        most = f"{limits.max_file_mb:g} MB uncompressed"
        raise FileError(f"{path}: more than {most}; use a smaller file, or raise dataset.max_file_mb")


class Bounded(io.BufferedReader):
    """A stream that raises an InputError where it exceeds a limit.

    Args:
        content: the stream.
        path: its name in the error.
        limits: the limits.
        packed: returns how many bytes of a file the content, as far as it was read, takes there.
        is_text: whether it has lines.
    """

    def __init__(
        self,
        content: io.BufferedIOBase,
        path: Path,
        limits: DatasetConfig,
        packed: Callable[[], int],
        *,
        is_text: bool = True,
    ) -> None:
        self._counted = _Counted(content, path, limits, packed, is_text=is_text)
        super().__init__(self._counted, BUFFER)

    def of(self, text: bytes) -> "Bounded":
        """Other text of the same file."""
        return Bounded(io.BytesIO(text), self._counted.path, self._counted.limits, self._counted.packed)

    def count_columns(self, n: int) -> None:
        """Count `n` cells for each line, which it takes in memory however short it is."""
        self._counted.n_columns = n
        self._counted.check_cells()


class _Counted(io.RawIOBase):
    """Forwards a stream and counts what it reads since the last seek: bytes, and of text also lines, and the bytes and
    columns of each line. Arguments as of `Bounded`."""

    def __init__(
        self, content: io.BufferedIOBase, path: Path, limits: DatasetConfig, packed: Callable[[], int], *, is_text: bool
    ) -> None:
        self.path, self.limits, self.packed, self.n_columns = path, limits, packed, 1
        self._content, self._is_text = content, is_text
        given = (limits.separator or "").encode()
        self._marks = _MARKS if len(given) != 1 or given in (*_MARKS, b" ") else (*_MARKS, given)
        self._total, self._n_lines = 0, 0
        self._begin_line()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._total, self._n_lines = self._content.seek(offset, whence), 0
        self._begin_line()
        return self._total

    def tell(self) -> int:
        return self._content.tell()

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read the next bytes; an InputError if a limit is exceeded."""
        content = self._content.read(len(buffer))
        buffer[: len(content)] = content
        self._total += len(content)
        check_size(self.path, self._total, self.limits)
        check_ratio(self.path, self._total, self.packed(), self.limits)
        if self._is_text:
            self._check_lines(content)
            self.check_cells()
        return len(content)

    def check_cells(self) -> None:
        """Check the cells of the lines so far; those of rows that are shorter than the header take no bytes."""
        n_cells = self._n_lines * self.n_columns
        check_table(self.path, self._n_lines, self.n_columns, self.limits)
        check_ratio(self.path, n_cells, self.packed(), self.limits, FEW)
        check_ratio(self.path, n_cells * CELL, self._total, self.limits)

    def _check_lines(self, content: bytes) -> None:
        """Count the lines that end in `content`, and the columns of those that may have too many: a line has more bytes
        than separators."""
        end, most = b"\n" if b"\n" in content else b"\r", self.limits.max_columns
        self._n_lines += content.count(end)
        first, last = content.find(end), content.rfind(end)
        self._add_to_line(content if first < 0 else content[:first])
        if first < 0:
            return
        begin = first + 1
        while last - begin > most:
            after = content.rfind(end, begin, begin + most) + 1
            if not after:  # a long line
                after = content.index(end, begin) + 1
                self._begin_line()
                self._add_to_line(content[begin : after - 1])
            begin = after
        self._begin_line()
        self._add_to_line(content[last + 1 :])

    def _begin_line(self) -> None:
        self._line, self._columns = 0, [1] * (len(self._marks) + 1)

    def _add_to_line(self, part: bytes) -> None:
        self._line += len(part)
        if self._line > self.limits.max_line_mb * MB:
            raise FileError(
                f"{self.path}: a line of more than {self.limits.max_line_mb:g} MB; expected a table with one line "
                "per time; raise dataset.max_line_mb if it is one"
            )
        counts = [*map(part.count, self._marks), len(_BLANKS.findall(part))]
        self._columns = [before + more for before, more in zip(self._columns, counts, strict=True)]
        check_table(self.path, 0, max(self._columns), self.limits)
