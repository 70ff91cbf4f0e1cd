"""Effects of what is known ahead: which are found, what the maps and ridge make of them, and from files."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import done


def days(folder: Path) -> pd.DataFrame:
    """Days of demand with promotions on one day of eight, less on German holidays, more in rain than under
    clouds or sun; next to it a column without an effect."""
    import holidays

    rng, dates = np.random.default_rng(3), pd.date_range("2019-01-01", periods=1400)
    closed = np.array([date in holidays.country_holidays("DE", years=range(2019, 2024)) for date in dates.date])
    promotion = (rng.random(len(dates)) < 1 / 8).astype(int)
    demand = 200 + 20 * np.sin(2 * np.pi * np.arange(len(dates)) / 7) + 60 * promotion - 80 * closed
    sky = rng.choice(["cloud", "rain", "sun"], p=[0.5, 0.2, 0.3], size=len(dates))
    noise = rng.normal(scale=5, size=len(dates))
    known = {"promotion": promotion, "sky": sky, "idle": rng.normal(size=len(dates))}
    table = pd.DataFrame({"date": dates, **known, "demand": demand + 40 * (sky == "rain") + noise})
    table.to_csv(folder / "days.csv", index=False, date_format="%Y-%m-%d")
    return table


def test_what_is_known_ahead_in_a_file(folder: Path) -> None:
    """Effects within 5 %, in model and ridge; the forecast of a day changes by the promotion's when it is set. Red if
    noise is learnt, or a category is taken for a quantity."""
    table = days(folder)
    lengths = ["seq_len=28", "label_len=7", "pred_len=7"]
    base = ["dataset=csv", "dataset.path=days.csv", "target=demand", "model=linear", *lengths]
    known = ["future_covariates=[promotion,sky,idle]", "dataset.holidays=[DE]"]
    outcome = done("train", *base, *known, "run_dir=run")
    effective, tried = "promotion, holiday_DE, sky=rain", "promotion, idle, holiday_DE, sky=sun, sky=rain"
    assert f"with an effect on held-out blocks: {effective} of {tried}" in outcome.out
    scores = json.loads((folder / "run" / "metrics.json").read_text())["scores"]
    for name in ("linear", "ridge"):  # of noise alone 25; effects that are not known make it more than 500
        assert scores[name]["original"]["overall"]["mse"] < 100, name
    ahead = pd.DataFrame({"date": pd.date_range("2022-11-01", periods=7), "promotion": [0, 1, 0, 0, 1, 0, 0]})
    ahead = ahead.assign(sky=["sun", "sun", "rain", "cloud", "sun", "sun", "sun"], idle=0.0)
    ahead.to_csv("ahead.csv", index=False)
    ahead.assign(promotion=0, sky="sun").to_csv("none.csv", index=False)
    forecasts = {}
    for name in ("ahead", "none"):
        asked = ["checkpoint=run", "input=days.csv", f"future={name}.csv", f"output={name}", "plots=false", "digits=12"]
        done("predict", *asked)
        forecasts[name] = pd.read_csv(f"{name}/days.forecast.csv")["demand"]
    assert pd.Timestamp(table["date"].iloc[-1]) == pd.Timestamp("2022-10-31")
    gain = forecasts["ahead"] - forecasts["none"]
    assert gain[[1, 2, 4]].tolist() == pytest.approx([60, 40, 60], rel=0.05)
    assert gain[[0, 3, 5, 6]].abs().max() < 1e-3
