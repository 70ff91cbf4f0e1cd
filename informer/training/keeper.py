"""When a run saves itself between two steps, and when it ends there."""

import time
from collections.abc import Callable
from typing import final

import torch

from informer.training.distributed import Processes
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
        processes: that must agree.
        device: through which they do.
        clock: seconds since some moment.
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

    def is_due(self, *, together: bool) -> bool:
        """There is a reason to save now.

        Args:
            together: all processes ask at this moment; where there are several they can agree only then.
        """
        if self._processes.size > 1 and not together:
            return False
        late = self._seconds is not None and self._clock() - self._saved_at >= self._seconds
        asked, late_anywhere = self._processes.largest([float(self._stop.signal), float(late)], self._device)
        self._signal = int(asked)
        return bool(asked or late_anywhere)

    def keep(self, state: State, *, is_best: bool = False) -> None:
        """Save.

        Raises:
            Interrupted: the run was asked to stop when `is_due` was last asked.
        """
        self._save(state, is_best)
        self._saved_at = self._clock()
        if self._signal:
            raise Interrupted(self._signal)
