"""Checkpoint files: their format, safe loading, and restoring the network."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from informer.checkpoint.paths import BEST, LAST, locate

if TYPE_CHECKING:
    from informer.checkpoint.format import Checkpoint, load, save
    from informer.checkpoint.network import attention_names, attention_node, build_attention, build_model
    from informer.checkpoint.restore import restore_model

__all__ = ["BEST", "LAST", "Checkpoint", "attention_names", "attention_node", "build_attention", "build_model", "load",
           "locate", "restore_model", "save"]  # fmt: skip

MODULES = {"Checkpoint": "format", "load": "format", "restore_model": "restore", "save": "format"}


def __getattr__(name: str) -> Any:
    # all but paths import torch; callers that only need paths should not wait for it
    if name in __all__:
        return getattr(import_module(f"informer.checkpoint.{MODULES.get(name, 'network')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
