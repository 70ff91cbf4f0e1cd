"""Set up a command's process before slow imports: Ctrl-C, and UTF-8 in an ASCII locale.

Imports nothing from the package and nothing heavy.
"""

import codecs
import importlib
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

EXIT_INTERRUPTED = 130

_began: list[float] = []


def begin() -> None:
    """Set up the process: Ctrl-C ends it with one line; file names are UTF-8 in any locale. Must be called first."""
    _began[:] = [time.monotonic()]
    signal.signal(signal.SIGINT, end_at_once)
    if codecs.lookup(sys.getfilesystemencoding()).name == "ascii":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def take_beginning() -> float | None:
    """Start of the command in `time.monotonic()`, for the first call in the process; None for later calls."""
    return _began.pop() if _began else None


def run(main: Callable[[], None]) -> None:
    """Run the command; afterwards Ctrl-C is silent until the process ends."""
    try:
        main()
    finally:
        signal.signal(signal.SIGINT, end_quietly)


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Handler of Ctrl-C while a command runs: clean up first; a second Ctrl-C does not wait for that."""
    signal.signal(signal.SIGINT, end_at_once)
    raise KeyboardInterrupt


def end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """Handler of Ctrl-C when there is nothing to clean up, or for a second Ctrl-C."""
    os.write(2, b"interrupted\n")
    os._exit(EXIT_INTERRUPTED)


def end_quietly(number: int, frame: FrameType | None) -> NoReturn:
    """Handler of Ctrl-C after all output."""
    os._exit(EXIT_INTERRUPTED)


def run_module(name: str) -> None:
    """Run the command `informer.<name>`."""
    run(importlib.import_module(f"informer.{name}").main)
