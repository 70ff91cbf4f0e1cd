"""One file that holds a trained model: its format, safe reading, the way back to a network."""

from typing import TYPE_CHECKING, Any

from informer.checkpoint.paths import BEST, LAST, locate

if TYPE_CHECKING:
    from informer.checkpoint.format import Checkpoint, load, save

__all__ = ["BEST", "LAST", "Checkpoint", "load", "locate", "save"]


def __getattr__(name: str) -> Any:
    # the format imports torch, which whoever only looks for a file need not wait for
    if name in __all__:
        from informer.checkpoint import format

        return getattr(format, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
