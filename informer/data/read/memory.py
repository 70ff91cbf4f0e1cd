"""Return freed memory to the operating system after a large file was read.

The C library and Arrow keep freed memory for later use. After a large file this is as much as its numbers take: the
file's text and the parser's temporary arrays.
"""

import ctypes
import sys
from functools import cache

LARGE = 1 << 26
"""Smallest size of the numbers of a file, in bytes, for which this is done; it takes milliseconds."""


def release_free(n_bytes: int) -> None:
    """Return freed memory after `n_bytes` of numbers were read; does nothing if they are fewer than LARGE."""
    if n_bytes < LARGE:
        return
    if "pyarrow" in sys.modules:  # pandas uses it for text columns
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if (library := _c_library()) is not None:
        library.malloc_trim(0)


@cache
def _c_library() -> ctypes.CDLL | None:
    """The C library, if it has a function that returns freed memory (glibc has)."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") else None
