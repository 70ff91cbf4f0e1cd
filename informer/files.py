"""Writing files so that a reader sees the old content or the new, never a part of it."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from informer.errors import InputError

TEMPORARY = ".tmp"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What keeps `path` from being written (no space, no permission) becomes an InputError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{path}: expected a place that can be written, found: {reason}; choose another") from error


def write_atomic(path: str | Path, content: bytes | str, *, durable: bool = True) -> None:
    """Write `content` (text as UTF-8) to `path` through a temporary file beside it; folders are made as needed.

    After a failure of the program the file is as it was before. `durable`: content and name are on disk when this
    returns, whatever becomes of the machine; that takes milliseconds, which thousands of small files need not wait for.

    Raises:
        InputError: the place cannot be written.
    """
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    with replacing(path) as temporary:
        _write_through(temporary, data, durable=durable)
    if durable:
        with writing(path):
            _sync_folder(path.parent)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place beside `path` for content that comes in pieces; it is `path` in the end, or gone after a failure.

    Raises:
        InputError: the place cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def remove_temporary(folder: Path) -> None:
    """Remove what a process that was killed inside `replacing` left in `folder` and below."""
    for left in folder.rglob(f".*.{'[0-9a-f]' * 8}{TEMPORARY}"):
        left.unlink(missing_ok=True)


def _write_through(path: Path, data: bytes, *, durable: bool) -> None:
    with path.open("xb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot open a folder, and its rename is durable without this
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
