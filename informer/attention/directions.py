"""Random directions for feature maps that estimate the exponential kernel (Choromanski et al. 2020, section 2.4)."""

import math

import torch
from torch import Tensor

from informer.ops.fresh import is_shape_only


def random_directions(n: int, e: int, *, orthogonal: bool, radii: str) -> Tensor:
    """Rows w_r [n e] in float64 with uniformly distributed directions, drawn from torch's global generator.

    Args:
        n: number of rows.
        e: width of a row.
        orthogonal: make rows orthogonal in blocks of e; otherwise they are independent.
        radii: lengths of the rows. gaussian: norms of n further rows of N(0, I). sqrt_d: sqrt(e) for all, which biases
            the estimate. quantile: the r-th length solves P(chi_e <= length) = r / (n + 1); in random order.
    """
    if is_shape_only():
        return torch.empty(n, e, dtype=torch.float64)
    if orthogonal:
        blocks = torch.randn(-(-n // e), e, e, dtype=torch.float64)
        units = _orthogonal(blocks).flatten(0, 1)[:n]
    else:
        units = torch.nn.functional.normalize(torch.randn(n, e, dtype=torch.float64), dim=-1)
    return units * _lengths(n, e, radii)[:, None]


def _orthogonal(blocks: Tensor) -> Tensor:
    """Uniform (Haar) orthogonal matrices from Gaussian ones; the signs of r's diagonal correct a bias of QR."""
    q, r = torch.linalg.qr(blocks)
    return q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


def _lengths(n: int, e: int, radii: str) -> Tensor:
    if radii == "sqrt_d":
        return torch.full((n,), math.sqrt(e), dtype=torch.float64)
    if radii == "gaussian":
        return torch.randn(n, e, dtype=torch.float64).norm(dim=-1)
    levels = torch.arange(1, n + 1, dtype=torch.float64) / (n + 1)
    return chi_quantiles(levels, e)[torch.randperm(n)]


def chi_quantiles(levels: Tensor, e: int) -> Tensor:
    """x with P(chi_e <= x) = level in (0, 1), float64, by bisection of the incomplete gamma function."""
    low = torch.zeros_like(levels)
    # P(chi_e > sqrt(e) + t) <= exp(-t^2 / 2)
    high = math.sqrt(e) + (-2 * torch.log1p(-levels)).sqrt()
    half = torch.full_like(levels, e / 2)
    for _ in range(64):
        middle = (low + high) / 2
        below = torch.special.gammainc(half, middle.square() / 2) < levels
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2
