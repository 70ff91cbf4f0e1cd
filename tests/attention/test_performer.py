"""FAVOR+ against a loop over its features, and the softmax that it estimates."""

import numpy as np
import pytest
import torch
from naive import CROSS, SELF, draw, matrix, spec_of
from scipy import stats

from informer.networks.attention import kernels
from informer.networks.attention.full import FullAttention
from informer.networks.attention.performer import PerformerAttention, chi_quantiles, random_directions

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


def directions(n, e, *, orthogonal=True, radii="gaussian", seed=0):
    torch.manual_seed(seed)
    return random_directions(n, e, orthogonal=orthogonal, radii=radii).numpy()


@pytest.mark.parametrize("radii", ["gaussian", "sqrt_d", "quantile"])
@pytest.mark.parametrize(("n", "e"), [(1, 1), (3, 5), (5, 5), (12, 5), (7, 1)])
def test_blocks_are_orthogonal(n, e, radii):
    w = directions(n, e, radii=radii)
    assert w.shape == (n, e)
    for start in range(0, n, e):
        block = w[start : start + e]
        products = block @ block.T
        assert np.allclose(products, np.diag(np.diag(products)), atol=1e-12)


def test_independent_rows_are_not_orthogonal():
    w = directions(4, 4, orthogonal=False)
    assert np.abs(w @ w.T - np.diag(np.diag(w @ w.T))).max() > 0.1


@pytest.mark.parametrize("orthogonal", [False, True])
def test_gaussian_lengths_follow_chi(orthogonal):
    lengths = np.linalg.norm(directions(4000, 5, orthogonal=orthogonal), axis=1)
    assert stats.kstest(lengths, stats.chi(5).cdf).pvalue > 0.01


@pytest.mark.parametrize("orthogonal", [False, True])
def test_directions_are_uniform(orthogonal):
    w = directions(6000, 3, orthogonal=orthogonal, radii="sqrt_d") / np.sqrt(3)
    for column in w.T:  # a coordinate of a uniform point on the sphere in 3 dimensions is uniform
        assert stats.kstest(column, stats.uniform(-1, 2).cdf).pvalue > 0.001


def test_sqrt_d_lengths():
    assert np.allclose(np.linalg.norm(directions(9, 5, radii="sqrt_d"), axis=1), np.sqrt(5))


def test_quantile_lengths_are_each_quantile_once_in_random_order():
    lengths = np.linalg.norm(directions(12, 5, radii="quantile"), axis=1)
    assert np.allclose(stats.chi(5).cdf(np.sort(lengths)), np.arange(1, 13) / 13)
    assert (np.diff(lengths) < 0).any()


@pytest.mark.parametrize("e", [1, 2, 64, 513])
def test_chi_quantiles(e):
    levels = np.array([1e-4, 0.3, 0.5, 0.999999])
    quantiles = chi_quantiles(torch.from_numpy(levels), e).numpy()
    assert np.allclose(quantiles, stats.chi(e).ppf(levels), rtol=1e-9)
