"""LSH attention against loops over its definition."""

import numpy as np
import pytest
import torch
from naive import SELF, assert_realises, assert_same, draw, results, softmax, spec_of

from informer.networks.attention import reformer
from informer.networks.attention.reformer import ReformerAttention

LONG = (1, 2, 97, 97, 5, 4)


def make(sizes, *, causal=False, dropout=0.0, **params):
    return ReformerAttention(spec_of(sizes, causal=causal, dropout=dropout), **params).double().eval()


def bucket(x, rotation):
    turned = x @ rotation
    return int(np.argmax(np.concatenate([turned, -turned])))


def pairs_of_a_round(q, k, rotation, n_buckets):
    """Pairs (i, j) of one head that one round allows, before the causal cut."""
    length = len(k)
    m = -(-2 * length // n_buckets)
    of_q, of_k = ([bucket(x, rotation) for x in xs] for xs in (q, k))
    ranks = [sum(of_k[other] == of_k[j] for other in range(j)) for j in range(length)]
    pairs = set()
    for i in range(length):
        place = max(0, sum(of_k[j] == of_q[i] for j in range(i + 1)) - 1)
        pairs |= {(i, j) for j in range(length) if of_k[j] == of_q[i] and ranks[j] // m - place // m in (-1, 0, 1)}
    return pairs


def expected_weights(attn, q, k):
    (b, h, length, e), rotations = q.shape, attn.rotations.numpy()
    result = torch.zeros(b, h, length, length, dtype=torch.float64)
    for item, head in np.ndindex(b, h):
        queries, keys = q[item, head].numpy(), k[item, head].numpy()
        pairs = {(i, i) for i in range(length)}
        for rotation in rotations:
            pairs |= pairs_of_a_round(queries, keys, rotation, attn.n_buckets)
        for i in range(length):
            allowed = [j for j in range(length) if (i, j) in pairs and (j <= i or not attn.spec.causal)]
            weights = softmax(keys[allowed] @ queries[i] / np.sqrt(e))
            result[item, head, i, allowed] = torch.from_numpy(weights)
    return result


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n_buckets", "n_hashes"), [(2, 1), (4, 3), (8, 2), (40, 4), (300, 2)])
@pytest.mark.parametrize("sizes", [*SELF, LONG])
def test_equals_the_definition(sizes, n_buckets, n_hashes, causal):
    attn, (q, k, v) = make(sizes, causal=causal, n_buckets=n_buckets, n_hashes=n_hashes), draw(sizes)
    assert_realises(attn, q, k, v, expected_weights(attn, q, k))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("crowded", ["keys", "queries", "both"])
def test_crowded_buckets(crowded, causal):
    attn, (q, k, v) = make(LONG, causal=causal, n_buckets=10, n_hashes=2), draw(LONG)
    q = q * 0.01 + 1 if crowded != "keys" else q  # nearly one direction: nearly one bucket
    k = k * 0.01 + 1 if crowded != "queries" else k
    assert_realises(attn, q, k, v, expected_weights(attn, q, k))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("n_buckets", "place", "name", "value"),
    [(8, reformer, "CACHED_ELEMENTS", 1), (10, torch.compiler, "is_compiling", lambda: True)],
    ids=["runs of tiles", "tiles of a graph"],
)
def test_other_tiles_change_nothing(monkeypatch, causal, n_buckets, place, name, value):
    attn, operands = make(LONG, causal=causal, n_buckets=n_buckets), draw(LONG)
    whole = results(attn, *operands)
    monkeypatch.setattr(place, name, value)
    assert_same(results(attn, *operands), whole)


def test_the_backward_pass_drops_what_the_forward_pass_dropped():
    attn, (q, k, v) = make(LONG, dropout=0.4, n_buckets=4).train(), draw(LONG)
    v.requires_grad_()
    torch.manual_seed(0)
    out = attn(q, k, v)
    torch.rand(1)
    (gradient,) = torch.autograd.grad(out.sum(), v)
    torch.testing.assert_close((gradient * v).sum(), out.sum())  # linear in v


def test_number_of_buckets():
    assert [make((1, 1, n, n, 3, 2)).n_buckets for n in (1, 64, 128, 720)] == [2, 2, 4, 22]
