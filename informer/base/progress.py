"""Progress reports of a long command, for a display that listens."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Listener = Callable[[Mapping[str, Any]], None]
"""Gets what has changed, by the names of the arguments of `report`."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def report(
    doing: str | None = None,
    *,
    best: float | None = None,
    baseline: float | None = None,
    baseline_name: str | None = None,
) -> None:
    """Tell the listener, if any, what has changed; None: unchanged.

    Args:
        doing: current activity, such as `training, step 120 of 400`.
        best: validation loss of the best forecaster so far.
        baseline, baseline_name: validation loss of the best baseline, and its name.
    """
    if (listener := _listener.get()) is not None:
        now = {"doing": doing, "best": best, "baseline": baseline, "baseline_name": baseline_name}
        listener({name: value for name, value in now.items() if value is not None})


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within the context, `listener` gets every report."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
