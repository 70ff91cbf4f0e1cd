"""Dropout whose random numbers cost little on the CPU.

torch draws one number an element from a serial generator there, a fifth of a training step at the paper's size. Here
one 64-bit draw serves four elements, 16 bits each, so that the probability is met to within 2^-17; torch's global
generator is used, so a seed fixes the run. Other devices and compiled graphs take `torch.nn.functional.dropout`.
"""

from typing import final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

_LEVELS = 1 << 16


def _kept(x: Tensor, p: float) -> Tensor:
    """Boolean mask of x's shape, True with probability 1 - p."""
    n = x.numel()
    words = torch.randint(-(2**63), 2**63 - 1, ((n + 3) // 4,), dtype=torch.int64)
    levels = words.view(torch.int16)[:n].view(x.shape)
    return levels >= round(p * _LEVELS) - _LEVELS // 2


def dropout(x: Float[Tensor, "*shape"], p: float, training: bool) -> Float[Tensor, "*shape"]:
    """x with each element zeroed with probability p and the rest divided by 1 - p; x itself outside training."""
    if p == 0.0 or not training:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p, training)
    scale = 1.0 / (1.0 - p)
    mask = _kept(x, p).to(x.dtype)
    if x.element_size() < 4:  # the scale would lose digits in a 16-bit mask; as a number it is applied in float32
        return (x * mask).mul_(scale)
    return x * mask.mul_(scale)  # one mask that holds the scale saves a pass over x, there and back


@final
class Dropout(nn.Module):
    """`dropout` as a module."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Drop in training, pass through in eval."""
        return dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """Shown by print(module)."""
        return f"p={self.p}"
