"""The regression on columns known ahead: its coefficients, and parts that add up."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import PoissonRegressor, Ridge
from sklearn.preprocessing import StandardScaler

from informer.data import Frequency
from informer.members.regression import Effects, Terms, spline


@pytest.mark.parametrize("is_ratio", [True, False])
def test_coefficients_are_those_of_a_penalised_regression(is_ratio: bool) -> None:
    """Against scikit-learn on the same columns; red if a coefficient, the level or the penalty differ."""
    random = np.random.default_rng(5)
    promo, times = random.integers(0, 2, 300).astype(float), pd.date_range("2024-01-01", periods=300, freq="s")
    values = random.poisson(30 * 1.9**promo).astype(float) - (0 if is_ratio else 30.5)
    terms = Terms.of(times, promo[:, None], ["promo"], categorical=[], step=Frequency.parse("step"), holidays=[])
    found = Effects.fit([times], [promo[:, None]], [values], terms, penalty=20.0)
    x = StandardScaler().fit_transform(np.column_stack([promo, np.arange(300.0)]))
    other = PoissonRegressor(alpha=20 / 300, tol=1e-10) if is_ratio else Ridge(alpha=20)
    unit = values.mean() if is_ratio else values.std()
    expected = unit * other.fit(x, values / unit).predict(x)
    assert found.is_ratio is is_ratio
    np.testing.assert_allclose(found.predict(0, times, promo[:, None]), expected, rtol=1e-4)


def test_parts_of_effects_add_up() -> None:
    """Red if a part is lost in the sum. Splines go on as lines outside of their knots."""
    random, times = np.random.default_rng(2), pd.date_range("2024-01-01", periods=90 * 24, freq="h")
    known = random.normal(10, 8, (len(times), 1))
    load = 100 + 6 * np.maximum(15 - known[:, 0], 0) + 30 * (times.hour == 8) + random.normal(0, 3, len(times))
    step = Frequency.parse("h")
    terms = Terms.of(times, known, ["heat"], categorical=[], step=step, holidays=["DE"])
    effects = Effects.fit([times], [known], [np.asarray(load)], terms)
    parts = effects.contributions(0, times, known)
    assert [*parts] == ["level", "heat", "calendar"]
    np.testing.assert_allclose(sum(parts.values()), effects.predict(0, times, known), rtol=1e-12)
    outside = spline(np.array([-30.0, -20, -10, 0, 10, 20, 30, 40, 50]), [10.0, 12.0, 13.0, 20.0])
    np.testing.assert_allclose(np.diff(outside, 2, axis=0)[[0, 1, 2, -2, -1]], 0, atol=1e-9)
