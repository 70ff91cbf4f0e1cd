"""Metrics against scikit-learn, formulas written out value by value, and loops over every number."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_absolute_error, mean_pinball_loss, mean_squared_error

from informer.data.windows import DataUnits
from informer.scoring import scoreboard as metrics
from informer.scoring.bootstrap import skill_interval
from informer.scoring.metrics import MASE, METRICS, Errors, seasonal_scale, to_float64
from informer.scoring.scoreboard import (
    OWN,
    ScoredUnits,
    is_seasonal,
    naive2,
    ridge,
    score_units,
    seasonal_factors,
    seasonal_naive,
)


@pytest.fixture
def units() -> ScoredUnits:
    """Three series of 60 rows with a season of 4, forecast 5 steps ahead."""
    rng = np.random.default_rng(1)
    values = 10 + 5 * np.sin(np.arange(65) * np.pi / 2) + rng.normal(0, 1, (3, 65)) + np.array([[0], [20], [50]])
    forecast = values[:, 60:] + rng.normal(0, 1, (3, 5))
    return ScoredUnits(
        names=[("a", "y"), ("b", "y"), ("c", "y")],
        forecast=forecast,
        actual=values[:, 60:],
        bands={"lo80": forecast - 1.2, "hi80": forecast + 1.2},
        histories=list(values[:, :60]),
    )


def test_mse_and_mae_are_those_of_scikit_learn(units: ScoredUnits) -> None:
    scoreboard = score_units({OWN: units}, 4)
    for metric, oracle in (("mse", mean_squared_error), ("mae", mean_absolute_error)):
        assert scoreboard.overall[OWN][metric] == pytest.approx(oracle(units.actual.ravel(), units.forecast.ravel()))
        by_step = [oracle(units.actual[:, i], units.forecast[:, i]) for i in range(5)]
        assert scoreboard.by_step[OWN][metric] == pytest.approx(by_step)
        by_series = [oracle(units.actual[i], units.forecast[i]) for i in range(3)]
        assert scoreboard.by_series[OWN][metric] == pytest.approx(by_series)


def test_smape_mase_and_owa_value_by_value(units: ScoredUnits) -> None:
    """Red when a denominator, a factor or the order of averaging changes."""

    def both(forecast: np.ndarray) -> tuple[float, float]:
        smape, mase = [], []
        for f, y, history in zip(forecast, units.actual, units.histories, strict=True):
            scale = sum(abs(history[t] - history[t - 4]) for t in range(4, 60)) / 56
            mase.append(sum(abs(a - b) for a, b in zip(f, y, strict=True)) / 5 / scale)
            smape.append(sum(200 * abs(a - b) / (abs(a) + abs(b)) for a, b in zip(f, y, strict=True)) / 5)
        return sum(smape) / 3, sum(mase) / 3

    scoreboard = score_units({OWN: units}, 4)
    own, reference = both(units.forecast), both(naive2(units.histories, 4, 5))
    assert (scoreboard.overall[OWN]["smape"], scoreboard.overall[OWN]["mase"]) == pytest.approx(own)
    assert scoreboard.overall[OWN]["owa"] == pytest.approx((own[0] / reference[0] + own[1] / reference[1]) / 2)
    assert scoreboard.overall["naive2"]["owa"] == pytest.approx(1.0)


def test_coverage_and_weighted_quantile_loss(units: ScoredUnits) -> None:
    scoreboard = score_units({OWN: units}, 4)
    inside = [abs(a - b) <= 1.2 for a, b in zip(units.actual.ravel(), units.forecast.ravel(), strict=True)]
    assert scoreboard.overall[OWN]["coverage80"] == pytest.approx(100 * sum(inside) / 15)
    y, f = units.actual.ravel(), units.forecast.ravel()
    losses = [2 * mean_pinball_loss(y, f + shift, alpha=q) for q, shift in ((0.1, -1.2), (0.5, 0.0), (0.9, 1.2))]
    assert scoreboard.overall[OWN]["wql"] == pytest.approx(np.mean(losses) / np.abs(y).mean())


def by_hand(history: list[float], season: int, step: int, percent: int) -> tuple[float, float]:
    """Forecast of the seasonal naive at a step ahead, and the half width of its interval."""
    errors, lag = [], season * math.ceil(step / season)
    for t in range(lag, len(history)):
        if not math.isnan(history[t] + history[t - lag]):
            errors.append(abs(history[t] - history[t - lag]))
    return history[len(history) - lag + step - 1], sorted(errors)[math.ceil((len(errors) + 1) * percent / 100) - 1]


@pytest.mark.parametrize("gaps", [(), (3, 17, 18, 40)])
def test_the_seasonal_naive_has_quantiles_of_the_same_levels(units: ScoredUnits, gaps: tuple[int, ...]) -> None:
    """Two seasons ahead its errors are larger. Red if they are those of one step or of all units, if a level is another
    interval's, if missing values count, or if it is scored where the forecast has no interval."""
    for history in units.histories:
        history[list(gaps)] = np.nan
    units.bands["q20"] = units.forecast - 0.5
    units.bands["hi80"][0, 2:] = np.nan
    found = score_units({OWN: units}, 4)
    levels, losses = {0.1: -80, 0.2: -60, 0.5: 0, 0.9: 80}, []
    for level, percent in levels.items():
        actual, quantiles = [], []
        for unit, step in np.ndindex(3, 5):
            if level == 0.9 and unit == 0 and step >= 2:
                continue
            center, half = by_hand(units.histories[unit].tolist(), 4, step + 1, abs(percent) or 80)
            actual.append(units.actual[unit, step])
            quantiles.append(center + half * np.sign(percent))
        losses.append(2 * mean_pinball_loss(actual, quantiles, alpha=level) / np.abs(actual).mean())
    assert found.overall["seasonal naive"]["wql"] == pytest.approx(np.mean(losses))
    assert len(found.by_step["seasonal naive"]["wql"]) == 5
    assert len(found.by_series["seasonal naive"]["wql"]) == 3
    assert "wql" not in found.overall["naive2"]


