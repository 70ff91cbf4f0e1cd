"""LogSparse attention against a loop over pairs."""

import pytest
from patterns import SIZES, assert_pattern

from informer.networks.attention.log_sparse import LogSparseAttention

LONG = (1, 1, 263, 263, 3, 2)
"""Reaches distances that are gathered, not taken from the band."""


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [0, 1, 6, 50, 10**12])
@pytest.mark.parametrize("sizes", [*SIZES, LONG])
def test_equals_the_formula(sizes, window, causal):
    distances = {0} | {2**t for t in range(20)}
    assert_pattern(
        lambda spec: LogSparseAttention(spec, window=window),
        sizes,
        lambda _, i, j: abs(i - j) <= window or abs(i - j) in distances,
        causal=causal,
    )
