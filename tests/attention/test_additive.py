"""Additive attention against a loop over softmax(w . tanh(q + k))."""

import numpy as np
import pytest
import torch
from naive import (
    CROSS,
    SELF,
    assert_realises,
    draw,
    matrix,
    softmax,
    spec_of,
)

from informer.networks.attention.additive import AdditiveAttention
from informer.networks.ops import chunks as chunking


def make(sizes, **facts):
    torch.manual_seed(1)
    return AdditiveAttention(spec_of(sizes, **facts)).double().eval()


@pytest.mark.parametrize(
    ("sizes", "causal"), [(x, c) for x in SELF for c in (False, True)] + [(x, False) for x in CROSS]
)
def test_equals_the_formula(sizes, causal):
    attn, (q, k, v) = make(sizes, causal=causal), draw(sizes)
    w = attn.weight.detach().numpy()
    expected = matrix(q, k, lambda h, query, keys: softmax(np.tanh(query + keys) @ w[h]), causal=causal)
    assert_realises(attn, q, k, v, expected)


def test_never_forms_all_pairs_at_once(monkeypatch):
    sizes = (1, 2, 40, 40, 8, 8)
    monkeypatch.setattr(chunking, "MAX_ELEMENTS", 0)
    monkeypatch.setattr(chunking, "CACHED_ELEMENTS", 5 * 2 * 40 * 8)
    largest = []
    sigmoid = torch.Tensor.sigmoid_
    monkeypatch.setattr(torch.Tensor, "sigmoid_", lambda x: largest.append(x.numel()) or sigmoid(x))
    make(sizes)(*draw(sizes))
    assert len(largest) == 8
    assert max(largest) == 5 * 2 * 40 * 8


def test_large_inputs_stay_finite_and_exact():
    q, k, v = (x.float() for x in draw(SELF[2], scale=1e3))
    attn = make(SELF[2]).float()
    expected = attn.double().weights(q.double(), k.double()) @ v.double()
    torch.testing.assert_close(attn.float()(q, k, v).double(), expected, rtol=1e-4, atol=1e-2)
