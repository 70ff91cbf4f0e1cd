"""Forecasters of other packages next to ours: ETS and ARIMA of statsforecast, LightGBM on lags by mlforecast.

Each takes the histories of a test and gives means and quantiles. A history has no gaps; those of one series and column
have one owner, follow one another, the shortest first, and are as many for each.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Protocol

import numpy as np
import pandas as pd
from jaxtyping import Int64

from informer.base.errors import InputError, ShortError
from informer.base.quantiles import MEDIAN
from informer.members.baselines import Histories, Paths

MOST_ROWS = 1024
"""Newest rows that models of statsforecast are fitted to: fitting ARIMA to more takes minutes."""
LAGS = 12
"""Newest rows that LightGBM reads next to those of up to two seasons."""
TESTS = 2
"""Forecasts before the last rows of each history from which LightGBM's intervals are made."""


class Peer(Protocol):
    """A forecaster of another package."""

    def __call__(
        self, histories: Histories, owners: Int64[np.ndarray, " w"], season: int, horizon: int, levels: Sequence[float]
    ) -> tuple[Paths, Mapping[float, Paths]]:
        """Means and quantiles by level of the rows after each history; `season` is 1 for none."""


def peer(name: str) -> Peer:
    """The peer of a name in PEERS; an InputError if its packages are not installed."""
    packages = PEERS[name][1]
    if missing := [package for package in packages if find_spec(package) is None]:
        raise InputError(f"models: {name} needs {' and '.join(missing)}: pip install {' '.join(packages)}")
    return PEERS[name][0]


def _of_statsforecast(
    name: str,
    histories: Histories,
    owners: Int64[np.ndarray, " w"],
    season: int,
    horizon: int,
    levels: Sequence[float],
) -> tuple[Paths, dict[float, Paths]]:
    """A model of statsforecast, chosen and fitted anew for each history, of at most MOST_ROWS rows."""
    from statsforecast import models

    model, widths = getattr(models, name)(season_length=season), _widths(levels)
    found = [model.forecast(y=history[-MOST_ROWS:], h=horizon, level=widths) for history in histories]
    table = pd.DataFrame({key: np.concatenate([each[key] for each in found]) for key in found[0]})
    return _read(table, "mean", levels, len(histories))


def _lightgbm(
    histories: Histories, owners: Int64[np.ndarray, " w"], season: int, horizon: int, levels: Sequence[float]
) -> tuple[Paths, dict[float, Paths]]:
    """One LightGBM for all series, of changes over a season from lags of these, fitted to the shortest history of each
    and not again for later ones."""
    from lightgbm import LGBMRegressor
    from mlforecast import MLForecast
    from mlforecast.target_transforms import Differences, LocalStandardScaler
    from mlforecast.utils import PredictionIntervals

    rest = min(map(len, histories)) - TESTS * horizon - season  # rows after differences, without those of intervals
    lags = sorted(lag for lag in {*range(1, LAGS + 1), season, 2 * season} if 2 * lag < rest)
    if not lags:
        raise ShortError(f"models: lightgbm needs histories of more than {TESTS * horizon + season + 2} rows")
    transforms = [Differences([season]), LocalStandardScaler()]
    model = MLForecast({"lightgbm": LGBMRegressor(verbosity=-1)}, 1, lags, target_transforms=transforms)

    def table(chosen: Int64[np.ndarray, " c"], firsts: Sequence[int]) -> pd.DataFrame:
        rows = [np.arange(first, len(histories[place])) for place, first in zip(chosen, firsts, strict=True)]
        y = [histories[place][first:] for place, first in zip(chosen, firsts, strict=True)]
        owner = np.repeat(owners[chosen], [*map(len, rows)])
        return pd.DataFrame({"unique_id": owner, "ds": np.concatenate(rows), "y": np.concatenate(y)})

    by_test = np.argsort(owners, kind="stable").reshape(len(np.unique(owners)), -1).T
    intervals, ahead = PredictionIntervals(n_windows=TESTS, h=horizon), list[pd.DataFrame]()
    model.fit(table(by_test[0], [0] * len(by_test[0])), prediction_intervals=intervals, static_features=[])
    for number, chosen in enumerate(by_test):
        if number:
            model.update(table(chosen, [len(histories[place]) for place in by_test[number - 1]]))
        ahead.append(model.predict(horizon, level=_widths(levels)))
    means, quantiles = _read(pd.concat(ahead), "lightgbm", levels, len(histories))
    back = np.argsort(by_test.ravel())
    return means[back], {level: each[back] for level, each in quantiles.items()}


def _widths(levels: Sequence[float]) -> list[int]:
    """Percentages of the central intervals whose ends are these quantiles."""
    return sorted({round(abs(200 * level - 100)) for level in levels if level != MEDIAN})


def _read(table: pd.DataFrame, name: str, levels: Sequence[float], n: int) -> tuple[Paths, dict[float, Paths]]:
    """Means and quantiles from columns such as `mean` and `lo-80`, or `lightgbm` and `lightgbm-lo-80`."""
    prefix = "" if name == "mean" else f"{name}-"
    names = {level: f"{prefix}{'lo' if level < MEDIAN else 'hi'}-{round(abs(200 * level - 100))}" for level in levels}
    paths = {
        each: table[each].to_numpy(dtype=float).reshape(n, -1) for each in [name, *names.values()] if each in table
    }
    return paths[name], {level: paths[name if level == MEDIAN else names[level]] for level in levels}


PEERS: dict[str, tuple[Peer, tuple[str, ...]]] = {
    "ets": (partial(_of_statsforecast, "AutoETS"), ("statsforecast",)),
    "arima": (partial(_of_statsforecast, "AutoARIMA"), ("statsforecast",)),
    "lightgbm": (_lightgbm, ("mlforecast", "lightgbm")),
}
"""By name the forecaster, and the packages that it needs."""
