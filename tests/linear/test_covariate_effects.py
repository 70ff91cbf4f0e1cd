"""Effects of what is known ahead: which are found, what the maps and ridge make of them, and from files."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import done
from sklearn.linear_model import LinearRegression
from stores import one_series
from test_family import DIMS, HOURLY

from informer.config.data import Calendar
from informer.config.model import CalendarEmbed, WindowSizes
from informer.data.calendar import calendar_marks
from informer.data.windows import DataUnits, Store, Windows
from informer.members.baselines import RidgeForecast
from informer.members.effects import KnownEffects, fit_known
from informer.members.linear import fold_known
from informer.networks.models.linear import LinearMaps, LinearModelConfig

ROWS, SEASON = 600, 24


def windows_of(rows: Store, starts: range, *, label_len: int = 0) -> Windows:
    sizes = WindowSizes(seq_len=9, label_len=label_len, pred_len=4)
    return Windows(rows, starts=torch.tensor(starts), sizes=sizes, targets=range(3))


def known_store(seed: int = 0) -> Store:
    """Two targets with a daily season and noise that remembers; a promotion, an idle column, and one single date."""
    rng = np.random.default_rng(seed)
    noise = np.zeros((ROWS, 2))
    for row in range(1, ROWS):
        noise[row] = 0.6 * noise[row - 1] + 0.3 * rng.normal(size=2)
    promotion, idle = (rng.random(ROWS) < 0.2).astype(float), rng.normal(size=ROWS)
    date = (np.arange(ROWS) == ROWS - 40).astype(float)
    season = np.sin(2 * np.pi * np.arange(ROWS) / SEASON)[:, None] * [1.0, 2.0]
    targets = season + noise + promotion[:, None] * [0.7, -0.3] + 9 * date[:, None]
    stamps = pd.date_range("2021-03-01", periods=ROWS, freq="h")
    marks = torch.from_numpy(calendar_marks(stamps, HOURLY, Calendar(CalendarEmbed.timeF)))
    return one_series(torch.from_numpy(np.column_stack([targets, promotion, idle, date])).float(), marks)


def test_effects_are_those_of_least_squares_on_seasonal_changes() -> None:
    """Only the effect of the promotion: the idle column is noise, and the single date, whose effect is largest, is in
    one block. Fails if either is used, or validation rows enter the fit."""
    data = known_store()
    train, val = windows_of(data, range(400)), windows_of(data, range(412, ROWS - 13))
    effects = fit_known(train, val, [0, 1], columns=[2, 3, 4], marks=[], codes=[], lag=SEASON)
    assert effects.nonzero == [0]
    changes = pd.DataFrame(data.values.double().numpy()[: 400 + 9 + 4 - 1]).diff(SEASON).dropna()
    expected = LinearRegression(fit_intercept=False).fit(changes[[2]], changes[[0, 1]]).coef_[:, 0]
    np.testing.assert_allclose(effects.weight[0], expected, rtol=1e-4)
    np.testing.assert_allclose(effects.weight[0], [0.7, -0.3], atol=0.08)


def test_rows_without_a_value_do_not_count() -> None:
    data = known_store()
    holes = data.values.clone()
    holes[100:130, 0], holes[200, 2] = torch.nan, torch.nan
    parts = range(400), range(412, ROWS - 13)
    effects, whole = (
        fit_known(*(windows_of(one, part) for part in parts), [0, 1], columns=[2, 3], marks=[], codes=[], lag=SEASON)
        for one in (replace(data, values=holes), data)
    )
    assert effects.nonzero == [0]
    np.testing.assert_allclose(effects.weight, whole.weight, atol=0.1)


def with_category(data: Store, *, seed: int = 0) -> tuple[Store, np.ndarray]:
    """With a sixth column of codes 1 to 3, of which 2 raises the targets by 0.5 and -0.2; code 0 late in the rows."""
    codes = np.random.default_rng(seed).choice([1, 2, 3], p=[0.2, 0.3, 0.5], size=ROWS)
    codes[ROWS - 30 : ROWS - 25] = 0
    values = np.column_stack([data.values.numpy(), codes]).astype(np.float32)
    values[:, :2] += np.outer(codes == 2, [0.5, -0.2])
    units = torch.ones(1, 6, dtype=torch.float64)
    return replace(data, values=torch.from_numpy(values), units=DataUnits(0 * units, units)), codes


def test_effects_of_categories_are_those_of_dummy_variables() -> None:
    """Differences from the most frequent category; red where a code is taken for a quantity, where the order of
    effects is not that of the codes, or where an unknown category has another effect than the mean."""
    data, codes = with_category(known_store())
    train, val = windows_of(data, range(400)), windows_of(data, range(412, ROWS - 13))
    effects = fit_known(train, val, [0, 1], columns=[2], marks=[], codes=[5], lag=SEASON)
    assert (effects.codes, effects.nonzero) == ([(5, 2), (5, 1), (5, 0)], [0, 1])
    rows = 400 + 9 + 4 - 1
    dummies = pd.get_dummies(codes[:rows])[[2]].astype(float).to_numpy()
    changes = pd.DataFrame(np.column_stack([data.values.double().numpy()[:rows, :3], dummies])).diff(SEASON).dropna()
    expected = LinearRegression(fit_intercept=False).fit(changes[[2, 3]], changes[[0, 1]]).coef_
    np.testing.assert_allclose(effects.weight[:2], expected.T, rtol=1e-4)
    np.testing.assert_allclose(effects.weight[1], [0.5, -0.2], atol=0.1)
    np.testing.assert_allclose(effects.weight[2:], [[0, 0], expected[:, 1] / 3], rtol=1e-4)
    rises = {code: effects(torch.tensor([[0.0, 0, 0, 0, 0, code]]), torch.zeros(1, 4))[0] for code in range(4)}
    for code, share in {0: 1 / 3, 1: 0, 2: 1, 3: 0}.items():
        np.testing.assert_allclose(rises[code], share * expected[:, 1], rtol=1e-4)


def test_a_network_has_the_effects_of_categories() -> None:
    """forecast = M (y - b x) + b x ahead in numpy, with b x looked up by code."""
    rng = np.random.default_rng(2)
    dims = replace(DIMS, enc_in=3, c_out=1, targets=(0,), known=(1, 2), regressors=(1,), known_codes=(2,),
                   categories=(0, 0, 4), label_len=2, pred_len=4)  # fmt: skip
    network = LinearMaps(LinearModelConfig(), dims).double()
    own, numeric, by_code = rng.normal(size=(dims.seq_len, 4)), rng.normal(), np.array([0.3, 0, 1.5, -2, 0])
    with torch.no_grad():
        network.own.copy_(torch.from_numpy(own[None]))
    codes = [(2, 2), (2, 3), (2, 0)]
    weight = np.array([[numeric], *([by_code[code]] for _, code in codes)])
    fold_known(KnownEffects([1], [], weight, codes), network)
    enc_x, dec_x = (rng.normal(size=(5, rows, 3)) for rows in (dims.seq_len, 6))
    for x in (enc_x, dec_x):
        x[:, :, 2] = rng.integers(0, 5, x.shape[:2])
    marks = [torch.zeros(5, rows, len(dims.mark_sizes), dtype=torch.float64) for rows in (dims.seq_len, 6)]
    output = network(torch.from_numpy(enc_x), marks[0], torch.from_numpy(dec_x), marks[1]).detach()
    effect, ahead = (numeric * x[:, :, 1] + by_code[x[:, :, 2].astype(int)] for x in (enc_x, dec_x))
    np.testing.assert_allclose(output[:, :, 0], (enc_x[:, :, 0] - effect) @ own + ahead[:, 2:], rtol=1e-10)


def test_maps_forecast_what_is_left_and_add_the_effects() -> None:
    """forecast = M (y - b x) + b x ahead, in numpy."""
    rng = np.random.default_rng(1)
    marks = DIMS.mark_sizes
    dims = replace(
        DIMS, enc_in=4, c_out=2, targets=(0, 2), known=(1, 3), regressors=(1,), holidays=(0,), label_len=2, pred_len=4
    )
    network = LinearMaps(LinearModelConfig(), dims).double()
    effects, own = rng.normal(size=(2, 2)), rng.normal(size=(2, dims.seq_len, 4))
    with torch.no_grad():
        assert network.effects is not None
        network.effects[:, [0, 2]] = torch.from_numpy(effects)
        network.own.copy_(torch.from_numpy(own))
    enc_x, dec_x = (torch.from_numpy(rng.normal(size=(5, rows, 4))) for rows in (dims.seq_len, 6))
    enc_mark, dec_mark = (torch.from_numpy(rng.normal(size=(5, rows, len(marks)))) for rows in (dims.seq_len, 6))
    output = network(enc_x, enc_mark, dec_x, dec_mark).detach()

    x, ahead = (np.stack([a[:, :, 1], b[:, :, 0]], axis=2) for a, b in ((enc_x, enc_mark), (dec_x, dec_mark)))
    for place, column in enumerate((0, 2)):
        left = enc_x[:, :, column].numpy() - x @ effects[:, place]
        expected = left @ own[place]
        np.testing.assert_allclose(output[:, :, place], expected + (ahead @ effects[:, place])[:, 2:], rtol=1e-10)


def test_ridge_has_the_same_effects() -> None:
    data = known_store()
    effects = KnownEffects([2], [], np.array([[0.7, -0.3]]))
    weight = torch.from_numpy(np.random.default_rng(0).normal(size=(9, 4)))
    batch = windows_of(data, range(3), label_len=2).batch(torch.arange(3))
    for window in range(3):  # the promotion is known ahead
        batch.dec_x[window, :, 2] = data.values[window + 7 : window + 13, 2]
    predicted = RidgeForecast(weight, [0, 1], 1.0, known=effects)(batch).double().numpy()
    values = data.values.double().numpy()
    for window in range(3):
        history, future = values[window : window + 9], values[window + 9 : window + 13]
        for place, effect in enumerate((0.7, -0.3)):
            left = history[:, place] - effect * history[:, 2]
            expected = (left - left.mean()) @ weight.numpy() + left.mean() + effect * future[:, 2]
            np.testing.assert_allclose(predicted[window, :, place], expected, atol=1e-5)


def days(folder: Path) -> pd.DataFrame:
    """Four years of daily demand with promotions on one day of eight and less demand on German holidays."""
    import holidays

    rng, dates = np.random.default_rng(3), pd.date_range("2019-01-01", periods=1400)
    closed = np.array([date in holidays.country_holidays("DE", years=range(2019, 2024)) for date in dates.date])
    promotion = (rng.random(len(dates)) < 1 / 8).astype(int)
    demand = 200 + 20 * np.sin(2 * np.pi * np.arange(len(dates)) / 7) + 60 * promotion - 80 * closed
    table = pd.DataFrame(
        {"date": dates, "promotion": promotion, "demand": demand + rng.normal(scale=5, size=len(dates))}
    )
    table.to_csv(folder / "days.csv", index=False, date_format="%Y-%m-%d")
    return table


def test_promotions_and_holidays_of_a_file(folder: Path) -> None:
    """Both effects within 5 %, in model and ridge; the forecast of a day changes by the promotion's when it is set."""
    table = days(folder)
    lengths = ["seq_len=28", "label_len=7", "pred_len=7"]
    base = ["dataset=csv", "dataset.path=days.csv", "target=demand", "model=linear", *lengths]
    known = ["future_covariates=[promotion]", "dataset.holidays=[DE]"]
    done("train", *base, "features=S", "run_dir=plain")
    outcome = done("train", *base, *known, "run_dir=run")
    assert "with an effect on held-out blocks: promotion, holiday_DE of promotion, holiday_DE" in outcome.out
    errors = {run: json.loads((folder / run / "metrics.json").read_text())["scores"] for run in ("plain", "run")}
    for name in ("linear", "ridge"):
        before, after = (errors[run][name]["original"]["overall"]["mse"] for run in ("plain", "run"))
        assert after < 0.25 * before, name
    ahead = pd.DataFrame({"date": pd.date_range("2022-11-01", periods=7), "promotion": [0, 1, 0, 0, 1, 0, 0]})
    ahead.to_csv("ahead.csv", index=False)
    ahead.assign(promotion=0).to_csv("none.csv", index=False)
    forecasts = {}
    for name in ("ahead", "none"):
        asked = ["checkpoint=run", "input=days.csv", f"future={name}.csv", f"output={name}", "plots=false", "digits=12"]
        done("predict", *asked)
        forecasts[name] = pd.read_csv(f"{name}/days.forecast.csv")["demand"]
    assert pd.Timestamp(table["date"].iloc[-1]) == pd.Timestamp("2022-10-31")
    gain = forecasts["ahead"] - forecasts["none"]
    assert gain[[1, 4]].tolist() == pytest.approx([60, 60], rel=0.05)
    assert gain[[0, 2, 3, 5, 6]].abs().max() < 1e-3
