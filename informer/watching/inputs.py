"""How far a column's distribution has moved from that of earlier rows."""

import numpy as np
from jaxtyping import Float64

BINS = 10
MOVED = 0.25
"""Population stability index from which a distribution counts as another, by convention."""

LEAST = 1e-4
"""Share of an empty bin."""


def stability_index(before: Float64[np.ndarray, "t"], now: Float64[np.ndarray, "u"]) -> float:
    """Population stability index: sum (q - p) ln(q / p) over the tenths of the earlier values, p and q being the shares
    of earlier and later values in each."""
    edges = np.unique(np.quantile(before, np.linspace(0, 1, BINS + 1)[1:-1]))
    p, q = (
        np.maximum(np.bincount(np.searchsorted(edges, part, side="right"), minlength=len(edges) + 1) / len(part), LEAST)
        for part in (before, now)
    )
    return float(((q - p) * np.log(q / p)).sum())


def ks_distance(before: Float64[np.ndarray, "t"], now: Float64[np.ndarray, "u"]) -> float:
    """Kolmogorov-Smirnov: the largest difference of the two distribution functions."""
    places = np.concatenate([before, now])
    of_before, of_now = (np.searchsorted(np.sort(part), places, side="right") / len(part) for part in (before, now))
    return float(np.abs(of_before - of_now).max())
