"""Distributions as forecasts, one per step and column: normal, Student's t, negative binomial (counts).

The head returns values that move with a forecast when it is shifted or multiplied, so everything behind a head (the
window's mean and scale, linear maps, averages with other forecasts) treats them as it does quantiles:

  normal             location m, m + s
  student_t          m, m + s, m + s u with u = 1 / degrees of freedom, below 1/2, so that mean and variance exist
  negative_binomial  m, m + s, and, added by `with_counts`, the counts 0 and 1 in the scale of the model

        _..-|-.._
    _.-'    |    '-._
  --'-------m--m+s---'----->  y     of a y + b they are a m + b and a (m + s) + b, so s = (m + s) - m is found again

Counts have the mean mu, m in counts where that is positive, and the variance mu (1 + sigma), sigma being s in counts
(the NB1 form: Cameron & Trivedi 1986, "Econometric models based on count data").
"""

import math
from collections.abc import Sequence
from functools import cache, partial
from statistics import NormalDist
from typing import Any, final

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributions import Distribution, NegativeBinomial, Normal, StudentT

from informer.networks.layers.quantile_head import MEDIAN
from informer.networks.ops.products import Linear

LEAST_SCALE, LEAST_U = 1e-3, 1 / 200
"""Smallest scale, so that the density of a constant is finite, and smallest 1 / degrees of freedom."""

MOST_COUNT = 10_000
"""Largest count of a training series; quantiles are at most twice as large."""

BLOCK, N_NODES, SHARPNESS = 64, 16, 10.0
"""Counts per step of `counts_at`; nodes of `student_quantile`; of the bend at a mean of zero, see `of_output`."""


@final
class DistributionHead(nn.Module):
    """Maps decoder rows to the parameters of distributions.

    Zero weights give location 0, scale about 1 and 10 degrees of freedom, a good start for scaled data.

    Args:
        kind: the distribution: normal, student_t or negative_binomial.
        levels: levels of its quantiles.
        d_model, n_columns: width of the rows, number of forecast columns.
    """

    def __init__(self, kind: str, levels: Sequence[float], d_model: int, n_columns: int) -> None:
        super().__init__()
        self.kind, self.levels = kind, tuple(levels)
        self.linear = Linear(d_model, n_columns * (3 if kind == "student_t" else 2))

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b l n p"]:
        """Parameters of every column at every row, as the module's docstring lists them."""
        raw = rearrange(self.linear(x), "b l (n p) -> b l n p", p=3 if self.kind == "student_t" else 2)
        raw = raw.float() if raw.dtype is torch.bfloat16 else raw  # differences of close numbers need more digits
        center = raw[..., 0]
        scale = LEAST_SCALE + F.softplus(raw[..., 1] + math.log(math.expm1(1.0)))
        values = [center, center + scale]
        if self.kind == "student_t":
            values.append(center + scale * (LEAST_U + (0.5 - LEAST_U) * torch.sigmoid(raw[..., 2] - math.log(4.0))))
        return torch.stack(values, dim=-1)

    def quantiles(self, output: Float[Tensor, "b l n p"]) -> Float[Tensor, "b l n q"]:
        """Quantiles at `levels`; of counts, then their mean, the point forecast, because their median is often zero."""
        if self.kind == "negative_binomial":
            zero, one = output[..., 2:3], output[..., 3:4]
            return zero + counts_at(of_output(output, kind=self.kind), self.levels).to(output) * (one - zero)
        center, scale = output[..., 0], output[..., 1] - output[..., 0]
        if self.kind == "normal":
            ends = [torch.full_like(scale, NormalDist().inv_cdf(level)) for level in self.levels]
        else:
            ends = [student_quantile((output[..., 2] - center) / scale, level) for level in self.levels]
        return center[..., None] + scale[..., None] * torch.stack(ends, dim=-1)


def of_output(output: Float[Tensor, "*b p"], *, kind: str) -> Distribution:
    """The distributions that a model's output describes: of scaled values, of counts with negative_binomial.

    Samples: `of_output(model_output(model, batch, for_loss=True), kind=kind).sample((100,))`.
    """
    center, scale = output[..., 0], output[..., 1] - output[..., 0]
    if kind == "normal":
        return Normal(center, scale, validate_args=False)
    if kind == "student_t":
        return StudentT(scale / (output[..., 2] - center), center, scale, validate_args=False)
    # above zero, and m to 0.1 % from half a standard deviation of the scaler on
    mean = F.softplus(SHARPNESS * (center - output[..., 2])) / SHARPNESS
    unit = output[..., 3] - output[..., 2]
    excess = scale / unit
    mean = (mean / unit).clamp(min=1e-6)
    return NegativeBinomial(mean / excess, logits=excess.log(), validate_args=False)


