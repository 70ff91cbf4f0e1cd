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
from informer.data.store import build_store, narrowed
from informer.data.windows import Batch, Windows
from informer.errors import InputError
from informer.inference.coverage import Spread
from informer.inference.forecast import TrainedModel
from informer.inference.network import model_output, point
from informer.inference.report import Evaluation
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


def roll(
    model: TrainedModel,
    series: Series,
    *,
    stride: int | None = None,
    levels: Sequence[int] = (),
    tally: Tally | None = None,
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
        InputError: at once where there is no origin, or the model was not calibrated for a level; later where a
            forecast is not finite.
    """
    windows = _windows(model, series, model.sizes.pred_len if stride is None else stride)
    return _tables(model, series, windows, model.half_widths(levels), tally)


def _tables(
    model: TrainedModel,
    series: Series,
    windows: Windows,
    widths: Mapping[int, Float64[np.ndarray, "pred_len n"]],
    tally: Tally | None,
) -> Iterator[pd.DataFrame]:
    targets = model.columns.targets
    at_once = min(max(MAX_ROWS // (model.sizes.pred_len * len(targets)), 1), MAX_ORIGINS)
    for chosen in torch.arange(len(windows)).split(at_once):
        batch = windows.batch(chosen)
        with torch.inference_mode():
            output = model_output(model.model, batch)
        if tally is not None:
            tally.add(output, batch)
        values = {
            "forecast": model.rows(batch, output),
            **model.bands(batch, output, widths),
            "actual": batch.in_units(batch.target).cpu().numpy(),
        }
        if not all(np.isfinite(part).all() for part in values.values()):
            raise InputError(f"{series.name}: a forecast is not finite; look for extreme values")
        first_rows = windows.starts[chosen].cpu().numpy() + model.sizes.seq_len
        yield _table(series, targets, first_rows, values)


def _windows(model: TrainedModel, series: Series, stride: int) -> Windows:
    if stride < 1:
        raise InputError(f"stride: expected at least 1, found {stride}")
    sizes, names = model.sizes, model.columns
    starts = torch.arange(0, len(series) - sizes.rows + 1, stride) if len(series) >= sizes.rows else torch.arange(0)
    if not len(starts):
        raise InputError(
            f"{series.name}: expected at least seq_len + pred_len = {sizes.rows} rows for one origin, "
            f"found {len(series)}"
        )
    kept = narrowed([series], names.inputs)
    store = build_store(
        kept,
        # a series that training had no scaler for is scaled by what was known at its first origin
        scalers=[model.scaler.of(series.name, kept[0].values[: sizes.seq_len])],
        calendar=model.calendar,
        device=model.device,
    )
    return Windows(
        store,
        starts=starts,
        sizes=sizes,
        targets=names.positions(names.targets),
        future=names.positions(names.future_covariates),
    )


def _table(
    series: Series,
    targets: tuple[str, ...],
    first_rows: Int64[np.ndarray, "b"],
    values: Mapping[str, Float64[np.ndarray, "b pred_len n"]],
) -> pd.DataFrame:
    """One row a window, target and step."""
    n_windows, pred_len, n = values["actual"].shape
    rows = np.repeat(first_rows[:, None] + np.arange(pred_len), n, axis=0).ravel()
    columns: dict[str, object] = {
        "origin": series.timestamps[np.repeat(first_rows - 1, n * pred_len)],
        "step": np.tile(np.arange(1, pred_len + 1), n_windows * n),
        "timestamp": series.timestamps[rows],
        "column": np.tile(np.repeat(np.array(targets, dtype=object), pred_len), n_windows),
    }
    return pd.DataFrame(columns | {name: part.swapaxes(1, 2).ravel() for name, part in values.items()})
