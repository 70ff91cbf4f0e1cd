"""Folder locks: one writer at a time; the operating system releases the lock when its process ends for any reason.

`flock` on POSIX, a locked byte of the file on Windows. The content of the lock file is only for messages.
"""

import errno
import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

from informer.errors import InputError
from informer.files import writing

log = logging.getLogger(__name__)

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

else:
    import fcntl

    def _take(file: BinaryIO) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def only_writer(folder: Path, setting: str) -> Iterator[None]:
    """Hold the lock of a folder, created as needed; a created folder that stays empty is removed.

    Args:
        setting: the key that set the folder, for errors.

    Raises:
        InputError: another process holds the lock, or the folder cannot be written.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder, setting):
            yield
    finally:
        _remove_empty(missing)


@contextmanager
def only_writer_of_new(folder: Path, setting: str) -> Iterator[Path]:
    """Create and lock a new folder: `folder`, or `folder`_2, _3, ... if it exists; yields its path."""
    missing = [place for place in folder.parents if not place.exists()]
    try:
        created = _made(folder)
        try:
            with _locked(created, setting):
                yield created
        finally:
            _remove_empty([created])
    finally:
        _remove_empty(missing)


def _made(folder: Path) -> Path:
    for number in count(1):
        path = folder if number == 1 else folder.with_name(f"{folder.name}_{number}")
        with writing(path), suppress(FileExistsError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir()
            return path
    raise AssertionError("the numbers do not end")


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        with suppress(OSError, ValueError):  # not empty, or its name contains a NUL
            folder.rmdir()


@contextmanager
def _locked(folder: Path, setting: str) -> Iterator[None]:
    path = folder / LOCK
    with writing(path):
        file = _taken(path, setting)
    try:
        yield
    finally:
        if os.name == "nt":  # Windows cannot remove an open file
            file.close()
        with suppress(PermissionError):
            path.unlink(missing_ok=True)
        file.close()


def _taken(path: Path, setting: str) -> BinaryIO:
    """The lock file, locked."""
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
