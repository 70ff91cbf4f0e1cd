"""The scaler against moments computed by numpy; roots of targets before scaling, there and back."""

import json
from typing import get_args

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from informer.config.data import ScalerConfig, ScalerKind, Transform
from informer.data.scaler import PanelScaler, Scaler

VALUES = np.random.default_rng(3).normal([5.0, -200.0, 1e-3], [1.0, 30.0, 1e-4], (57, 3))


def expected(kind: ScalerKind, values: np.ndarray) -> np.ndarray:
    if kind == "standard":
        return (values - VALUES.mean(0)) / VALUES.std(0)
    if kind == "minmax":
        return (values - VALUES.min(0)) / (VALUES.max(0) - VALUES.min(0))
    if kind == "robust":
        low, high = np.quantile(VALUES, [0.25, 0.75], axis=0)
        return (values - np.median(VALUES, axis=0)) / (high - low)
    return values


@pytest.mark.parametrize("kind", get_args(ScalerKind))
def test_scales_by_its_formula(kind: ScalerKind) -> None:
    """One for all series sees all their rows, a series' own its rows alone; both survive plain text. A series that
    training did not know is scaled by what is known of it."""
    new, close = VALUES[::-1].copy()[None] * 1.5, {"rtol": 1e-10, "atol": 1e-12}
    for per_series, parts in (
        (False, {"x": VALUES[:20], "y": VALUES[20:21], "z": VALUES[21:]}),
        (True, {"x": VALUES * 3 - 1, "y": VALUES}),
    ):
        fitted = PanelScaler.fit(ScalerConfig(kind=kind, per_series=per_series), parts)
        for scaler in (fitted, PanelScaler.model_validate(json.loads(json.dumps(fitted.state())))):
            for name, rows in (("y", VALUES[:2]), ("new", VALUES)):
                np.testing.assert_allclose(scaler.of(name, rows).transform(new), expected(kind, new), **close)


@pytest.mark.parametrize("kind", get_args(ScalerKind))
@pytest.mark.parametrize("constant", [0.0, 1e9])
def test_constant_columns_are_finite(kind: ScalerKind, constant: float) -> None:
    values = np.column_stack([np.full(19, constant), np.arange(19.0)])
    scaler = Scaler.fit(kind, [values])
    scaled = scaler.transform(values)
    assert np.isfinite(scaled).all()
    if kind != "none":
        np.testing.assert_allclose(scaled[:, 0], 0, atol=1e-6)
    # a step away from the constant is in units of it, not a blow-up
    step = 1 if kind == "none" or constant == 0 else 1 / constant
    np.testing.assert_allclose(scaler.transform(values + 1)[:, 0] - scaled[:, 0], step, rtol=1e-6)


@pytest.mark.parametrize("kind", ["standard", "minmax", "robust"])
@pytest.mark.parametrize("size", [1e-300, 1e-9])
def test_small_values_are_no_constant(kind: ScalerKind, size: float) -> None:
    """Red if squares that are zero, or a bound of scikit-learn's, give a column of 1e-300 the scale 1."""
    unit = np.column_stack([VALUES, np.linspace(-0.5, 0.5, len(VALUES))])
    usual, small = Scaler.fit(kind, [unit]), Scaler.fit(kind, [unit * size / 500])
    np.testing.assert_allclose(small.transform(unit * size / 500), usual.transform(unit), rtol=1e-9, atol=1e-9)


RNG = np.random.default_rng(5)
COUNTS = RNG.poisson(9.0, (80, 1)).astype(float)
ROOTED = np.hstack([COUNTS, RNG.normal(3.0, 2.0, (80, 1)), RNG.gamma(2.0, size=(80, 1))])
"""Not negative; partly negative; not negative, but not a target."""

ROOTS = {"sqrt": np.sqrt, "fourth_root": lambda values: np.sqrt(np.sqrt(values))}


def fitted(transform: Transform, **parts: np.ndarray) -> PanelScaler:
    config = ScalerConfig(transform=transform, per_series=len(parts) > 1)
    return PanelScaler.fit(config, parts or {"x": ROOTED}, targets=[0, 1])


@pytest.mark.parametrize("transform", ROOTS)
def test_only_targets_without_negative_values_are_transformed(transform: Transform) -> None:
    """Red if the second column, or the third, which is a covariate, is scaled after a root."""
    scaler = fitted(transform).of("x", ROOTED)
    rooted = np.column_stack([ROOTS[transform](ROOTED[:, 0]), ROOTED[:, 1:]])
    np.testing.assert_allclose(scaler.transform(ROOTED), StandardScaler().fit_transform(rooted), atol=1e-12)
    np.testing.assert_allclose(scaler.untransformed_scale, ROOTED.std(axis=0))


def test_series_have_their_own_scales_and_one_transform() -> None:
    """One series with a negative value: the column is transformed in none. A new series is scaled as the others are."""
    parts = {"a": ROOTED, "b": 4 * ROOTED, "c": ROOTED[:40]}
    panel = PanelScaler.model_validate(json.loads(json.dumps(fitted("sqrt", **parts).state())))
    for name, rows in (*parts.items(), ("new", ROOTED[::2])):
        roots = np.sqrt(rows[:, 0])
        expected = (roots - roots.mean()) / roots.std()
        np.testing.assert_allclose(panel.of(name, rows).transform(rows)[:, 0], expected, atol=1e-12)
    parts["c"] = -parts["c"]
    assert all(scaler.power is None for scaler in fitted("sqrt", **parts).by_series.values())


def test_a_file_with_what_no_scaler_has_is_refused() -> None:
    """Red if a file can change the codes of categories to values outside their table."""
    one = fitted("sqrt").of("x", ROOTED).model_dump(mode="json") | {"scale": [2.0, 2.0, 1.0], "center": [1.0, 1.0, 0.0]}
    state = {"kind": "standard", "by_series": {}, "codes": [2]}
    assert PanelScaler.model_validate({**state, "shared": one}).codes == [2]
    for changed, words in (
        ({"power": [0.3, 1.0, 1.0]}, "a power among"),
        ({"untransformed_scale": [0.0, 1.0, 1.0]}, "a power among"),
        ({"power": None}, "a power among"),
        ({"center": [0.0, 0.0, -1.0]}, "the numbers of categories unscaled"),
    ):
        with pytest.raises(ValueError, match=words):
            PanelScaler.model_validate({**state, "shared": one | changed})
