"""Informer: long-horizon time-series forecasting with 32 attention mechanisms (28 classes; auto chooses between two).

from informer import Forecaster
Forecaster("small", target="sales").fit(frame).predict(frame)
"""

import os
from typing import TYPE_CHECKING, Any

# Idle threads that spin take cores from working ones: on two busy cores a small training step then takes 50 times as
# long. OpenMP reads this when torch is first imported; a value set by the user is kept.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:
    from informer.base.errors import InputError
    from informer.forecaster import Forecaster

__version__ = "0.1.0"
__all__ = ["Forecaster", "InputError", "__version__"]


def __getattr__(name: str) -> Any:
    # torch and pandas take seconds to import; asking for the version should not need them
    if name == "Forecaster":
        from informer.base.start import loading

        with loading():
            from informer.forecaster import Forecaster

        return Forecaster
    if name == "InputError":
        from informer.base.errors import InputError

        return InputError
    raise AttributeError(f"module 'informer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
