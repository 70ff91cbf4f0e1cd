"""The season of the seasonal naive: that of the step, unless another one in the data is clearly better."""

import numpy as np
import pandas as pd
import pytest
from data_cases import load

from informer.config.data import DatasetConfig
from informer.scoring.baselines import best_seasonal_naive
from informer.scoring.scores import fit_baselines

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


def test_each_column_has_its_own_season(tmp_path):
    """Red if one season serves all: the forecast is compared with a loop."""
    rng, rows = np.random.default_rng(2), np.arange(800)
    waves = {
        name: np.sin(2 * np.pi * rows / period) + rng.normal(0, 0.1, 800) for name, period in (("d", 24), ("x", 7))
    }
    pd.DataFrame({"date": pd.date_range("2020-01-01", periods=800, freq="h"), **waves}).to_csv(tmp_path / "f.csv")
    pd.read_csv(tmp_path / "f.csv").drop(columns="Unnamed: 0").to_csv(tmp_path / "f.csv", index=False)
    data = load(DatasetConfig(name="f", file="f.csv"), tmp_path, seq_len=30, pred_len=20)
    naive = best_seasonal_naive(data)
    assert naive.seasons == (24, 7)
    assert naive.note == "seasonal naive: the last 24 steps repeated, except where better on validation: 7 for x"
    batch = next(data.test.batches(3))
    for place, season in enumerate((24, 7)):
        for step in range(20):
            assert (naive(batch)[:, step, place] == batch.enc_x[:, 30 - season + step % season, place]).all()
