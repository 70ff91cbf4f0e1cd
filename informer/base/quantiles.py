"""Levels and names of forecast quantiles (Koenker & Bassett 1978, "Regression Quantiles")."""

from collections.abc import Sequence
from itertools import pairwise

MEDIAN = 0.5
MAX_DECIMALS = 6


def level_problem(levels: Sequence[float]) -> str | None:
    """What is wrong with a model's levels, as `expected ..., found ...`; None if they are valid."""
    are_numbers = all(isinstance(level, int | float) for level in levels)  # those of a file may be anything
    inside = are_numbers and all(0 < level < 1 and round(level, MAX_DECIMALS) == level for level in levels)
    if inside and all(low < high for low, high in pairwise(levels)) and MEDIAN in levels:
        return None
    return (
        f"expected increasing levels between 0 and 1 of at most {MAX_DECIMALS} decimals, with 0.5 among them for the "
        f"point forecast, such as [0.1,0.5,0.9]; found {list(levels)}"
    )


def quantile_name(level: float) -> str:
    """`q10` for 0.1, `q2.5` for 0.025."""
    return f"q{100 * level:.{MAX_DECIMALS}g}"


def central_pairs(levels: Sequence[float]) -> list[tuple[float, float]]:
    """Pairs of levels symmetric around the median; (0.1, 0.9) encloses 80 %."""
    mirrored = ((level, round(1 - level, MAX_DECIMALS)) for level in levels if level < MEDIAN)
    return [(low, high) for low, high in mirrored if high in levels]
