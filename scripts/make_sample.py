"""Write data/sample.csv: 250 days of simulated hourly energy use of a shop, with the same bytes on every machine.

Columns: `temperature` (degrees Celsius), `visitors` (a count), `price` (cents per kWh), `demand` (kW, the target, which
depends on the others). They contain a daily and a weekly cycle, a trend, noise, and two level shifts of the demand.

    python scripts/make_sample.py [file]
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

SEED = 20210114
ROWS = 6000
SHIFTS = {2100: 6.0, 3500: -4.0}
"""Row -> step of the demand's level from there on, kW."""


def make_sample() -> pd.DataFrame:
    """The table, rounded as in the file."""
    # RandomState's streams are frozen for good; default_rng's may change with numpy
    random = np.random.RandomState(SEED)
    hours = np.arange(ROWS)
    hour, weekday = hours % 24, hours // 24 % 7
    open_hours = ((hour >= 8) & (hour < 20) & (weekday < 6)).astype(float)
    noise = {name: random.standard_normal(ROWS) for name in ("temperature", "visitors", "price", "demand")}

    year, day = 2 * np.pi * hours / (24 * 365.25), 2 * np.pi * hour / 24
    temperature = 10 - 9 * np.cos(year) - 4 * np.cos(day - 0.8) + 1.5 * _smooth(noise["temperature"])
    visitors = (
        open_hours * (60 + 40 * np.sin(np.pi * (hour - 8) / 12) + 25 * (weekday == 5)) * np.exp(0.1 * noise["visitors"])
    )
    price = 24 + 5 * np.sin(day - 1.9) + 1.2 * _smooth(noise["price"])
    level = 20 + 8 * hours / ROWS + sum(step * (hours >= row) for row, step in SHIFTS.items())
    demand = level + 0.15 * visitors + 0.5 * np.abs(temperature - 15) - 0.2 * (price - 24) + 0.8 * noise["demand"]

    dates = pd.date_range("2023-01-02", periods=ROWS, freq="h")
    columns = {"temperature": temperature.round(2), "visitors": visitors.round().astype(int)}
    return pd.DataFrame({"date": dates, **columns, "price": price.round(2), "demand": demand.round(2)})


def write_sample(path: Path) -> None:
    """Write the file."""
    text = make_sample().to_csv(index=False, float_format="%.2f", date_format="%Y-%m-%d %H:%M", lineterminator="\n")
    path.write_bytes(text.encode())


def _smooth(noise: np.ndarray, keep: float = 0.95) -> np.ndarray:
    """First-order autoregressive noise of variance 1."""
    out = np.empty_like(noise)
    last = 0.0
    for row, fresh in enumerate(noise):
        last = keep * last + (1 - keep**2) ** 0.5 * fresh
        out[row] = last
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the sample data set.")
    parser.add_argument("file", type=Path, nargs="?", default=Path(__file__).parents[1] / "data" / "sample.csv")
    write_sample(parser.parse_args().file)
