"""Baselines against loops, scikit-learn on all rows at once and published figures; the season of the naive one."""

import numpy as np
import pandas as pd
import pytest
import torch
from data_cases import load, made, published, windows_over
from sklearn.linear_model import Ridge

from informer.base.errors import InputError
from informer.config.data import DatasetConfig
from informer.scoring import baselines
from informer.scoring.baselines import best_seasonal_naive, fit_ridge, seasonal_naive
from informer.scoring.evaluate import compare, evaluate, fit_baselines


def table(rows, columns, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, columns)).cumsum(axis=0)).float()


def every_row(windows):
    """Mean-free histories and futures of all windows and columns, one below the other, in float64."""
    batch = next(windows.batches(len(windows)))
    x, y = batch.enc_x.double().numpy(), batch.target.double().numpy()
    mean = x.mean(axis=1, keepdims=True)
    return [np.moveaxis(part - mean, 1, 2).reshape(-1, part.shape[1]) for part in (x, y)]


@pytest.mark.parametrize(("season", "pred_len"), [(3, 7), (5, 2), (4, 4), (6, 9)])
def test_seasonal_naive_repeats_the_last_season(season, pred_len):
    windows = windows_over(table(30, 3), seq_len=6, pred_len=pred_len, targets=[2, 0])
    batch = next(windows.batches(4))
    forecast = seasonal_naive(season, [2, 0], seq_len=6)(batch)
    for step in range(pred_len):
        back = step
        while back >= 0:
            back -= season
        assert torch.equal(forecast[:, step], batch.enc_x[:, back, [2, 0]])


@pytest.mark.parametrize("season", [1, 7])
def test_a_season_that_the_history_does_not_hold_is_the_last_value_and_named_so(season):
    windows = windows_over(table(30, 2), seq_len=6, pred_len=3)
    batch = next(windows.batches(5))
    baseline = seasonal_naive(season, [0, 1], seq_len=6)
    assert torch.equal(baseline(batch), batch.enc_x[:, -1:].expand(-1, 3, -1))
    assert baseline.name == "naive"
    assert ("seq_len=6 does not cover one season of 7 steps" in baseline.note) == (season == 7)


@pytest.mark.parametrize(("rows", "seq_len", "pred_len"), [(150, 13, 4), (150, 2, 1), (5000, 60, 4)])
def test_ridge_equals_scikit_learn_on_all_rows(rows, seq_len, pred_len):
    """Windows of few rows, and so many that their sums are running ones."""
    train, val = (windows_over(table(rows, 3, seed), seq_len=seq_len, pred_len=pred_len) for seed in (0, 1))
    x, y = every_row(train)
    expected = np.atleast_2d(Ridge(10.0, fit_intercept=False).fit(x, y).coef_).T
    weights = fit_ridge(train, val, range(3), penalties=[10.0]).weight
    np.testing.assert_allclose(weights, expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(5, 9))
def test_ridge_takes_the_penalty_that_is_best_on_validation(seed):
    steps = table(200, 1, seed).diff(dim=0)
    noisy = steps[1:] + 0.7 * steps[:-1]  # too few rows for eleven weights, so that some penalty helps
    train, val = (windows_over(part, seq_len=11, pred_len=3) for part in (noisy[:40], noisy[40:]))
    (x, y), (x_val, y_val) = every_row(train), every_row(val)
    penalties = [0.1 * 1.5**i for i in range(25)]
    fits = [Ridge(penalty, fit_intercept=False).fit(x, y) for penalty in penalties]
    errors = [np.square(fit.predict(x_val) - y_val).sum() for fit in fits]
    best = penalties[int(np.argmin(errors))]
    assert best not in (penalties[0], penalties[-1])
    assert fit_ridge(train, val, [0], penalties=penalties).penalty == best


