"""Checks of named weights against those of a network."""

from collections.abc import Mapping

import torch
from torch import Tensor

from informer.errors import InputError

REAL = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""Dtypes in which weights may be saved."""


def differing_shape(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> tuple[str, str, str] | None:
    """Name and both shapes of the first tensor that differs in shape or exists on one side only; None if all agree."""
    for name in {**first, **second}:
        shapes = [_shape(weights[name]) if name in weights else "nothing" for weights in (first, second)]
        if shapes[0] != shapes[1]:
            return name, shapes[0], shapes[1]
    return None


def _shape(weight: object) -> str:
    """The shape as text; in a damaged file a weight may not be an array."""
    return str(tuple(weight.shape)) if isinstance(weight, Tensor) else type(weight).__name__


def check_numbers(expected: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    """Check dtypes of saved weights and that they are finite.

    Args:
        expected: weights of the network; meta tensors are enough.
        saved: weights with at least the same names.

    Raises:
        InputError: a tensor has a dtype that would be cast silently, or contains nan or infinity.
    """
    for name, tensor in expected.items():
        kinds = REAL if tensor.dtype in REAL else (tensor.dtype,)
        if saved[name].dtype not in kinds:
            raise InputError(
                f"checkpoint: weights do not fit the network: {name}: expected {tensor.dtype}, "
                f"found {saved[name].dtype}"
            )
        if (
            tensor.dtype in REAL
            and saved[name].numel()
            and not all(bound.isfinite() for bound in saved[name].aminmax())
        ):
            raise InputError(f"checkpoint: {name} holds numbers that are not finite; use another checkpoint")
