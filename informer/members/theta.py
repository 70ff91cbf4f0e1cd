"""The dynamic optimised theta model of many series at once, without iterations.

J. A. Fiorucci, T. R. Pellegrini, F. Louzada, F. Petropoulos and A. B. Koehler, "Models for optimising the theta method
and their relationship to state space models", 2016, equations 10 to 14 and section 2.4. With level l, and intercept A_t
and slope B_t of the straight line through the rows up to t, the forecast of row t from the rows before it is

  mu_t = l_(t-1) + w [A_(t-1) (1 - alpha)^(t-1) + B_(t-1) (1 - (1 - alpha)^t) / alpha],   w = 1 - 1 / theta
  l_t  = alpha y_t + (1 - alpha) l_(t-1)

and beyond the last row the forecasts take the place of y. For a given alpha, mu is linear in l_0 and w, which therefore
follow from least squares; alpha is one of `ALPHAS`. A season, where the data have one, is removed first (classical
decomposition, multiplicative for positive series).
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from informer.networks.ops.gaps import carried

ALPHAS = torch.linspace(0.05, 0.95, 19, dtype=torch.float64)
"""Candidate smoothing parameters."""
ROWS = 256
"""Most rows of history that are read."""
LEAST_ROWS = 4
"""With fewer rows, the forecast is the last value."""
SEASONAL = 1.645
"""A season is removed if the autocorrelation at its lag is above this many standard errors (10 %, as in M4)."""
LEAST_SEASONS, LEAST_SHARE = 3, 0.01
"""Seasons that are needed to remove one, and least value relative to the mean for factors instead of summands."""


def theta(
    values: Float64[Tensor, "n t"], observed: Bool[Tensor, "n t"], season: int, horizon: int
) -> Float64[Tensor, "n horizon"]:
    """Forecasts of series that end in the last column; missing values continue the last one.

    Args:
        values: anything where not observed.
        observed: which values exist; a series begins at its first one.
        season: rows of a season, 1 for none.
        horizon: rows to forecast.
    """
    y, began = _begun(values, observed)
    season = season if y.shape[1] >= LEAST_SEASONS * season else 1
    factor, is_product = seasonal_factors(y, began, season)
    place = torch.arange(-y.shape[1], horizon, device=y.device) % season
    own, ahead = factor[:, place].split([y.shape[1], horizon], dim=1)
    adjusted = torch.where(is_product[:, None], y / own, y - own)
    forecast = _theta(adjusted * began, began, horizon)
    last = adjusted[:, -1:].expand_as(forecast)
    forecast = torch.where((began.sum(dim=1) < LEAST_ROWS)[:, None] | ~forecast.isfinite(), last, forecast)
    return torch.where(is_product[:, None], forecast * ahead, forecast + ahead)


def leaves_season(values: Float64[Tensor, "n t"], observed: Bool[Tensor, "n t"], season: int) -> Bool[Tensor, " n"]:
    """The series whose season is not removed, though they seem to have one: without its line, a series is more like
    itself a season ago than half a season ago. The arguments are those of `theta`."""
    y, began = _begun(values, observed)
    if season == 1 or y.shape[1] <= season or LEAST_SEASONS * season > ROWS:  # longer ones are cycles of no calendar
        return torch.zeros(len(y), dtype=torch.bool, device=y.device)
    place = torch.arange(y.shape[1], device=y.device, dtype=y.dtype).expand_as(y)
    off, place = _off(y, began), _off(place, began)
    off = off - place * ((off * place).sum(1) / place.square().sum(1).clamp(min=1))[:, None]
    whole, half = ((off[:, lag:] * off[:, :-lag]).sum(1) for lag in (season, season // 2))
    return (whole > half) & ~_has_season(y, began, season)


def _begun(
    values: Float64[Tensor, "n t"], observed: Bool[Tensor, "n t"]
) -> tuple[Float64[Tensor, "n t"], Bool[Tensor, "n t"]]:
    """The rows that are read, without gaps, and which of them a series has."""
    values, observed = values[:, -ROWS:], observed[:, -ROWS:]
    return carried(values[..., None], observed[..., None])[..., 0], observed.cumsum(dim=1) > 0


def _off(y: Float64[Tensor, "n t"], began: Bool[Tensor, "n t"]) -> Float64[Tensor, "n t"]:
    """Differences from the mean of the rows that a series has, otherwise 0."""
    return torch.where(began, y - ((y * began).sum(dim=1) / began.sum(dim=1))[:, None], 0.0)


def _has_season(y: Float64[Tensor, "n t"], began: Bool[Tensor, "n t"], season: int) -> Bool[Tensor, " n"]:
    n_rows = began.sum(dim=1)
    if season == 1 or y.shape[1] <= season:
        return torch.zeros_like(n_rows, dtype=torch.bool)
    off = _off(y, began)
    lags = [(off[:, lag:] * off[:, :-lag]).sum(1) / off.square().sum(1) for lag in range(1, season + 1)]
    correlation = torch.stack(lags, dim=1)
    bound = SEASONAL * ((1 + 2 * correlation[:, :-1].square().sum(1)) / n_rows).sqrt()
    return (n_rows >= LEAST_SEASONS * season) & (correlation[:, -1].abs() > bound)


def _theta(y: Float64[Tensor, "n t"], began: Bool[Tensor, "n t"], horizon: int) -> Float64[Tensor, "n horizon"]:
    alpha = ALPHAS.to(y.device)
    n = mean = slope = y.new_zeros(len(y), 1)
    level = y.new_zeros(len(y), len(alpha))  # without the part of l_0, which is c l_0
    sums = [torch.zeros_like(level) for _ in range(6)]
    for t in range(y.shape[1]):
        row, has_row = y[:, t, None], began[:, t, None]
        c, line, e = (1 - alpha) ** n, _line(n, mean, slope, alpha), row - level
        counts = has_row & (n > 0)
        sums = [
            total + first * second * counts
            for total, (first, second) in zip(
                sums, ((c, c), (c, line), (line, line), (c, e), (line, e), (e, e)), strict=True
            )
        ]
        level = torch.where(has_row, alpha * row + (1 - alpha) * level, level)
        n, mean, slope = (
            torch.where(has_row, new, old)
            for new, old in zip(_with_row(row, n, mean, slope), (n, mean, slope), strict=True)
        )
    start, w, best = _fit(*sums)
    alpha = alpha[best]
    level = level.gather(1, best) + (1 - alpha) ** n * start
    forecasts = []
    for _ in range(horizon):
        mu = level + w * _line(n, mean, slope, alpha)
        forecasts.append(mu)
        level = alpha * mu + (1 - alpha) * level
        n, mean, slope = _with_row(mu, n, mean, slope)
    return torch.cat(forecasts, dim=1)


def _line(n: Tensor, mean: Tensor, slope: Tensor, alpha: Tensor) -> Tensor:
    """What w multiplies in mu of the row after n rows, whose line has this slope and goes through their mean."""
    rest = (1 - alpha) ** n
    return (mean - slope * (n + 1) / 2) * rest + slope * (1 - rest * (1 - alpha)) / alpha


def _with_row(row: Tensor, n: Tensor, mean: Tensor, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Number, mean and slope of the rows with one more."""
    t = n + 1
    steeper = ((t - 2) * slope + 6 * (row - mean) / t) / (t + 1)
    return t, mean + (row - mean) / t, torch.where(t > 1, steeper, 0.0)


