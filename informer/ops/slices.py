"""Attention over consecutive rows and the slice of keys they can see, recomputed in the backward pass.

Neighbouring slices share keys. Autograd would create a gradient as long as the keys for every slice and sum these; here
they are added in place into one array, and a slice is small enough to stay in cache.
"""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from informer.ops.recompute import over_pieces

Attend = Callable[[Tensor, Tensor, Tensor, int, int], Tensor]
"""(rows, keys, values, index of the first row, index of the first key) -> outputs [b h rows c]."""

Reach = Callable[[int, int], tuple[int, int]]
"""Rows start..stop -> the slice lo..hi of the keys that they can see."""


def map_slices(attend: Attend, q: Tensor, k: Tensor, v: Tensor, *, step: int, reach: Reach) -> Tensor:
    """`attend` over slices of `step` rows and the keys they can see, concatenated over rows.

    `attend` is differentiated only in its tensor arguments; captured tensors get no gradient.
    """
    if step >= q.shape[2] and reach(0, q.shape[2]) == (0, k.shape[2]):
        return attend(q, k, v, 0, 0)
    return over_pieces(attend, lambda q, k, v: _pieces(q, k, v, step, reach), q, k, v)


def _pieces(q: Tensor, k: Tensor, v: Tensor, step: int, reach: Reach) -> Iterator[tuple[Any, ...]]:
    for start in range(0, q.shape[2], step):
        stop = min(start + step, q.shape[2])
        lo, hi = reach(start, stop)
        yield q[:, :, start:stop], k[:, :, lo:hi], v[:, :, lo:hi], start, lo
