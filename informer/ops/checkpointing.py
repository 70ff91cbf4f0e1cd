"""Layers whose activations are recomputed in the backward pass instead of being stored.

Checkpointing (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost") stores the input of every layer, and
replays the layer with the random numbers, autocast state and buffers of its forward pass.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def run(layers: Iterable[Any], x: Float[Tensor, "b l d"], *operands: Any, recompute: bool) -> Tensor:
    """Apply layers in order, each to (x, operands); with `recompute` only x is stored for the backward pass."""
    for layer in layers:
        x = checkpointed(layer, x, *operands) if recompute else layer(x, *operands)
    return x


def checkpointed(layer: Any, *operands: Any) -> Tensor:
    """`layer(*operands)`, storing only the operands."""
    if not torch.is_grad_enabled():
        return layer(*operands)
    if torch.compiler.is_compiling():  # tracing does not support custom contexts
        return checkpoint(layer, *operands, use_reentrant=False)
    buffers = _Buffers(layer)
    return checkpoint(layer, *operands, use_reentrant=False, context_fn=lambda: (nullcontext(), buffers))


class _Buffers(AbstractContextManager[None]):
    """Context that restores the current buffers of `layer`, which may be replaced but not modified in place."""

    def __init__(self, layer: nn.Module) -> None:
        self.kept = [(module._buffers, dict(module._buffers)) for module in layer.modules() if module._buffers]

    def __enter__(self) -> None:
        self.newest: list[dict[str, Tensor | None]] = [dict(buffers) for buffers, _ in self.kept]
        for buffers, saved in self.kept:
            buffers.update(saved)

    def __exit__(self, *exception: object) -> None:
        for (buffers, _), newest in zip(self.kept, self.newest, strict=True):
            buffers.update(newest)
