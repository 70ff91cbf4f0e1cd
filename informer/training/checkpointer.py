"""Saves a run between two steps, and stops it there on request."""

import time
from collections.abc import Callable
from typing import final

import torch

from informer.training.distributed import Processes
from informer.training.signals import Interrupted, StopRequest
from informer.training.state import State

Save = Callable[[State, bool], None]
"""Saves the state; the flag says whether its validation loss is the lowest so far."""


@final
class Checkpointer:
    """Saves at regular intervals and on a stop request.

    Args:
        save: writes the state.
        every_minutes: interval between saves; None: only on a stop request.
        stop: the stop request.
        processes: processes of the run, which must agree.
        device: device of their communication.
        clock: time in seconds.
    """

    def __init__(
        self,
        save: Save,
        *,
        every_minutes: float | None,
        stop: StopRequest,
        processes: Processes,
        device: torch.device,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._save = save
        self._stop = stop
        self._seconds = None if every_minutes is None else 60.0 * every_minutes
        self._processes = processes
        self._device = device
        self._clock = clock
        self._saved_at = clock()
        self._signal = 0

    def now(self) -> float:
        """Time of the clock in seconds."""
        return self._clock()

    def is_due(self, *, together: bool) -> bool:
        """Whether to save now.

        Args:
            together: all processes call this at the same step; otherwise a run with several processes does not save.
        """
        if self._processes.size > 1 and not together:
            return False
        late = self._seconds is not None and self._clock() - self._saved_at >= self._seconds
        requested, late_anywhere = self._processes.maximum([float(self._stop.signal), float(late)], self._device)
        self._signal = int(requested)
        return bool(requested or late_anywhere)

    def save(self, state: State, *, is_best: bool = False) -> None:
        """Save the state.

        Raises:
            Interrupted: the last call of `is_due` found a stop request.
        """
        self._save(state, is_best)
        self._saved_at = self._clock()
        if self._signal:
            raise Interrupted(self._signal)
