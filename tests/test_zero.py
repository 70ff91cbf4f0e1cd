"""The network for unseen series: what scale, order and missing rows of its histories may and may not change."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor

from informer.networks import AttentionSpec
from informer.networks.attention.full import FullAttention
from informer.networks.models.zero import Zero
from informer.networks.ops.zero_inputs import (
    HISTORY,
    MIDDLE,
    Inputs,
    read,
)
from informer.pretrained.weights import load
from pretraining.generate import generate


@pytest.fixture(scope="module")
def network() -> Zero:
    """A small network whose every part matters: no weight is zero."""
    torch.manual_seed(0)
    network = Zero(d_model=32, d_ff=64)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3) if parameter.ndim > 1 else None
    return network.eval()


@pytest.fixture(scope="module")
def histories() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Histories of 8 to HISTORY rows, some with missing rows."""
    made = generate(40, HISTORY, 0, np.random.default_rng(3))
    values, observed, season, second = (torch.from_numpy(np.asarray(x)) for x in made[:4])
    return values.double(), observed, season, second


@pytest.mark.parametrize(("scale", "shift"), [(1e-6, -1000.0), (1e6, 1000.0)])
def test_scale_and_shift_of_a_series_scale_and_shift_its_forecast(network, histories, scale, shift):
    values, *rest = histories
    spread = torch.stack([x[seen].std() for x, seen in zip(values, histories[1], strict=True)])[:, None]
    moved = scale * (values + shift * spread)
    expected = scale * (network.predict(values, *rest, 30) + shift * spread[:, :, None])
    found = network.predict(moved, *rest, 30)
    tolerance = 1e-4 * scale * spread[:, :, None] + 1e-4 * (expected - scale * shift * spread[:, :, None]).abs()
    assert ((found - expected).abs() <= tolerance).all()


@pytest.mark.parametrize("rows", [1, 100, 600])
def test_missing_rows_before_a_history_change_nothing(network, histories, rows):
    values, observed, season, second = (x[histories[1].sum(1) > 900] for x in histories)
    hidden = observed.clone()
    hidden[:, :-rows] = False
    hidden[:, -1] = True
    garbage = torch.where(hidden, values, 1e9)
    exact = copy.deepcopy(network).double()  # in float32 the rounding of this network is larger than a small error

    def forecast(*history: Tensor) -> Tensor:
        inputs = Inputs(*(x.double() if x.is_floating_point() else x for x in read(*history, season, second)))
        return inputs.unscaled(exact(inputs))

    alone = forecast(values[:, -rows:], hidden[:, -rows:])
    torch.testing.assert_close(forecast(garbage, hidden), alone, rtol=1e-9, atol=1e-9)


def test_rows_older_than_the_history_are_not_read(network, histories):
    values, observed, season, second = histories
    ahead = torch.full((40, 7), 1e6)
    longer = torch.cat([ahead, values], 1), torch.cat([ahead > 0, observed], 1)
    torch.testing.assert_close(network.predict(*longer, season, second, 9), network.predict(*histories, 9))


@pytest.mark.parametrize("season", [24, 2016])
def test_seasons_longer_than_the_history_are_read(season):
    seasons = torch.tensor([season]), torch.tensor([7 * season])
    quantiles = Zero(d_model=16, d_ff=16).predict(torch.randn(1, 10), torch.ones(1, 10) > 0, *seasons, 400)
    assert quantiles.isfinite().all()


@pytest.mark.parametrize(("shape", "second"), [("saw", 1), ("peak", 21)])
def test_a_pattern_that_repeats_exactly_goes_on(shape, second):
    """Red if no change over a season is read as if nothing were known of it."""
    season = {"saw": np.arange(7.0), "peak": np.eye(7)[0]}[shape]
    week, history = np.tile(season, 3), 21 * 4
    if second > 1:  # one in three differs
        week[:7] *= 0.5
    y = np.tile(week, history // 21 + 1)
    given = torch.from_numpy(y[None, :history]), torch.ones(1, history, dtype=torch.bool)
    forecast = load().predict(*given, torch.tensor([7]), torch.tensor([second]), 21)
    error = (forecast[0, :, MIDDLE] - torch.from_numpy(y[history:])).abs()
    assert error.max() < 0.03 * np.ptp(y)


def test_masked_keys_are_as_if_absent():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 5, 8).unbind(0)
    mask = torch.tensor([[True, False, True, True, False], [True] * 5])
    for causal in (False, True):
        attention = FullAttention(AttentionSpec(4, 8, 5, 5, causal=causal)).eval()
        found = attention(q, k, v, mask)
        torch.testing.assert_close(found, attention.weights(q, k, mask) @ v)
        for row in range(5):
            kept = [j for j in range(5) if mask[0, j] and (j <= row or not causal)]
            weights = (q[0, :, row : row + 1] @ k[0, :, kept].mT / 8**0.5).softmax(-1)
            torch.testing.assert_close(found[0, :, row : row + 1], weights @ v[0, :, kept])
