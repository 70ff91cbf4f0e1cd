"""Open untrusted data files: only regular files, with limits on their content."""

import gzip
import io
import stat
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from informer.base.errors import InputError
from informer.config.data import DatasetConfig

MB = 1_000_000
GZIP, PARQUET, ZIP = b"\x1f\x8b", b"PAR1", b"PK\x03\x04"
ENCRYPTED, USUAL_METHODS = 1, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""A flag of files in a zip archive, and how those that can be read are stored."""
LIMITS = DatasetConfig()
"""Settings of a dataset with the usual limits, `max_file_mb`, `max_line_mb` and `max_cell`."""

BUFFER = 1 << 17
"""Bytes read at once. Larger buffers are new memory of the system for each file, which costs more than opening it."""


def long_cell(path: Path, limit: int) -> InputError:
    """The error for a cell that is too long."""
    return InputError(
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
        raise InputError(f"{str(path)!r}: cannot be read (file names cannot contain a null character)")
    kind = path.stat().st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):  # opening reports folders
        names = {stat.S_IFIFO: "pipe", stat.S_IFCHR: "device", stat.S_IFBLK: "device", stat.S_IFSOCK: "socket"}
        found = names.get(stat.S_IFMT(kind), "special file")
        raise InputError(f"{path}: expected a regular file, found a {found}; copy its content into a file")
    with path.open("rb") as file:
        yield file


@contextmanager
def open_table(path: Path, limits: DatasetConfig) -> Iterator[tuple[io.BufferedReader, bytes]]:
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
                content, start = stack.enter_context(archive.open(members[0])), b""
        raw.seek(0)
        with bounded(content, path, limits) as file:
            yield file, start


def bounded(content: io.BufferedIOBase, path: Path, limits: DatasetConfig) -> io.BufferedReader:
    """A stream that raises an InputError if it exceeds a limit; `path` is its name in the error."""
    return io.BufferedReader(_Bounded(content, path, limits), buffer_size=BUFFER)


def check_size(path: Path, n_bytes: int, limits: DatasetConfig) -> None:
    """Raise an InputError if the content exceeds the size limit."""
    if n_bytes > limits.max_file_mb * MB:
        most = f"{limits.max_file_mb:g} MB uncompressed"
        raise InputError(f"{path}: more than {most}; use a smaller file, or raise dataset.max_file_mb")


class _Bounded(io.RawIOBase):
    """Forwards a stream and counts its bytes, in total and since the last line end.

    After a seek to a position other than the start, as for parquet, lines are not checked.
    """

    def __init__(self, content: io.BufferedIOBase, path: Path, limits: DatasetConfig) -> None:
        self._content = content
        self._path = path
        self._limits = limits
        self._total = 0
        self._line: int | None = 0
        """Bytes since the last line end; None if unknown."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._total = self._content.seek(offset, whence)
        self._line = None if self._total else 0
        return self._total

    def tell(self) -> int:
        return self._content.tell()

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read the next bytes; an InputError if a limit is exceeded."""
        content = self._content.read(len(buffer))
        buffer[: len(content)] = content
        self._total += len(content)
        check_size(self._path, self._total, self._limits)
        if self._line is None:
            return len(content)
        mark = b"\n" if b"\n" in content else b"\r"
        first = content.find(mark)
        longest = self._line + (len(content) if first < 0 else first)
        self._line = longest if first < 0 else len(content) - 1 - content.rfind(mark)
        if max(longest, self._line) > self._limits.max_line_mb * MB:
            raise InputError(
                f"{self._path}: a line of more than {self._limits.max_line_mb:g} MB; expected a table with one line "
                "per time; raise dataset.max_line_mb if it is one"
            )
        return len(content)
