"""When a run saves itself between two steps, and when it ends there."""

import time
from collections.abc import Callable
from typing import final

from informer.training.signals import Interrupted, StopRequest
from informer.training.state import State

Save = Callable[[State, bool], None]
"""Write the state down; True: it has the lowest validation loss so far."""


@final
class Keeper:
    """Saves every so many minutes, and when the run is asked to stop.

    Args:
        save: writes the state.
        every_minutes: between two saves; None: only when asked to stop.
        stop: the signal that asks.
    """

    def __init__(self, save: Save, *, every_minutes: float | None, stop: StopRequest) -> None:
        self._save = save
        self._stop = stop
        self._seconds = None if every_minutes is None else 60.0 * every_minutes
        self._saved_at = time.monotonic()

    @property
    def is_due(self) -> bool:
        """There is a reason to save now."""
        late = self._seconds is not None and time.monotonic() - self._saved_at >= self._seconds
        return late or bool(self._stop.signal)

    def keep(self, state: State, *, is_best: bool = False) -> None:
        """Save.

        Raises:
            Interrupted: the run was asked to stop.
        """
        self._save(state, is_best)
        self._saved_at = time.monotonic()
        if self._stop.signal:
            raise Interrupted(self._stop.signal)
