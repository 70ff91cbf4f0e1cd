"""Forecasts and scores of arrays of windows, steps and columns."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from informer.data.windows import Batch
from informer.scoring.backtest import Member
from informer.scoring.forecasts import Forecasts, keys_of
from informer.scoring.scores import Scores


def paths_of(
    forecast: np.ndarray, actual: np.ndarray, series: Sequence[str] | None = None, columns: Sequence[str] | None = None,
    *, levels: Mapping[float, np.ndarray] | None = None, bands: Mapping[str, np.ndarray] | None = None,
    **units: np.ndarray,
) -> Forecasts:  # fmt: skip
    """Arrays [w h n] as paths; `units` are center, scale and change of each column [n], or of each window too [w n]."""

    def matrix(values: np.ndarray) -> np.ndarray:
        return np.asarray(values, dtype=float).swapaxes(1, 2).reshape(-1, values.shape[1])

    w, h, n = actual.shape
    columns = list(columns or map(str, range(n)))
    return Forecasts(
        keys=keys_of(series or [""] * w, columns, np.arange(w)),
        times=np.tile(np.arange(h), (w * n, 1)),
        mean=matrix(forecast),
        actual=matrix(actual),
        levels={level: matrix(values) for level, values in (levels or {}).items()},
        bands={name: matrix(values) for name, values in (bands or {}).items()},
        **{name: np.broadcast_to(values, (w, n)).ravel() for name, values in units.items()},
    )


def scores_of(forecasts: Mapping[str, np.ndarray], actual: np.ndarray, **settings: Any) -> Scores:
    """Scores of several forecasters with arrays [w h n] as forecasts of one series."""
    scores = Scores([*map(str, range(actual.shape[2]))], **settings)
    for name, forecast in forecasts.items():
        scores.add(name, paths_of(forecast, actual))
    return scores


def member(output: Callable[[Batch], Tensor], n: int, name: str = "") -> Member:
    """What forecasts the first n columns by a function of a batch, scaled."""
    return Member(name=name, output=output, positions=range(n))
