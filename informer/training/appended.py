"""A file that a run appends to; a resumed run truncates it to its length at the last save."""

import os
from pathlib import Path

from informer.files import refuse_link, writing


class AppendedFile:
    """Appends bytes to a file.

    Args:
        path: path of the file.
        length: bytes of an existing file to keep; the rest is truncated.

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
        """Make written bytes visible to other programs."""
        with writing(self.path):
            self._file.flush()

    def sync(self) -> int:
        """Write everything to disk; returns the length of the file."""
        self.flush()
        with writing(self.path):
            os.fsync(self._file.fileno())
        return self._size()

    def close(self) -> None:
        """Flush and close the file."""
        with writing(self.path):
            self._file.close()

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size
