"""Roots of targets before scaling, against numpy, there and back."""

import json

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from informer.base.errors import InputError
from informer.config.data import ScalerConfig, Transform
from informer.data.scaler import PanelScaler, Scaler
from informer.data.windows import DataUnits
from informer.scoring.metrics import Errors, MaseScale

RNG = np.random.default_rng(5)
COUNTS = RNG.poisson(9.0, (80, 1)).astype(float)
VALUES = np.hstack([COUNTS, RNG.normal(3.0, 2.0, (80, 1)), RNG.gamma(2.0, size=(80, 1))])
"""Not negative; partly negative; not negative, but not a target."""

ROOTS = {Transform.sqrt: np.sqrt, Transform.fourth_root: lambda values: np.sqrt(np.sqrt(values))}


def fitted(transform: Transform, **parts: np.ndarray) -> PanelScaler:
    config = ScalerConfig(transform=transform, per_series=len(parts) > 1)
    return PanelScaler.fit(config, parts or {"x": VALUES}, targets=[0, 1])


@pytest.mark.parametrize("transform", ROOTS)
def test_only_targets_without_negative_values_are_transformed(transform: Transform) -> None:
    """Red if the second column, or the third, which is a covariate, is scaled after a root."""
    scaler = fitted(transform).of("x", VALUES)
    rooted = np.column_stack([ROOTS[transform](VALUES[:, 0]), VALUES[:, 1:]])
    np.testing.assert_allclose(scaler.transform(VALUES), StandardScaler().fit_transform(rooted), atol=1e-12)
    np.testing.assert_allclose(scaler.untransformed_scale, VALUES.std(axis=0))


def test_values_below_zero_after_training_come_back() -> None:
    scaler = fitted(Transform.sqrt).of("x", VALUES)
    later = np.array([[-4.0, -1.0, -2.0], [0.0, 0.0, 0.0]])
    units = DataUnits(*(torch.from_numpy(part)[None] for part in (scaler.center, scaler.scale, scaler.power)))
    np.testing.assert_allclose(units.original(torch.from_numpy(scaler.transform(later))[None])[0], later, atol=1e-12)
    root = scaler.transform(later)[0, 0] * scaler.scale[0] + scaler.center[0]
    assert root == pytest.approx(-2.0)


def test_without_a_column_to_transform_nothing_is_kept() -> None:
    """Such a scaler equals one from before roots existed, in memory and in a checkpoint."""
    scaler = PanelScaler.fit(ScalerConfig(transform=Transform.sqrt), {"x": -VALUES[:, :1]}, targets=[0])
    plain = PanelScaler.fit(ScalerConfig(), {"x": -VALUES[:, :1]})
    assert scaler.state() == plain.state()
    assert "power" not in scaler.state()["shared"]


def test_series_have_their_own_scales_and_one_transform() -> None:
    """One series with a negative value: the column is transformed in none. A new series is scaled as the others are."""
    parts = {"a": VALUES, "b": 4 * VALUES, "c": VALUES[:40]}
    panel = PanelScaler.from_state(json.loads(json.dumps(fitted(Transform.sqrt, **parts).state())))
    for name, rows in (*parts.items(), ("new", VALUES[::2])):
        roots = np.sqrt(rows[:, 0])
        expected = (roots - roots.mean()) / roots.std()
        np.testing.assert_allclose(panel.of(name, rows).transform(rows)[:, 0], expected, atol=1e-12)
    parts["c"] = -parts["c"]
    assert all(scaler.power is None for scaler in fitted(Transform.sqrt, **parts).by_series.values())


@pytest.mark.parametrize(
    ("name", "value"),
    [("power", [0.3, 1.0, 1.0]), ("power", [0.5, 1.0]), ("plain", [0.0, 1.0, 1.0]), ("plain", [float("nan")] * 3)],
)
def test_a_transform_that_no_scaler_has_is_refused(name: str, value: list[float]) -> None:
    state = fitted(Transform.sqrt).of("x", VALUES).state() | {name: value}
    with pytest.raises(InputError, match="expected a power among"):
        Scaler.from_state(state)


def test_a_state_without_its_plain_scale_is_refused() -> None:
    state = fitted(Transform.sqrt).of("x", VALUES).state()
    del state["plain"]
    with pytest.raises(InputError, match="'plain'"):
        Scaler.from_state(state)


def test_errors_are_those_of_the_data_in_units_of_their_spread() -> None:
    """Red if errors are taken between roots."""
    scaler = fitted(Transform.sqrt).of("x", VALUES)
    actual, forecast = VALUES[:6], VALUES[6:12] + 1.0
    scaled = [torch.from_numpy(scaler.transform(part))[None] for part in (forecast, actual)]
    parts = (scaler.center, scaler.scale, scaler.power, scaler.untransformed_scale)
    errors = Errors(MaseScale(np.ones(3), np.ones(3)))
    errors.add(*scaled, DataUnits(*(torch.from_numpy(part)[None] for part in parts)))
    assert errors.original.overall()["mae"] == pytest.approx(np.abs(forecast - actual).mean())
    standard = (forecast - actual) / VALUES.std(axis=0)
    assert errors.scaled.overall()["mse"] == pytest.approx((standard**2).mean())
    np.testing.assert_allclose(errors.by_window(), [(standard**2).mean()])
