"""Set up a command's process before slow imports: Ctrl-C, and UTF-8 in an ASCII locale.

Imports nothing from the package and nothing heavy.

Ctrl-C and SIGTERM as a stop request, polled between steps.
"""

import codecs
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import NoReturn, final

EXIT_INTERRUPTED = 130


_is_command = False
"""Whether the process runs one command, and nothing else."""


def begin() -> None:
    """Set up the process: Ctrl-C ends it with one line; file names are UTF-8 in any locale. Must be called first."""
    global _is_command
    _is_command = True
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed, as cron and service managers may do
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (as long as the process)
    signal.signal(signal.SIGINT, end_at_once)
    if codecs.lookup(sys.getfilesystemencoding()).name == "ascii":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def run(main: Callable[[], None]) -> None:
    """Run the command; afterwards Ctrl-C is silent until the process ends."""
    try:
        main()
    finally:
        signal.signal(signal.SIGINT, end_quietly)


@contextmanager
def loading() -> Iterator[None]:
    """Import modules without collecting garbage: what they create stays, and looking at it again and again takes a
    quarter of the time. In a command's process it is then left out of all collections, in others it may be theirs."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if _is_command:
            gc.freeze()
        if was_enabled:
            gc.enable()


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


SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """The run was stopped between two steps, and its state was saved.

    Args:
        number: the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.exit_status = 128 + number


@final
class StopRequest:
    """Context manager in which Ctrl-C and SIGTERM are only recorded.

    Signals can only be handled in the main thread; in others they keep their handlers.

    Args:
        second_ends: a second Ctrl-C raises KeyboardInterrupt immediately; not under torchrun, which repeats the first.
    """

    def __init__(self, *, second_ends: bool = True) -> None:
        self._second_ends = second_ends
        self.signal = 0
        """The received signal; 0: none."""
        self._before: dict[int, object] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        if self._second_ends:
            signal.signal(signal.SIGINT, interrupt)
