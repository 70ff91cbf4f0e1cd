"""Truncated attention against a loop over pairs."""

import pytest
import torch
from naive import assert_drops_weights, draw, spec_of
from patterns import SIZES, assert_pattern, assert_slices_agree

from informer.networks.attention.base import AttentionSpec
from informer.networks.attention.truncated import TruncatedAttention


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [0, 1, 6, 24, 10**12])
@pytest.mark.parametrize("sizes", SIZES)
def test_equals_the_formula(sizes, window, causal):
    assert_pattern(
        lambda spec: TruncatedAttention(spec, window=window), sizes, lambda _, i, j: abs(i - j) <= window, causal=causal
    )


@pytest.mark.parametrize("causal", [False, True])
def test_slices_agree(monkeypatch, causal):
    sizes = (2, 3, 97, 97, 3, 2)
    assert_slices_agree(monkeypatch, TruncatedAttention(spec_of(sizes, causal=causal), window=4), *draw(sizes))


@pytest.mark.parametrize("window", [3, 40])
def test_dropout_acts_on_the_weights(window):
    sizes = (1, 2, 45, 45, 3, 3)
    torch.manual_seed(0)
    assert_drops_weights(TruncatedAttention(spec_of(sizes, dropout=0.4), window=window), *draw(sizes)[:2])


def test_a_negative_window_is_refused():
    with pytest.raises(ValueError, match="window: expected a whole number of at least 0, found -1"):
        TruncatedAttention(AttentionSpec(1, 3, 5, 5), window=-1)
