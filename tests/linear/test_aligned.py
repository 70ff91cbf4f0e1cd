"""Lower penalties for rows a whole number of seasons before a step."""

from math import inf

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.linear_model import Ridge

from informer.config.model import CalendarEmbed
from informer.linear.moments import Moments, Normal
from informer.linear.select import fit_own, fit_shared
from informer.linear.settings import MapSettings, OriginFeatures
from informer.linear.solve import Layout, solve

SEASON, SEQ, STEPS = 5, 17, (0, 2, 3, 6, 9, 14)
LAYOUT = Layout(SEQ, len(STEPS), OriginFeatures((0,), 0, (), (), CalendarEmbed.none), SEASON, SEASON, STEPS)


@pytest.mark.parametrize("has_prior", [False, True])
def test_each_step_has_the_solution_of_its_own_system(has_prior: bool) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 12)), rng.normal(size=(60, 7))
    penalty = np.repeat(rng.uniform(1, 50, size=(12, 1)), 7, axis=1)
    penalty[2::3, ::2] *= 0.01
    penalty[1::5, 1] *= 0.3
    prior = rng.normal(size=(12, 7)) if has_prior else None
    expected = np.empty((12, 7))
    for step in range(7):
        right = x.T @ y[:, step] + (penalty[:, step] * prior[:, step] if prior is not None else 0)
        expected[:, step] = np.linalg.solve(x.T @ x + np.diag(penalty[:, step]), right)
    normal = Normal.of(x, y)
    np.testing.assert_allclose(solve(normal, penalty, prior), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("aligned", [0.1, 3.0])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("taper", [0.0, 2.0])
def test_maps_equal_ridge_on_inputs_scaled_step_by_step(taper: float, last: bool, aligned: float) -> None:
    """An input times s, with penalty 1, is an input with penalty 1 / s^2."""
    rng = np.random.default_rng(1)
    series = np.sin(np.arange(300) * 2 * np.pi / SEASON) + rng.normal(size=300)
    windows = sliding_window_view(series, SEQ + max(STEPS) + 1)
    raw = windows[:, [*range(SEQ), *(SEQ + step for step in STEPS)]]
    moments = Moments(raw.T @ raw, len(raw))
    strengths = MapSettings(lookback=13, last=last, taper=taper, aligned=aligned, shared=7.0, own=3.0)
    shared = fit_shared(moments, LAYOUT, strengths)
    own = fit_own(moments, 0, shared, LAYOUT, strengths)

    history = raw[:, SEQ - 13 : SEQ]
    reference = history[:, -1:] if last else history.mean(axis=1, keepdims=True)
    x, y = history - reference, raw[:, SEQ:] - reference
    for place, step in enumerate(STEPS):
        lag = np.arange(13, 0, -1) + step
        share = np.where(lag % SEASON == 0, aligned, 1.0)
        penalty = share * np.maximum(np.arange(13, 0, -1) / SEASON, 0.2) ** taper * (x**2).mean()
        expected = np.zeros(13)
        for strength, found in ((7.0, shared), (3.0, own)):
            scale = 1 / np.sqrt(strength * penalty)
            ridge = Ridge(alpha=1.0, fit_intercept=False).fit(x * scale, y[:, place] - x @ expected)
            expected = expected + scale * ridge.coef_
            np.testing.assert_allclose(found[:, place], expected, atol=1e-9)


def test_it_is_kept_with_the_other_settings() -> None:
    strengths = MapSettings(lookback=13, aligned=0.1, own=inf)
    assert MapSettings.from_plain(strengths.to_plain()) == strengths
    older = {name: value for name, value in strengths.to_plain().items() if name != "aligned"}
    assert MapSettings.from_plain(older) == MapSettings(lookback=13, own=inf)
