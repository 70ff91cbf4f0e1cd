"""Memory that was freed while a large file was read, given back to the system.

The C library and Arrow keep what is freed for later use, which after a large file is as much as its numbers: chunks of
text and the temporary arrays of the parser.
"""

import ctypes
import sys
from functools import cache

LARGE = 1 << 26
"""Bytes of numbers from which on it is worth the milliseconds that it takes."""


def release_free(n_bytes: int) -> None:
    """Give back what is free after `n_bytes` of numbers were read; does nothing for few of them."""
    if n_bytes < LARGE:
        return
    if "pyarrow" in sys.modules:  # which pandas uses for text
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if (library := _c_library()) is not None:
        library.malloc_trim(0)


@cache
def _c_library() -> ctypes.CDLL | None:
    """The C library, if it can give back memory by a call, as that of GNU can."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") else None
