"""Generated input files of the golden runs: each is a kind of data that some code treats in a way of its own."""

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
    """NAME.csv, NAME.newer.csv and, where the input has them, NAME.attributes.csv and NAME.future.csv."""
    make, settings = INPUTS[name]
    frame = make(np.random.default_rng([*INPUTS].index(name)))
    if attributes := [column for column in frame if column in ("region", "size")]:
        frame[["store", *attributes]].drop_duplicates().to_csv(folder / f"{name}.attributes.csv", index=False)
        frame = frame.drop(columns=attributes)
    key = "store" if "store" in frame else None
    place = frame.groupby(key).cumcount(ascending=False) if key else pd.Series(np.arange(len(frame))[::-1])
    later = frame[place < LATER]
    frame[place >= LATER].to_csv(folder / f"{name}.csv", index=False)
    later.to_csv(folder / f"{name}.newer.csv", index=False)
    for word in settings.split():
        if word.startswith("future_covariates="):
            known = word.split("=")[1].strip("[]").split(",")
            later[["time", *known]].to_csv(folder / f"{name}.future.csv", index=False)


def _times(n: int, step: str) -> pd.Series:
    times = pd.Series(pd.date_range("2021-03-01", periods=n, freq=step))
    return times.dt.strftime("%Y-%m-%d" if step in ("D", "MS") else "%Y-%m-%d %H:%M")


def _wave(n: int, period: float, turn: float = 0.0) -> np.ndarray:
    return np.sin(2 * np.pi * (np.arange(n) / period + turn))


@_input("seq_len=14 label_len=7 pred_len=7")
def short(rng: np.random.Generator) -> pd.DataFrame:
    """120 days of one column."""
    n = 120 + LATER
    return pd.DataFrame({"time": _times(n, "D"), "sales": 50 + 8 * _wave(n, 7) + rng.normal(0, 2, n)})


@_input("seq_len=48 label_len=24 pred_len=12")
def long(rng: np.random.Generator) -> pd.DataFrame:
    """3,000 hours of three columns of unlike scales, one of which follows another."""
    n = 3000 + LATER
    heat = 15 + 6 * _wave(n, 24) + np.cumsum(rng.normal(0, 0.05, n)) + rng.normal(0, 0.5, n)
    load = 900 - 20 * np.roll(heat, 3) + rng.normal(0, 15, n)
    return pd.DataFrame({"time": _times(n, "h"), "heat": heat, "load": load, "price": 0.01 * rng.gamma(9, 1, n)})


@_input("seq_len=24 label_len=12 pred_len=6 dataset.series_col=store")
def panel(rng: np.random.Generator) -> pd.DataFrame:
    """Five series of 150 to 190 days that end together, of levels 10 to 160, higher in the first days of a month."""
    parts = []
    times = _times(190 + LATER, "D")
    start = 1 + 0.5 * (pd.to_datetime(times).dt.day.to_numpy() <= 8)
    for k in range(5):
        n = len(times) - 10 * k
        level = 10.0 * 2**k
        sales = level * start[-n:] * (1 + 0.2 * _wave(n, 7, k / 5) + rng.normal(0, 0.05, n))
        parts.append(pd.DataFrame({"time": times[-n:], "store": f"s{k}", "sales": sales, "stock": 3 * sales[::-1]}))
    return pd.concat(parts, ignore_index=True)


@_input("seq_len=24 label_len=12 pred_len=6 targets=[sales] past_covariates=[traffic] future_covariates=[promo,heat]")
def covariates(rng: np.random.Generator) -> pd.DataFrame:
    """400 days with two columns known ahead and one that is not."""
    n = 400 + LATER
    promo, heat = rng.binomial(1, 0.2, n), 10 + 5 * _wave(n, 30)
    traffic = 200 + 30 * _wave(n, 7) + rng.normal(0, 5, n)
    sales = 40 + 0.3 * traffic + 25 * promo + 2 * heat + rng.normal(0, 3, n)
    return pd.DataFrame({"time": _times(n, "D"), "sales": sales, "traffic": traffic, "promo": promo, "heat": heat})


