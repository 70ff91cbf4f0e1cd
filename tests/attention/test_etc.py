"""Global-local attention against loops from the formula."""

import numpy as np
import pytest
import torch
from naive import assert_realises, draw, softmax, spec_of
from patterns import SIZES

from informer.networks.attention.etc import ETCAttention


def summary_matrix(q, k, g, local):
    """P_local + P_global U, a row at a time; `local(head, i, j)` is the pattern of the keys seen directly."""
    b, h, length, e = q.shape
    result = np.zeros((b, h, length, length))
    for item in range(b):
        for head in range(h):
            queries, keys, tokens = q[item, head].numpy(), k[item, head].numpy(), g[head].numpy()
            reading = [softmax(keys @ token / np.sqrt(e)) for token in tokens]
            for i in range(length):
                near = [j for j in range(length) if local(head, i, j)]
                candidates = [keys[j] for j in near] + [weights @ keys for weights in reading]
                p = softmax(np.array([queries[i] @ key for key in candidates]) / np.sqrt(e))
                result[item, head, i, near] = p[: len(near)]
                for share, weights in zip(p[len(near) :], reading, strict=True):
                    result[item, head, i] += share * weights
    return torch.from_numpy(result)


def make(sizes, *, dropout=0.0, **params):
    torch.manual_seed(0)
    return ETCAttention(spec_of(sizes, dropout=dropout), **params).double().eval()


@pytest.mark.parametrize("n_global", [0, 1, 4])
@pytest.mark.parametrize("radius", [0, 2, 16, 10**12])
@pytest.mark.parametrize("sizes", SIZES)
def test_equals_the_formula(sizes, radius, n_global):
    q, k, v = draw(sizes)
    attn = make(sizes, radius=radius, n_global=n_global)
    g = attn.summary.g if n_global else q.new_empty(sizes[1], 0, sizes[4])
    assert_realises(attn, q, k, v, summary_matrix(q, k, g.detach(), lambda _, i, j: abs(i - j) <= radius))


def test_dropout_acts_in_training_alone():
    sizes = (1, 2, 45, 45, 3, 3)
    q, k, v = draw(sizes)
    attn = make(sizes, dropout=0.5)
    ones = torch.ones_like(v)
    torch.testing.assert_close(attn(q, k, ones), ones)
    sums = attn.train()(q, k, ones)
    assert sums.std() > 0.1
    assert abs(sums.mean() - 1) < 0.1


def test_operands_of_another_format_than_the_summaries():
    attn = ETCAttention(spec_of(SIZES[-1])).eval()
    q, k, v = draw(SIZES[-1])
    torch.testing.assert_close(attn(q, k, v), attn.weights(q, k) @ v, rtol=1e-6, atol=1e-6)
