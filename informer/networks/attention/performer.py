"""FAVOR+ attention (Choromanski et al. 2020, "Rethinking Attention with Performers", section 2.3 and 2.4).

  A_ij = f(q_i).f(k_j) / sum_j f(q_i).f(k_j)        estimates softmax(e^-0.5 q k^T) with m random directions w_r
  positive: f(x) = m^-0.5 exp(w_r.y - |y|^2 / 2)                     y = e^-0.25 x
  trig:     f(x) = m^-0.5 exp(|y|^2 / 2) [cos w_r.y, sin w_r.y]

Cost: O(l m e) time, causal or not, and O(l) memory; `step` is the recurrent form of causal layers. The error compared
with full attention goes to 0 as m grows if the lengths of w_r follow the chi distribution (`radii` gaussian, quantile).

Factors per row of f(q) and m^-0.5 cancel and are omitted. A factor per key of f(k), which makes its largest feature
(trig: its length) about 1, enters the running sums as a logarithm. A row whose features all underflow to 0 returns the
mean of its allowed values; in float32 this is common if q and k have elements of 30.
"""

import math
from typing import Any, final

import torch
from torch import Tensor

from informer.networks.attention.base import AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.kernels import FeatureMap, Features, KernelAttention
from informer.networks.attention.parameters import at_least, choice, flag
from informer.networks.ops.fast import is_shape_only, outside_graphs


@final
class PerformerAttention(KernelAttention):
    """Softmax attention estimated by random features.

    Args:
        spec: sizes and options of the layer.
        n_features: number m of directions; None means max(1, ceil(e ln e)).
        kind: `positive` or `trig`.
        orthogonal: make directions orthogonal in blocks of e.
        radii: lengths of the directions: gaussian, sqrt_d or quantile (see `random_directions`).
        redraw_every: number of training calls after which new directions are drawn; 0 never redraws.
    """

    COST = "O(L m e) time, O(L) memory"

    def __init__(
        self,
        spec: AttentionSpec,
        *,
        n_features: int | None = None,
        kind: str = "positive",
        orthogonal: bool = True,
        radii: str = "gaussian",
        redraw_every: int = 0,
    ) -> None:
        super().__init__(spec)
        default = max(1, math.ceil(spec.d_head * math.log(spec.d_head)))
        self.n_features = default if n_features is None else at_least("n_features", n_features, 1)
        self.kind = choice("kind", kind, ("positive", "trig"))
        self.orthogonal = flag("orthogonal", orthogonal)
        self.radii = choice("radii", radii, ("gaussian", "sqrt_d", "quantile"))
        self.redraw_every = at_least("redraw_every", redraw_every, 0)
        self.directions: Tensor
        self.register_buffer("directions", self._draw().to(torch.get_default_dtype()))
        self.n_calls: Tensor
        self.register_buffer("n_calls", torch.tensor(0))

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """A v; in training, directions are redrawn first according to `redraw_every`."""
        if self.training and self.redraw_every:
            self._count()
        return super().forward(q, k, v)

    def empty_state(self, shape: tuple[int, int], d: int, device: torch.device | str | None) -> Any:
        """See `KernelAttention`; by default on the device of the directions, which all steps must share."""
        return super().empty_state(shape, d, device or self.directions.device)

    @property
    def width(self) -> int:
        """Number of features of a query or key."""
        return self.n_features * (2 if self.kind == "trig" else 1)

    def maps(self) -> tuple[FeatureMap, FeatureMap]:
        """f for queries and keys with the current directions, which a later backward pass still needs."""
        directions = self.directions.to(torch.promote_types(self.directions.dtype, torch.float32))
        positive = self.kind == "positive"

        def query(x: Tensor) -> Features:
            projected = (x * x.shape[-1] ** -0.25) @ directions.to(x.dtype).T
            if not positive:
                return Features(torch.cat([projected.cos(), projected.sin()], dim=-1), projected.new_zeros(()))
            largest = projected.detach().amax(dim=-1, keepdim=True)
            return Features((projected - largest).exp(), largest)

        def key(x: Tensor) -> Features:
            values, largest = query(x)
            half_square = (x * x).sum(dim=-1, keepdim=True) * (0.5 * x.shape[-1] ** -0.5)
            return Features(values, largest - half_square if positive else half_square)

        return query, key

    def _draw(self) -> Tensor:
        return random_directions(self.n_features, self.spec.d_head, orthogonal=self.orthogonal, radii=self.radii)

    @outside_graphs
    def _count(self) -> None:
        """Count a training call. New directions replace the buffer, so a pending backward pass keeps the old ones."""
        if self.n_calls and self.n_calls % self.redraw_every == 0:
            self.directions = self._draw().to(self.directions)
        self.n_calls = self.n_calls + 1


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
        q, r = torch.linalg.qr(torch.randn(-(-n // e), e, e, dtype=torch.float64))
        # uniform (Haar) orthogonal matrices: the signs of r's diagonal correct a bias of QR
        units = (q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)).flatten(0, 1)[:n]
    else:
        units = torch.nn.functional.normalize(torch.randn(n, e, dtype=torch.float64), dim=-1)
    return units * _lengths(n, e, radii)[:, None]


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
