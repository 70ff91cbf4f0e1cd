"""Progress reports of a long command, for a display that listens."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Current activity, and the best result so far; None: unchanged.

    Args:
        doing: current activity, such as `training, step 120 of 400`.
        best: validation loss of the best forecaster so far.
        baseline: validation loss of the best baseline.
        baseline_name: name of that baseline.
    """

    doing: str | None = None
    best: float | None = None
    baseline: float | None = None
    baseline_name: str | None = None


_listener: ContextVar[Callable[[Status], None] | None] = ContextVar("listener", default=None)


def report(status: Status) -> None:
    """Notify the listener, if any."""
    listener = _listener.get()
    if listener is not None:
        listener(status)


@contextmanager
def listening(listener: Callable[[Status], None]) -> Iterator[None]:
    """Within the context, `listener` is called with every reported status."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