def test_histories_too_short_for_the_quantiles_of_the_seasonal_naive(units: ScoredUnits) -> None:
    """An 80 % interval needs four errors, of five steps ahead those of rows eight apart. Red if the loss is that of
    fewer cells than the forecast's."""
    for rows, has in ((11, False), (12, True)):
        short = replace(units, histories=[units.histories[0][-rows:], *units.histories[1:]])
        found = score_units({OWN: short}, 4)
        assert ("wql" in found.overall["seasonal naive"]) == has
        assert any("no WQL of the seasonal naive: the history of 1 forecast" in note for note in found.notes) != has
    assert "wql" not in score_units({OWN: replace(units, bands={})}, 4).overall["seasonal naive"]


def test_baselines_are_scored_where_the_forecast_is() -> None:
    """Red when a missing actual value counts for one forecaster and not for the other."""
    history = np.arange(40.0) % 4 + 1
    forecast, actual = np.array([[1.0, 2.0, np.nan]]), np.array([[1.0, 5.0, np.nan]])
    units = ScoredUnits(names=[("", "y")], forecast=forecast, actual=actual, bands={}, histories=[history])
    scoreboard = score_units({OWN: units}, 4)
    assert scoreboard.overall["seasonal naive"]["mae"] == scoreboard.overall[OWN]["mae"] == 1.5
    assert math.isnan(scoreboard.by_step[OWN]["mae"][2])


def test_seasonal_naive_repeats_the_last_season_or_value() -> None:
    assert seasonal_naive([np.array([1.0, 2, 3, 4])], 3, 5).tolist() == [[2, 3, 4, 2, 3]]
    assert seasonal_naive([np.array([1.0, 2])], 3, 3).tolist() == [[2, 2, 2]]


@pytest.mark.parametrize("season", [3, 4])
def test_naive2_continues_a_multiplicative_season_exactly(season: int) -> None:
    """A level times a season is what the decomposition is exact for; even and odd seasons average differently."""
    factors = np.array([0.5, 1.5, 1.0] if season == 3 else [0.5, 1.5, 1.2, 0.8])
    history = 7 * np.resize(factors, 10 * season + 1)
    assert is_seasonal(history, season)
    assert seasonal_factors(history, season) == pytest.approx(factors)
    assert naive2([history], season, 5)[0] == pytest.approx(7 * np.resize(factors, len(history) + 5)[-5:])


def test_naive2_of_noise_is_the_last_value() -> None:
    history = np.random.default_rng(0).normal(10, 1, 60)
    assert naive2([history], 7, 3)[0].tolist() == [history[-1]] * 3


