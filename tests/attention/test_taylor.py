"""Taylor attention against a loop over 1 + cosine."""

import numpy as np
import pytest
import torch
from naive import CROSS, SELF, assert_realises, draw, matrix, spec_of

from informer.networks.attention.taylor import TaylorAttention

LONG = (1, 2, 130, 130, 3, 4)


def unit(x):
    return x / np.linalg.norm(x) if x.any() else x


def row(_head, query, keys):
    terms = np.array([1 + unit(key) @ unit(query) for key in keys])
    return terms / terms.sum()


def make(sizes, **facts):
    return TaylorAttention(spec_of(sizes, **facts)).eval()


@pytest.mark.parametrize(
    ("sizes", "causal"), [(x, c) for x in [*SELF, LONG] for c in (False, True)] + [(x, False) for x in CROSS]
)
def test_equals_the_formula(sizes, causal):
    q, k, v = draw(sizes)
    assert_realises(make(sizes, causal=causal), q, k, v, matrix(q, k, row, causal=causal))


@pytest.mark.parametrize("causal", [False, True])
def test_zero_vectors_have_no_direction(causal):
    sizes = (1, 2, 5, 5, 3, 4)
    q, k, v = draw(sizes)
    q[:, :, 2], k[:, :, 1] = 0, 0
    assert_realises(make(sizes, causal=causal), q, k, v, matrix(q, k, row, causal=causal))
    operands = [x.requires_grad_() for x in (q, k, v)]
    make(sizes, causal=causal)(*operands).sum().backward()
    assert all(x.grad.isfinite().all() for x in operands)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("e", [1, 5])
def test_a_row_opposite_to_all_its_keys_takes_their_mean(e, causal, dtype):
    sizes = (1, 2, 9, 9, e, 4)
    attn = make(sizes, causal=causal)
    q, k, v = (x.to(dtype) for x in draw(sizes))
    q[:, :, 6] = q[:, :, 6].abs() + 0.1
    k = -q[:, :, 6:7] * torch.arange(1, 10, dtype=dtype)[:, None] / 3
    expected = v[:, :, :7].mean(dim=2) if causal else v.mean(dim=2)
    torch.testing.assert_close(attn(q, k, v)[:, :, 6], expected)
    torch.testing.assert_close((attn.weights(q, k) @ v)[:, :, 6], expected)


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_lengths_do_not_matter(factor):
    attn, (q, k, v) = make(SELF[0]), (x.float() for x in draw(SELF[0]))
    torch.testing.assert_close(attn(q * factor, k / factor, v), attn(q, k, v))
