"""Checks of hyper-parameters, before anything is built: each returns the value, or raises a ValueError that names the
parameter. True is no number."""

import math

import torch

MOST = 2**60
"""Largest whole number; larger ones, or sums of them, overflow in torch."""


def at_least(name: str, value: object, minimum: int) -> int:
    """Return `value` if it is a whole number from `minimum` to MOST."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"{name}: expected a whole number of at least {minimum}, found {value!r}")
    if value > MOST:
        raise ValueError(f"{name}: expected at most {MOST}, found {value}")
    return value


def positive(name: str, value: object, minimum: float = 0.0) -> float:
    """Return `value` if it is a finite number above `minimum`."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not minimum < value < math.inf:
        raise ValueError(f"{name}: expected a finite number above {minimum:g}, found {value!r}")
    return float(value)


def share(name: str, value: object) -> float:
    """Return `value` if it is a number from 0 to 1."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ValueError(f"{name}: expected a number from 0 to 1, found {value!r}")
    return float(value)


def choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is one of `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}: expected one of {', '.join(allowed)}, found {value!r}")
    return value


def flag(name: str, value: object) -> bool:
    """Return `value` if it is true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}: expected true or false, found {value!r}")
    return value


def stream(seed: object, layer_index: int) -> torch.Generator:
    """A stream of random numbers of its own for each seed and layer."""
    # the seed of torch's generator has 64 bits
    return torch.Generator().manual_seed(((at_least("seed", seed, 0) << 20) + layer_index) % 2**64)