def test_ridge_continues_a_season_and_refuses_a_short_history() -> None:
    histories = [np.resize([1.0, 2, 3, 4], 60), np.resize([10.0, 30, 20, 40], 64)]
    forecasts = ridge(histories, 4, 5)
    assert forecasts is not None
    assert forecasts[0][0] == pytest.approx([1, 2, 3, 4, 1], abs=0.05)
    assert ridge([np.arange(12.0)], 4, 5) is None


def test_missing_values_of_histories_keep_their_places() -> None:
    """By hand. Fails if missing values are removed, so that later values move to another place of the season."""
    gap = np.nan
    history = np.array([1.0, 2, 3, 4, 10, gap, 30, 40, gap, gap, 33, gap])
    assert seasonal_naive([history], 4, 5).tolist() == [[10, 2, 33, 40, 10]]
    assert seasonal_scale([history[:, None]], 4)[0] == pytest.approx((9 + 27 + 36 + 3) / 4)
    season = np.resize([1.0, 2, 3, 4], 240)
    season[np.random.default_rng(0).random(240) < 0.2] = np.nan
    season[-10:] = [3, 4, 1, 2, 3, 4, 1, 2, 3, 4]
    forecasts = ridge([season], 4, 5)
    assert forecasts is not None
    assert forecasts[0][0] == pytest.approx([1, 2, 3, 4, 1], abs=0.4)
    assert naive2([np.r_[np.full(30, 10.0), gap]], 7, 2).tolist() == [[10, 10]]


def test_bands_of_quantiles_and_intervals() -> None:
    cells = np.zeros((1, 1))
    assert list(metrics.quantile_forecasts(cells, {"q10": cells, "lo95": cells, "hi95": cells})) == [
        0.025, 0.1, 0.5, 0.975
    ]  # fmt: skip
    assert metrics.quantile_forecasts(cells, {}) == {}


