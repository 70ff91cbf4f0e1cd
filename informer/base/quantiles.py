"""Levels and names of forecast quantiles (Koenker & Bassett 1978, "Regression Quantiles")."""

import re
from collections.abc import Iterable, Iterator, Sequence
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


BAND = re.compile(r"(lo|hi|q)([\d.]+(?:e-\d+)?)")
"""Names of columns with ends of intervals and quantiles."""


def bands_by_level(names: Iterable[str]) -> dict[float, str]:
    """Names of BAND by increasing level: q10 is 0.1, lo80 and hi80 are 0.1 and 0.9; of two of a level, that of an
    interval."""
    by_level: dict[float, str] = {}
    for name in sorted(names, key=lambda name: name.startswith("q")):
        end, number = BAND.fullmatch(name).groups()  # type: ignore[union-attr]
        share = float(number) / 100
        level = {"q": share, "lo": (1 - share) / 2, "hi": (1 + share) / 2}[end]
        by_level.setdefault(round(level, 8), name)
    return dict(sorted(by_level.items()))


def central_pairs(levels: Sequence[float]) -> list[tuple[float, float]]:
    """Pairs of levels symmetric around the median; (0.1, 0.9) encloses 80 %."""
    mirrored = ((level, round(1 - level, MAX_DECIMALS)) for level in levels if level < MEDIAN)
    return [(low, high) for low, high in mirrored if high in levels]


def paired_bands(ends: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Name of each interval and the columns of its ends, `lo80` with `hi80` and `q10` with `q90`; widest first."""
    names = bands_by_level(ends)
    for low, high in central_pairs([*names]):
        yield f"{100 * (high - low):g} %", names[low], names[high]
