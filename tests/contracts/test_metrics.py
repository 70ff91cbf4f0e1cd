"""The contract of every metric in `METRICS`: the formula of its name in numpy, over the values that are observed."""

from collections.abc import Callable

import numpy as np
import pytest
from scored import paths_of

from informer.scoring.metrics import METRICS
from informer.scoring.scores import Scores

LEVELS = (0.1, 0.5, 0.9)


def _loss(y: np.ndarray, quantiles: dict[float, np.ndarray]) -> float:
    losses = [np.maximum(level * (y - q), (level - 1) * (y - q)).sum() for level, q in quantiles.items()]
    return 2 * np.mean(losses) / np.abs(y).sum()


FORMULAS: dict[str, Callable[..., float]] = {
    "bias": lambda f, y, **_: np.mean(f - y),
    "mse": lambda f, y, **_: np.mean((f - y) ** 2),
    "mae": lambda f, y, **_: np.mean(np.abs(f - y)),
    "rmse": lambda f, y, **_: np.sqrt(np.mean((f - y) ** 2)),
    "mape": lambda f, y, **_: 100 * np.mean(np.abs((f - y)[y != 0] / y[y != 0])),
    "smape": lambda f, y, **_: 200 * np.mean(np.abs(f - y) / (np.abs(f) + np.abs(y))),
    "wape": lambda f, y, **_: 100 * np.abs(f - y).sum() / np.abs(y).sum(),
    "mase": lambda f, y, series, change, **_: np.mean(
        [np.mean((np.abs(f - y) / change)[series == one]) for one in np.unique(series)]
    ),
    "wql": lambda f, y, q, **_: _loss(y, q),
}
"""Over observed values of forecast f, actual y, quantiles q by level, and of each the series and its seasonal change; a
metric without a formula here fails."""


@pytest.mark.parametrize("units", ["scaled", "original"])
@pytest.mark.parametrize("name", METRICS)
def test_a_metric_is_its_formula(name: str, units: str) -> None:
    """Red if a metric has no formula, another value over all, by step or by column, counts a missing value, has the
    wrong units, or depends on how windows are added: MASE is the mean of two series, one of them of two windows."""
    rng = np.random.default_rng(0)
    forecast, actual, *others = rng.normal(10, 3, (5, 6, 4, 3))
    actual[rng.random(actual.shape) < 0.2] = np.nan
    actual[1, 1, 1] = 0.0
    quantiles = dict(zip(LEVELS, np.sort([forecast, *others[:2]], axis=0), strict=True))
    series = np.array(["a", "b", "a", "a", "b", "a"])
    center, scale, change = np.array([1.0, 2, 3]), np.array([1.0, 2, 4]), rng.uniform(1, 3, (6, 3))
    scores = Scores(["0", "1", "2"], ["a", "b"])
    for part in (slice(0, 1), slice(1, 6)):
        levels = {level: values[part] for level, values in quantiles.items()}
        given = {"center": center, "scale": scale, "change": change[part]}
        scores.add("", paths_of(forecast[part], actual[part], list(series[part]), levels=levels, **given))

    def own(values: np.ndarray) -> np.ndarray:
        return (values - center) / scale if units == "scaled" else values

    def expected(cells: tuple) -> float:
        seen = ~np.isnan(actual[cells])
        owners = np.broadcast_to(series[:, None, None], actual.shape)[cells][seen]
        changes = np.broadcast_to(change[:, None], actual.shape)[cells][seen]
        f, y = forecast[cells][seen], actual[cells][seen]
        if name != "mase":
            f, y = own(forecast)[cells][seen], own(actual)[cells][seen]
        q = {level: own(values)[cells][seen] for level, values in quantiles.items()}
        return FORMULAS[name](f=f, y=y, q=q, series=owners, change=changes)

    assert scores.overall("", units)[name] == pytest.approx(expected((slice(None),) * 3))
    for step, value in enumerate(scores.values("", units, "step")[name]):
        assert value == pytest.approx(expected((slice(None), slice(step, step + 1))))
    for column, value in enumerate(scores.values("", units, "column")[name]):
        assert value == pytest.approx(expected((slice(None), slice(None), slice(column, column + 1))))
    for place, one in enumerate("ab"):
        assert scores.values("", units, "series")[name][place] == pytest.approx(expected((series == one,)))


@pytest.mark.parametrize("name", METRICS)
def test_the_ends_of_a_metric(name: str) -> None:
    """Red if a perfect forecast has an error, or a forecast that is NaN is left out of the mean."""
    actual = np.random.default_rng(1).random((2, 4, 3)) + 1
    lost = actual.copy()
    lost[1, 2, 0] = np.nan
    for forecast, value in ((actual, 0.0), (lost, np.nan)):
        scores = Scores(["0", "1", "2"])
        scores.add("", paths_of(forecast, actual, levels={0.5: forecast}, change=np.ones(3)))
        assert scores.overall("")[name] == pytest.approx(value, nan_ok=True)


def test_what_has_no_value() -> None:
    """Red if a mean over nothing is infinite or zero, or if what one column lacks is missing in the mean of all."""
    zeros = np.zeros((2, 3, 2))
    scores = Scores(["0", "1"])
    scores.add("", paths_of(zeros + 1, zeros, levels={0.5: zeros + 1}, change=np.array([0.5, np.nan])))
    overall, by_column = scores.overall(""), scores.values("", "original", "column")
    assert all(np.isnan(overall[name]) for name in ("mape", "wape", "wql"))
    assert overall["mase"] == 2.0
    assert by_column["mase"].tolist() == pytest.approx([2.0, np.nan], nan_ok=True)
    text = "\n".join(scores.remarks)
    assert "MAPE in original units excludes 12 actual values that are zero" in text
    assert "MASE is undefined for 1: rows repeat exactly from season to season" in text
