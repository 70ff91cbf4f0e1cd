"""Rolling origin: what the model would have forecast at every origin in a series, beside what then came.

It goes through the same store and windows as evaluation, so the same windows give the same numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from informer.data.source import Series
from informer.data.store import build_store, column_values, narrowed
from informer.data.windows import Batch, Windows
from informer.errors import InputError
from informer.inference.coverage import Spread
from informer.inference.forecast import TrainedModel
from informer.inference.network import model_output, point
from informer.inference.report import Evaluation
from informer.inference.result import UNIQUE_ID
from informer.metrics import Errors, MaseScale

MAX_ROWS = 1 << 17
"""Rows of a table that are made at once, of one origin at least."""
MAX_ORIGINS = 256
"""Origins that go through the model at once."""


@final
class Tally:
    """Scores of rolling forecasts. MASE, which takes the training rows, stays undefined.

    Args:
        model: that forecasts.
        levels: of its intervals, in percent.
    """

    def __init__(self, model: TrainedModel, levels: Sequence[int]) -> None:
        self._columns, self._quantiles = model.columns.targets, model.quantiles
        undefined = torch.full((len(self._columns),), torch.nan)
        self._errors = Errors(MaseScale(undefined, undefined))
        self._spread = Spread(model.quantiles, model.calibration, levels)

    def add(self, output: Float[Tensor, "b pred_len n *q"], batch: Batch) -> None:
        """Count the windows of a batch."""
        forecast = point(output, self._quantiles)
        self._errors.add(forecast, batch.target, center=batch.center, scale=batch.scale)
        self._spread.add(output, batch.target)

    def evaluation(self) -> Evaluation:
        """The scores, without baselines."""
        return Evaluation(
            model="informer",
            columns=self._columns,
            errors={"informer": self._errors},
            intervals=self._spread.intervals,
            quantiles=self._spread.quantiles,
        )


def roll_panel(
    model: TrainedModel,
    panel: Sequence[Series],
    *,
    stride: int | None,
    levels: Sequence[int],
    tally: Tally | None = None,
) -> Iterator[pd.DataFrame]:
    """`roll` for the series of a table, one after the other; where a column named them there, `unique_id` does here."""
    for series in panel:
        for table in roll(model, series, stride=stride, levels=levels, tally=tally):
            if series.series_col is not None:
                table.insert(0, UNIQUE_ID, series.name)
            yield table


def roll(
    model: TrainedModel,
    series: Series,
    *,
    stride: int | None,
    levels: Sequence[int],
    tally: Tally | None,
) -> Iterator[pd.DataFrame]:
    """Forecasts from every `stride`-th origin, oldest first, as tables in data units; none of them is large.

    Each has the columns origin (the last time known), step, timestamp, column, forecast, the model's quantiles if it
    has any (q10), the ends of the intervals (lo80, hi80), actual.

    Args:
        series: with the model's columns; its first origin is its seq_len-th row, its last has pred_len rows after it.
        stride: rows between two origins; None: pred_len.
        levels: of intervals, in percent.
        tally: counts what is forecast.

    Raises:
        InputError: there is no origin, the model was not calibrated for a level, or a forecast is not finite.
    """
    windows, widths = _windows(model, series, origins(model, series, stride)), model.half_widths(levels)
    targets = model.columns.targets
    truth = column_values(series, targets)
    at_once = min(max(MAX_ROWS // (model.sizes.pred_len * len(targets)), 1), MAX_ORIGINS)
    for chosen in torch.arange(len(windows)).split(at_once):
        batch = windows.batch(chosen)
        with torch.inference_mode():
            output = model_output(model.model, batch)
        if tally is not None:
            tally.add(output, batch)
        values = {"forecast": model.rows(batch, output), **model.bands(batch, output, widths)}
        if not all(np.isfinite(part).all() for part in values.values()):
            raise InputError(f"{series.name}: a forecast is not finite; look for extreme values")
        first = windows.starts[chosen].cpu().numpy() + model.sizes.seq_len
        rows = first[:, None] + np.arange(model.sizes.pred_len)
        yield _table(series, targets, rows, values | {"actual": truth[rows]})


def origins(model: TrainedModel, series: Series, stride: int | None) -> range:
    """First rows of the windows of the origins.

    Raises:
        InputError: there is none.
    """
    sizes = model.sizes
    stride = sizes.pred_len if stride is None else stride
    if stride < 1:
        raise InputError(f"stride: expected at least 1, found {stride}")
    if len(series) < sizes.rows:
        raise InputError(
            f"{series.name}: expected at least seq_len + pred_len = {sizes.rows} rows for one origin, "
            f"found {len(series)}"
        )
    return range(0, len(series) - sizes.rows + 1, stride)


def _windows(model: TrainedModel, series: Series, firsts: range) -> Windows:
    sizes = model.sizes
    model.tell_new([series.name])
    kept = narrowed([series], model.columns.inputs)
    store = build_store(
        kept,
        # a series that training had no scaler for is scaled by what was known at its first origin
        scalers=[model.scaler.of(series.name, kept[0].values[: sizes.seq_len])],
        calendar=model.calendar,
        device=model.device,
    )
    return Windows.of_columns(store, model.columns, starts=torch.tensor(firsts), sizes=sizes)


def _table(
    series: Series,
    targets: tuple[str, ...],
    rows: Int64[np.ndarray, "b pred_len"],
    values: Mapping[str, Float64[np.ndarray, "b pred_len n"]],
) -> pd.DataFrame:
    """One row a window, target and step.

    Args:
        rows: of the series, that the steps of each window are at.
    """
    (n_windows, pred_len), n = rows.shape, len(targets)
    columns: dict[str, object] = {
        "origin": series.timestamps[np.repeat(rows[:, 0] - 1, n * pred_len)],
        "step": np.tile(np.arange(1, pred_len + 1), n_windows * n),
        "timestamp": series.timestamps[np.repeat(rows, n, axis=0).ravel()],
        "column": np.tile(np.repeat(np.array(targets, dtype=object), pred_len), n_windows),
    }
    return pd.DataFrame(columns | {name: part.swapaxes(1, 2).ravel() for name, part in values.items()})
