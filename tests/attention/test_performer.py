"""FAVOR+ against a loop over its features, its recurrence, and the softmax that it estimates."""

import numpy as np
import pytest
import torch
from naive import CROSS, SELF, draw, matrix, spec_of

from informer.networks.attention import kernels
from informer.networks.attention.full import FullAttention
from informer.networks.attention.performer import PerformerAttention

LONG = (1, 2, 130, 130, 3, 4)
KINDS = ["positive", "trig"]


def make(sizes, *, causal=False, seed=0, **params):
    torch.manual_seed(seed)
    return PerformerAttention(spec_of(sizes, causal=causal), **params).double().eval()


def log_features(attn, x):
    """Signs and logarithms of the features of rows x [n e], from the formula."""
    y, w = x * x.shape[-1] ** -0.25, attn.directions.numpy()
    half_square = (y * y).sum(-1, keepdims=True) / 2
    if attn.kind == "positive":
        return np.ones((len(x), len(w))), y @ w.T - half_square - np.log(len(w)) / 2
    waves = np.concatenate([np.cos(y @ w.T), np.sin(y @ w.T)], axis=-1)
    return np.sign(waves), np.log(np.abs(waves)) + half_square - np.log(len(w)) / 2


def row_of(attn):
    def row(_head, query, keys):
        (sign_q, log_q), (sign_k, log_k) = log_features(attn, query[None]), log_features(attn, keys)
        terms = sign_q * sign_k * np.exp(log_q - log_q.max() + log_k - log_k.max())
        return terms.sum(-1) / terms.sum()

    return row


def assert_realises(attn, q, k, v, expected):
    largest = float(expected.abs().max())
    torch.testing.assert_close(attn.weights(q, k), expected, rtol=1e-10, atol=1e-10 * largest)
    torch.testing.assert_close(attn(q, k, v), expected @ v, rtol=1e-10, atol=1e-10 * largest)


@pytest.mark.parametrize("params", [{}, {"n_features": 1}, {"n_features": 7, "orthogonal": False, "radii": "quantile"}])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("sizes", "causal"), [(x, c) for x in [*SELF, LONG] for c in (False, True)] + [(x, False) for x in CROSS]
)
def test_equals_the_formula(sizes, causal, kind, params):
    attn, (q, k, v) = make(sizes, causal=causal, kind=kind, **params), draw(sizes)
    assert_realises(attn, q, k, v, matrix(q, k, row_of(attn), causal=causal))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rising", [False, True])
def test_early_rows_survive_factors_that_grow_or_shrink_without_end(kind, rising):
    attn, (q, k, v) = make(LONG, causal=True, kind=kind), draw(LONG)
    ramp = torch.linspace(0.1, 60, LONG[2]).double()[:, None]
    k = k * (ramp if rising == (kind == "trig") else ramp.flip(0))
    assert_realises(attn, q, k, v, matrix(q, k, row_of(attn), causal=True))


@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_recurrence(kind):
    attn, (q, k, v) = make(LONG, causal=True, kind=kind), draw(LONG, scale=0.7)
    expected = torch.empty_like(v)
    for head in range(LONG[1]):
        logs = (log_features(attn, y[0, head].numpy()) for y in (q, k))
        fq, fk = (sign * np.exp(log) for sign, log in logs)
        state, normaliser = 0, 0
        for i in range(LONG[2]):
            state = state + np.outer(fk[i], v[0, head, i])
            normaliser = normaliser + fk[i]
            expected[0, head, i] = torch.from_numpy(fq[i] @ state / (fq[i] @ normaliser))
    torch.testing.assert_close(attn(q, k, v), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("radii", ["gaussian", "quantile"])
@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_approaches_full_attention(kind, orthogonal, radii):
    sizes = (1, 2, 9, 9, 4, 4)
    q, k, _ = draw(sizes, scale=0.5)
    exact = FullAttention(spec_of(sizes)).weights(q, k)

    def error(m):
        """Mean over draws; it falls as m^-0.5, by 5.7 from each size to the next."""
        params = {"kind": kind, "orthogonal": orthogonal, "radii": radii, "n_features": m}
        draws = [make(sizes, seed=seed, **params) for seed in range(12)]
        return torch.stack([(attn.weights(q, k) - exact).abs().mean() for attn in draws]).mean()

    errors = [error(m) for m in (16, 512, 16384)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 2e-3


def test_number_of_features():
    assert [make((1, 1, 3, 3, e, 2)).n_features for e in (1, 2, 64)] == [1, 2, 267]


def test_directions_are_redrawn_in_training_alone_and_the_count_is_saved():
    attn, operands = make(SELF[0], redraw_every=2), draw(SELF[0])
    first = attn.directions
    for _ in range(5):
        attn(*operands)
    attn.train()
    seen = []
    for _ in range(3):
        attn(*operands)
        seen.append(attn.directions)
    resumed = make(SELF[0], redraw_every=2).train()
    resumed.load_state_dict(attn.state_dict())
    resumed(*operands)
    assert torch.equal(resumed.directions, attn.directions)
    torch.manual_seed(1)
    resumed(*operands)
    assert not torch.equal(resumed.directions, attn.directions)
    assert torch.equal(seen[0], first)
    assert torch.equal(seen[1], first)
    assert not torch.equal(seen[2], first)


def test_a_pending_backward_pass_keeps_its_directions(monkeypatch):
    monkeypatch.setattr(kernels, "MAX_ELEMENTS", 0)  # recompute
    (q, k, v), gradients = draw(SELF[0]), []
    for redraw_every in (0, 1):
        attn, leaf = make(SELF[0], redraw_every=redraw_every).train(), q.clone().requires_grad_()
        out = attn(leaf, k, v)
        attn(q, k, v)
        out.square().sum().backward()
        gradients.append(leaf.grad)
    assert torch.equal(*gradients)
