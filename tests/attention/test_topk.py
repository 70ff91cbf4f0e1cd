"""Top-k attention against a loop that ranks each row's allowed keys."""

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

from informer.networks.attention.topk import TopKAttention


def row_of(k):
    def row(_head, query, keys):
        scores = keys @ query / np.sqrt(len(query))
        kept = [sum(other > score for other in scores) < k for score in scores]
        return softmax(np.where(kept, scores, -np.inf))

    return row


def make(sizes, *, k=3, **facts):
    return TopKAttention(spec_of(sizes, **facts), k=k).eval()


@pytest.mark.parametrize("k", [1, 3, 8])
@pytest.mark.parametrize(
    ("sizes", "causal"), [(x, c) for x in SELF for c in (False, True)] + [(x, False) for x in CROSS]
)
def test_equals_the_formula(sizes, causal, k):
    q, keys, v = draw(sizes)
    expected = matrix(q, keys, row_of(k), causal=causal)
    assert_realises(make(sizes, k=k, causal=causal), q, keys, v, expected)


def test_keys_that_tie_with_the_last_stay():
    sizes = (1, 1, 2, 6, 1, 1)
    q = torch.ones(1, 1, 2, 1, dtype=torch.float64)
    k = torch.tensor([3.0, 1.0, 2.0, 2.0, 2.0, 0.0], dtype=torch.float64).view(1, 1, 6, 1)
    kept = torch.tensor([True, False, True, True, True, False])
    attn = make(sizes, k=2)
    assert torch.equal(attn.weights(q, k)[0, 0, 0] > 0, kept)
    assert_realises(attn, q, k, k, matrix(q, k, row_of(2), causal=False))
