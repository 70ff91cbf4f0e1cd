"""Series to windows on the device; reading files and tables as commands do."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from informer.data.panel import read
    from informer.read.frequency import Frequency
    from informer.read.series import Series

__all__ = ["Frequency", "Series", "read"]

MODULES = {"Frequency": "read.frequency", "Series": "read.series", "read": "data.panel"}


def __getattr__(name: str) -> Any:
    # modules of this room are imported without those that read
    if name in __all__:
        return getattr(import_module(f"informer.{MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