def negative_log_likelihood(
    output: Float[Tensor, "b l n p"], actual: Float[Tensor, "b l n"], *, kind: str
) -> Float[Tensor, ""]:
    """Mean of -log p(actual): of scaled values, of counts with negative_binomial."""
    if kind == "negative_binomial":
        actual = ((actual - output[..., 2]) / (output[..., 3] - output[..., 2])).round()
    return -of_output(output, kind=kind).log_prob(actual).mean()


LIKELIHOODS = {
    kind: partial(negative_log_likelihood, kind=kind) for kind in ("normal", "student_t", "negative_binomial")
}
"""Loss of each distribution by its name."""


def counts_at(counts: Any, levels: Sequence[float]) -> Float[Tensor, "*b q"]:
    """Smallest count whose distribution function reaches each level, by summation, then the mean."""
    mean = counts.mean.double()
    counts = NegativeBinomial(counts.total_count.double()[..., None], logits=counts.logits.double()[..., None])
    wanted = torch.tensor(levels, dtype=mean.dtype, device=mean.device)
    below, reached = torch.zeros((*mean.shape, len(levels)), dtype=mean.dtype, device=mean.device), mean.new_zeros(1)
    for first in range(0, 2 * MOST_COUNT, BLOCK):
        block = torch.arange(first, first + BLOCK, dtype=mean.dtype, device=mean.device)
        reached = reached[..., -1:] + counts.log_prob(block).exp().cumsum(dim=-1)
        below += (reached[..., None] < wanted).sum(dim=-2)
        if bool((reached[..., -1] >= max(levels)).all()):
            break
    return torch.cat([below, mean[..., None]], dim=-1)


def student_quantile(u: Tensor, level: float) -> Tensor:
    """Quantile of Student's t with 1 / u degrees of freedom, u in [0, 1/2], to 1e-6: by Chebyshev polynomials in u."""
    x = 4.0 * u - 1.0
    after, last = torch.zeros_like(u), torch.zeros_like(u)
    first, *others = _chebyshev(level)
    for coefficient in reversed(others):  # C. Clenshaw, "A note on the summation of Chebyshev series", 1955
        after, last = coefficient + 2.0 * x * after - last, after
    return first + x * after - last


@cache
def _chebyshev(level: float) -> list[float]:
    """Coefficients of the interpolation of the quantile at the zeros of a Chebyshev polynomial in 4 u - 1."""
    angles = [math.pi * (node + 0.5) / N_NODES for node in range(N_NODES)]
    values = [_exact_quantile(4.0 / (1.0 + math.cos(angle)), level) for angle in angles]
    return [
        (2.0 if order else 1.0) / N_NODES * sum(v * math.cos(order * a) for v, a in zip(values, angles, strict=True))
        for order in range(N_NODES)
    ]


def _exact_quantile(df: float, level: float) -> float:
    """Quantile of Student's t, t = sqrt(df) tan(a): the density of the angle a is proportional to cos(a)^(df - 1)."""
    # plain numbers, since an exported graph would hold the operations of tensors
    if level < MEDIAN:
        return -_exact_quantile(df, 1.0 - level)
    constant = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(math.pi)
    low, high, n = 0.0, math.pi / 2, 64

    def mass(angle: float) -> float:  # Simpson's rule
        steps = [math.cos(angle * i / n) ** (df - 1) * (4 if i % 2 else 2) for i in range(1, n)]
        return constant * angle / n / 3 * (1 + sum(steps) + max(math.cos(angle), 0.0) ** (df - 1))

    angle = math.atan(NormalDist().inv_cdf(level) / math.sqrt(df))
    for _ in range(60):
        excess = mass(angle) - (level - MEDIAN)
        low, high = (low, angle) if excess > 0 else (angle, high)
        newton = angle - excess / (constant * max(math.cos(angle), 1e-300) ** (df - 1))
        following = newton if low < newton < high else (low + high) / 2
        if abs(following - angle) < 1e-14:
            break
        angle = following
    return math.sqrt(df) * math.tan(angle)