def test_ridge_forecast_adds_the_mean_back_and_uses_each_targets_own_history():
    values = table(80, 3)
    windows = windows_over(values, seq_len=9, pred_len=4, targets=[2])
    ridge = fit_ridge(windows, windows, [2], penalties=[1.0])
    batch = next(windows.batches(2))
    shifted = batch._replace(enc_x=batch.enc_x + torch.tensor([7.0, 7.0, 100.0]))
    torch.testing.assert_close(ridge(shifted), ridge(batch) + 100.0, rtol=0, atol=1e-4)
    history = batch.enc_x[1, :, 2].double()
    expected = history.mean() + (history - history.mean()) @ ridge.weight
    torch.testing.assert_close(ridge(batch)[1, :, 0].double(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("values", [torch.full((40, 2), 3.0), torch.zeros(40, 2)])
def test_ridge_on_constant_columns_forecasts_the_constant(values):
    windows = windows_over(values, seq_len=5, pred_len=2)
    batch = next(windows.batches(3))
    torch.testing.assert_close(fit_ridge(windows, windows, [0, 1])(batch), batch.target)


def test_ridge_with_a_history_of_one_row_repeats_it():
    windows = windows_over(table(30, 2), seq_len=1, pred_len=3)
    batch = next(windows.batches(4))
    torch.testing.assert_close(fit_ridge(windows, windows, [0, 1])(batch), batch.enc_x.expand(-1, 3, -1))


def test_ridge_thins_a_large_panel_evenly_and_says_so():
    """Windows that do not follow one another, as those of short series; red if others are taken."""
    train, thinned = (windows_over(table(100, 3), seq_len=6, pred_len=2) for _ in range(2))
    train.starts = train.starts[::2]  # 47 windows, 141 rows
    thinned.starts = train.starts[::3]
    few, expected = fit_ridge(train, train, range(3), max_rows=60), fit_ridge(thinned, thinned, range(3))
    assert "fitted on 16 of 47 training windows" in few.note
    torch.testing.assert_close(few.weight, expected.weight, rtol=0, atol=1e-9)
    assert few.penalty == expected.penalty


def test_ridge_without_validation_windows_is_an_input_error():
    windows = windows_over(table(30, 2), seq_len=6, pred_len=2)
    empty = windows_over(table(30, 2), seq_len=6, pred_len=2)
    empty.starts = empty.starts[:0]
    with pytest.raises(InputError, match="expected training and validation windows"):
        fit_ridge(windows, empty, [0, 1])


def scores(forecast, data):
    return evaluate(forecast, data.test, data).overall("")


@pytest.mark.parametrize(
    ("name", "pred_len", "mse", "mae"),
    [
        ("ETTh1", 24, 0.4244, 0.3892),
        ("ETTh1", 48, 0.4650, 0.4073),
        ("ETTh1", 168, 0.5708, 0.4625),
        ("WTH", 24, 0.5990, 0.4684),
        ("WTH", 48, 0.6981, 0.5255),
    ],
)
def test_seasonal_naive_on_published_data(name, pred_len, mse, mae):
    data = published(name, pred_len)
    naive_scores = scores(seasonal_naive(data.frequency.season, range(len(data.inputs)), seq_len=336), data)
    assert (round(naive_scores["mse"], 4), round(naive_scores["mae"], 4)) == (mse, mae)


def test_ridge_on_published_data():
    """The reference took its penalty on the test set, so validation may do a little worse, not better by much."""
    data = published("ETTh1", 24)
    ridge_scores = scores(fit_ridge(data.train, data.val, range(7)), data)
    assert ridge_scores["mse"] == pytest.approx(0.3176, abs=1e-3)
    assert ridge_scores["mae"] == pytest.approx(0.3611, abs=1e-3)


@pytest.mark.parametrize(("features", "target", "n"), [("M", None, 3), ("MS", "zeros", 1), ("S", "wave", 1)])
def test_baselines_serve_every_choice_of_features(tmp_path, features, target, n):
    data = made(tmp_path, features=features, target=target)
    result = compare(lambda batch: batch.target, data)
    steps = np.arange(400, 500 - 5 + 1)[:, None] + np.arange(5)
    columns = [data.panel[0].columns.index(name) for name in data.targets]
    values = data.panel[0].values[:, columns]
    seasons = {"wave": 24, "zeros": 5, "flat": 24}  # as the columns are made
    errors = [np.abs(values[steps, i] - values[steps - seasons[name], i]).mean() for i, name in enumerate(data.targets)]
    expected = np.array(errors)
    assert len(columns) == n
    assert result.values("seasonal naive", "original", "column")["mae"] == pytest.approx(expected, rel=1e-5)
    assert len(result.values("ridge", "original", "column")["mae"]) == n


HOURS = np.arange(24 * 7 * 12)


def data_of(values, folder, *, seq_len, freq="h"):
    times = pd.date_range("2020-01-01", periods=len(values), freq=freq)
    pd.DataFrame({"date": times, "y": values}).to_csv(folder / "f.csv", index=False)
    return load(DatasetConfig(name="f", file="f.csv"), folder, seq_len=seq_len, pred_len=24)


def weekly():
    """Quiet days every weekend, so that yesterday is a poor forecast and last week a good one."""
    noise = np.random.default_rng(0).normal(0, 0.1, len(HOURS))
    return np.sin(2 * np.pi * HOURS / 24) * np.where(HOURS // 24 % 7 >= 5, 0.2, 1.0) + noise


def test_a_week_is_found_in_hours(tmp_path):
    """The oracle is a loop over validation windows for both seasons."""
    data = data_of(weekly(), tmp_path, seq_len=200)
    baseline = best_seasonal_naive(data)
    assert (baseline.seasons, baseline.name) == ((168,), "seasonal naive")
    assert baseline.note == "seasonal naive: the last 168 steps repeated, better on validation than the last 24 steps"
    values, val = data.panel[0].values[:, 0], data.splits[0].val
    errors = {}
    for season in (24, 168):
        windows = [range(first, first + 24) for first in range(val.start, val.stop - 23)]
        back = [[rows.start - season + step % season for step in range(24)] for rows in windows]
        errors[season] = np.mean([(values[past] - values[rows]) ** 2 for past, rows in zip(back, windows, strict=True)])
    assert errors[168] < 0.9 * errors[24]
    assert fit_baselines(data)[0] == baseline


def test_a_season_longer_than_the_history_is_not_used(tmp_path):
    assert best_seasonal_naive(data_of(weekly(), tmp_path, seq_len=100)).seasons == ()


def test_the_season_of_the_step_stays_without_a_clear_gain(tmp_path):
    """Only a daily season: multiples of it are no better."""
    wave = np.sin(2 * np.pi * HOURS / 24) + np.random.default_rng(0).normal(0, 0.1, len(HOURS))
    assert best_seasonal_naive(data_of(wave, tmp_path, seq_len=200)).seasons == ()


@pytest.mark.parametrize(("freq", "usual"), [("YS", 1), ("h", 24)])
def test_a_season_that_the_step_does_not_suggest(freq, usual, tmp_path):
    """Every eleven rows, as sunspots do in years; the note says what it is compared with."""
    rows = np.arange(330)
    baseline = best_seasonal_naive(
        data_of(
            np.sin(2 * np.pi * rows / 11) + np.random.default_rng(1).normal(0, 0.1, 330),
            tmp_path,
            seq_len=30,
            freq=freq,
        )
    )
    assert baseline.seasons == (11,)
    assert baseline.note.endswith("than the last value" if usual == 1 else f"than the last {usual} steps")


def test_each_column_has_its_own_season(tmp_path, monkeypatch):
    """Red if one season serves all: the forecast is compared with a loop."""
    rng, rows = np.random.default_rng(2), np.arange(800)
    waves = {
        name: np.sin(2 * np.pi * rows / period) + rng.normal(0, 0.1, 800) for name, period in (("d", 24), ("x", 7))
    }
    times = pd.date_range("2020-01-01", periods=800, freq="h")
    pd.DataFrame({"date": times, **waves}).to_csv(tmp_path / "f.csv", index=False)
    data = load(DatasetConfig(name="f", file="f.csv"), tmp_path, seq_len=30, pred_len=20)
    naive = best_seasonal_naive(data)
    assert naive.seasons == (24, 7)
    monkeypatch.setattr(baselines, "MOST_WINDOWS", 20)
    assert best_seasonal_naive(data) == naive  # also by every n-th window
    assert naive.note == "seasonal naive: the last 24 steps repeated, except where better on validation: 7 for x"
    batch = next(data.test.batches(3))
    for place, season in enumerate((24, 7)):
        for step in range(20):
            assert (naive(batch)[:, step, place] == batch.enc_x[:, 30 - season + step % season, place]).all()
