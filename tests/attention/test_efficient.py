"""Efficient attention against a loop over its two softmaxes."""

import numpy as np
import pytest
import torch
from naive import CROSS, SELF, assert_gradients, assert_realises, assert_same, draw, matrix, results, softmax, spec_of

from informer.networks.attention import efficient
from informer.networks.attention.efficient import EfficientAttention

LONG = (1, 2, 131, 131, 3, 4)


def row(_head, query, keys):
    mix = softmax(query)
    return sum(mix[c] * softmax(keys[:, c]) for c in range(len(mix)))


def row_of_one_sum(_head, query, keys):
    products = np.exp(keys - keys.max()) @ softmax(query)
    return products / products.sum()


def make(sizes, normaliser="feature", **facts):
    return EfficientAttention(spec_of(sizes, **facts), normaliser=normaliser).eval()


@pytest.mark.parametrize("sizes", [*SELF, LONG])
def test_one_normaliser_a_row_equals_the_formula(sizes):
    q, k, v = draw(sizes)
    expected = matrix(q, k, row_of_one_sum, causal=True)
    assert_realises(make(sizes, "row", causal=True), q, k, v, expected)


@pytest.mark.parametrize("sizes", [*SELF, *CROSS])
def test_without_a_causal_mask_the_normaliser_is_that_of_the_paper(sizes):
    """Each softmax over positions sums to 1 there, and with it every row."""
    q, k, v = draw(sizes)
    assert torch.equal(make(sizes, "row")(q, k, v), make(sizes)(q, k, v))
    assert torch.equal(make(sizes, "row").weights(q, k), make(sizes).weights(q, k))


@pytest.mark.parametrize("scale", [1.5, 300.0])
@pytest.mark.parametrize(
    ("sizes", "causal"), [(x, c) for x in [*SELF, LONG] for c in (False, True)] + [(x, False) for x in CROSS]
)
def test_equals_the_formula(sizes, causal, scale):
    q, k, v = draw(sizes, scale=scale)
    q = q / scale
    assert_realises(make(sizes, causal=causal), q, k, v, matrix(q, k, row, causal=causal))


@pytest.mark.parametrize("slope", [-20.0, 0.6, 20.0])
def test_keys_that_rise_or_fall_without_end(slope):
    q, k, v = draw(LONG)
    k = k + slope * torch.arange(LONG[2])[:, None]
    expected = matrix(q, k, row, causal=True)
    assert_realises(make(LONG, causal=True), q, k, v, expected)
    output = make(LONG, causal=True)(q.float(), k.float(), v.float())
    torch.testing.assert_close(output.double(), expected @ v, rtol=1e-3, atol=1e-3)


def test_a_unit_for_each_half_gives_what_one_unit_a_chunk_gives(monkeypatch):
    attn, operands = make(LONG, causal=True), draw(LONG)
    whole = results(attn, *operands)
    monkeypatch.setattr(efficient, "CALM", 0)
    monkeypatch.setattr(efficient, "_calm_chunks", None)
    assert_same(results(attn, *operands), whole)


def test_gradients_of_large_keys():
    q, k, v = draw((1, 2, 5, 5, 3, 2))
    assert_gradients(make((1, 2, 5, 5, 3, 2), causal=True), q, k * 100, v)
