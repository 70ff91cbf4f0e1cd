"""Ctrl-C and SIGTERM as a stop request, polled between steps."""

import signal
import threading
from types import FrameType, TracebackType
from typing import final

from informer.start import interrupt

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
