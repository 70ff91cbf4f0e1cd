"""Forecasts from histories alone, with which files of forecasts are compared: seasonal naive with quantiles, ridge, and
Naive2 of the M competitions."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float64

from informer.base.errors import InputError
from informer.config.model import WindowSizes
from informer.data.scaler import standard_deviation
from informer.data.seasonality import bridged
from informer.data.windows import DataUnits, Store, Windows
from informer.scoring.baselines import fit_ridge, repeated
from informer.scoring.forecasts import Matrix

Histories = Sequence[Float64[np.ndarray, " _"]]


def seasonal_naive(histories: Histories, season: int, steps: int) -> Matrix:
    """Repeat the last season, filling missing values (NaN) from the season before, or the last observed value if there
    is none; of a history shorter than a season, the last value."""
    columns = (torch.tensor(history)[None, :, None] for history in histories)
    ahead = torch.arange(steps)
    each = [repeated(rows, [season if rows.shape[1] >= season else 1], ahead)[0, :, 0] for rows in columns]
    return torch.stack(each).numpy()


def seasonal_naive_quantiles(
    histories: Histories, season: int, forecast: Matrix, levels: Sequence[float]
) -> dict[float, Matrix]:
    """Quantiles around `seasonal_naive` by level; NaN where a history has too few errors.

    Quantile q is the end of a conformal interval of level w = |2 q - 1|: its half width is the ceil((n + 1) w)-th
    smallest of the n absolute errors of the seasonal naive at the same step ahead over the unit's history, without
    missing values (NaN).

    Args:
        forecast: the result of `seasonal_naive`.
        levels: levels of the quantiles.
    """
    widths = sorted({round(abs(2 * level - 1), 8) for level in levels} - {0.0})
    halves = np.stack([_half_widths(history, season, forecast.shape[1], widths) for history in histories])
    quantiles = {}
    for level in levels:
        width = round(abs(2 * level - 1), 8)
        half = halves[:, widths.index(width)] if width else np.zeros_like(forecast)
        quantiles[level] = forecast + math.copysign(1.0, level - 0.5) * half
    return quantiles


def _half_widths(
    history: Float64[np.ndarray, " _"], season: int, steps: int, widths: Sequence[float]
) -> Float64[np.ndarray, "w h"]:
    """Half widths of intervals of the levels `widths`, between 0 and 1; NaN if there are too few errors."""
    # rows between a value and the one repeated there
    ahead = np.arange(1, steps + 1)
    lags = ahead if len(history) < season else season * -(-ahead // season)
    halves = np.full((len(widths), steps), np.nan)
    for lag in np.unique(lags):
        errors = np.abs(history[lag:] - history[:-lag])
        errors = np.sort(errors[~np.isnan(errors)])
        for i, width in enumerate(widths):
            rank = math.ceil(round((len(errors) + 1) * width, 6))
            if rank <= len(errors):
                halves[i, lags == lag] = errors[rank - 1]
    return halves


def naive2(histories: Histories, season: int, steps: int) -> Matrix:
    """The last value of the seasonally adjusted history, with seasonality added back.

    A history counts as seasonal if its autocorrelation at one season passes the 90 % test; the adjustment is a
    multiplicative classical decomposition (Makridakis, Spiliotis & Assimakopoulos 2020, "The M4 Competition", section
    2.3 and its public code). Missing values (NaN) are interpolated linearly.
    """
    forecasts = []
    for history in map(bridged, histories):
        factors = seasonal_factors(history, season) if is_seasonal(history, season) else np.ones(season)
        places = np.arange(len(history), len(history) + steps) % season
        forecasts.append(history[-1] / factors[(len(history) - 1) % season] * factors[places])
    return np.stack(forecasts)


def ridge(histories: Histories, season: int, steps: int) -> tuple[Matrix, str] | None:
    """The package's ridge baseline, fitted on all histories together, and a note about it.

    The penalty is chosen on the last `steps` rows of the histories, twice as many if values are missing. Each history
    is scaled by its own mean and standard deviation; missing values (NaN) are ignored. Returns None if fewer than two
    windows fit into every history, or if some step is observed in no window.
    """
    shortest = min(map(len, histories))
    # one window of the last rows may not observe every step
    held_out_rows = 2 * steps if any(np.isnan(history).any() for history in histories) else steps
    seq_len = min(max(2 * season, 2 * steps), shortest - steps - held_out_rows)
    if seq_len < max(2, season):
        return None
    sizes = WindowSizes(seq_len=seq_len, label_len=0, pred_len=steps)
    center = np.array([np.nanmean(history) for history in histories])[:, None]
    spread = np.array([standard_deviation(history) for history in histories])[:, None]
    scale = np.where(spread > 0, spread, 1.0)
    scaled = [(history - c) / s for history, c, s in zip(histories, center, scale, strict=True)]
    firsts = np.cumsum([0, *map(len, scaled[:-1])])
    store = Store(
        values=torch.from_numpy(np.concatenate(scaled)[:, None]).float(),
        marks=torch.zeros(sum(map(len, scaled)), 0),
        first_rows=torch.from_numpy(firsts),
        mark_shift=torch.zeros(len(firsts), dtype=torch.long),
        units=DataUnits(torch.from_numpy(center), torch.from_numpy(scale)),
        numbers=torch.full((len(scaled),), -1),
    )
    ends = [(first, first + len(history)) for first, history in zip(firsts, scaled, strict=True)]
    train = [np.arange(first, end - held_out_rows - sizes.rows + 1) for first, end in ends]
    val = [np.arange(end - held_out_rows - seq_len, end - sizes.rows + 1) for _, end in ends]
    fitted_on, held_out = (
        Windows(store, starts=torch.from_numpy(np.concatenate(each)), sizes=sizes, targets=[0]) for each in (train, val)
    )
    try:
        fitted = fit_ridge(fitted_on, held_out, [0])
    except InputError:  # of steps that are never observed
        return None
    last = torch.from_numpy(np.stack([history[-seq_len:] for history in scaled])[:, :, None]).float()
    return fitted.mapped(last)[:, :, 0].double().numpy() * scale + center, fitted.note


def is_seasonal(history: Float64[np.ndarray, " _"], season: int) -> bool:
    """Whether the autocorrelation at one season exceeds its 90 % limits (Bartlett); False below three seasons."""
    n = len(history)
    if season < 2 or n < 3 * season:
        return False
    centred = history - history.mean()
    total = float(centred @ centred)
    if total == 0.0:
        return False
    correlation = np.array([centred[lag:] @ centred[: n - lag] for lag in range(1, season + 1)]) / total
    limit = 1.645 * np.sqrt((1 + 2 * (correlation[:-1] ** 2).sum()) / n)
    return bool(abs(correlation[-1]) > limit)


def seasonal_factors(history: Float64[np.ndarray, " _"], season: int) -> Float64[np.ndarray, " m"]:
    """Multiplicative seasonal indices with mean 1, by position in the season: mean ratios to a moving average."""
    half = season // 2
    weights = np.full(season, 1.0 / season) if season % 2 else np.r_[0.5, np.ones(season - 1), 0.5] / season
    trend = np.convolve(history, weights, mode="valid")
    ratios = history[half : half + len(trend)] / trend
    places = np.arange(half, half + len(trend)) % season
    factors = np.array([ratios[places == place].mean() for place in range(season)])
    return factors / factors.mean()
