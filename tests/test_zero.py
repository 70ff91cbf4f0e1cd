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
    HORIZON,
    LEAST_HORIZON,
    LEVELS,
    MIDDLE,
    PATCH,
    RECENT,
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


def test_quantiles_are_finite_and_increase(network, histories):
    horizon = HORIZON + LEAST_HORIZON + 5
    quantiles = network.predict(*histories, horizon)
    assert quantiles.shape == (40, horizon, len(LEVELS))
    assert quantiles.isfinite().all()
    assert (quantiles.diff(dim=2) >= 0).all()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("shift", [0.0, -1000.0, 1000.0])
def test_scale_and_shift_of_a_series_scale_and_shift_its_forecast(network, histories, scale, shift):
    values, *rest = histories
    spread = torch.stack([x[seen].std() for x, seen in zip(values, histories[1], strict=True)])[:, None]
    moved = scale * (values + shift * spread)
    expected = scale * (network.predict(values, *rest, 30) + shift * spread[:, :, None])
    found = network.predict(moved, *rest, 30)
    tolerance = 1e-4 * scale * spread[:, :, None] + 1e-4 * (expected - scale * shift * spread[:, :, None]).abs()
    assert ((found - expected).abs() <= tolerance).all()


@pytest.mark.parametrize("rows", [1, 8, 17, 64, 100, 300, 511, 600])
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


def test_a_new_network_repeats_the_last_season():
    rows = torch.arange(200)
    values = torch.stack([torch.sin(rows * 2 * torch.pi / 24), (rows % 7 == 0).double(), rows / 50.0])
    season = torch.tensor([24, 7, 1])
    median = Zero(d_model=16, d_ff=16).predict(values, torch.ones(3, 200) > 0, season, torch.ones_like(season), 60)
    expected = torch.stack(
        [torch.stack([x[-m + h % m] for h in range(60)]) for x, m in zip(values, season, strict=True)]
    )
    torch.testing.assert_close(median[:, :, MIDDLE], expected.double(), atol=1e-4, rtol=1e-4)


