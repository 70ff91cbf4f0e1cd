"""The time that a search and its run may take."""

import math
import time
from collections.abc import Callable
from typing import final


@final
class Budget:
    """Time for search and run together.

    Args:
        minutes: None is no bound.
        clock: seconds since some moment.
        began: on the clock; None: now.
    """

    def __init__(
        self, minutes: float | None, *, clock: Callable[[], float] = time.monotonic, began: float | None = None
    ) -> None:
        self.clock = clock
        self._begin = clock() if began is None else began
        self.whole = math.inf if minutes is None else 60 * minutes
        self._end = self._begin + self.whole

    @property
    def left(self) -> float:
        """Seconds."""
        return self._end - self.clock()

    @property
    def spent(self) -> float:
        """Seconds."""
        return self.clock() - self._begin

    def spend(self, seconds: float) -> None:
        """Take away what was used before."""
        self._begin, self._end = self._begin - seconds, self._end - seconds