def _fit(
    cc: Tensor, cg: Tensor, gg: Tensor, ce: Tensor, ge: Tensor, ee: Tensor
) -> tuple[Float64[Tensor, "n 1"], Float64[Tensor, "n 1"], Int64[Tensor, "n 1"]]:
    """l_0, w in [0, 1], and which alpha, of the least sum of (e - c l_0 - g w)^2; sums of products per alpha."""
    tiny = torch.finfo(cc.dtype).tiny
    w = ((ge - cg * ce / (cc + tiny)) / (gg - cg.square() / (cc + tiny) + tiny)).nan_to_num(0.0).clamp(0.0, 1.0)
    start = (ce - w * cg) / (cc + tiny)
    error = ee + start.square() * cc + w.square() * gg + 2 * (start * w * cg - start * ce - w * ge)
    best = error.argmin(dim=1, keepdim=True)
    return start.gather(1, best), w.gather(1, best), best


def seasonal_factors(
    y: Float64[Tensor, "n t"], began: Bool[Tensor, "n t"], season: int, *, least: float = LEAST_SHARE
) -> tuple[Float64[Tensor, "n season"], Bool[Tensor, " n"]]:
    """Factors or summands of the season, that of the row after the last first, and which are factors; 0 where a series
    has no season.

    Args:
        least: least value relative to the mean of a series with factors; -inf: all have factors.
    """
    has_season, length = _has_season(y, began, season), y.shape[1]
    if season == 1:
        return y.new_zeros(len(y), season), has_season
    average = (y * began).sum(dim=1) / began.sum(dim=1)
    kernel = y.new_ones(season) if season % 2 else F.pad(y.new_ones(season - 1), (1, 1), value=0.5)
    trend = F.conv1d(y[:, None], kernel[None, None] / season)[:, 0]
    first = (len(kernel) - 1) // 2
    inside = slice(first, first + trend.shape[1])
    known = began.cumsum(1)[:, inside] > first
    lowest = torch.where(began, y, torch.inf).amin(dim=1)
    is_product = has_season & ((average > 0) & (lowest > least * average) | (least == -torch.inf))
    against = torch.where(is_product[:, None], y[:, inside] / trend, y[:, inside] - trend)
    place = torch.arange(-length, 0, device=y.device)[inside] % season
    total, count = (y.new_zeros(len(y), season) for _ in range(2))
    total.index_add_(1, place, torch.where(known, against, 0.0))
    count.index_add_(1, place, known.to(y))
    factors = total / count.clamp(min=1)
    mean = factors.mean(dim=1, keepdim=True)
    factors = torch.where(is_product[:, None], factors / mean, factors - mean)
    return torch.where(has_season[:, None], factors, 0.0), is_product
