"""LogSparse attention against a loop over pairs."""

import pytest
import torch
from naive import assert_drops_weights, draw, spec_of
from patterns import SIZES, assert_pattern, assert_slices_agree

from informer.networks.attention.base import AttentionSpec
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


@pytest.mark.parametrize("causal", [False, True])
def test_slices_agree(monkeypatch, causal):
    assert_slices_agree(monkeypatch, LogSparseAttention(spec_of(LONG, causal=causal), window=3), *draw(LONG))


def test_dropout_acts_on_the_weights():
    torch.manual_seed(0)
    assert_drops_weights(LogSparseAttention(spec_of(LONG, dropout=0.4)), *draw(LONG)[:2])


def test_a_negative_window_is_refused():
    with pytest.raises(ValueError, match="window: expected a whole number of at least 0, found -1"):
        LogSparseAttention(AttentionSpec(1, 3, 5, 5), window=-1)
