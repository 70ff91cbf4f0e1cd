"""Sums of products of overlapping windows.

Consecutive windows share all rows but one, so the products are running sums along diagonals: O(n^2) for windows of n
rows after one correlation over the rows, instead of a matrix product over all windows.
"""

import numpy as np
from jaxtyping import Float64
from numpy.lib.stride_tricks import sliding_window_view

_CHUNK = 8192
"""Windows of one matrix product."""

_MOST_STRIDE = 8
"""Largest stride of windows for which running sums are faster than a matrix product."""


def window_products(
    rows: Float64[np.ndarray, "t"], n: int, kept: np.ndarray | None = None, *, stride: int = 1
) -> Float64[np.ndarray, "n n"]:
    """X^T X of the windows of n rows that begin at rows 0, stride, 2 stride, ..., with X [windows n]; only the rows and
    columns `kept`.

    Entry (i + stride, j + stride) is entry (i, j) minus the first product of rows plus one after the last.
    """
    kept = np.arange(n) if kept is None else kept
    every = sliding_window_view(rows, n)[::stride]
    count = len(every)
    if count < n // 2 or stride > _MOST_STRIDE:
        chunks = (every[first : first + _CHUNK, kept] for first in range(0, count, _CHUNK))
        return sum((chunk.T @ chunk for chunk in chunks), np.zeros((len(kept), len(kept))))
    padded = np.concatenate([rows, np.zeros(n)])
    shifted, end = sliding_window_view(padded, n), stride * count
    diagonals = np.empty((n, n))
    for phase in range(min(stride, n)):
        # correlate is fast for rows next to each other
        diagonals[phase] = (
            np.correlate(rows, rows[:count], mode="valid") if stride == 1 else
            rows[phase : phase + end : stride][:count] @ shifted[phase : phase + end : stride][:count]
        )  # fmt: skip
    overlap = max(n - stride, 0)
    leaving = rows[:overlap, None] * shifted[:overlap]
    entering = padded[end : end + overlap, None] * shifted[end : end + overlap]
    diagonals[stride:] = entering - leaving
    for phase in range(min(stride, n)):
        np.cumsum(diagonals[phase::stride], axis=0, out=diagonals[phase::stride])
    products = np.empty((n, n))
    for row in range(n):
        products[row, row:] = diagonals[row, : n - row]
        products[row:, row] = diagonals[row, : n - row]
    return products[np.ix_(kept, kept)]
