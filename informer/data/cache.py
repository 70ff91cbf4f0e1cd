"""Arrays in files, for data larger than memory: written once, block by block, and checked whenever they are opened."""

import hashlib
import json
import logging
import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from informer.errors import InputError
from informer.files import write_atomic

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of arrays, each named by all that decides its content."""

    folder: Path

    @classmethod
    def below(cls, folder: Path, key: Any) -> "Cache":
        """The folder within `folder` that belongs to `key`, plain containers."""
        return cls(folder / _digest(key))

    def array(self, key: Any, blocks: Callable[[], Iterable[np.ndarray]], *, dtype: DTypeLike) -> np.ndarray:
        """The values of these blocks one after the other, as a map of a file; what is written to the map is lost.

        Args:
            key: plain containers; the file of the same key is taken as it is, if its checksum still holds.
            blocks: makes the blocks, where there is no such file.

        Raises:
            InputError: the folder cannot be written.
        """
        path = self._path(key, dtype)
        if not _is_whole(path):
            _write(path, (np.ascontiguousarray(block, dtype=dtype).tobytes() for block in blocks()))
        # copy on write: torch wants memory that can be written
        return np.memmap(path, dtype=dtype, mode="c")

    def forget(self, key: Any, *, dtype: DTypeLike) -> None:
        """Make an array anew when it is next asked for."""
        _checksum(self._path(key, dtype)).unlink(missing_ok=True)

    def _path(self, key: Any, dtype: DTypeLike) -> Path:
        return self.folder / f"{_digest(key)}.{np.dtype(dtype).name}"


def _checksum(path: Path) -> Path:
    return path.with_suffix(path.suffix + ".sha256")


def _digest(key: Any) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:20]


def _is_whole(path: Path) -> bool:
    checksum = _checksum(path)
    if not (path.exists() and checksum.exists()):
        return False
    with path.open("rb") as file:
        whole = hashlib.file_digest(file, "sha256").hexdigest() == checksum.read_text()
    if not whole:
        log.warning(f"{path}: not as it was written; written again")
    return whole


def _write(path: Path, blocks: Iterable[bytes]) -> None:
    digest = hashlib.sha256()
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                for block in blocks:
                    digest.update(block)
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"{path.parent}: expected a place for arrays, found: {reason}; set dataset.cache_dir"
        ) from error
    write_atomic(_checksum(path), digest.hexdigest())
