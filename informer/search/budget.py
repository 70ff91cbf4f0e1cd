"""Time budget of a search and the run that follows it."""

import math
import time
from collections.abc import Callable
from typing import final


@final
class Budget:
    """Time budget of a search and its run together.

    Args:
        minutes: length of the budget. None: unlimited.
        clock: returns the current time in seconds.
        began: start of the budget, in seconds of `clock`. Default: now.
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
        """Seconds left; negative once the budget is used up."""
        return self._end - self.clock()

    @property
    def spent(self) -> float:
        """Seconds used."""
        return self.clock() - self._begin

    def spend(self, seconds: float) -> None:
        """Count `seconds` that were used before this process started."""
        self._begin, self._end = self._begin - seconds, self._end - seconds
