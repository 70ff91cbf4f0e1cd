"""How many inputs are generated: the same few in `make test`, others each time and for minutes in `make fuzz`."""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

MINUTES = float(os.environ.get("FUZZ_MINUTES", "0"))
"""About how long the tests of this folder take together; 0: seconds."""


def examples(quick: int, a_minute: int) -> Callable[[Any], Any]:
    """Decorator of a test: the number of its inputs without and with MINUTES."""
    number = int(a_minute * MINUTES) or quick
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
    return settings(max_examples=number, derandomize=not MINUTES, deadline=None, suppress_health_check=slow)
