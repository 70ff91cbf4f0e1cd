"""Random directions: orthogonal where requested, with lengths from the requested distribution."""

import numpy as np
import pytest
import torch
from scipy import stats

from informer.networks.attention.performer import chi_quantiles, random_directions


def draw(n, e, *, orthogonal=True, radii="gaussian", seed=0):
    torch.manual_seed(seed)
    return random_directions(n, e, orthogonal=orthogonal, radii=radii).numpy()


@pytest.mark.parametrize("radii", ["gaussian", "sqrt_d", "quantile"])
@pytest.mark.parametrize(("n", "e"), [(1, 1), (3, 5), (5, 5), (12, 5), (7, 1)])
def test_blocks_are_orthogonal(n, e, radii):
    w = draw(n, e, radii=radii)
    assert w.shape == (n, e)
    for start in range(0, n, e):
        block = w[start : start + e]
        products = block @ block.T
        assert np.allclose(products, np.diag(np.diag(products)), atol=1e-12)


def test_independent_rows_are_not_orthogonal():
    w = draw(4, 4, orthogonal=False)
    assert np.abs(w @ w.T - np.diag(np.diag(w @ w.T))).max() > 0.1


@pytest.mark.parametrize("orthogonal", [False, True])
def test_gaussian_lengths_follow_chi(orthogonal):
    lengths = np.linalg.norm(draw(4000, 5, orthogonal=orthogonal), axis=1)
    assert stats.kstest(lengths, stats.chi(5).cdf).pvalue > 0.01


@pytest.mark.parametrize("orthogonal", [False, True])
def test_directions_are_uniform(orthogonal):
    w = draw(6000, 3, orthogonal=orthogonal, radii="sqrt_d") / np.sqrt(3)
    for column in w.T:  # a coordinate of a uniform point on the sphere in 3 dimensions is uniform
        assert stats.kstest(column, stats.uniform(-1, 2).cdf).pvalue > 0.001


def test_sqrt_d_lengths():
    assert np.allclose(np.linalg.norm(draw(9, 5, radii="sqrt_d"), axis=1), np.sqrt(5))


def test_quantile_lengths_are_each_quantile_once_in_random_order():
    lengths = np.linalg.norm(draw(12, 5, radii="quantile"), axis=1)
    assert np.allclose(stats.chi(5).cdf(np.sort(lengths)), np.arange(1, 13) / 13)
    assert (np.diff(lengths) < 0).any()


@pytest.mark.parametrize("e", [1, 2, 64, 513])
def test_chi_quantiles(e):
    levels = np.array([1e-4, 0.3, 0.5, 0.999999])
    quantiles = chi_quantiles(torch.from_numpy(levels), e).numpy()
    assert np.allclose(quantiles, stats.chi(e).ppf(levels), rtol=1e-9)
