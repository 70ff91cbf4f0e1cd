"""What is no amount is not forecast, and no forecast goes on from it, without a word."""

from pathlib import Path

import numpy as np
import pandas as pd
from entry_points import call, done, refused

from informer import Forecaster


def test_a_code_of_missing_values_at_the_end_is_not_continued(folder: Path) -> None:
    """Red if a forecast goes on from -999, or if the setting that the error names does not help."""
    days = pd.DataFrame({"date": pd.date_range("2024", periods=200), "y": 50 + 5 * np.sin(np.arange(200) * 0.9)})
    days.loc[195:, "y"] = -999
    days.to_csv("m.csv", index=False)
    command = ["forecast", "m.csv", "horizon=5", "output=out"]
    refused(call(*command), "-999 in 5 of 200 cells", "set dataset.missing_values=[-999] dataset.fill=mask", n_lines=2)
    done(*command, "dataset.missing_values=[-999]", "dataset.fill=mask")
    assert pd.read_csv("out/forecasts/m.forecast.csv")["y"].between(40, 60).all()


def test_columns_that_say_which_when_or_where_are_not_forecast(folder: Path) -> None:
    """Red if years, epochs, coordinates or codes become targets where none is named, in a command or in Python,
    or cannot be named."""
    times = pd.date_range("2024", periods=120)
    labels = {"year": 2024, "Epoch": times.astype("datetime64[s]").astype("int64"), "lat": 52.5, "shop_id": 7}
    frame = pd.DataFrame({"date": times, "y": 50 + 5 * np.sin(np.arange(120) * 0.9), "flat": 3.5, **labels})
    frame.to_csv("labels.csv", index=False)
    out = done("forecast", "labels.csv", "horizon=5", "output=out").out
    assert "year, Epoch, lat, shop_id: which, when or where, so not forecast" in " ".join(out.split())
    forecast = pd.read_csv("out/forecasts/labels.forecast.csv")
    assert [name for name in forecast if "_" not in name] == ["date", "y", "flat"]
    assert [*Forecaster().predict(frame, horizon=5)] == ["date", "y", "flat"]
    assert [*Forecaster(target="lat").predict(frame, horizon=5)] == ["date", "lat"]
    done("forecast", "labels.csv", "target=lat", "horizon=5", "output=named")
