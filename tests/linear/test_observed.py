"""Sums over windows with gaps, against loops; and what maps fitted from them are worth."""

import numpy as np
import pandas as pd
import pytest
import torch
from stores import one_series

from informer.config.model import CalendarEmbed
from informer.data.windows import Store
from informer.linear.moments import LEAST_SHARE, Moments, MomentSource, ObservedRows, WindowRun, carried_rows
from informer.linear.settings import OriginFeatures

SEQ, PRED = 6, 4
FEATURES = OriginFeatures((0, 1), 2, (), ("hour",), CalendarEmbed.timeF)


def store(share: float, n: int = 60) -> Store:
    """Two columns, the first with single cells and a long run missing."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(n, 2)).cumsum(axis=0)
    values[rng.random(n) < share, 0] = np.nan
    values[20:32, 0] = np.nan
    made = one_series(torch.from_numpy(values).float())
    return Store(**{name: getattr(made, name) for name in made.__slots__} | {"has_gaps": True})


def test_sums_count_what_is_observed() -> None:
    """Window by window, pair by pair. Red if a missing row of the future counts, or a window with hardly any rows."""
    data, runs = store(0.2), [WindowRun(0, 0, 30), WindowRun(0, 33, 51)]
    source = MomentSource(data, SEQ, PRED, FEATURES)
    moments = source.of(0, runs)
    raw, filled = data.values.double().numpy(), pd.DataFrame(data.values.double().numpy()).ffill().bfill().to_numpy()
    least = LEAST_SHARE * (~np.isnan(raw[:, 0])).mean()
    size = SEQ + PRED + len(FEATURES.groups)
    sums, counts, windows = np.zeros((size, size)), np.zeros(PRED), 0
    for start in [*range(30), *range(33, 51)]:
        history, future = raw[start : start + SEQ, 0], raw[start + SEQ : start + SEQ + PRED, 0]
        if (~np.isnan(history)).mean() < least or (~np.isnan(future)).mean() < least:
            continue
        own = filled[start : start + SEQ]
        others = (own[-2:] - own.mean(axis=0)).ravel()
        z = np.concatenate([own[:, 0], np.nan_to_num(future), [1.0], others])
        sums, counts, windows = sums + np.outer(z, z), counts + ~np.isnan(future), windows + 1
    assert 0 < windows < 48
    assert (counts < windows).all()
    assert moments.windows == windows
    assert moments.observed is not None
    np.testing.assert_array_equal(moments.observed, counts)
    np.testing.assert_allclose(moments.products, sums, rtol=1e-6, atol=1e-6)
    whole = moments.complete(SEQ)
    step = SEQ + 1
    np.testing.assert_allclose(whole[0, step], sums[0, step] * windows / counts[1], rtol=1e-6)
    np.testing.assert_allclose(whole[step, step], sums[step, step] * windows / counts[1], rtol=1e-6)
    np.testing.assert_allclose(whole[:SEQ, :SEQ], sums[:SEQ, :SEQ], rtol=1e-6, atol=1e-6)


def test_a_complete_column_has_the_sums_that_it_had() -> None:
    """Red if gaps of another column change more than the features that are read of it."""
    data = store(0.2)
    complete = one_series(data.values.nan_to_num(0.0))
    runs = [WindowRun(0, 0, 50)]
    moments, before = (MomentSource(one, SEQ, PRED, FEATURES).of(1, runs).products for one in (data, complete))
    np.testing.assert_array_equal(moments[: SEQ + PRED, : SEQ + PRED], before[: SEQ + PRED, : SEQ + PRED])


def test_counts_add_up_with_those_of_complete_windows() -> None:
    one, other = Moments(np.eye(3), 10, np.array([4.0])), Moments(np.eye(3), 5)
    assert (one + other).observed == (other + one).observed == np.array([9.0])
    assert (one - one.times(0.5)).observed == np.array([2.0])
    assert (other + other).observed is None
    assert not (one - one).is_known
    assert one.is_known


def test_rows_are_carried_as_pandas_carries_them() -> None:
    rows = np.array([[np.nan, 1.0], [2.0, np.nan], [np.nan, np.nan], [3.0, np.nan]])
    np.testing.assert_array_equal(carried_rows(rows), pd.DataFrame(rows).ffill().bfill())
    np.testing.assert_array_equal(carried_rows(np.full((3, 1), np.nan)), np.zeros((3, 1)))


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_maps_from_random_gaps_are_those_of_complete_rows(share: float) -> None:
    """An autoregression of two rows, recovered: as many windows as here say each coefficient to a few hundredths. Red
    if missing rows of the future count as zeros, which shrinks them by the share that is missing."""
    rng = np.random.default_rng(0)
    n = 20_000
    series = np.zeros(n)
    for t in range(2, n):
        series[t] = 0.5 * series[t - 1] - 0.3 * series[t - 2] + rng.normal()
    future = np.where(rng.random(n) < share, np.nan, series)
    # only the future has gaps: a history with gaps has other coefficients
    rows = ObservedRows(series, np.nan_to_num(future), ~np.isnan(future))
    _, z, observed = rows.windows(np.arange(n - 3), 2, np.array([2]))
    whole = Moments(z.T @ z, len(z), observed.astype(float)).complete(2)
    weight = np.linalg.solve(whole[:2, :2], whole[:2, 2])
    np.testing.assert_allclose(weight, [-0.3, 0.5], atol=0.03)
    np.testing.assert_allclose(whole[2, 2] / len(z), series.var(), rtol=0.05)
