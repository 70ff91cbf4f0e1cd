"""Rolling origin: forecasts from every origin in a series, next to the actual values.

It uses the same store and windows as evaluation, so equal windows give equal numbers. The output is a tidy table,
written in pieces so that memory does not grow with the number of origins, and its scores.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int64

from informer.config.commands import Format
from informer.data.gaps import observed_rows, seen_before
from informer.data.read.source import Series, column_values
from informer.data.store import build_store, narrowed
from informer.data.windows import Windows
from informer.errors import InputError
from informer.files import replacing, write_atomic
from informer.inference.adaptive import Tracking
from informer.inference.jobs.writing import Writer, need_pyarrow
from informer.inference.predictor import TrainedModel, reaching
from informer.inference.reader import LEFT_OUT
from informer.inference.recursion import go_on
from informer.inference.result import ROLLED, TIME, key_columns
from informer.inference.rolling_scores import Rolling, RollingScores, first_origin, summary_lines
from informer.models.base import model_forecast, model_output, point

log = logging.getLogger(__name__)

Append = Callable[[pd.DataFrame], None]

MAX_ROWS = 1 << 17
"""Maximum rows of a table per piece, at least one origin."""
MAX_ORIGINS = 256
"""Origins per batch."""


def roll_panel(
    model: TrainedModel,
    panel: Sequence[Series],
    how: Rolling,
    *,
    firsts: Sequence[int] | None = None,
    scores: RollingScores | None = None,
) -> Iterator[pd.DataFrame]:
    """`roll` for each series of a table; if a column names them, it comes first."""
    for series, first in zip(panel, firsts or [0] * len(panel), strict=True):
        for table in roll(model, series, how, first=first, scores=scores):
            if series.series_col is not None:
                table.insert(0, key_columns(series, table.columns)[0], series.name)
            yield table


def roll(
    model: TrainedModel,
    series: Series,
    how: Rolling,
    *,
    first: int = 0,
    scores: RollingScores | None,
) -> Iterator[pd.DataFrame]:
    """Forecasts from every `stride`-th origin, oldest first, as small tables in data units.

    Columns: origin (the last known time), step, the time as the input calls it, column, forecast, the model's quantiles
    if any (q10), the ends of the intervals (lo80, hi80), actual; with a horizon beyond pred_len also rolled, which
    marks rows from the model's own output.

    Args:
        series: with the model's columns; the first origin is the seq_len-th row, the last has enough rows after it for
            the horizon rounded up to pred_len.
        how: horizon, origins and intervals.
        first: first row of the window of the first origin.
        scores: collects the errors.

    Raises:
        InputError: there is no origin, the model was not calibrated for a level, or a forecast is not finite.
    """
    steps = np.arange(model.check_horizon(how.horizon))
    firsts, widths = origins(model, series, how, first=first), model.half_widths(how.levels)
    tracking = Tracking(how.levels, how.delay(model)) if how.adaptive else None
    windows, targets = _windows(model, series, firsts), model.columns.targets
    positions, truth = model.columns.positions(targets), column_values(series, targets)
    at_once = min(max(MAX_ROWS // (len(steps) * len(targets)), 1), MAX_ORIGINS)
    for chosen in torch.arange(len(windows)).split(at_once):
        batch = windows.batch(chosen)
        with torch.inference_mode():
            output = model_output(model.model, batch)
            ahead, actual = go_on(
                partial(model_forecast, model.model), point(output, model.quantiles), windows, chosen,
                targets=positions, horizon=len(steps),
            )  # fmt: skip
        halves = {level: half[:, : len(steps)] for level, half in model.halves(batch, widths).items()}
        if tracking is not None:
            halves = tracking((ahead - actual)[:, : model.sizes.pred_len].abs().double().cpu().numpy(), halves)
        if scores is not None:
            scores.add(output, ahead, actual, windows, chosen, halves)
        forecast = model.floored(batch.in_units(ahead).cpu().numpy())
        bands = model.bands(batch, output[:, : len(steps)], halves)
        if not all(np.isfinite(part).all() for part in (forecast, *bands.values())):
            raise InputError(f"{series.name}: a forecast is not finite; look for extreme values")
        rows = windows.starts[chosen].cpu().numpy()[:, None] + model.sizes.first + steps
        values = {"forecast": forecast} | {name: reaching(part, len(steps)) for name, part in bands.items()}
        yield _table(model, series, rows, values | {"actual": truth[rows]})


def origins(model: TrainedModel, series: Series, how: Rolling, *, first: int = 0) -> list[int]:
    """First rows of the windows of the origins, of those with enough observed rows before them.

    Raises:
        InputError: there is none.
    """
    sizes = model.sizes
    stride = sizes.pred_len if how.stride is None else how.stride
    if stride < 1:
        raise InputError(f"stride: expected at least 1, found {stride}")
    needed = sizes.seq_len + model.reach(how.horizon)
    if len(series) < needed + first:
        blocks = (needed - sizes.first) // sizes.pred_len
        parts = "seq_len + model.offset" if sizes.offset else "seq_len"
        parts += " + pred_len" if blocks == 1 else f" + {blocks} pred_len"
        raise InputError(
            f"{series.name}: expected at least {parts} = {needed} rows for one origin, found {len(series) - first}"
            + (f" after the first {first}, which are only for training" if first else "")
        )
    firsts, observed = range(first, len(series) - needed + 1, stride), observed_rows([series], _targets(model, series))
    found = seen_before(firsts, observed, sizes.seq_len, model.reader.min_observed)
    if not found:
        raise InputError(
            f"{series.name}: before no origin dataset.min_observed={model.reader.min_observed:g} of "
            f"{sizes.seq_len} rows are observed"
        )
    return found


def _targets(model: TrainedModel, series: Series) -> list[int]:
    """Places of the targets in the columns of a series."""
    return [series.columns.index(name) for name in model.columns.targets]


def _windows(model: TrainedModel, series: Series, firsts: Sequence[int]) -> Windows:
    sizes = model.sizes
    model.tell_new([series.name])
    kept = narrowed([series], model.columns.inputs)
    store = build_store(
        kept,
        # a series without a scaler from training is scaled by its history at the first origin
        scalers=[model.scaler.of(series.name, kept[0].values[: sizes.seq_len])],
        calendar=model.calendar,
        device=model.device,
        known=model.checkpoint.series,
    )
    return Windows.of_columns(store, model.columns, starts=torch.tensor(list(firsts)), sizes=sizes)


def _table(
    model: TrainedModel,
    series: Series,
    rows: Int64[np.ndarray, "b h"],
    values: Mapping[str, Float64[np.ndarray, "b h n"]],
) -> pd.DataFrame:
    """One row per window, target and step.

    Args:
        rows: row numbers of each window's steps in the series.
    """
    targets = model.columns.targets
    (n_windows, horizon), n = rows.shape, len(targets)
    columns: dict[str, Any] = {
        "origin": series.timestamps[np.repeat(rows[:, 0] - model.sizes.offset - 1, n * horizon)],
        "step": np.tile(np.arange(1, horizon + 1), n_windows * n),
        TIME: series.timestamps[np.repeat(rows, n, axis=0).ravel()],
        "column": np.tile(np.repeat(np.array(targets, dtype=object), horizon), n_windows),
    }
    columns |= {name: part.swapaxes(1, 2).ravel() for name, part in values.items()}
    if horizon > model.sizes.pred_len:
        columns[ROLLED] = columns["step"] > model.sizes.pred_len
    time = key_columns(series, [name for name in columns if name != TIME])[1]
    return pd.DataFrame(columns).rename(columns={TIME: time})


def write_rolled(
    model: TrainedModel,
    panel: Sequence[Series],
    name: str,
    *,
    how: Rolling,
    writer: Writer,
) -> tuple[str, list[str]]:
    """Forecast from every `stride`-th origin of each series of a file; returns the table's path relative to the folder,
    and a line for each series that is left out.

    Args:
        name: file name without endings.
        how: horizon, origins and intervals.
        writer: output folder and format, CSV (UTF-8, times as ISO 8601) or parquet.

    Raises:
        InputError: see `roll_panel`, or the path cannot be written.
    """
    if writer.format is Format.parquet:
        need_pyarrow()
    output = rolled_of(name, writer.format)
    panel, firsts, left_out = with_origins(model, panel, how)
    scores = RollingScores(model, panel, firsts, how)
    pieces = roll_panel(model, panel, how, firsts=firsts, scores=scores)
    with replacing(writer.folder / output) as temporary, _open_table(temporary, writer.format) as append:
        for piece in pieces:
            append(piece)
        found = scores.evaluation()
        # before the table is renamed, which marks it as done
        write_atomic(writer.folder / metrics_of(name), found.to_csv(), durable=False)
    for line in summary_lines(name, found):
        log.info(line)
    return output, left_out


def with_origins(
    model: TrainedModel, panel: Sequence[Series], how: Rolling
) -> tuple[list[Series], list[int], list[str]]:
    """The series that have an origin, the first of each, and a line for each of the others."""
    kept: list[Series] = []
    firsts: list[int] = []
    errors: list[str] = []
    for series in panel:
        try:
            first = first_origin(model, series, how.start)
            origins(model, series, how, first=first)
        except InputError as error:
            errors.append(str(error))
            continue
        kept.append(series)
        firsts.append(first)
    if not kept:
        raise InputError(errors[0] + (f" (and {len(errors) - 1} series more)" if len(errors) > 1 else ""))
    return kept, firsts, [f"{LEFT_OUT}: {line}" for line in errors]


def rolled_of(name: str, form: Format) -> str:
    """Path of the forecasts of a file, relative to the folder."""
    return f"{name}.rolling.{form.value}"


def metrics_of(name: str) -> str:
    """Path of the scores of a series."""
    return f"{name}.rolling.metrics.csv"


def _open_table(path: Path, form: Format) -> AbstractContextManager[Append]:
    return _parquet_table(path) if form is Format.parquet else _csv_table(path)


@contextmanager
def _csv_table(path: Path) -> Iterator[Append]:
    with path.open("w", encoding="utf-8", newline="") as file:

        def append(piece: pd.DataFrame) -> None:
            dated = piece.select_dtypes(["datetime", "datetimetz"])
            times = {str(column): _whole_times(piece[column]) for column in dated}
            piece.assign(**times).to_csv(file, header=file.tell() == 0, index=False, lineterminator="\n")

        yield append


@contextmanager
def _parquet_table(path: Path) -> Iterator[Append]:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    with ExitStack() as open_files:
        writers: list[ParquetWriter] = []

        def append(piece: pd.DataFrame) -> None:
            rows = pyarrow.Table.from_pandas(piece, preserve_index=False)
            if not writers:
                writers.append(open_files.enter_context(ParquetWriter(path, rows.schema)))
            writers[0].write_table(rows)

        yield append


def _whole_times(times: pd.Series) -> np.ndarray:
    """Each time in full, since pandas writes only dates if a piece has only midnights."""
    places, found = pd.factorize(times)
    return np.array(list(map(str, found)), dtype=object)[places]
