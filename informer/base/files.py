"""Writing files: atomically, so that readers see the old content or the new, or by appending.

Folder locks: one writer at a time; the operating system releases the lock when its process ends for any reason.

`flock` on POSIX, a locked byte of the file on Windows. The content of the lock file is only for messages.
"""

import csv
import errno
import io
import logging
import os
import re
import secrets
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO

from informer.base.errors import FileError, InputError, reason_of

log = logging.getLogger(__name__)


TEMPORARY = ".tmp"
_DIGITS = 8
_LONGEST_NAME = 255
"""Maximum length of a file name in bytes."""

MOST_COMPARED, LIKE = 1000, 0.8
"""Number of files in a folder whose names are compared with one that does not exist, and minimum similarity."""


def expanded(path: str | Path) -> Path:
    """A path with `~` and `~user` expanded as in a shell; unchanged if there is no such user."""
    return Path(os.path.expanduser(path))


@contextmanager
def writing(path: Path, cure: str = "choose another") -> Iterator[None]:
    """Turn errors of writing `path` (no space, no permission) into an InputError, with what to do."""
    if "\0" in str(path):
        raise FileError(f"{path}: expected a writable path, found a NUL character in it; {cure}")
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"{path}: expected a writable path, found: {reason}; {cure}") from error


def missing_file(path: Path) -> InputError:
    """The error for a path that does not exist; names the file of the folder that was probably meant."""
    names: list[str] = []
    with suppress(OSError):
        names = [other.name for other in islice(path.parent.iterdir(), MOST_COMPARED)]
    close = get_close_matches(path.name, names, n=1, cutoff=LIKE)
    return FileError(f"{path}: no such file, {f'similar: {path.with_name(close[0])}' if close else 'check the path'}")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of reading `path` into an InputError."""
    try:
        yield
    except FileNotFoundError as error:
        raise missing_file(path) from error
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({reason_of(error)})") from error


def file_stems(names: Iterable[str]) -> dict[str, str]:
    """A unique part of a file name for each name: letters, digits and `._-`, at most 80 before a number."""
    stems: dict[str, str] = {}
    for name in names:
        stem = re.sub(r"[^\w.-]+", "-", name)[:80].strip(".") or "_"
        taken, count = {each.lower() for each in stems.values()}, 1
        while (f"{stem}_{count}" if count > 1 else stem).lower() in taken:
            count += 1
        stems[name] = f"{stem}_{count}" if count > 1 else stem
    return stems


def fingerprint(path: Path) -> tuple[str, str]:
    """Size and modification time of a file; empty if it does not exist."""
    state = _state(path)
    return ("", "") if state is None else (str(state.st_size), str(state.st_mtime_ns))


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (OSError, ValueError):  # no such file; a NUL in its name
        return None


def csv_text(rows: Iterable[Iterable[object]], *, separator: str = ",", quoting: Any = csv.QUOTE_MINIMAL) -> str:
    """Rows of cells as CSV text."""
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n", quoting=quoting).writerows(rows)
    return text.getvalue()


def write_atomic(path: str | Path, content: bytes | str, *, durable: bool = True) -> None:
    """Write `content` (text as UTF-8) to `path` through a temporary file next to it; folders are created as needed.

    If the program fails, the old file is unchanged.

    Args:
        path: path of the file.
        content: its new content.
        durable: wait until it is on disk, even for a power failure; takes milliseconds, too slow for thousands of small
            files.

    Raises:
        InputError: the path cannot be written.
    """
    path = Path(path)
    data = content.encode(errors="surrogateescape") if isinstance(content, str) else content
    with replacing(path) as temporary:
        _write_through(temporary, data, durable=durable)
    if durable:
        with writing(path):
            _sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Create a folder and its parents; an InputError if that fails."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def replacing(path: Path, cure: str = "choose another") -> Iterator[Path]:
    """A temporary path next to `path` for content in pieces; renamed to `path` at the end, removed after a failure.

    Raises:
        InputError: the path cannot be written.
    """
    temporary = path.with_name(f".{_short(path.name)}.{secrets.token_hex(_DIGITS // 2)}{TEMPORARY}")
    with writing(path, cure):
        if not path.parent.is_dir():  # usually it is, and then this takes less time than an attempt to create it
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def refuse_link(path: Path) -> None:
    """Check that a path in a run directory is not a link: the folder may be from anyone, and the link point anywhere.

    Raises:
        InputError: `path` is a symbolic link.
    """
    if path.is_symlink():
        raise FileError(f"{path}: expected a file or folder of the run, found a link to {path.readlink()}; remove it")


def _short(name: str) -> str:
    """A name with room for a prefix and a suffix."""
    longest = _LONGEST_NAME - len(TEMPORARY) - _DIGITS - 2
    return os.fsencode(name)[:longest].decode(errors="ignore") if len(os.fsencode(name)) > longest else name


def remove_temporary(paths: Iterable[Path]) -> None:
    """Remove temporary files of `replacing` that a killed process left next to these files, and no others."""
    names: dict[Path, set[str]] = {}
    for path in paths:
        names.setdefault(path.parent, set()).add(_short(path.name))
    for folder, file_names in names.items():
        for temporary in folder.glob(f".*.{'[0-9a-f]' * _DIGITS}{TEMPORARY}"):
            if temporary.name[1 : -len(TEMPORARY) - _DIGITS - 1] in file_names:
                temporary.unlink(missing_ok=True)


def check_no_input_overwritten(inputs: Iterable[Path], outputs: Iterable[Path], setting: str) -> None:
    """Raise an InputError if an output would overwrite an input, under any name.

    Args:
        inputs, outputs: paths.
        setting: the key of the output, for the error.
    """
    by_place = {place: path for path in inputs if (place := _place(path)) is not None}
    for output in outputs:
        if (place := _place(output)) in by_place:
            raise InputError(
                f"{setting}: expected another path, found {output}, which would overwrite the input {by_place[place]}; "
                "choose one"
            )


def _place(path: Path) -> tuple[int, int] | None:
    """Identity of a file, independent of its name; None if it does not exist."""
    state = _state(path)
    return None if state is None else (state.st_dev, state.st_ino)


def _write_through(path: Path, data: bytes, *, durable: bool) -> None:
    with path.open("xb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot open a folder, whose renames are durable without it
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


LOCK = ".informer.lock"

_BUSY = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}
"""Errors for a lock held by another process, on different systems."""

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30
    """Position of the locked byte, which other processes cannot read, unlike the name of the holder at the start."""

    def _take(file: BinaryIO) -> None:
        file.seek(_FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        file.seek(0)

    def wait_for_lock(file: BinaryIO) -> None:
        """Lock an open file until it is closed, as soon as no other process does."""
        file.seek(_FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)

else:
    import fcntl

    def _take(file: BinaryIO) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def wait_for_lock(file: BinaryIO) -> None:
        """Lock an open file until it is closed, as soon as no other process does."""
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)


@contextmanager
def only_writer(folder: Path, setting: str, *, new: bool = False) -> Iterator[Path]:
    """Hold the lock of a folder, created as needed, and yield its path; a created folder that stays empty is removed.

    Args:
        setting: the key that set the folder, for errors.
        new: a folder that does not exist yet: `folder`, or `folder`_2, _3, ... if it does.

    Raises:
        InputError: another process holds the lock, or the folder cannot be written.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        if new:
            folder = _made(folder)
            missing = [folder, *missing]
        else:
            make_folder(folder)
        with _locked(folder, setting):
            yield folder
    finally:
        for place in dict.fromkeys(missing):
            with suppress(OSError, ValueError):  # not empty, or its name contains a NUL
                place.rmdir()


