"""Mechanisms of one formula a row against loops: full, dot, additive, bilinear, ReLU, top-k, synthesizer, windows."""

import numpy as np
import pytest
import torch
from naive import CROSS, SELF, assert_realises, draw, make, matrix, softmax, spec_of
from patterns import SIZES, assert_pattern

from informer.build import build_attention
from informer.networks.attention.full import FullAttention
from informer.networks.ops import chunks as chunking

CASES = [(x, c) for x in SELF for c in (False, True)] + [(x, False) for x in CROSS]


def full(attn, _head, query, keys):
    scale = 1 / np.sqrt(len(query)) if getattr(attn, "scale", None) is None else attn.scale
    return softmax(keys @ query * scale)


def dot(_attn, _head, query, keys):
    return softmax(keys @ query)


def additive(attn, head, query, keys):
    return softmax(np.tanh(query + keys) @ attn.weight.detach().numpy()[head])


def bilinear(attn, head, query, keys):
    return softmax(query @ attn.weight.detach().numpy()[head] @ keys.T)


def relu(_attn, _head, query, keys):
    positive = np.maximum(keys @ query / np.sqrt(len(query)), 0)
    return positive / (positive.sum() + 1e-6)


def topk(attn, _head, query, keys):
    scores = keys @ query / np.sqrt(len(query))
    kept = [sum(other > score for other in scores) < attn.k for score in scores]
    return softmax(np.where(kept, scores, -np.inf))


def dense(attn, head, query, keys):
    w1, w2 = attn.hidden.detach().numpy(), attn.keys.detach().numpy()
    return softmax(np.maximum(query @ w1[head], 0) @ w2[head, :, : len(keys)])


@pytest.mark.parametrize(
    ("name", "row", "params", "scale"),
    [
        *(("full", full, {"scale": scale}, 1.5) for scale in (None, 1.0, 0.3)),
        ("dot", dot, {}, 1.5),
        ("additive", additive, {}, 1.5),
        ("bilinear", bilinear, {}, 1.5),
        *(("relu", relu, {}, scale) for scale in (1.5, 1e-3)),  # at 1e-3 the epsilon is as large as the sums
        *(("topk", topk, {"k": k}, 1.5) for k in (1, 3, 8)),
        ("synthesizer_dense", dense, {}, 1.5),
    ],
)
@pytest.mark.parametrize(("sizes", "causal"), CASES)
def test_equals_the_formula(sizes, causal, name, row, params, scale):
    attn, (q, k, v) = make(name, params, sizes, causal=causal), draw(sizes, scale=scale)
    assert_realises(attn, q, k, v, matrix(q, k, lambda *x: row(attn, *x), causal=causal))


@pytest.mark.parametrize(("sizes", "causal"), CASES)
def test_a_random_synthesizer_reads_neither_queries_nor_keys(sizes, causal):
    attn, (q, k, v) = make("synthesizer", {}, sizes, causal=causal), draw(sizes)
    scores, expected = attn.scores.detach().numpy(), np.zeros((*q.shape[:3], k.shape[2]))
    for item, head, i in np.ndindex(q.shape[:3]):
        allowed = i + 1 if causal else k.shape[2]
        expected[item, head, i, :allowed] = softmax(scores[head, i, :allowed])
    assert_realises(attn, q, k, v, torch.from_numpy(expected))


@pytest.mark.parametrize("name", ["synthesizer", "synthesizer_dense"])
def test_keys_of_a_synthesizer_are_never_read(name):
    attn, (q, k, v) = make(name, {}, SELF[0]), draw(SELF[0])
    assert torch.equal(attn(q, k, v), attn(q, -3 * k, v))
    assert torch.equal(attn(q, k, v), attn(-q, k, v)) == (name == "synthesizer")


def test_a_row_without_positive_scores_is_zero():
    q, k = torch.ones(1, 2, 3, 4), -torch.ones(1, 2, 3, 4)
    attn = make("relu", {}, (1, 2, 3, 3, 4, 4))
    assert not attn.weights(q, k).any()
    assert not attn(q, k, torch.ones(1, 2, 3, 4)).any()


def test_relu_has_no_dropout():
    attn, operands = make("relu", {}, SELF[0], dropout=0.9), draw(SELF[0])
    assert torch.equal(attn.train()(*operands), attn.eval()(*operands))


def test_additive_never_forms_all_pairs_at_once(monkeypatch):
    sizes = (1, 2, 40, 40, 8, 8)
    monkeypatch.setattr(chunking, "MAX_ELEMENTS", 0)
    monkeypatch.setattr(chunking, "CACHED_ELEMENTS", 5 * 2 * 40 * 8)
    largest = []
    sigmoid = torch.Tensor.sigmoid_
    monkeypatch.setattr(torch.Tensor, "sigmoid_", lambda x: largest.append(x.numel()) or sigmoid(x))
    make("additive", {}, sizes)(*draw(sizes))
    assert len(largest) == 8
    assert max(largest) == 5 * 2 * 40 * 8


def test_large_inputs_of_additive_stay_finite_and_exact():
    q, k, v = (x.float() for x in draw(SELF[2], scale=1e3))
    attn = make("additive", {}, SELF[2]).float()
    expected = attn.double().weights(q.double(), k.double()) @ v.double()
    torch.testing.assert_close(attn.float()(q, k, v).double(), expected, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("causal", [False, True])
def test_bilinear_starts_as_full_attention(causal):
    spec, operands = spec_of(SELF[0], causal=causal), draw(SELF[0])
    attn = build_attention("bilinear", spec).double()
    torch.testing.assert_close(attn(*operands), FullAttention(spec)(*operands), rtol=0, atol=1e-6)
    assert list(attn.state_dict()) == ["weight"]


def test_keys_that_tie_with_the_last_of_the_k_stay():
    q = torch.ones(1, 1, 2, 1, dtype=torch.float64)
    k = torch.tensor([3.0, 1.0, 2.0, 2.0, 2.0, 0.0], dtype=torch.float64).view(1, 1, 6, 1)
    kept = torch.tensor([True, False, True, True, True, False])
    attn = make("topk", {"k": 2}, (1, 1, 2, 6, 1, 1))
    assert torch.equal(attn.weights(q, k)[0, 0, 0] > 0, kept)
    assert_realises(attn, q, k, k, matrix(q, k, lambda *x: topk(attn, *x), causal=False))


LONG = (1, 1, 263, 263, 3, 2)
"""Reaches distances that are gathered, not taken from the band."""


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("name", "window", "distances", "sizes"),
    [
        *(("truncated", window, set(), sizes) for window in (0, 1, 6, 24, 10**12) for sizes in SIZES),
        *(
            ("log_sparse", window, {2**t for t in range(20)}, sizes)
            for window in (0, 1, 6, 50, 10**12)
            for sizes in [*SIZES, LONG]
        ),
    ],
)
def test_windows_equal_the_formula(name, window, distances, sizes, causal):
    assert_pattern(
        lambda spec: build_attention(name, spec, window=window),
        sizes,
        lambda _, i, j: abs(i - j) <= window or abs(i - j) in distances,
        causal=causal,
    )
