"""Arrays in files, for data larger than memory: written once, block by block, and verified when opened."""

import hashlib
import json
import logging
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from informer.base.errors import InputError
from informer.base.files import expanded, write_atomic
from informer.base.runtime import versions
from informer.config.data import DatasetConfig, settings_that
from informer.data.panel import Attributes, series_names

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of array files, each named by a hash of its key."""

    folder: Path

    @classmethod
    def below(cls, folder: Path, key: Any) -> "Cache":
        """The cache for `key` (plain containers) in a subfolder of `folder`."""
        return cls(folder / _digest(key))

    def array(self, key: Any, blocks: Callable[[], Iterable[np.ndarray]], *, dtype: DTypeLike) -> np.ndarray:
        """The concatenated values of blocks as a memory map of a file; writes to the map are not saved.

        Args:
            key: plain containers; an existing file with this key is used if its checksum matches.
            blocks: computes the blocks if there is no such file.
            dtype: type of the values.

        Raises:
            InputError: the folder is not writable.
        """
        path = self._path(key, dtype)
        if not is_whole(path):
            _write(path, (np.ascontiguousarray(block, dtype=dtype).tobytes() for block in blocks()))
        # copy on write: torch requires writable memory
        return np.memmap(path, dtype=dtype, mode="c")

    def forget(self, key: Any, *, dtype: DTypeLike) -> None:
        """Compute an array again when it is next requested."""
        _checksum(self._path(key, dtype)).unlink(missing_ok=True)

    def _path(self, key: Any, dtype: DTypeLike) -> Path:
        return self.folder / f"{_digest(key)}.{np.dtype(dtype).name}"


def _checksum(path: Path) -> Path:
    return path.with_suffix(path.suffix + ".sha256")


def _digest(key: Any) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True, default=str).encode()).hexdigest()[:20]


def write_checked(path: Path, content: str) -> None:
    """Write text with a checksum for `is_whole`."""
    write_atomic(path, content)
    write_atomic(_checksum(path), hashlib.sha256(content.encode()).hexdigest())


def is_whole(path: Path) -> bool:
    """Whether a file is unchanged since it was written; damage is logged, because cached content can be recomputed."""
    checksum = _checksum(path)
    if not (path.exists() and checksum.exists()):
        return False
    try:
        with path.open("rb") as file:
            unchanged = hashlib.file_digest(file, "sha256").hexdigest().encode() == checksum.read_bytes()
    except OSError:  # a folder, or unreadable: writing will raise
        unchanged = False
    if not unchanged:
        log.warning(f"{path}: damaged cache file; writing it again")
    return unchanged


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
            f"{path.parent}: expected a writable folder for arrays, found: {reason}; set dataset.cache_dir"
        ) from error
    write_atomic(_checksum(path), digest.hexdigest())


def dataset_cache(
    dataset: DatasetConfig, data_dir: Path, paths: Sequence[Path], sha256: str, attributes: Attributes | None = None
) -> Cache:
    """The cache for files with this checksum, read with these settings, attributes and versions of libraries."""
    key = {
        "versions": versions(),
        "sha256": sha256,
        "files": [path.name for path in paths],
        "series": series_names(paths),
        "settings": {name: getattr(dataset, name) for name in settings_that(reading=True)},
        "attributes": attributes and attributes.to_plain(),
    }
    folder = expanded(dataset.cache_dir) if dataset.cache_dir else data_dir / "cache"
    return Cache.below(folder, key)
