"""Plots of forecasts with their history."""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from informer.base.plots import Band, plot_forecast, save_figure
from informer.inference.model import Forecast

MIDDLE, EQUAL = 50.0, 1e-6
"""The median in percent, and the tolerance for the levels of a symmetric pair of quantiles."""


def draw(name: str, forecast: Forecast, path: Path, *, n_series: int) -> None:
    """Plot the forecast of one series of the file `name`, which has `n_series` series, and save it to `path`."""
    series = forecast.series
    if series.series_col is not None:
        name = f"{name}: {series.series_col} {series.name}, one of {n_series} series"
    save_figure(figure_of(forecast, title=name), path)


def figure_of(forecast: Forecast, *, title: str) -> Figure:
    """Plot history, forecast and every interval, in data units."""
    series = forecast.series
    labels = series.frequency.labels
    history = pd.DataFrame(series.values, labels(series.timestamps), list(series.columns))
    ahead = pd.DataFrame(forecast.values, labels(forecast.timestamps), list(forecast.targets))
    return plot_forecast(history, ahead, bands=_bands(forecast), title=title, target=forecast.main)


def _bands(forecast: Forecast) -> dict[str, Band]:
    """Intervals of all levels, then ranges between symmetric quantiles, each widest first."""
    levels = sorted((int(suffix[2:]) for suffix in forecast.bands if suffix.startswith("lo")), reverse=True)
    ends = {f"{level} % interval": (f"lo{level}", f"hi{level}") for level in levels}
    quantiles = {float(suffix[1:]): suffix for suffix in forecast.bands if suffix.startswith("q")}
    for low in sorted(quantiles):
        high = next((quantile for quantile in quantiles if abs(quantile - (100 - low)) < EQUAL), None)
        if low < MIDDLE and high is not None:
            ends[f"{quantiles[low]} to {quantiles[high]}"] = quantiles[low], quantiles[high]
    columns = list(forecast.targets)
    return {
        name: (
            pd.DataFrame(forecast.bands[low_end], forecast.timestamps, columns),
            pd.DataFrame(forecast.bands[high_end], forecast.timestamps, columns),
        )
        for name, (low_end, high_end) in ends.items()
    }
