"""Rolling origin: what the model would have forecast at every origin in a series, beside what then came.

It goes through the same store and windows as evaluation, so the same windows give the same numbers.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int64

from informer.data.source import Series
from informer.data.store import build_store, narrowed
from informer.data.windows import Windows
from informer.errors import InputError
from informer.inference.forecast import TrainedModel
from informer.inference.network import model_output, point
from informer.metrics import Errors, MaseScale


def no_errors(model: TrainedModel) -> Errors:
    """Sums to add to. MASE, which takes the training rows, stays undefined."""
    undefined = torch.full((len(model.columns.targets),), torch.nan)
    return Errors(MaseScale(undefined, undefined))


def roll(
    model: TrainedModel, series: Series, *, stride: int, errors: Errors, batch_size: int = 256
) -> Iterator[pd.DataFrame]:
    """Forecasts from every `stride`-th origin, oldest first, as tables in data units.

    Each has the columns origin (the last time known), step, timestamp, column, forecast, the model's quantiles if it
    has any (q10), actual.

    Args:
        series: with the model's columns; its first origin is its seq_len-th row, its last has pred_len rows after it.
        stride: rows between two origins.
        errors: takes the errors of each window.
        batch_size: origins at once.

    Raises:
        InputError: there is no origin.
    """
    windows = _windows(model, series, stride)
    for chosen in torch.arange(len(windows)).split(batch_size):
        batch = windows.batch(chosen)
        with torch.inference_mode():
            output = model_output(model.model, batch)
        scaled = point(output, model.quantiles)
        errors.add(scaled, batch.target, center=batch.center, scale=batch.scale)
        forecast, actual = (batch.in_units(part).cpu().numpy() for part in (scaled, batch.target))
        first_rows = windows.starts[chosen].cpu().numpy() + model.sizes.seq_len
        values = {"forecast": forecast, **model.quantile_bands(batch, output), "actual": actual}
        yield _table(series, model.columns.targets, first_rows, values)


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
