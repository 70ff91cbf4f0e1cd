"""Bilinear attention against a loop over softmax(q^T W k)."""

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

from informer.networks.attention.bilinear import BilinearAttention
from informer.networks.attention.full import FullAttention


def make(sizes, **facts):
    attn = BilinearAttention(spec_of(sizes, **facts)).double().eval()
    torch.manual_seed(1)
    torch.nn.init.normal_(attn.weight)  # asymmetric, so that W and its transpose differ
    return attn


@pytest.mark.parametrize(
    ("sizes", "causal"), [(x, c) for x in SELF for c in (False, True)] + [(x, False) for x in CROSS]
)
def test_equals_the_formula(sizes, causal):
    attn, (q, k, v) = make(sizes, causal=causal), draw(sizes)
    w = attn.weight.detach().numpy()
    expected = matrix(q, k, lambda h, query, keys: softmax(query @ w[h] @ keys.T), causal=causal)
    assert_realises(attn, q, k, v, expected)


@pytest.mark.parametrize("causal", [False, True])
def test_starts_as_full_attention(causal):
    spec = spec_of(SELF[0], causal=causal)
    q, k, v = draw(SELF[0])
    torch.testing.assert_close(
        BilinearAttention(spec).double()(q, k, v), FullAttention(spec)(q, k, v), rtol=0, atol=1e-6
    )


def test_only_the_form_is_stored():
    assert list(make(SELF[0]).state_dict()) == ["weight"]
