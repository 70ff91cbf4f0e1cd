"""ReLU attention against a loop over relu(s q.k) / (sum + 1e-6)."""

import numpy as np
import pytest
import torch
from naive import (
    CROSS,
    SELF,
    assert_realises,
    draw,
    matrix,
    spec_of,
)

from informer.networks.attention.relu import ReluAttention


def row(_head, query, keys):
    positive = np.maximum(keys @ query / np.sqrt(len(query)), 0)
    return positive / (positive.sum() + 1e-6)


def make(sizes, **facts):
    return ReluAttention(spec_of(sizes, **facts)).eval()


@pytest.mark.parametrize("scale", [1.5, 1e-3])  # at 1e-3 the epsilon is as large as the sums
@pytest.mark.parametrize(
    ("sizes", "causal"), [(x, c) for x in SELF for c in (False, True)] + [(x, False) for x in CROSS]
)
def test_equals_the_formula(sizes, causal, scale):
    q, k, v = draw(sizes, scale=scale)
    assert_realises(make(sizes, causal=causal), q, k, v, matrix(q, k, row, causal=causal))


def test_a_row_without_positive_scores_is_zero():
    q, k = torch.ones(1, 2, 3, 4), -torch.ones(1, 2, 3, 4)
    assert not make((1, 2, 3, 3, 4, 4)).weights(q, k).any()
    assert not make((1, 2, 3, 3, 4, 4))(q, k, torch.ones(1, 2, 3, 4)).any()


def test_there_is_no_dropout():
    attn, operands = make(SELF[0], dropout=0.9), draw(SELF[0])
    assert torch.equal(attn.train()(*operands), attn.eval()(*operands))
