"""A file that a run appends to, and cuts back to its length at the last save when the run is resumed."""

import os
from pathlib import Path

from informer.files import refuse_link, writing


class AppendedFile:
    """Bytes at the end of a file.

    Args:
        path: of the file.
        length: bytes of an existing file to keep; the rest is removed.

    Raises:
        InputError: the file cannot be written; raised by every method.
    """

    def __init__(self, path: Path, *, length: int = 0) -> None:
        self.path = path
        refuse_link(path)
        with writing(path):
            self._file = path.open("ab")
            if length < self._size():
                self._file.truncate(length)
        self.is_new = not self._size()

    def flush(self) -> None:
        """Make what was written visible to other programs."""
        with writing(self.path):
            self._file.flush()

    def sync(self) -> int:
        """Write everything to disk; returns the length of the file."""
        self.flush()
        with writing(self.path):
            os.fsync(self._file.fileno())
        return self._size()

    def close(self) -> None:
        """Write the rest and close."""
        with writing(self.path):
            self._file.close()

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size
