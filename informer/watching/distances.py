"""Distances between a column's distribution in earlier and later rows."""

import numpy as np
from jaxtyping import Float64

BINS = 10
MOVED = 0.25
"""Population stability index above which a distribution counts as changed, by convention."""

LEAST = 1e-4
"""Minimum share of a bin, so that the logarithm is finite."""


def stability_index(reference: Float64[np.ndarray, "t"], current: Float64[np.ndarray, "u"]) -> float:
    """Population stability index: sum of (q - p) ln(q / p) over the deciles of the earlier values, with p and q the
    shares of earlier and later values in each."""
    edges = np.unique(np.quantile(reference, np.linspace(0, 1, BINS + 1)[1:-1]))
    p, q = (
        np.maximum(
            np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1) / len(values), LEAST
        )
        for values in (reference, current)
    )
    return float(((q - p) * np.log(q / p)).sum())


def ks_distance(reference: Float64[np.ndarray, "t"], current: Float64[np.ndarray, "u"]) -> float:
    """Kolmogorov-Smirnov distance: the largest difference of the two empirical distribution functions."""
    places = np.concatenate([reference, current])
    of_before, of_now = (
        np.searchsorted(np.sort(values), places, side="right") / len(values) for values in (reference, current)
    )
    return float(np.abs(of_before - of_now).max())
