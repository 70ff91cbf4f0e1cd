"""Rolling-origin forecasts of a series, with the actual values and scores.

They use the same store and windows as evaluation, so equal windows give equal numbers. The output is a tidy table,
written in pieces so that memory does not grow with the number of origins.

Adaptive intervals of rolling forecasts: their widths follow the coverage at earlier origins.

Calibrated widths are valid for data distributed like the calibration windows. When a series drifts, the widths of each
level are multiplied by a factor m, updated after every origin whose actual values are all known:

    m <- m exp(rate (missed - (1 - level)))

where `missed` is the share of its steps outside the interval. This is quantile tracking (A. Angelopoulos, E. Candes, R.
Tibshirani, "Conformal PID Control for Time Series Prediction", 2023, section 2.1), a form of adaptive conformal
inference (I. Gibbs and E. Candes, 2021), on the logarithm of the width: over k origins the mean of `missed` differs
from 1 - level by |log m| / (rate k), whatever the data.

Write tables of rolling forecasts in pieces.

Scores of rolling forecasts and of their baselines, over origins after the training rows.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Float64, Int, Int64
from torch import Tensor

from informer.base.errors import InputError, counted, listed
from informer.base.files import replacing, write_atomic
from informer.checkpoint.restore import dims_in
from informer.config.commands import Format
from informer.config.model import WindowSizes
from informer.data.store import build_store, with_columns
from informer.data.windows import Windows, observed_rows, seen_before
from informer.inference.model import ROLLED, TIME, TrainedModel, decimals_for, key_columns, reaching
from informer.inference.reader import LEFT_OUT
from informer.inference.writing import Writer, metrics_of, rolled_of
from informer.linear.effects import fit_known
from informer.networks.forecast_model import model_forecast, model_output
from informer.networks.models.base import point
from informer.read.series import Series, column_values
from informer.scoring.baselines import FittedBaseline, bounded, fit_ridge, seasonal_naive_for
from informer.scoring.intervals import DECILES, CalibratedBaseline, IntervalScores, calibrated, model_quantiles
from informer.scoring.metrics import Errors
from informer.scoring.recursion import recursive_forecast
from informer.scoring.scores import Evaluation, mase_scale

log = logging.getLogger(__name__)


ByColumn = Float64[np.ndarray, "n"]

RATE = 0.2
"""Learning rate for forecasts that do not overlap; divided by `delay` if they do."""


@final
class Tracking:
    """Factors of half widths for the origins of one series, in time order.

    Args:
        levels: interval levels in percent.
        delay: origins until the last actual value of a forecast is known, at least 1. Errors of overlapping forecasts
            are correlated, so each counts 1 / delay.
    """

    def __init__(self, levels: Sequence[int], delay: int) -> None:
        self._levels, self._delay = sorted(levels), delay
        self._log: dict[int, ByColumn] = {level: np.zeros(1) for level in self._levels}  # of each factor
        self._open: deque[Mapping[int, ByColumn]] = deque()

    def __call__(
        self, errors: Float64[np.ndarray, "b h n"], halves: Mapping[int, Float64[np.ndarray, "b h n"]]
    ) -> dict[int, Float64[np.ndarray, "b h n"]]:
        """Half widths of the next origins; they never decrease from one level to the next.

        Args:
            errors: absolute errors of their forecasts, used only once they are known; NaN where the actual value is
                missing.
            halves: calibrated half widths by level, in the units of the errors.
        """
        adapted = {level: np.empty_like(errors) for level in self._levels}
        for origin, error in enumerate(errors):
            if len(self._open) == self._delay:
                self._learn(self._open.popleft())
            half = np.zeros_like(error)
            for level in self._levels:
                half = np.maximum(half, halves[level][origin] * np.exp(self._log[level]))
                adapted[level][origin] = half
            observed = ~np.isnan(error)
            n = np.maximum(observed.sum(axis=0), 1)
            missed = {level: (error > adapted[level][origin]).sum(axis=0) / n for level in self._levels}
            usual = {level: 1 - level / 100 for level in self._levels}  # no update without an observation
            self._open.append({level: np.where(observed.any(axis=0), missed[level], usual[level]) for level in usual})
        return adapted

    def _learn(self, missed: Mapping[int, ByColumn]) -> None:
        for level, share in missed.items():
            self._log[level] = self._log[level] + RATE / self._delay * (share - (1 - level / 100))


ACTUAL = "actual"
Places = Mapping[str, Mapping[str, int]]
"""Decimal places of each target of each series; none: all digits."""
Append = Callable[[pd.DataFrame], None]


def open_table(path: Path, form: Format, places: Places) -> AbstractContextManager[Append]:
    """Open a new file; yields a function that appends a piece, of one series; `places`: decimal places in CSV."""
    return _parquet_table(path) if form is Format.parquet else _csv_table(path, places)


def decimal_places(panel: Sequence[Series], targets: Sequence[str], digits: int | None) -> Places:
    """Decimal places that leave this many digits of the spread of each target in each series."""
    if digits is None:
        return {}
    return {
        series.name: {
            target: decimals_for(column, digits)
            for target, column in zip(targets, column_values(series, targets).T, strict=True)
        }
        for series in panel
    }


@contextmanager
def _csv_table(path: Path, places: Places) -> Iterator[Append]:
    with path.open("w", encoding="utf-8", newline="") as file:

        def append(piece: pd.DataFrame) -> None:
            dated = piece.select_dtypes(["datetime", "datetimetz"])
            times = {str(column): _whole_times(piece[column]) for column in dated}
            written = _rounded(piece, places).assign(**times)
            written.to_csv(file, header=file.tell() == 0, index=False, lineterminator="\n")

        yield append


def _rounded(piece: pd.DataFrame, places: Places) -> pd.DataFrame:
    """With forecasts and their ends rounded; actual values keep the digits of the input."""
    if not places:
        return piece
    # of several series the first column has the name
    decimals = places[str(piece.iloc[0, 0])] if len(places) > 1 else next(iter(places.values()))
    with np.errstate(over="ignore"):
        factors = 10.0 ** piece["column"].map(decimals).to_numpy(float).clip(min=0)
    factors[np.isinf(factors)] = np.nan  # of values such as 1e-305, which keep all digits
    numbers = [str(name) for name in piece.columns if name != ACTUAL and piece[name].dtype.kind == "f"]
    return piece.assign(**{name: (np.rint(piece[name] * factors) / factors).fillna(piece[name]) for name in numbers})


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
    """Times with date and time of day; pandas writes only dates if a piece has only midnights."""
    places, distinct = pd.factorize(times)
    return np.array(list(map(str, distinct)), dtype=object)[places]


VALIDATION = 0.2
"""Share of the windows before the first origin on which the baselines choose season and penalty."""

MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolling:
    """Settings of rolling forecasts.

    Args:
        horizon: rows to forecast from each origin; None: pred_len.
        stride: rows between origins; None: pred_len.
        start: first forecast time; None: after the training rows.
        levels: interval levels in percent.
        adaptive: widths follow the coverage at earlier origins; see `informer.inference.rolling`.
    """

    horizon: int | None = None
    stride: int | None = None
    start: str | None = None
    levels: Sequence[int] = ()
    adaptive: bool = False

    def delay(self, model: TrainedModel) -> int:
        """Number of origins until all actual values of a forecast are known, for its first pred_len rows."""
        sizes = model.sizes
        within = min(model.check_horizon(self.horizon), sizes.pred_len)
        return -(-(sizes.offset + within) // (self.stride or sizes.pred_len))


def first_origin(model: TrainedModel, series: Series, start: str | None) -> int:
    """First row of the window of the first origin that is scored.

    Raises:
        InputError: `start` is not a date, or no forecast time is after it or after the training rows.
    """
    first_target = model.sizes.first
    if start is not None:
        row = int(series.timestamps.searchsorted(moment_in(start, series, "from")))
        if row >= len(series):
            raise InputError(f"from={start}: {series.name} ends at {series.timestamps[-1]}; choose an earlier date")
        return max(row - first_target, 0)
    until, trained_series = model.checkpoint.data.get("trained_until"), model.checkpoint.series
    if not isinstance(until, str) or (trained_series and series.name not in trained_series):
        return 0
    row = int(series.timestamps.searchsorted(moment_in(until, series, "trained_until"), side="right"))
    if row >= len(series):
        raise InputError(
            f"{series.name}: no row after the training rows, which end at {until}; to forecast training rows anyway, "
            f"set from={series.timestamps[min(first_target, len(series) - 1)]:%Y-%m-%d}"
        )
    return max(row - first_target, 0)


def log_begins(model: TrainedModel, panel: Sequence[Series], firsts: Sequence[int], start: str | None) -> None:
    """Log where forecasts start after the training rows, or, with `start`, that they include some; one line for all
    series alike."""
    until = model.checkpoint.data.get("trained_until")
    groups: dict[str, list[str]] = {}
    for series, first in zip(panel, firsts, strict=True):
        if not isinstance(until, str) or (model.checkpoint.series and series.name not in model.checkpoint.series):
            continue
        begin = series.timestamps[min(first + model.sizes.first, len(series) - 1)]
        is_seen = begin <= moment_in(until, series, "trained_until")
        if start is not None and is_seen:
            line = (
                f"rows up to {until} are training rows, where errors are too small (without from=, forecasts start "
                "after them)"
            )
        elif start is None and first:
            line = (
                f"forecasts start at {begin}, after the training rows, which end at {until} (from=DATE includes them)"
            )
        else:
            continue
        groups.setdefault(line, []).append(series.name)
    for line, names in groups.items():
        who = names[0] if len(names) == 1 else f"{len(names)} series ({listed(names, MOST_NAMED)})"
        log.info(f"{who}: {line}")


def too_few(series: Series, sizes: WindowSizes, needed: int, first: int, how: Rolling) -> str:
    """What a series lacks whose windows begin at row `first`.

    Args:
        needed: rows of a window and its horizon.
    """
    if len(series) < needed:
        blocks = (needed - sizes.first) // sizes.pred_len
        formula = "seq_len + model.offset" if sizes.offset else "seq_len"
        formula += " + pred_len" if blocks == 1 else f" + {blocks} pred_len"
        return f"{series.name}: expected at least {formula} = {needed} rows for one origin, found {len(series)}"
    after = f"from {how.start} on" if how.start else "after the training rows"
    other = "an earlier from=DATE" if how.start else "from=DATE, which also forecasts training rows"
    return (
        f"{series.name}: expected at least {counted(needed - sizes.first, 'row')} {after}, found "
        f"{max(len(series) - first - sizes.first, 0)}; give newer rows, or {other}"
    )


def moment_in(text: str, series: Series, setting: str) -> pd.Timestamp:
    """Parse a time into the time zone of the series, or without one if its times have none.

    Raises:
        InputError: `text` is not a date; names `setting`.
    """
    try:
        moment = pd.Timestamp(text)
    except ValueError as error:
        raise InputError(f"{setting}={text}: expected a date such as {series.timestamps[0]:%Y-%m-%d}") from error
    zone = series.timestamps.tz
    if zone is None:
        return moment if moment.tz is None else moment.tz_localize(None)
    return moment.tz_localize(zone, ambiguous=True, nonexistent="shift_forward") if moment.tz is None else moment


@final
class RollingScores:
    """Scores of the model's rolling forecasts and of baselines fitted on the rows before the first origin.

    The baselines' quantiles come from their errors on rows before the first origin. The deciles of a model
    without quantiles of its own are those of its calibration, which does not change: adaptive intervals are only those
    of `how.levels`.

    Args:
        model: the forecaster.
        panel: the series.
        firsts: first row of the window of each series' first origin.
        how: horizon, origins and intervals; intervals and quantiles are scored up to pred_len.
    """

    def __init__(self, model: TrainedModel, panel: Sequence[Series], firsts: Sequence[int], how: Rolling) -> None:
        self._model, self._columns = model, model.columns.targets
        self._within = min(model.check_horizon(how.horizon), model.sizes.pred_len)
        training = [
            replace(series, timestamps=series.timestamps[:end], values=series.values[:end])
            for series, end in zip(panel, (first + model.sizes.first for first in firsts), strict=True)
        ]
        narrow_training = with_columns(training, model.columns.inputs)
        early, later = _windows_before(model, narrow_training)
        self._baselines = _fitted(model, narrow_training, early, later)
        clipped, season = bounded(self._baselines, model.model), narrow_training[0].frequency.season
        calibrated_baselines = calibrated(clipped, [early], [later], season=season, levels=model.quantiles)
        self._calibrations = {each.name: each.calibration for each in calibrated_baselines}
        scalers = [model.scaler.of(series.name, series.values[: model.sizes.seq_len]) for series in narrow_training]
        parts = list(zip([series.values for series in narrow_training], scalers, strict=True))
        scale = mase_scale(parts, season, model.columns.positions(self._columns))
        self._errors = {baseline.name: Errors(scale) for baseline in self._baselines}
        self._own = Errors(scale)
        horizon = model.check_horizon(how.horizon)
        self._block = -(-horizon // (how.stride or model.sizes.pred_len))  # origins whose forecasts share rows
        self._levels = model.quantiles or DECILES
        self._spread = IntervalScores(model.quantiles, model.calibration, how.levels)

    def add(
        self,
        output: Float[Tensor, "b pred_len n *q"],
        forecast: Float[Tensor, "b horizon n"],
        actual: Float[Tensor, "b horizon n"],
        windows: Windows,
        chosen: Int[Tensor, "b"],
        halves: Mapping[int, Float64[np.ndarray, "b within n"]],
    ) -> None:
        """Add windows.

        Args:
            output: output of the model.
            forecast: scaled forecast of the whole horizon.
            actual: scaled actual values.
            windows, chosen: the windows.
            halves: scaled half widths of intervals by level.
        """
        batch, positions = windows.batch(chosen), self._model.columns.positions(self._columns)
        history, within = batch.enc_x[:, :, positions], slice(self._within)
        quantiles = model_quantiles(self._model.model, output[:, within], self._model.calibration, history, batch.units)
        self._own.add(forecast, actual, batch.units, quantiles)
        tensors = {level: torch.from_numpy(half) for level, half in halves.items()}
        self._spread.add(output[:, within], actual[:, within], history, tensors, batch.units)
        for baseline in bounded(self._baselines, self._model.model):
            ahead, _ = recursive_forecast(
                baseline, baseline(batch), windows, chosen, targets=positions, horizon=actual.shape[1]
            )
            calibration = self._calibrations[baseline.name]
            quantiles = CalibratedBaseline(baseline, calibration, self._levels).quantiles(batch, ahead[:, within])
            self._errors[baseline.name].add(ahead, actual, batch.units, quantiles)

    def evaluation(self) -> Evaluation:
        """All scores."""
        name = self._model.model.family
        return Evaluation(
            model=name,
            columns=self._columns,
            errors={name: self._own, **self._errors},
            notes=tuple(baseline.note for baseline in bounded(self._baselines, self._model.model)),
            intervals=self._spread.intervals,
            quantiles=self._spread.quantiles,
            block=self._block,
        )


def baselines_before(model: TrainedModel, training: Sequence[Series]) -> list[FittedBaseline]:
    """A seasonal naive, and ridge if there are windows for training and validation before the first origin."""
    return _fitted(model, training, *_windows_before(model, training))


def _windows_before(model: TrainedModel, training: Sequence[Series]) -> tuple[Windows, Windows]:
    """Windows on which baselines are fitted, and on which season and penalty are chosen."""
    sizes = model.sizes
    store = build_store(
        training,
        scalers=[model.scaler.of(series.name, series.values[: sizes.seq_len]) for series in training],
        calendar=model.calendar,
        device=model.device,
        trained=model.checkpoint.series,
    )
    begins = np.cumsum([0, *map(len, training[:-1])])
    counts = [max(len(series) - sizes.rows + 1, 0) for series in training]
    early = [begin + np.arange(n - int(VALIDATION * n)) for begin, n in zip(begins, counts, strict=True)]
    later = [begin + np.arange(n - int(VALIDATION * n), n) for begin, n in zip(begins, counts, strict=True)]
    train, val = (
        Windows.of_columns(store, model.columns, starts=torch.from_numpy(np.concatenate(starts)), sizes=sizes)
        for starts in (early, later)
    )
    return train, val


def _fitted(model: TrainedModel, training: Sequence[Series], train: Windows, val: Windows) -> list[FittedBaseline]:
    positions = model.columns.positions(model.columns.targets)
    naive = seasonal_naive_for(training, model.columns, val if len(val) else train)
    if not len(train) or not len(val):
        return [naive]
    dims, lag = dims_in(model.checkpoint), training[0].frequency.season
    covariates = {"columns": dims.regressors, "marks": dims.holidays, "codes": dims.known_codes}
    effects = fit_known(train, val, positions, **covariates, lag=lag)
    return [naive, fit_ridge(train, val, positions, known=effects)]


def summary_lines(name: str, scores: Evaluation) -> list[str]:
    """Overall scores of a file's forecasts, and the verdict if there are baselines."""
    means = scores.errors[scores.model].scaled.overall()
    line = f"{name}: {counted(scores.windows, 'origin')}, MSE {means['mse']:.4g} and MAE {means['mae']:.4g}"
    mase = f", MASE {means['mase']:.4g}" if np.isfinite(means["mase"]) else ""
    verdict = [scores.verdict] if len(scores.errors) > 1 else []
    return [f"{line} in scaled units{mase}", *verdict, *filter(None, [scores.warning])]


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
        table = tidy_table(model, self._series, rows, values | {"actual": self._truth[rows]})
        return table.rename(columns={TIME: key_columns(self._series, [*table.columns.drop(TIME)])[1]})


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


def tidy_table(
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
    return pd.DataFrame(columns)


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
