"""Times of a long column, put together from pieces without a second array of all of them."""

from collections.abc import Iterator
from itertools import chain

import numpy as np
import pandas as pd
from jaxtyping import Int

PIECE = 1 << 16
"""Number of codes converted to indices at once."""


def joined(pieces: Iterator[pd.DatetimeIndex], n: int) -> pd.DatetimeIndex:
    """Pieces of n times in all, written into one array as they come.

    Raises:
        ValueError: pieces with several offsets from UTC.
    """
    first = next(pieces)
    counts, end = np.empty(n, dtype=np.int64), 0
    others: list[pd.DatetimeIndex] = []
    for piece in chain([first], pieces):
        if not isinstance(piece, pd.DatetimeIndex):  # pandas 2
            raise ValueError("several offsets from UTC")
        if others or piece.tz is not None or piece.unit != first.unit:
            others.append(piece)  # from here on, times of another unit or with an offset
            continue
        counts[end : end + len(piece)] = piece.asi8
        end += len(piece)
    times = pd.DatetimeIndex(counts[:end].view(f"M8[{first.unit}]"), copy=False)
    if not others:
        return times
    if len({str(piece.tz) for piece in [*([times] if end else []), *others]}) > 1:
        raise ValueError("several offsets from UTC")
    together = times.append(others) if end else others[0].append(others[1:])
    assert isinstance(together, pd.DatetimeIndex)  # all have one zone
    return together


def times_of_codes(times: pd.DatetimeIndex, codes: Int[np.ndarray, "t"]) -> pd.DatetimeIndex:
    """The time of each code; in pieces, since numpy makes its own copy of indices that are not 64 bits long."""
    of_code, counts = times.asi8, np.empty(len(codes), dtype=np.int64)
    for begin in range(0, len(codes), PIECE):
        counts[begin : begin + PIECE] = of_code[codes[begin : begin + PIECE]]
    plain = pd.DatetimeIndex(counts.view(f"M8[{times.unit}]"), copy=False)
    return plain if times.tz is None else plain.tz_localize("UTC").tz_convert(times.tz)
