"""Rolling-origin forecasts of a series, with the actual values and scores.

They use the same store and windows as evaluation, so equal windows give equal numbers. The output is a tidy table,
written in pieces so that memory does not grow with the number of origins.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int, Int64
from torch import Tensor

from informer.data.gaps import observed_rows, seen_before
from informer.data.read.source import Series, column_values
from informer.data.store import build_store, with_columns
from informer.data.windows import Windows
from informer.errors import InputError
from informer.files import replacing, write_atomic
from informer.inference.jobs.writing import Writer
from informer.inference.predictor import TrainedModel, reaching
from informer.inference.reader import LEFT_OUT
from informer.inference.result import ROLLED, TIME, key_columns
from informer.inference.rolling.adaptive import Tracking
from informer.inference.rolling.recursion import recursive_forecast
from informer.inference.rolling.scores import Rolling, RollingScores, first_origin, log_begins, summary_lines, too_few
from informer.inference.rolling.tables import decimal_places, metrics_of, open_table, rolled_of
from informer.models.base import model_forecast, model_output, point

log = logging.getLogger(__name__)

MAX_ROWS, MAX_ORIGINS = 1 << 17, 256
"""Maximum rows of a piece (which has at least one origin), and maximum origins per batch."""


def roll_panel(
    model: TrainedModel,
    panel: Sequence[Series],
    rolling: Rolling,
    *,
    first_rows: Sequence[int] | None = None,
    scores: RollingScores | None = None,
) -> Iterator[pd.DataFrame]:
    """Tables of `Origins` for each series; the column that names the series, if any, comes first.

    Args:
        model, panel, rolling: the model, the series, and the horizon, origins and intervals.
        first_rows: first row of the window of the first origin of each series; None: row 0.
        scores: collects the errors.

    Raises:
        InputError: see `Origins`.
    """
    for series, first in zip(panel, first_rows or [0] * len(panel), strict=True):
        for table in Origins(model, series, rolling, first=first).tables(scores):
            if series.series_col is not None:
                table.insert(0, key_columns(series, table.columns)[0], series.name)
            yield table


@final
class Origins:
    """Forecasts from every `stride`-th origin of a series, oldest first.

    Args:
        model: the forecaster.
        series: with the model's columns; the first origin is the seq_len-th row, the last has enough rows after it for
            the horizon rounded up to pred_len.
        rolling, first: horizon, origins and intervals; first row of the window of the first origin.

    Raises:
        InputError: there is no origin, or the model was not calibrated for a level.
    """

    def __init__(self, model: TrainedModel, series: Series, rolling: Rolling, *, first: int = 0) -> None:
        self._model, self._series = model, series
        self._steps = np.arange(model.check_horizon(rolling.horizon))
        firsts = origins(model, series, rolling, first=first)
        model.check_levels(rolling.levels, len(self._steps))
        self._levels = rolling.levels
        self._tracking = Tracking(rolling.levels, rolling.delay(model)) if rolling.adaptive else None
        self._windows, targets = _windows(model, series, firsts), model.columns.targets
        self._positions, self._truth = model.columns.positions(targets), column_values(series, targets)

    def tables(self, scores: RollingScores | None) -> Iterator[pd.DataFrame]:
        """Tables in data units, in pieces.

        Columns: origin (the last known time), step, the time column of the input, column, forecast, quantiles (q10),
        interval ends (lo80, hi80), actual; with a horizon beyond pred_len also rolled, which marks recursively
        forecast rows.

        Args:
            scores: collects the errors.

        Raises:
            InputError: a forecast is not finite.
        """
        at_once = min(max(MAX_ROWS // (len(self._steps) * len(self._positions)), 1), MAX_ORIGINS)
        for chosen in torch.arange(len(self._windows)).split(at_once):
            yield self._table(chosen, scores)

    def _table(self, chosen: Int[Tensor, "b"], scores: RollingScores | None) -> pd.DataFrame:
        model, windows, steps = self._model, self._windows, self._steps
        batch = windows.batch(chosen)
        with torch.inference_mode():
            output = model_output(model.model, batch)
            ahead, actual = recursive_forecast(
                partial(model_forecast, model.model), point(output, model.quantiles), windows, chosen,
                targets=self._positions, horizon=len(steps),
            )  # fmt: skip
        halves = {level: half[:, : len(steps)] for level, half in model.halves(batch, self._levels).items()}
        if self._tracking is not None:
            pred_len = model.sizes.pred_len
            errors = (ahead - actual)[:, :pred_len].abs().double().cpu().numpy()
            direct = self._tracking(errors, {level: half[:, :pred_len] for level, half in halves.items()})
            halves = {
                level: np.concatenate([direct[level], half[:, pred_len:]], axis=1) for level, half in halves.items()
            }
        if scores is not None:
            scores.add(output, ahead, actual, windows, chosen, halves)
        forecast = model.clipped(batch.in_units(ahead).cpu().numpy())
        bands = model.bands(batch, output[:, : len(steps)], halves, ahead)
        if not np.isfinite(forecast).all() or any(np.isinf(band).any() for band in bands.values()):
            raise InputError(f"{self._series.name}: a forecast is not finite; look for extreme values")
        rows = windows.starts[chosen].cpu().numpy()[:, None] + model.sizes.first + steps
        values = {"forecast": forecast} | {name: reaching(band, len(steps)) for name, band in bands.items()}
        return _table(model, self._series, rows, values | {"actual": self._truth[rows]})


def origins(model: TrainedModel, series: Series, rolling: Rolling, *, first: int = 0) -> list[int]:
    """First rows of the windows of all origins with enough observed rows before them; an InputError if none."""
    sizes = model.sizes
    stride = sizes.pred_len if rolling.stride is None else rolling.stride
    if stride < 1:
        raise InputError(f"stride: expected at least 1, found {stride}")
    needed = sizes.seq_len + model.reach(rolling.horizon)
    if len(series) < needed + first:
        raise InputError(too_few(series, sizes, needed, first, rolling))
    targets = [series.columns.index(name) for name in model.columns.targets]
    firsts, observed = range(first, len(series) - needed + 1, stride), observed_rows([series], targets)
    valid = seen_before(firsts, observed, sizes.seq_len, model.reader.min_observed)
    if not valid:
        raise InputError(
            f"{series.name}: no origin has dataset.min_observed={model.reader.min_observed:g} of the {sizes.seq_len} "
            "rows before it observed; lower it"
        )
    return valid


def _windows(model: TrainedModel, series: Series, firsts: Sequence[int]) -> Windows:
    sizes = model.sizes
    model.warn_about_new([series.name])
    panel = with_columns([series], model.columns.inputs)
    store = build_store(
        panel,
        # a series without a scaler from training is scaled by its history at the first origin
        scalers=[model.scaler.of(series.name, panel[0].values[: sizes.seq_len])],
        calendar=model.calendar,
        device=model.device,
        trained=model.checkpoint.series,
    )
    return Windows.of_columns(store, model.columns, starts=torch.tensor(list(firsts)), sizes=sizes)


def _table(
    model: TrainedModel,
    series: Series,
    rows: Int64[np.ndarray, "b h"],
    values: Mapping[str, Float64[np.ndarray, "b h n"]],
) -> pd.DataFrame:
    """One row per window, target and step; `rows` are the row numbers of each window's steps in the series."""
    targets = model.columns.targets
    (n_windows, horizon), n = rows.shape, len(targets)
    columns: dict[str, Any] = {
        "origin": series.timestamps[np.repeat(rows[:, 0] - model.sizes.offset - 1, n * horizon)],
        "step": np.tile(np.arange(1, horizon + 1), n_windows * n),
        TIME: series.timestamps[np.repeat(rows, n, axis=0).ravel()],
        "column": np.tile(np.repeat(np.array(targets, dtype=object), horizon), n_windows),
    }
    columns |= {name: array.swapaxes(1, 2).ravel() for name, array in values.items()}
    if horizon > model.sizes.pred_len:
        columns[ROLLED] = columns["step"] > model.sizes.pred_len
    time = key_columns(series, [name for name in columns if name != TIME])[1]
    return pd.DataFrame(columns).rename(columns={TIME: time})


