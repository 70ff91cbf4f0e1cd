"""Attention to vector-quantised keys against a loop over pairs, dense straight-through gradients, and its averages."""

import numpy as np
import pytest
import torch
from naive import CROSS, SELF, assert_realises, draw, matrix, softmax, spec_of

from informer.networks.attention import kernels, straight_through
from informer.networks.attention.full import FullAttention
from informer.networks.attention.vq import VQAttention

LONG = (2, 2, 150, 150, 3, 4)  # three blocks
SHAPES = [(x, c) for x in [*SELF, LONG] for c in (False, True)] + [(x, False) for x in CROSS]


def make(sizes, *, causal=False, **params):
    torch.manual_seed(0)
    return VQAttention(spec_of(sizes, causal=causal), **({"n_codes": 5} | params)).double().eval()


def codes_of(attn, k):
    """Indices [b h s] of the nearest codes, by the loop."""
    keys, codes = k.detach().numpy(), attn.codes.numpy()
    result = np.zeros(k.shape[:3], dtype=int)
    for b, h, j in np.ndindex(*k.shape[:3]):
        result[b, h, j] = np.argmin(((keys[b, h, j] - codes[h]) ** 2).sum(-1))
    return result


def row_of(attn):
    def row(head, query, keys):
        codes = attn.codes[head].numpy()
        nearest = codes[((keys[:, None] - codes) ** 2).sum(-1).argmin(1)]
        return softmax(nearest @ query / np.sqrt(len(query)))

    return row


@pytest.mark.parametrize("n_codes", [1, 5, 200])
@pytest.mark.parametrize(("sizes", "causal"), SHAPES)
def test_equals_the_formula(sizes, causal, n_codes):
    attn, (q, k, v) = make(sizes, causal=causal, n_codes=n_codes), draw(sizes)
    assert_realises(attn, q, k, v, matrix(q, k, row_of(attn), causal=causal))


@pytest.mark.parametrize("causal", [False, True])
def test_scores_that_differ_by_more_than_exp_can_hold(causal):
    """Red if the largest score is taken over codes that a row does not meet."""
    attn, (q, k, v) = make(LONG, causal=causal), draw(LONG)
    assert_realises(attn, 300 * q, k, v, matrix(300 * q, k, row_of(attn), causal=causal))


def straight_through_gradients(attn, q, k, v, upstream):
    """Of the dense softmax, with k + (code - k) as keys, the bracket without gradient."""
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    index = torch.from_numpy(codes_of(attn, k))[..., None].expand_as(k)
    codes = attn.codes.expand(len(k), -1, -1, -1).gather(2, index)
    replaced = leaves[1] + (codes - leaves[1]).detach()
    out = FullAttention(attn.spec)(leaves[0], replaced, leaves[2])
    return torch.autograd.grad((out * upstream).sum(), leaves)


@pytest.mark.parametrize(
    ("sizes", "causal", "n_codes", "way"),
    [
        *((*shape, 200, "by_pairs") for shape in SHAPES),
        *(((*sizes[:4], 1, 1), causal, 1, "by_codes") for sizes, causal in SHAPES),  # less work even where L is short
        *((LONG, causal, 7, "by_codes") for causal in (False, True)),
    ],
)
def test_gradients_are_straight_through(monkeypatch, sizes, causal, n_codes, way):
    """Red if a gradient of the keys leaves a pair out, or one of the two ways to sum it does."""
    called, own = [], getattr(straight_through, way)
    monkeypatch.setattr(straight_through, way, lambda *x, **y: called.append(1) or own(*x, **y))
    attn = make(sizes, causal=causal, n_codes=n_codes)
    q, k, v = (x.requires_grad_() for x in draw(sizes))
    upstream = torch.randn(*q.shape[:3], v.shape[3], dtype=v.dtype)
    gradients = torch.autograd.grad((attn(q, k, v) * upstream).sum(), [q, k, v])
    for a, b in zip(
        gradients, straight_through_gradients(attn, q.detach(), k.detach(), v.detach(), upstream), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-11)
    assert called


def test_training_moves_the_codes_by_their_averages():
    """Two batches, each code's average count and sum by the loop. Red if unused codes move."""
    attn = make((2, 2, 31, 31, 3, 4), n_codes=40, momentum=0.75).train()
    counts, sums = np.ones((2, 40)), attn.codes.numpy().copy()
    for seed in (0, 1):
        q, k, v = draw((2, 2, 31, 31, 3, 4), seed=seed)
        nearest, before = codes_of(attn, k), attn.codes.clone()
        attn(q, k, v)
        counts, sums = 0.75 * counts, 0.75 * sums
        for b, h, j in np.ndindex(*nearest.shape):
            counts[h, nearest[b, h, j]] += 0.25
            sums[h, nearest[b, h, j]] += 0.25 * k[b, h, j].numpy()
        torch.testing.assert_close(attn.counts, torch.from_numpy(counts), rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(attn.codes, torch.from_numpy(sums / counts[..., None]), rtol=1e-11, atol=1e-11)
        for h in range(2):
            unused = sorted(set(range(40)) - set(nearest[:, h].flatten().tolist()))
            assert torch.equal(attn.codes[h, unused], before[h, unused])


def test_a_code_whose_count_has_vanished_comes_back():
    attn, (q, k, v) = make((1, 1, 7, 7, 3, 3), n_codes=2), draw((1, 1, 7, 7, 3, 3))
    attn.counts = torch.zeros_like(attn.counts)
    attn.train()(q, k, v)
    assert attn.codes.isfinite().all()


def test_a_momentum_of_one_keeps_the_codes():
    attn, operands = make(SELF[0], momentum=1.0), draw(SELF[0])
    before = attn.codes.clone()
    attn.train()(*operands)
    assert torch.equal(attn.codes, before)


@pytest.mark.parametrize("causal", [False, True])
def test_segments_change_nothing(monkeypatch, causal):
    attn, (q, k, v) = make(LONG, causal=causal), draw(LONG)
    whole = attn(q, k, v)
    monkeypatch.setattr(kernels, "SEGMENT_ELEMENTS", 1)
    torch.testing.assert_close(attn(q, k, v), whole, rtol=1e-12, atol=1e-12)