@_input("seq_len=24 label_len=12 pred_len=6 dataset.fill=mask dataset.frequency=h")
def gaps(rng: np.random.Generator) -> pd.DataFrame:
    """700 hours of two columns, of which cells and whole rows are missing."""
    n = 700 + LATER
    flow = 30 + 10 * _wave(n, 24) + rng.normal(0, 1, n)
    level = 5 + np.cumsum(rng.normal(0, 0.1, n))
    frame = pd.DataFrame({"time": _times(n, "h"), "flow": flow, "level": level})
    frame.loc[rng.random(n) < 0.05, "flow"] = np.nan
    frame.loc[200:215, "level"] = np.nan
    dropped = np.flatnonzero(rng.random(n - 2 * LATER) < 0.03) + LATER
    return frame.drop(index=dropped).reset_index(drop=True)


@_input("seq_len=24 label_len=12 pred_len=6 targets=[visits] past_covariates=[weather] future_covariates=[day_kind]")
def categories(rng: np.random.Generator) -> pd.DataFrame:
    """400 days with a column of text and a category known ahead."""
    n = 400 + LATER
    weather = rng.choice(["sun", "rain", "snow"], n, p=[0.5, 0.4, 0.1])
    day_kind = np.where(np.arange(n) % 7 < 5, "work", np.where(rng.random(n) < 0.3, "feast", "free"))
    visits = 100 + pd.Series(day_kind).map({"work": 0, "free": 40, "feast": 70}) + 5 * rng.normal(0, 1, n)
    visits -= 30 * pd.Series(weather == "rain").shift(1, fill_value=False)
    return pd.DataFrame({"time": _times(n, "D"), "visits": visits, "weather": weather, "day_kind": day_kind})


@_input("seq_len=24 label_len=12 pred_len=6 dataset.series_col=store dataset.attributes=attributes.attributes.csv")
def attributes(rng: np.random.Generator) -> pd.DataFrame:
    """Six series of 130 days with a static category and a static number."""
    parts = []
    for k in range(6):
        n = 130 + LATER
        region, size = ["north", "south"][k % 2], 1.0 + k
        sales = 20 * size * (1 + 0.3 * _wave(n, 7 if region == "north" else 14)) + rng.normal(0, 2, n)
        parts.append(
            pd.DataFrame({"time": _times(n, "D"), "store": f"s{k}", "sales": sales, "region": region, "size": size})
        )
    return pd.concat(parts, ignore_index=True)


@_input("seq_len=24 label_len=12 pred_len=12")
def monthly(rng: np.random.Generator) -> pd.DataFrame:
    """Twelve years of months with a trend."""
    n = 144 + LATER
    trend = np.linspace(100, 180, n)
    return pd.DataFrame({"time": _times(n, "MS"), "orders": trend * (1 + 0.2 * _wave(n, 12)) + rng.normal(0, 3, n)})


@_input("seq_len=168 label_len=48 pred_len=24")
def two_seasons(rng: np.random.Generator) -> pd.DataFrame:
    """1,400 hours with a season of a day and one of a week."""
    n = 1400 + LATER
    week = np.where(np.arange(n) // 24 % 7 < 5, 1.0, 0.6)
    load = 500 * week * (1 + 0.3 * _wave(n, 24)) + rng.normal(0, 10, n)
    return pd.DataFrame({"time": _times(n, "h"), "load": load})


@_input("seq_len=28 label_len=7 pred_len=7")
def counts(rng: np.random.Generator) -> pd.DataFrame:
    """500 days of two columns of counts, one of which is mostly zero."""
    n = 500 + LATER
    often = rng.poisson(6 * (1 + 0.8 * _wave(n, 7)), n)
    seldom = rng.poisson(3, n) * rng.binomial(1, 0.25, n)
    return pd.DataFrame({"time": _times(n, "D"), "often": often, "seldom": seldom})
