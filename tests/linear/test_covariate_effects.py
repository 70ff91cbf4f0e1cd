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
from test_family import HOURLY

from informer.config.data import Calendar
from informer.config.model import CalendarEmbed, WindowSizes
from informer.data.calendar import calendar_marks
from informer.data.windows import DataUnits, Store, Windows
from informer.members.effects import fit_known

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
