"""The figure of the README: a forecast of the sample data with intervals and actual values.

python scripts/readme_picture.py --output docs/forecast.png
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from informer import Forecaster
from informer.base.plots import save_figure
from informer.base.runtime import resource

HORIZON, SHOWN = 48, 120
"""Rows that are forecast, and rows of history before them in the picture."""
LEVELS = (95, 80)
SETTINGS: dict[str, Any] = {"model": "linear", "seq_len": 168, "label_len": 48, "pred_len": HORIZON}


def draw(history: pd.DataFrame, forecast: pd.DataFrame, actual: pd.Series, target: str) -> Figure:
    """The end of the history, then forecast, intervals and actual values.

    Args:
        history, forecast: with the times as index; the forecast with columns such as `load_lo80`.
        actual: at the times of the forecast.
        target: column to draw.
    """
    figure, axes = plt.subplots(figsize=(9, 3.2), layout="constrained")
    axes.plot(history.index[-SHOWN:], history[target].iloc[-SHOWN:], color="#333333", linewidth=1.2, label="history")
    for level, alpha in zip(LEVELS, (0.15, 0.3), strict=True):
        low, high = forecast[f"{target}_lo{level}"], forecast[f"{target}_hi{level}"]
        axes.fill_between(
            forecast.index, low, high, color="#0072b2", alpha=alpha, linewidth=0, label=f"{level} % interval"
        )
    axes.plot(forecast.index, forecast[target], color="#0072b2", linewidth=1.8, label="forecast")
    axes.plot(actual.index, actual, color="#d55e00", linewidth=1.2, linestyle="--", label="actual values")
    axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(axes.xaxis.get_major_locator()))
    axes.set_ylabel(target)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", ncols=5, frameon=False, bbox_to_anchor=(0, 1.16))
    return figure


def main() -> None:
    """Train on all but the last rows of the sample, forecast these, and plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("docs/forecast.png"))
    parser.add_argument("--target", default="demand")
    arguments = parser.parse_args()
    frame = pd.read_csv(resource("data/sample.csv"), parse_dates=["date"])
    history, later = frame.iloc[:-HORIZON], frame.iloc[-HORIZON:].set_index("date")
    forecaster = Forecaster.fit(history, target=arguments.target, **SETTINGS)
    forecast = forecaster.predict(history, intervals=LEVELS).set_index("date")
    figure = draw(history.set_index("date"), forecast, later[arguments.target], arguments.target)
    save_figure(figure, arguments.output)


if __name__ == "__main__":
    main()
