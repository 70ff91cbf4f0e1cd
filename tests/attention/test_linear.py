"""Linear attention against a loop over products of features."""

import numpy as np
import pytest
import torch
from naive import CROSS, SELF, assert_realises, draw, matrix, spec_of
from scipy.special import softmax

from informer.networks.attention.linear import LinearAttention

LONG = (1, 2, 130, 130, 3, 4)  # three chunks, the last of them padded


MAPS = {
    "elu": lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))),
    "relu": lambda x: np.maximum(x, 0),
    "exp": np.exp,
    "softmax": lambda x: softmax(x, axis=-1),
}


def row_of(name):
    def row(_head, query, keys):
        products = MAPS[name](keys) @ MAPS[name](query)
        return products / products.sum() if products.sum() > 0 else np.full(len(keys), 1 / len(keys))

    return row


row = row_of("elu")


def make(sizes, feature_map="elu", **facts):
    return LinearAttention(spec_of(sizes, **facts), feature_map=feature_map).eval()


@pytest.mark.parametrize(("name", "scale"), [*((name, 3.0) for name in MAPS), ("elu", 40.0)])
@pytest.mark.parametrize(
    ("sizes", "causal"), [(x, c) for x in [*SELF, LONG] for c in (False, True)] + [(x, False) for x in CROSS]
)
def test_every_feature_map_equals_its_formula(sizes, causal, name, scale):
    q, k, v = draw(sizes, scale=scale)
    assert_realises(make(sizes, name, causal=causal), q, k, v, matrix(q, k, row_of(name), causal=causal))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shift", [-900.0, 900.0])
def test_exponentials_of_large_elements_keep_their_digits(shift, causal):
    """A shift of all elements of all keys cancels with f = exp: red without a unit for the keys."""
    q, k, v = draw(LONG)
    attn = make(LONG, "exp", causal=causal)
    torch.testing.assert_close(attn(q + shift, k + shift, v), attn(q, k, v), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(attn.weights(q + shift, k + shift), attn.weights(q, k), rtol=1e-9, atol=1e-9)


def test_exponentials_of_rising_keys_lose_no_early_row():
    q, k, v = draw(LONG)
    k = k + 5 * torch.arange(LONG[2])[:, None]
    attn, late = make(LONG, "exp", causal=True), k[:, :, -1:, :1]
    expected = matrix(q, k - late, row_of("exp"), causal=True) @ v
    torch.testing.assert_close(attn(q, k, v), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [False, True])
def test_a_row_without_features_takes_the_mean_of_its_allowed_values(causal, dtype):
    attn = make((1, 2, 5, 5, 3, 4), causal=causal)
    q, k, v = (x.to(dtype) for x in draw((1, 2, 5, 5, 3, 4)))
    q[:, :, 3] = -1000
    expected = v[:, :, :4].mean(dim=2) if causal else v.mean(dim=2)
    torch.testing.assert_close(attn(q, k, v)[:, :, 3], expected)
    torch.testing.assert_close((attn.weights(q, k) @ v)[:, :, 3], expected)


def test_rows_of_very_negative_elements_keep_their_digits():
    attn = make((1, 1, 3, 3, 2, 2), causal=True)
    q, k, v = draw((1, 1, 3, 3, 2, 2))
    q, k = q - 75, k - 55  # products near e^-130, which float32 cannot hold
    expected = matrix(q, k, row, causal=True) @ v
    operands = [x.float().requires_grad_() for x in (q, k, v)]
    out = attn(*operands)
    torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-4)
    out.sum().backward()
    assert all(x.grad.isfinite().all() for x in operands)


def test_half_precision_sums_in_single():
    attn, (q, k, v) = make((1, 1, 1000, 1000, 4, 4), causal=True), draw((1, 1, 1000, 1000, 4, 4), scale=0.3)
    q, k, v = (x.bfloat16() for x in (q, k, v))
    out = attn(q, k, v)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.double(), attn(q.double(), k.double(), v.double()), rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_both_ways_scale_a_query_alike(causal):
    """Keys whose features are hardly above 0, queries that are not: red if one way takes the plain mean, one not."""
    q, k, v = (x.float() for x in draw(LONG))
    q, k = q + 20, k - 66
    attn = make(LONG, causal=causal)
    torch.testing.assert_close(attn(q, k, v), attn.weights(q, k) @ v, rtol=1e-4, atol=1e-4)
    assert (attn.weights(q, k).std(dim=-1) > 1e-3).any()
