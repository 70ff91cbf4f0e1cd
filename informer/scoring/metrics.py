"""Metrics of forecasts by unit and step, from plain arrays.

MSE: mean (f - y)^2. MAE: mean |f - y|. sMAPE: mean 200 |f - y| / (|f| + |y|), 0 where both are zero. MASE: MAE / mean
|y_t - y_(t - season)| over the history of the unit (Hyndman & Koehler 2006). OWA: mean of sMAPE and MASE, each divided
by that of Naive2 (M4 competition). Coverage: in percent. Weighted quantile loss: 2 sum pinball / sum |y|, mean over the
quantiles (as in GluonTS; Park et al. 2022).
"""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float64

Cells = Float64[np.ndarray, "u h"]
Mean = Callable[[Cells], Float64[np.ndarray, "_"]]
"""Mean over the cells of each group, without NaN."""


def mase_scale(history: Float64[np.ndarray, "_"], season: int) -> float:
    """Mean absolute seasonal difference of observed pairs; NaN if it is zero or there is no pair."""
    differences = np.abs(history[season:] - history[:-season])
    differences = differences[~np.isnan(differences)]
    scale = float(differences.mean()) if len(differences) else 0.0
    return scale if scale > 0 else np.nan


def point_cells(forecast: Cells, actual: Cells, scales: Float64[np.ndarray, "u"]) -> dict[str, Cells]:
    """Point metrics of each cell, before averaging."""
    error = np.abs(forecast - actual)
    total = np.abs(forecast) + np.abs(actual)
    smape = 200 * np.divide(error, total, out=np.zeros_like(error), where=total > 0)
    return {
        "mse": error**2,
        "mae": error,
        "mase": error / scales[:, None],
        "smape": np.where(np.isnan(error), np.nan, smape),
    }


def owa(errors: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]) -> np.ndarray:
    """OWA from averaged sMAPE and MASE; NaN if an error of the reference is zero."""
    ratios = [
        np.divide(errors[name], reference[name], out=np.full_like(errors[name], np.nan), where=reference[name] > 0)
        for name in ("smape", "mase")
    ]
    return (ratios[0] + ratios[1]) / 2


def levels_of(bands: Sequence[str]) -> list[str]:
    """Levels of the intervals that have both ends, as written in the column names."""
    return [name[2:] for name in bands if name.startswith("lo") and f"hi{name[2:]}" in bands]


def inside_cells(low: Cells, high: Cells, actual: Cells) -> Cells:
    """100 if the actual value is inside the interval, 0 if not, NaN if any of them is missing."""
    unknown = np.isnan(low) | np.isnan(high) | np.isnan(actual)
    return np.where(unknown, np.nan, 100.0 * ((low <= actual) & (actual <= high)))


def quantile_forecasts(forecast: Cells, bands: Mapping[str, Cells]) -> dict[float, Cells]:
    """Forecasts by level: q10 is 0.1, the ends of an 80 % interval are 0.1 and 0.9, the forecast is the median.

    Empty if there are neither intervals nor quantiles.
    """
    by_level: dict[float, Cells] = {}
    for name, cells in bands.items():
        end, number = re.fullmatch(r"(lo|hi|q)(.*)", name).groups()  # type: ignore[union-attr]
        share = float(number) / 100
        level = {"q": share, "lo": (1 - share) / 2, "hi": (1 + share) / 2}[end]
        by_level.setdefault(round(level, 8), cells)
    if by_level:
        by_level.setdefault(0.5, forecast)
    return dict(sorted(by_level.items()))


def weighted_quantile_loss(quantiles: Mapping[float, Cells], actual: Cells, mean: Mean) -> Float64[np.ndarray, "_"]:
    """2 sum pinball / sum |y| for each group, averaged over the quantiles."""
    losses = []
    for level, cells in quantiles.items():
        error = actual - cells
        pinball = np.maximum(level * error, (level - 1) * error)
        size = np.where(np.isnan(pinball), np.nan, np.abs(actual))
        total = mean(size)
        losses.append(np.divide(2 * mean(pinball), total, out=np.full_like(total, np.nan), where=total > 0))
    return np.mean(losses, axis=0)
