"""Synthesizer against a loop over softmax(R) and softmax(relu(q W1) W2)."""

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

from informer.build import build_attention
from informer.networks.attention.synthesizer import SynthesizerAttention


def make(sizes, kind="random", **facts):
    torch.manual_seed(1)
    return SynthesizerAttention(spec_of(sizes, **facts), kind=kind).double().eval()


CASES = [(x, c) for x in SELF for c in (False, True)] + [(x, False) for x in CROSS]


@pytest.mark.parametrize(("sizes", "causal"), CASES)
def test_random_equals_the_formula(sizes, causal):
    attn, (q, k, v) = make(sizes, causal=causal), draw(sizes)
    scores, expected = attn.scores.detach().numpy(), np.zeros((*q.shape[:3], k.shape[2]))
    for item, head, i in np.ndindex(q.shape[:3]):
        allowed = i + 1 if causal else k.shape[2]
        expected[item, head, i, :allowed] = softmax(scores[head, i, :allowed])
    assert_realises(attn, q, k, v, torch.from_numpy(expected))


@pytest.mark.parametrize(("sizes", "causal"), CASES)
def test_dense_equals_the_formula(sizes, causal):
    attn, (q, k, v) = make(sizes, "dense", causal=causal), draw(sizes)
    w1, w2 = attn.hidden.detach().numpy(), attn.keys.detach().numpy()

    def row(head, query, keys):
        return softmax(np.maximum(query @ w1[head], 0) @ w2[head, :, : len(keys)])

    assert_realises(attn, q, k, v, matrix(q, k, row, causal=causal))


@pytest.mark.parametrize("kind", ["random", "dense"])
def test_keys_are_never_read(kind):
    attn, (q, k, v) = make(SELF[0], kind), draw(SELF[0])
    assert torch.equal(attn(q, k, v), attn(q, -3 * k, v))
    assert torch.equal(attn(q, k, v), attn(-q, k, v)) == (kind == "random")


def test_other_lengths_are_an_error():
    q, k, v = draw(SELF[0])
    with pytest.raises(ValueError, match=r"expected 7 queries and 7 keys, .* found 5 and 7"):
        make(SELF[0])(q[:, :, :5], k, v)


def test_both_kinds_have_a_name():
    assert build_attention("synthesizer", spec_of(SELF[0])).kind == "random"
    assert build_attention("synthesizer_dense", spec_of(SELF[0])).kind == "dense"
