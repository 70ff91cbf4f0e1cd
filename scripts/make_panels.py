"""Write two made-up data sets whose truth is known, to judge forecasts that read columns known ahead.

retail: 320 daily series, 40 stores x 8 products, two years of counts. Promotions sell 90 % more, prices and weekdays
matter, products have a season, and half of the stores are closed on Sundays. 28 days are to be forecast.

load: two years of quarter-hours. Heating begins below 15 degrees, sunshine saves, days differ by weekday. One day is
to be forecast with a weather forecast, whose errors grow over the day.

Each is three files: NAME.csv, NAME_next.csv with the columns known ahead, and NAME_truth.csv with what happened and
what was expected. Mean absolute errors of references that know more than a forecaster are printed.

    python scripts/make_panels.py FOLDER [seed]
    python scripts/make_panels.py score TRUTH.csv FORECAST.csv
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

DAYS, AHEAD = 730, 28
"""Days of the retailer's history, and days to forecast."""
STORES, PRODUCTS = 40, 8
UPLIFT, SHARE_ON_PROMOTION = 1.9, 0.12
QUARTERS, LOAD_DAYS = 96, 730
BEND = 15.0
"""Degrees Celsius below which heating begins."""


def make_retail(seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """The table of all days, and the expected sales of each row."""
    random = np.random.default_rng(seed)
    shape = (STORES, PRODUCTS, DAYS + AHEAD)
    dates = pd.date_range("2022-01-03", periods=shape[2])
    # promotions last a week, for a product in all stores of a group of ten
    weeks = -(-shape[2] // 7)
    by_group = random.random((STORES // 10, PRODUCTS, weeks)) < SHARE_ON_PROMOTION
    promotion = np.repeat(np.repeat(by_group, 7, axis=2)[:, :, : shape[2]], 10, axis=0)
    usual = random.uniform(1, 12, (1, PRODUCTS, 1))
    quarter = np.repeat(random.normal(1, 0.06, (STORES, PRODUCTS, -(-shape[2] // 91))), 91, axis=2)[:, :, : shape[2]]
    price = (usual * quarter * np.where(promotion, 0.85, 1)).round(2)
    level = random.lognormal(3.2, 0.5, (STORES, 1, 1)) * random.lognormal(0, 0.6, (1, PRODUCTS, 1))
    level = level * random.lognormal(0, 0.15, (STORES, PRODUCTS, 1))
    by_weekday = random.lognormal(0, 0.1, (STORES, 1, 7)) * np.array([0.85, 0.8, 0.9, 1.0, 1.3, 1.6, 0.9])
    by_weekday = np.where((np.arange(STORES) % 2 == 0)[:, None, None] & (np.arange(7) == 6), 0.0, by_weekday)
    weekday = by_weekday[:, :, dates.day_of_week]
    turn = 2 * np.pi * (dates.day_of_year.to_numpy() / 365.25 - random.random((1, PRODUCTS, 1)))
    season = np.exp(random.uniform(0.05, 0.3, (1, PRODUCTS, 1)) * np.cos(turn))
    expected = level * weekday * season * np.where(promotion, UPLIFT, 1) * (price / usual) ** -0.8
    sales = random.poisson(expected * random.gamma(20, 1 / 20, shape))  # more varied than a Poisson count
    names = np.indices(shape).reshape(3, -1)
    frame = pd.DataFrame(
        {
            "date": dates[names[2]],
            "store": [f"S{store + 1:02d}" for store in names[0]],
            "product": [f"P{product + 1}" for product in names[1]],
            "promo": np.where(promotion, "Y", "N").ravel(),
            "price": price.ravel(),
            "sales": sales.ravel(),
        }
    )
    return frame, pd.Series(expected.ravel(), name="expected")


def make_load(seed: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.Series]:
    """The table of all quarter-hours, the weather forecast of the last day, and what the true rule makes of it."""
    random = np.random.default_rng(seed)
    n = (LOAD_DAYS + 1) * QUARTERS
    times = pd.date_range("2022-03-01", periods=n, freq="15min")
    day_of_year, hour = times.day_of_year.to_numpy(), times.hour.to_numpy() + times.minute.to_numpy() / 60
    turn, noon = 2 * np.pi * day_of_year / 365.25, 2 * np.pi * (hour - 14) / 24
    temperature = 10 - 10 * np.cos(turn - 0.3) + 4 * np.cos(noon) + 4 * _smooth(random.standard_normal(n), 0.998)
    clouds = 1 / (1 + np.exp(-1.5 * _smooth(random.standard_normal(n), 0.99)))
    height = np.sin(np.deg2rad(50 - 23 * np.cos(turn + 0.17) - 90 + 90 * np.cos(2 * np.pi * (hour - 12) / 24)))
    sun = 900 * np.maximum(height, 0) * (1 - 0.75 * clouds)
    by_hour = 60 * np.exp(-((hour - 8.5) ** 2) / 6) + 80 * np.exp(-((hour - 18.5) ** 2) / 8) + 20 * (hour > 6)
    by_hour = by_hour * np.array([1, 1.02, 1.02, 1, 0.95, 0.7, 0.6])[times.day_of_week]

    def load(temperature: np.ndarray, sun: np.ndarray, rows: slice) -> np.ndarray:
        usual: np.ndarray = 300 + by_hour[rows] + 9 * np.maximum(BEND - temperature, 0) - 0.06 * sun
        return usual

    actual = load(temperature, sun, slice(None)) + 9 * _smooth(random.standard_normal(n), 0.97)
    columns = {"temperature": temperature.round(2), "sun": sun.round(1), "load": actual.round(2)}
    frame = pd.DataFrame({"time": times, **columns})
    last = slice(n - QUARTERS, n)
    grown = np.sqrt(np.arange(1, QUARTERS + 1) / QUARTERS)
    warmer = temperature[last] + 1.2 * grown * _smooth(random.standard_normal(QUARTERS), 0.97)
    sunnier = sun[last] * np.clip(1 + 0.25 * grown * _smooth(random.standard_normal(QUARTERS), 0.97), 0, 2)
    weather = pd.DataFrame({"time": times[last], "temperature": warmer.round(2), "sun": sunnier.round(1)})
    ruled = load(weather["temperature"].to_numpy(), weather["sun"].to_numpy(), last)
    return frame, weather, pd.Series(ruled, index=frame.index[last], name="expected")


def _smooth(noise: np.ndarray, keep: float) -> np.ndarray:
    """First-order autoregressive noise of variance 1."""
    out, last = np.empty_like(noise), noise[0]
    for row, fresh in enumerate(noise):
        last = keep * last + (1 - keep**2) ** 0.5 * fresh
        out[row] = last
    return out


def table_of_means(past: pd.DataFrame, ahead: pd.DataFrame) -> np.ndarray:
    """Mean sales by store, product, weekday and promotion; without promotion where there was none."""
    keys = ["store", "product", "weekday"]
    past, ahead = (frame.assign(weekday=frame["date"].dt.day_of_week) for frame in (past, ahead))
    means, fewer = past.groupby([*keys, "promo"])["sales"].mean(), past.groupby(keys)["sales"].mean()
    exact = ahead.join(means.rename("mean"), on=[*keys, "promo"])["mean"]
    return exact.fillna(ahead.join(fewer.rename("mean"), on=keys)["mean"]).to_numpy()


def score(truth: pd.DataFrame, forecast: pd.DataFrame) -> str:
    """Mean absolute error, and the difference of the totals in percent, of the target of both tables."""
    (target,) = truth.columns[-2:-1]
    keys = list(truth.columns[:-2])
    dated = forecast.assign(**{keys[0]: pd.to_datetime(forecast[keys[0]])})
    both = truth.merge(dated, on=keys, suffixes=("", "_forecast"), validate="one_to_one")
    if len(both) < len(truth):
        raise SystemExit(f"expected {len(truth)} rows, found {len(both)}")
    return _line(both[target].to_numpy(), both[f"{target}_forecast"].to_numpy())


def _line(actual: np.ndarray, forecast: np.ndarray) -> str:
    return f"MAE {np.abs(forecast - actual).mean():.3f}, total {100 * (forecast.sum() / actual.sum() - 1):+.2f} %"


def write(folder: Path, seed: int) -> None:
    """Write the files, and print the references."""
    folder.mkdir(parents=True, exist_ok=True)
    frame, expected = make_retail(seed)
    is_ahead = frame["date"] >= frame["date"].max() - pd.Timedelta(days=AHEAD - 1)
    past, ahead = frame[~is_ahead], frame[is_ahead]
    past.to_csv(folder / "retail.csv", index=False)
    ahead.drop(columns="sales").to_csv(folder / "retail_next.csv", index=False)
    truth = ahead.drop(columns=["promo", "price"]).assign(expected=expected[is_ahead].round(3))
    truth.to_csv(folder / "retail_truth.csv", index=False)
    actual = ahead["sales"].to_numpy()
    print("retail, table of means by store, product, weekday, promotion:", _line(actual, table_of_means(past, ahead)))
    print("retail, the expected sales:", _line(actual, expected[is_ahead].to_numpy()))
    frame, weather, ruled = make_load(seed)
    past, ahead = frame.iloc[:-QUARTERS], frame.iloc[-QUARTERS:]
    past.to_csv(folder / "load.csv", index=False)
    weather.to_csv(folder / "load_next.csv", index=False)
    truth = ahead[["time", "load"]].assign(expected=ruled.round(3))
    truth.to_csv(folder / "load_truth.csv", index=False)
    actual = ahead["load"].to_numpy()
    print("load, the true rule with the weather forecast:", _line(actual, ruled.to_numpy()))
    print("load, the same day last week:", _line(actual, past["load"].to_numpy()[-7 * QUARTERS :][:QUARTERS]))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["score", truth, forecast]:
            rows = pd.read_csv(truth)
            print(score(rows.assign(**{rows.columns[0]: pd.to_datetime(rows.iloc[:, 0])}), pd.read_csv(forecast)))
        case [folder, *seed]:
            write(Path(folder), int(seed[0]) if seed else 1)
        case _:
            raise SystemExit(__doc__)
