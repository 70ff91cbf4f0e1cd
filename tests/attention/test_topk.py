"""Top-k attention against a loop that ranks each row's allowed keys."""

import numpy as np
import pytest
import torch
from naive import (
    CROSS,
    SELF,
    assert_blind_to_future,
    assert_chunks_agree,
    assert_drops_weights,
    assert_realises,
    draw,
    matrix,
    softmax,
    spec_of,
)

from informer.networks.attention.full import FullAttention
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


@pytest.mark.parametrize("causal", [False, True])
def test_enough_keys_is_full_attention(causal):
    spec = spec_of(SELF[2], causal=causal)
    q, k, v = draw(SELF[2])
    torch.testing.assert_close(TopKAttention(spec, k=31)(q, k, v), FullAttention(spec)(q, k, v), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_chunks_change_nothing(monkeypatch, causal):
    assert_chunks_agree(monkeypatch, make(SELF[2], causal=causal), *draw(SELF[2]))


def test_the_future_is_hidden_from_the_choice_too():
    assert_blind_to_future(make(SELF[0], k=2, causal=True), *draw(SELF[0]))


def test_dropout_acts_on_the_weights():
    q, k, _ = draw(SELF[2])
    assert_drops_weights(make(SELF[2], k=8, dropout=0.5), q, k)


@pytest.mark.parametrize("k", [0, -1, True])
def test_refuses(k):
    with pytest.raises(ValueError, match="k: expected a whole number of at least 1"):
        make(SELF[0], k=k)
