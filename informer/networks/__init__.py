"""Networks and their parts, on torch alone. Of the package, families import the classes of their settings."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from informer.networks.attention.base import Attention, AttentionSpec
    from informer.networks.models.base import ModelDims, Network
    from informer.networks.models.config import InformerConfig, ModelConfig, size

__all__ = ["Attention", "AttentionSpec", "InformerConfig", "ModelConfig", "ModelDims", "Network", "size"]


def __getattr__(name: str) -> Any:
    # settings of families are read without torch, which the others import
    if name in __all__:
        config = name in ("InformerConfig", "ModelConfig", "size")
        room = "attention" if name.startswith("Attention") else "models"
        return getattr(import_module(f"informer.networks.{room}.{'config' if config else 'base'}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
