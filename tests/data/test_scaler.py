"""The scaler against moments computed by numpy, in both libraries, there and back."""

import json

import numpy as np
import pytest
import torch

from informer.data.scaler import Scaler, ScalerKind

VALUES = np.random.default_rng(3).normal([5.0, -200.0, 1e-3], [1.0, 30.0, 1e-4], (57, 3))


def expected(kind: ScalerKind, values: np.ndarray) -> np.ndarray:
    if kind is ScalerKind.standard:
        return (values - VALUES.mean(0)) / VALUES.std(0)
    if kind is ScalerKind.minmax:
        return (values - VALUES.min(0)) / (VALUES.max(0) - VALUES.min(0))
    if kind is ScalerKind.robust:
        low, high = np.quantile(VALUES, [0.25, 0.75], axis=0)
        return (values - np.median(VALUES, axis=0)) / (high - low)
    return values


@pytest.mark.parametrize("kind", ScalerKind)
def test_scales_by_its_formula_and_back(kind: ScalerKind) -> None:
    scaler = Scaler.fit(kind, VALUES)
    new = VALUES[::-1].copy()[None] * 1.5
    np.testing.assert_allclose(scaler.transform(new), expected(kind, new), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(scaler.inverse(scaler.transform(new)), new, rtol=1e-12)


@pytest.mark.parametrize("kind", ScalerKind)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_scale_as_arrays_do(kind: ScalerKind, dtype: torch.dtype) -> None:
    scaler = Scaler.fit(kind, VALUES)
    tensor = torch.tensor(VALUES, dtype=dtype)
    scaled = scaler.transform(tensor)
    assert scaled.dtype == dtype
    tolerance = 1e-12 if dtype is torch.float64 else 1e-4
    np.testing.assert_allclose(scaled, scaler.transform(VALUES), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(scaler.inverse(scaled), VALUES, rtol=1e-5)


@pytest.mark.parametrize("kind", ScalerKind)
@pytest.mark.parametrize("constant", [0.0, 4.0, 1e9, 0.1])
def test_constant_columns_are_finite_and_come_back(kind: ScalerKind, constant: float) -> None:
    values = np.column_stack([np.full(19, constant), np.arange(19.0)])
    scaler = Scaler.fit(kind, values)
    scaled = scaler.transform(values)
    assert np.isfinite(scaled).all()
    if kind is not ScalerKind.none:
        np.testing.assert_allclose(scaled[:, 0], 0, atol=1e-6)
    np.testing.assert_allclose(scaler.inverse(scaled), values, rtol=1e-12)
    # a step away from the constant stays a step, not a blow-up
    np.testing.assert_allclose(scaler.transform(values + 1)[:, 0] - scaled[:, 0], 1, rtol=1e-6)


def test_select_is_the_columns_alone() -> None:
    scaler = Scaler.fit(ScalerKind.standard, VALUES)
    chosen = [2, 0]
    np.testing.assert_array_equal(
        scaler.select(chosen).transform(VALUES[:, chosen]), scaler.transform(VALUES)[:, chosen]
    )


@pytest.mark.parametrize("kind", ScalerKind)
def test_state_survives_plain_text(kind: ScalerKind) -> None:
    scaler = Scaler.fit(kind, VALUES)
    back = Scaler.from_state(json.loads(json.dumps(scaler.state())))
    assert back.kind is kind
    np.testing.assert_array_equal(back.transform(VALUES), scaler.transform(VALUES))