def test_the_interval_of_a_skill_covers_as_often_as_it_says() -> None:
    """Over 300 samples a 90 % interval contains the true skill in 85 to 95 % of them."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(300):
        common = rng.gamma(4, 1, 80)
        low, high = skill_interval(0.8 * common * rng.gamma(9, 1 / 9, 80), common, level=0.9)
        held += low <= 0.2 <= high
    assert 0.85 <= held / 300 <= 0.95
    assert math.isnan(skill_interval(np.ones(10), np.ones(10), block=10).low)


def loops(forecast, actual, scale):
    """The metrics over [w t n] arrays, one number at a time."""
    squared, absolute, percent, symmetric = [], [], [], []
    per_column = {}
    for f, y, column in zip(forecast.ravel(), actual.ravel(), np.indices(actual.shape)[2].ravel(), strict=True):
        squared.append((f - y) ** 2)
        absolute.append(abs(f - y))
        if y != 0:
            percent.append(abs(f - y) / abs(y))
        symmetric.append(0.0 if f == y == 0 else 2 * abs(f - y) / (abs(f) + abs(y)))
        per_column.setdefault(column, []).append(abs(f - y))
    ratios = [np.mean(errors) / scale[c] for c, errors in per_column.items() if not math.isnan(scale[c])]
    return {
        "bias": np.mean(forecast - actual),
        "mse": np.mean(squared),
        "mae": np.mean(absolute),
        "rmse": math.sqrt(np.mean(squared)),
        "mape": 100 * np.mean(percent),
        "smape": 100 * np.mean(symmetric),
        "wape": 100 * sum(absolute) / np.abs(actual).sum(),
        "mase": np.mean(ratios),
    }


@pytest.fixture
def case():
    """Seven windows, five steps, three columns; some actuals are zero, some forecasts too."""
    rng = np.random.default_rng(3)
    forecast, actual = rng.normal(size=(2, 7, 5, 3))
    actual[2, 1, 0] = actual[4, 4, 2] = forecast[4, 4, 2] = 0.0
    return forecast, actual, np.array([0.5, 2.0, 1.25])


def summed(forecast, actual, scale, batch_size=7):
    errors = Errors(scale[None])
    for f, y in zip(
        torch.from_numpy(forecast).split(batch_size), torch.from_numpy(actual).split(batch_size), strict=True
    ):
        errors.add(f, y, DataUnits(torch.zeros(len(f), 3), torch.ones(len(f), 3)))
    return errors


@pytest.mark.parametrize("batch_size", [1, 2, 7])
def test_every_view_equals_loops_whatever_the_batches(case, batch_size):
    forecast, actual, scale = case
    sums = summed(*case, batch_size).original
    by_step, by_column = sums.by_step(), sums.by_column()
    assert sums.windows == 7
    assert sums.overall() == pytest.approx(loops(forecast, actual, scale))
    for step in range(5):
        expected = loops(forecast[:, step : step + 1], actual[:, step : step + 1], scale)
        assert {name: by_step[name][step] for name in (*METRICS, MASE)} == pytest.approx(expected)
    for c in range(3):
        expected = loops(forecast[..., c : c + 1], actual[..., c : c + 1], scale[c : c + 1])
        assert {name: by_column[name][c] for name in (*METRICS, MASE)} == pytest.approx(expected)


def test_mape_says_how_many_actuals_it_left_out(case):
    assert summed(*case).original.zero_actuals == 2


def test_mape_is_nan_when_every_actual_is_zero():
    assert math.isnan(summed(np.ones((2, 1, 3)), np.zeros((2, 1, 3)), np.ones(3)).original.overall()["mape"])


def test_mase_leaves_an_undefined_column_out_of_averages_only(case):
    forecast, actual, _ = case
    sums = summed(forecast, actual, np.array([0.5, math.nan, 1.25]))
    assert sums.no_mase.tolist() == [[False, True, False]]
    assert math.isnan(sums.original.by_column()["mase"][1])
    assert sums.original.overall()["mase"] == pytest.approx(loops(forecast, actual, [0.5, math.nan, 1.25])["mase"])


def test_a_forecast_that_is_nan_shows_in_every_metric(case):
    forecast, actual, scale = case
    forecast[4, 4, 1] = math.nan
    assert all(math.isnan(value) for value in summed(forecast, actual, scale).original.overall().values())


def test_original_units_are_the_affine_image_of_scaled_ones(case):
    forecast, actual, scale = (torch.from_numpy(part).float() for part in case)
    centre, spread = torch.tensor([10.0, -3.0, 0.0]), torch.tensor([2.0, 0.5, 7.0])
    # each window is of a series of its own units
    centre, spread = centre + torch.arange(len(actual))[:, None], spread * (1 + torch.arange(len(actual))[:, None])
    errors = Errors(3 * scale.expand(len(actual), -1).numpy())
    errors.add(forecast, actual, DataUnits(centre, spread), series=torch.arange(len(actual)))
    back = [(to_float64(x) * spread[:, None] + centre[:, None]).numpy() for x in (forecast, actual)]
    assert errors.original.overall() == pytest.approx(loops(*back, (3 * scale).numpy()))
    expected = loops(forecast.numpy(), actual.numpy(), scale.numpy()) | {"mase": errors.original.overall()["mase"]}
    assert errors.scaled.overall() == pytest.approx(expected)


def test_a_zero_of_the_data_stays_zero_through_float32_scaling():
    values = torch.tensor([0.0, 1.7, 3.1], dtype=torch.float64).reshape(1, 3, 1)
    centre, spread = 1234.567, 0.37
    scaled = ((values - centre) / spread).float()
    errors = Errors(np.ones((1, 1)))
    errors.add(scaled + 1.0, scaled, DataUnits(torch.full((1, 1), centre), torch.full((1, 1), spread)))
    assert errors.original.zero_actuals == 1
    assert errors.original.overall()["mape"] == pytest.approx(100 * (0.37 / 1.7 + 0.37 / 3.1) / 2, rel=1e-3)


def test_seasonal_scale_by_loops_in_blocks_that_share_a_season():
    rows = np.random.default_rng(0).normal(size=(14, 2))
    steps = [abs(rows[t] - rows[t - 3]) for t in range(3, len(rows))]
    for blocks in ([rows], [rows[:6], rows[3:9], rows[6:]]):
        np.testing.assert_allclose(seasonal_scale(blocks, 3), np.mean(steps, axis=0))


def test_seasonal_scale_is_nan_for_a_constant_column_and_for_short_series():
    rows = np.stack([np.ones(6), np.arange(6.0)], axis=1)
    assert np.isnan(seasonal_scale([rows], 2)).tolist() == [True, False]
    assert np.isnan(seasonal_scale([rows], 6)).all()
