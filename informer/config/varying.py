"""What the weights of linear maps may vary with: `model.varying`."""

from collections.abc import Sequence
from math import inf

VARY_WITH = ("day", "week", "year", "spread", "season", "last")
"""Allowed values; see `informer.layers.varying`."""


def varying_problems(names: Sequence[str], penalty: float, *, has_maps: bool) -> list[str]:
    """Problems of `model.varying` and `model.varying_penalty`."""
    if names and not has_maps:
        return [f"model.varying: expected none without linear maps, found {list(names)}"]
    if len(set(names) & set(VARY_WITH)) < len(names):
        return [f"model.varying: expected some of {', '.join(VARY_WITH)}, each once, found {list(names)}"]
    return [] if 0 < penalty < inf else [f"model.varying_penalty: expected a number above 0, found {penalty}"]
