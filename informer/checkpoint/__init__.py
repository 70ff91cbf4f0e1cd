"""Checkpoint files: their format, safe loading, and restoring the network."""

from typing import TYPE_CHECKING, Any

from informer.checkpoint.paths import BEST, LAST, locate

if TYPE_CHECKING:
    from informer.checkpoint.format import Checkpoint, load, save

__all__ = ["BEST", "LAST", "Checkpoint", "load", "locate", "save"]


def __getattr__(name: str) -> Any:
    # `format` imports torch; callers that only need paths should not wait for it
    if name in __all__:
        from informer.checkpoint import format

        return getattr(format, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
