"""Plots of test-part forecasts with the actual values, for chosen series."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from matplotlib.figure import Figure
from torch import Tensor

from informer.data.pipeline import Data
from informer.errors import InputError, listed
from informer.inference.predictor import TrainedModel
from informer.models.base import model_output
from informer.plots import Band, plot_forecast

LEVELS = (95, 80)
MOST_FORECASTS = 4
"""Maximum number of consecutive forecasts, which end with the test part."""


def check_series(data: Data, names: Sequence[str]) -> None:
    """Raise an InputError if a name is not one of the series."""
    available = [series.name for series in data.panel]
    unknown = [name for name in names if name not in available]
    if unknown:
        raise InputError(f"plot_series={unknown[0]}: no such series in the data, expected some of {listed(available)}")


@torch.inference_mode()
def figure_on_test_part(model: TrainedModel, data: Data, name: str) -> Figure:
    """Plot the last forecasts of the test part of one series, in data units, with intervals and actual values.

    Raises:
        InputError: no such series, or it has no test window.
    """
    check_series(data, [name])
    model = model.scored
    place = [series.name for series in data.panel].index(name)
    series, windows = data.panel[place], _last_windows(data, place)
    if not len(windows):
        raise InputError(f"plot_series={name}: the test part has no window of this series")
    batch = data.test.batch(windows)
    output = model_output(model.model, batch)
    levels = [level for level in LEVELS if model.calibration is not None and model.calibration.supports(level)]
    ends = model.bands(batch, output, model.halves(batch, levels))
    row = int(data.test.starts[windows[0]]) - int(data.test.store.first_rows[place]) + data.sizes.first
    values = np.concatenate(list(model.rows(batch, output)))
    times, columns = series.timestamps[row : row + len(values)], list(data.targets)

    def frame(rows: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame(rows, times, columns)

    bands: dict[str, Band] = {
        f"{level} % interval": (
            frame(np.concatenate(list(ends[f"lo{level}"]))), frame(np.concatenate(list(ends[f"hi{level}"])))
        )
        for level in levels
    }  # fmt: skip
    observed = pd.DataFrame(series.values, series.timestamps, list(series.columns))
    before = observed[:row].iloc[-2 * len(values) :]
    forecasts = f"{len(windows)} forecasts of" if len(windows) > 1 else "a forecast of"
    return plot_forecast(
        before, frame(values), observed.loc[times, columns], bands=bands, target=data.columns.main,
        title=f"{name}: {forecasts} {data.sizes.pred_len} rows, test part",
    )  # fmt: skip


def _last_windows(data: Data, place: int) -> Int[Tensor, "w"]:
    """Indices of the last consecutive, non-overlapping test windows of one series, oldest first."""
    first = int(data.test.store.first_rows[place])
    starts = data.test.starts
    in_series = ((starts >= first) & (starts < first + len(data.panel[place]))).nonzero()[:, 0]
    chosen = in_series.flip(0)[:: data.sizes.pred_len][:MOST_FORECASTS].flip(0)
    gaps = torch.diff(starts[chosen]) != data.sizes.pred_len
    return chosen[int(gaps.nonzero()[-1]) + 1 :] if gaps.any() else chosen