def test_lags_are_whole_seasons_before_each_row():
    season, n = 10, 35
    values = torch.arange(n, dtype=torch.float64)[None]
    inputs = read(values, torch.ones(1, n) > 0, torch.tensor([season]), torch.tensor([1]))
    found = inputs.sources[0].double() * inputs.spread + inputs.centre
    for h in (0, 9, 10, 57, HORIZON - 1):
        for k in range(1, 5):
            row = n + h - (h // season + k) * season
            assert bool(inputs.available[0, h, k - 1]) == (row >= 0)
            if row >= 0:
                assert found[h, k - 1].item() == pytest.approx(row, abs=1e-4)
    assert not inputs.available[:, :, [4, 5, 6, 9]].any()  # there is no second season
    # rows of the start token hold their own values and the rows one season before
    steps = inputs.steps[0].unflatten(-1, (PATCH, -1)).flatten(0, 1)
    assert steps[63, 0].item() == pytest.approx(inputs.scaled(values)[0, -1].item(), abs=1e-6)
    assert steps[63, 2].item() == pytest.approx(inputs.scaled(values)[0, n - 1 - season].item(), abs=1e-6)
    assert steps[64, 1].item() == 0  # the first row of the horizon has no value of its own


def test_sources_are_the_forecasts_of_simple_methods():
    """Means and medians over seasons, lines and levels, from loops over the rows that exist."""
    n, season, second, rng = 70, 5, 20, np.random.default_rng(0)
    y, seen = rng.normal(size=n).cumsum(), rng.random(n) < 0.8
    seen[-8:] = True
    seen[-1] = False
    history = torch.tensor(y)[None], torch.tensor(seen)[None]
    inputs = read(*history, torch.tensor([season]), torch.tensor([second]))
    found = (inputs.sources[0].double() * inputs.spread + inputs.centre).numpy()

    def before(row: int, length: int, most: int) -> list[float]:
        first = row - (max(row - n, 0) // length + 1) * length
        return [y[k] for k in range(first, max(first - most * length, -1), -length) if seen[k]]

    last = n - 2
    moves = {k: y[k] - y[k - season] for k in range(season, n) if seen[k] and seen[k - season]}
    slopes = [np.mean([move for k, move in moves.items() if k >= start]) / season for start in (0, n - season)]
    levels = [y[-season:][seen[-season:]].mean(), y[seen].mean(), y[seen][-RECENT:].mean()]
    lately = np.mean([move for k, move in moves.items() if k >= n - 3 * season])
    # what recent values differ by from the mean of their place in the season, the newest first
    usable = [k for k in range(n - 1, n - 65, -1) if seen[k] and before(k, season, 8)]
    off = np.array([y[k] - np.mean(before(k, season, 8)) for k in usable])
    for h in (0, 4, 5, 33, HORIZON - 1):
        means = [np.mean(before(n + h, length, most)) for length, most in ((season, 8), (season, n), (second, n))]
        lines = [y[last] + (n + h - last) * slope for slope in slopes]
        expected = [*means, y[last], *lines, *levels]
        back = h // season + 1
        expected += [np.median(before(n + h, length, 8)) for length in (season, second)]
        expected += [y[n + h - back * season] + back * lately if seen[n + h - back * season] else inputs.centre.item()]
        expected += [means[0] + np.average(off, weights=d ** np.arange(len(off))) for d in (0.0, 0.7, 0.92)]
        expected += [means[1]]
        np.testing.assert_allclose(found[h, 7:], expected, rtol=1e-4, atol=1e-4)
        assert inputs.available[0, h].tolist()[7:18] == [True] * 11


def test_the_network_reads_values_of_4096_rows_and_levels_of_1024():
    """Red if the scale, a level or a line depends on older rows, or a mean over seasons or a lag does not."""
    y = np.where(np.arange(4096) < 3072, 50.0, 0.0) + np.arange(4096) % 24
    history = torch.tensor(y)[None], torch.ones(1, 4096) > 0
    inputs = read(*history, torch.tensor([24]), torch.tensor([720]), 48)
    late = read(*(x[:, -1024:] for x in history), torch.tensor([24]), torch.tensor([720]), 48)
    assert torch.equal(inputs.spread, late.spread)
    assert torch.equal(inputs.change, late.change)
    found, near = (each.sources[0].double() * each.spread + each.centre for each in (inputs, late))
    torch.testing.assert_close(found[:, 8], near[:, 8])  # the mean over all seasons of 1,024 rows
    torch.testing.assert_close(found[:, 10:16], near[:, 10:16])  # lines and levels
    same = [y[np.arange(4096) % 24 == (4096 + h) % 24].mean() for h in range(48)]
    np.testing.assert_allclose(found[:, 22], same, rtol=1e-4)
    np.testing.assert_allclose(found[:, 5], [y[4096 + h - 1440] for h in range(48)], rtol=1e-4)


def test_changes_follow_the_place_in_the_season():
    """Red if nights that never change are as uncertain as days."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(480) % 24 < 12, 0.0, 5 + rng.normal(size=480))
    history = torch.tensor(y)[None], torch.ones(1, 480) > 0
    ratio = read(*history, torch.tensor([24]), torch.tensor([1]), 48).ratio[0].numpy()
    assert (ratio[:12] < -1).all()
    assert (ratio[12:24] > 0.3).all()
    np.testing.assert_array_equal(ratio[:24], ratio[24:])


@pytest.mark.parametrize("season", [2, 24, 365, 2016])
def test_seasons_longer_than_the_history_are_read(season):
    seasons = torch.tensor([season]), torch.tensor([7 * season])
    quantiles = Zero(d_model=16, d_ff=16).predict(torch.randn(1, 10), torch.ones(1, 10) > 0, *seasons, 400)
    assert quantiles.isfinite().all()


@pytest.mark.parametrize("second", [1, 21])
@pytest.mark.parametrize("shape", ["saw", "peak", "steps"])
def test_a_pattern_that_repeats_exactly_goes_on(shape, second):
    """Red if no change over a season is read as if nothing were known of it."""
    season = {"saw": np.arange(7.0), "peak": np.eye(7)[0], "steps": np.arange(7.0) // 3}[shape]
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