def _made(folder: Path) -> Path:
    for number in count(1):
        path = folder if number == 1 else folder.with_name(f"{folder.name}_{number}")
        with writing(path), suppress(FileExistsError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir()
            return path
    raise AssertionError("the numbers do not end")


_held: set[Path] = set()
"""Folders that commands of this process have locked: what they call may write there too."""


@contextmanager
def _locked(folder: Path, setting: str) -> Iterator[None]:
    path, place = folder / LOCK, folder.resolve()
    if place in _held:
        yield
        return
    with writing(path):
        file = _taken(path, setting)
    _held.add(place)
    try:
        yield
    finally:
        _held.remove(place)
        if os.name == "nt":  # Windows cannot remove an open file
            file.close()
        with suppress(PermissionError):
            path.unlink(missing_ok=True)
        file.close()


def _taken(path: Path, setting: str) -> BinaryIO:
    while True:
        # do not follow a link: the folder may be from anyone
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        file = os.fdopen(descriptor, "r+b")
        try:
            _take(file)
        except OSError as error:
            if error.errno in _BUSY:
                holder = file.read(200).decode(errors="replace") or "another process"
                file.close()
                raise InputError(
                    f"{setting}={path.parent}: another process is writing to this folder ({holder}"
                    "); choose another, or wait until it has ended"
                ) from error
            log.warning(f"{path}: its file system has no locks ({error.strerror}); do not start another run there")
            return file
        if _leads_to(path, file):
            file.truncate()
            file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
            file.flush()
            return file
        file.close()  # the previous holder removed it after it was opened


def _leads_to(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
