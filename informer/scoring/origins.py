"""Which origins a backtest forecasts from: numbers of rows before a forecast, from `first` to `last`, the oldest first.

Users get `every` one, tests are the `newest`, errors of earlier forecasts are `spread`, and samples are `thinned`.
"""

from collections.abc import Sequence

from informer.read.series import Series

Origins = Sequence[tuple[int, int]]
"""Series, by their place in a panel, and rows before a forecast; those of a series follow one another."""
LEAST_HISTORY = 8
"""Rows before an origin that is scored, if a member reads histories of any length."""


def before(panel: Sequence[Series], origins: Origins) -> list[Series]:
    """The rows of each series before its first origin; all of one without an origin."""
    first = dict(sorted(origins, reverse=True))
    return [each.part(slice(first.get(place, len(each)))) for place, each in enumerate(panel)]


def every(first: int, last: int, stride: int) -> range:
    """Those a stride apart, from the first one on."""
    return range(first, last + 1, stride)


def newest(first: int, last: int, stride: int, most: int | None = None) -> range:
    """Those a stride apart, up to the last one; at most `most`."""
    return range(last, first - 1, -stride)[:most][::-1]


def spread(first: int, last: int, most: int, *, apart: int | None = None, of: int | None = None) -> range:
    """At most `most` up to the last one, as far apart as `of` of them (None: `most`) cover the rows, but not farther
    than `apart` rows."""
    stride = max((last - first) // (of or most), 1)
    return newest(first, last, stride if apart is None else min(stride, apart), most)


def thinned(first: int, last: int, most: int) -> range:
    """At most `most`, from the first one on, as close as that allows."""
    return every(first, last, max(-(-(last + 1 - first) // max(most, 1)), 1))