def write_rolled(
    model: TrainedModel,
    panel: Sequence[Series],
    name: str,
    *,
    rolling: Rolling,
    writer: Writer,
) -> tuple[str, list[str]]:
    """Forecast from every `stride`-th origin of each series of a file, and write the table and its scores.

    Args:
        model, panel, rolling: the model, the series of the file, and the horizon, origins and intervals.
        name: file name without endings.
        writer: output folder and format, CSV (UTF-8, times as ISO 8601) or parquet.

    Returns:
        The table's path relative to the folder, and a message for each series that is left out.

    Raises:
        InputError: see `roll_panel`, or the path cannot be written.
    """
    model, output = model.scored, rolled_of(name, writer.format)
    panel, firsts, left_out = with_origins(model, panel, rolling)
    scores = RollingScores(model, panel, firsts, rolling)
    places = decimal_places(panel, model.columns.targets, writer.digits)
    pieces = roll_panel(model, panel, rolling, first_rows=firsts, scores=scores)
    with replacing(writer.folder / output) as temporary, open_table(temporary, writer.format, places) as append:
        for piece in pieces:
            append(piece)
        evaluation = scores.evaluation()
        # before the table is renamed, which marks it as done
        write_atomic(writer.folder / metrics_of(name), evaluation.to_csv(), durable=False)
    for line in summary_lines(name, evaluation):
        log.info(line)
    return output, left_out


def with_origins(
    model: TrainedModel, panel: Sequence[Series], rolling: Rolling
) -> tuple[list[Series], list[int], list[str]]:
    """The series with an origin, the first row of each one's first window, and a message for each other series.

    It is an InputError if no series has an origin.
    """
    valid_series: list[Series] = []
    firsts: list[int] = []
    errors: list[str] = []
    for series in panel:
        try:
            first = first_origin(model, series, rolling.start)
            origins(model, series, rolling, first=first)
        except InputError as error:
            errors.append(str(error))
            continue
        valid_series.append(series)
        firsts.append(first)
    if not valid_series:
        raise InputError(errors[0] + (f" (and {len(errors) - 1} series more)" if len(errors) > 1 else ""))
    log_begins(model, valid_series, firsts, rolling.start)
    return valid_series, firsts, [f"{LEFT_OUT}: {line}" for line in errors]
