"""Truncated attention against a loop over pairs."""

import pytest
from patterns import SIZES, assert_pattern

from informer.networks.attention.truncated import TruncatedAttention


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [0, 1, 6, 24, 10**12])
@pytest.mark.parametrize("sizes", SIZES)
def test_equals_the_formula(sizes, window, causal):
    assert_pattern(
        lambda spec: TruncatedAttention(spec, window=window), sizes, lambda _, i, j: abs(i - j) <= window, causal=causal
    )
