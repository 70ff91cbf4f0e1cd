"""Generated input files of the golden runs: each is a kind of data that some code treats in a way of its own.

Levels are far above spreads, so that what float32 leaves open in a network is below 1e-7 of a forecast.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

INPUTS: dict[str, tuple[Callable[[np.random.Generator], pd.DataFrame], str]] = {}
"""The table of each input, and the settings with which training reads it and cuts windows."""
LATER = 24
"""Rows at the end of each series that are not in NAME.csv but in NAME.newer.csv, as if they had come later."""


def _input(settings: str) -> Callable[[Callable[[np.random.Generator], pd.DataFrame]], None]:
    def add(table: Callable[[np.random.Generator], pd.DataFrame]) -> None:
        INPUTS[table.__name__] = table, settings

    return add


def write(name: str, folder: Path) -> None:
    """NAME.csv, NAME.newer.csv, NAME.future.csv (what is known ahead), NAME.guess.csv (a forecast of others)."""
    frame = INPUTS[name][0](np.random.default_rng([*INPUTS].index(name)))
    place = frame.groupby(frame["store"] if "store" in frame else np.zeros(len(frame))).cumcount(ascending=False)
    later = frame[place < LATER]
    frame[place >= LATER].to_csv(folder / f"{name}.csv", index=False)
    later.to_csv(folder / f"{name}.newer.csv", index=False)
    later[[column for column in ("time", "store", "promo", "heat", "day_kind") if column in later]].to_csv(
        folder / f"{name}.future.csv", index=False
    )
    guess = later.drop(columns=["region", "size"], errors="ignore")
    for column in guess.select_dtypes("number"):
        forecast = 1.02 * guess[column]
        guess[column], guess[f"{column}_lo80"], guess[f"{column}_hi80"] = forecast, 0.99 * forecast, 1.05 * forecast
    guess.to_csv(folder / f"{name}.guess.csv", index=False)


def _times(n: int, step: str) -> pd.Series:
    return pd.Series(pd.date_range("2021-03-01", periods=n, freq=step)).dt.strftime("%Y-%m-%d %H:%M")


def _wave(n: int, period: float, turn: float = 0.0) -> np.ndarray:
    return np.sin(2 * np.pi * (np.arange(n) / period + turn))


@_input("seq_len=48 label_len=24 pred_len=12")
def hours(rng: np.random.Generator) -> pd.DataFrame:
    """1,200 hours of seven columns of unlike scales with a season of a day and one of a week; each follows the last."""
    n, columns = 1200 + LATER, {}
    shape = 0.1 * _wave(n, 24) - 0.1 * (np.arange(n) // 24 % 7 > 4)
    for k, name in enumerate("abcdefg"):
        columns[name] = 10.0 ** (k - 1) * (1 + np.roll(shape, 3 * k) + rng.normal(0, 0.04, n))
    return pd.DataFrame({"time": _times(n, "h"), **columns})


@_input("seq_len=24 label_len=12 pred_len=6 dataset.series_col=store targets=[sales,stock]")
def panel(rng: np.random.Generator) -> pd.DataFrame:
    """Four series of 160 to 190 days that end together, of levels 100 to 800, with a static category and number."""
    parts = []
    for k in range(4):
        n = 190 + LATER - 10 * k
        sales = 100.0 * 2**k * (1 + 0.05 * _wave(n, 7, k / 4) + rng.normal(0, 0.03, n))
        columns = {"time": _times(190 + LATER, "D")[-n:], "store": f"s{k}", "sales": sales, "stock": 3 * sales[::-1]}
        parts.append(pd.DataFrame(columns | {"region": ["north", "south"][k % 2], "size": 1.0 + k}))
    return pd.concat(parts, ignore_index=True)


@_input(
    "seq_len=24 label_len=12 pred_len=6 targets=[sales] past_covariates=[traffic,weather]"
    " future_covariates=[promo,heat,day_kind]"
)
def known(rng: np.random.Generator) -> pd.DataFrame:
    """300 days with numbers and categories, of which some are known ahead."""
    n = 300 + LATER
    promo, heat = rng.binomial(1, 0.2, n), 10 + 5 * _wave(n, 30)
    traffic = 200 + 30 * _wave(n, 7) + rng.normal(0, 5, n)
    weather = rng.choice(["sun", "rain", "snow"], n, p=[0.5, 0.4, 0.1])
    day_kind = np.where(np.arange(n) % 7 < 5, "work", np.where(rng.random(n) < 0.3, "feast", "free"))
    sales = 400 + 0.3 * traffic + 25 * promo + 2 * heat + 20 * (day_kind == "feast") + rng.normal(0, 3, n)
    sales -= 15 * np.roll(weather == "rain", 1)
    columns = {"sales": sales, "traffic": traffic, "weather": weather, "promo": promo, "heat": heat}
    return pd.DataFrame({"time": _times(n, "D"), **columns, "day_kind": day_kind})


@_input("seq_len=24 label_len=12 pred_len=6 dataset.fill=mask dataset.frequency=h")
def gaps(rng: np.random.Generator) -> pd.DataFrame:
    """500 hours of two columns, of which cells and whole rows are missing."""
    n = 500 + LATER
    flow = 100 + 10 * _wave(n, 24) + rng.normal(0, 1, n)
    frame = pd.DataFrame({"time": _times(n, "h"), "flow": flow, "level": 50 + np.cumsum(rng.normal(0, 0.1, n))})
    frame.loc[rng.random(n) < 0.05, "flow"] = np.nan
    frame.loc[200:215, "level"] = np.nan
    dropped = np.flatnonzero(rng.random(n - 2 * LATER) < 0.03) + LATER
    return frame.drop(index=dropped).reset_index(drop=True)


@_input("seq_len=28 label_len=7 pred_len=7")
def counts(rng: np.random.Generator) -> pd.DataFrame:
    """300 days of two columns of counts, one of which is mostly zero."""
    n = 300 + LATER
    seldom = rng.poisson(3, n) * rng.binomial(1, 0.25, n)
    return pd.DataFrame({"time": _times(n, "D"), "often": rng.poisson(40 * (1 + 0.4 * _wave(n, 7))), "seldom": seldom})


@_input("seq_len=24 label_len=12 pred_len=12")
def months(rng: np.random.Generator) -> pd.DataFrame:
    """Twelve years of months with a trend."""
    n = 144 + LATER
    orders = np.linspace(100, 180, n) * (1 + 0.2 * _wave(n, 12)) + rng.normal(0, 14, n)
    return pd.DataFrame({"time": _times(n, "MS"), "orders": orders})


@_input("seq_len=24 label_len=12 pred_len=6 dataset.series_col=store targets=[sales] future_covariates=[promo,heat]")
def shops(rng: np.random.Generator) -> pd.DataFrame:
    """Five stores of 130 days with columns known ahead, and a new one, which has rows ahead only."""
    parts = []
    for k, n in enumerate([130] * 5 + [0]):
        n += LATER
        promo, heat = rng.binomial(1, 0.2, n), 10 + 5 * _wave(n, 30, k / 5)
        sales = (100.0 + 50 * k) * (1 + 0.3 * promo + 0.02 * heat + 0.1 * _wave(n, 7) + rng.normal(0, 0.03, n))
        columns = {"time": _times(130 + LATER, "D")[-n:], "store": f"s{k}", "sales": sales, "promo": promo}
        parts.append(pd.DataFrame(columns | {"heat": heat}))
    return pd.concat(parts, ignore_index=True)


@_input("seq_len=24 label_len=12 pred_len=6")
def still(rng: np.random.Generator) -> pd.DataFrame:
    """100 days on which nothing is sold and the price stays: forecasts and their intervals are the actual values."""
    return pd.DataFrame({"time": _times(100 + LATER, "D"), "price": 2.5, "sold": 0})


@_input("seq_len=48 label_len=24 pred_len=12")
def wander(rng: np.random.Generator) -> pd.DataFrame:
    """1,676 hours of a level that wanders, and seems to have a season of 264 hours by chance."""
    n = 1676 + LATER
    values = np.zeros(n)
    for t, shock in enumerate(rng.normal(0, 1, n)):
        values[t] = 1.6 * values[t - 1] - 0.61 * values[t - 2] + shock
    return pd.DataFrame({"time": _times(n, "h"), "level": 1000 + values})
