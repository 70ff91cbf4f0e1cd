"""Rolling-origin forecasts of a series, with the actual values, and scores next to baselines.

They use the same store and windows as evaluation, so equal windows give equal numbers. The output is a tidy table,
written in pieces so that memory does not grow with the number of origins.

Widths of adaptive intervals follow the coverage at earlier origins: calibrated widths are valid for data distributed
like the calibration windows. When a series drifts, the widths of each level are multiplied by a factor m, updated after
every origin whose actual values are all known:

    m <- m exp(rate (missed - (1 - level)))

where `missed` is the share of its steps outside the interval. This is quantile tracking (A. Angelopoulos, E. Candes, R.
Tibshirani, "Conformal PID Control for Time Series Prediction", 2023, section 2.1), a form of adaptive conformal
inference (I. Gibbs and E. Candes, 2021), on the logarithm of the width: over k origins the mean of `missed` differs
from 1 - level by |log m| / (rate k), whatever the data.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64

from informer.base.errors import InputError, ShortError, counted, listed
from informer.base.files import replacing, write_atomic
from informer.config.commands import Format, PredictConfig
from informer.config.data import InputFormat
from informer.data.panel import and_more
from informer.data.store import with_columns
from informer.data.windows import Windows, are_observed, observed_rows
from informer.inference.model import TrainedModel
from informer.inference.reader import LEFT_OUT, Source
from informer.inference.writing import (
    ROLLED,
    Writer,
    decimals_for,
    key_columns,
    metrics_of,
    rolled_of,
    with_decimals,
    without_times,
)
from informer.members.baselines import FittedBaseline, best_seasonal_naive, fit_ridge
from informer.members.effects import fit_known
from informer.read.series import Series, column_values
from informer.read.zones import check_zones
from informer.scoring.backtest import AT_ONCE, DECILES, backtest
from informer.scoring.evaluate import calibrated, mase_scale
from informer.scoring.forecasts import Forecasts
from informer.scoring.origins import every, spread
from informer.scoring.scores import Scores

log = logging.getLogger(__name__)


ByLevel = Float64[np.ndarray, "k n"]

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
        self._usual = 1 - np.array(self._levels)[:, None] / 100
        self._log = np.zeros_like(self._usual)  # of the factors, by level and column
        self._open = deque[ByLevel]()

    def __call__(
        self, errors: Float64[np.ndarray, "b h n"], halves: Mapping[int, Float64[np.ndarray, "b h n"]]
    ) -> dict[int, Float64[np.ndarray, "b h n"]]:
        """Half widths of the next origins; they never decrease from one level to the next.

        Args:
            errors: absolute errors of their forecasts, used only once they are known; NaN where the actual value is
                missing.
            halves: calibrated half widths by level, in the units of the errors.
        """
        adapted = np.stack([halves[level] for level in self._levels])
        for error, half in zip(errors, adapted.swapaxes(0, 1), strict=True):
            if len(self._open) == self._delay:
                self._log = self._log + RATE / self._delay * (self._open.popleft() - self._usual)
            half[:] = np.maximum.accumulate(half * np.exp(self._log)[:, None], axis=0)
            n = (~np.isnan(error)).sum(axis=0)
            missed = (error > half).sum(axis=1) / np.maximum(n, 1)
            self._open.append(np.where(n > 0, missed, self._usual))  # no update without an observation
        return dict(zip(self._levels, adapted, strict=True))


def write_pieces(path: Path, form: Format, pieces: Iterator[pd.DataFrame]) -> None:
    """Write the pieces of a table to a new file, CSV or parquet, one after the other."""
    if form == "parquet":
        import pyarrow
        from pyarrow.parquet import ParquetWriter

        tables = (pyarrow.Table.from_pandas(piece, preserve_index=False) for piece in pieces)
        first = next(tables)
        with ParquetWriter(path, first.schema) as writer:
            for table in chain([first], tables):
                writer.write_table(table)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        for piece in pieces:
            # with the time of day; pandas writes only dates if a piece has only midnights
            without_times(piece).to_csv(file, header=file.tell() == 0, index=False, lineterminator="\n")


VALIDATION = 0.2
"""Share of the windows before the first origin on which the baselines choose season and penalty."""

MOST_NAMED = 3

Starts = Sequence[tuple[Series, Sequence[int]]]
"""Series, and the first rows of the windows of their origins."""


def first_origin(model: TrainedModel, series: Series, start: str | None) -> int:
    """First row of the window of the first origin that is scored.

    Raises:
        InputError: `start` is not a date, or no forecast time is after it or after the training rows.
    """
    first_target = model.sizes.first
    if start is not None:
        return max(row_of(start, series, "from") - first_target, 0)
    if (until := trained_until(model, series)) is None:
        return 0
    check_zones(series.name, series.timestamps.tz, until.tz, "training")
    row = int(series.timestamps.searchsorted(until, side="right"))
    if row >= len(series):
        raise ShortError(
            f"{series.name}: no row after the training rows, which end at {until}; give newer rows or, to forecast "
            f"training rows anyway, set from={series.timestamps[min(first_target, len(series) - 1)]:%Y-%m-%d} (start= "
            "of Forecaster.backtest)"
        )
    return max(row - first_target, 0)


def trained_until(model: TrainedModel, series: Series) -> pd.Timestamp | None:
    """The last time of the training rows; None of a series that training did not have."""
    until, trained = model.checkpoint.fitted_until, model.checkpoint.data.names
    return None if until is None or (trained and series.name not in trained) else pd.Timestamp(until)


def row_of(start: str, series: Series, setting: str) -> int:
    """The first row at or after a time, which is in the zone of the series; an InputError that names `setting` if there
    is none, or it is no date."""
    try:
        moment = pd.Timestamp(start)
    except ValueError as error:
        raise InputError(f"{setting}={start}: expected a date such as {series.timestamps[0]:%Y-%m-%d}") from error
    if (zone := series.timestamps.tz) is None:
        moment = moment.tz_localize(None)
    elif moment.tz is None:
        moment = moment.tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
    row = int(series.timestamps.searchsorted(moment))
    if row >= len(series):
        raise InputError(f"{setting}={start}: {series.name} ends at {series.timestamps[-1]}; choose an earlier date")
    return row


def log_begins(model: TrainedModel, panel: Starts, start: str | None) -> None:
    """Log where forecasts start after the training rows, or, with `start`, that they include some; one line for all
    series alike."""
    groups, until = defaultdict[str, list[str]](list), model.checkpoint.fitted_until
    for series, (first, *_) in panel:
        begin, end = series.timestamps[min(first + model.sizes.first, len(series) - 1)], trained_until(model, series)
        if end is None or (begin.tz is None) != (end.tz is None):
            continue  # of different zones with `start` only, see `first_origin`
        if start is not None and begin <= end:
            groups[
                f"rows up to {until} are training rows, where errors are too small (without from=, forecasts start "
                "after them)"
            ].append(series.name)
        if start is None and first:
            groups[
                f"forecasts start at {begin}, after the training rows, which end at {until} (from=DATE includes them)"
            ].append(series.name)
    for line, names in groups.items():
        who = names[0] if len(names) == 1 else f"{len(names)} series ({listed(names, MOST_NAMED)})"
        log.info(f"{who}: {line}")


def rolling_scores(model: TrainedModel, panel: Starts, how: PredictConfig) -> Scores:
    """Scores for the model's rolling forecasts and baselines fitted on the rows before the first origin, which are
    those of `roll_panel`.

    The baselines' quantiles come from their errors on rows before the first origin. The deciles of a model
    without quantiles of its own are those of its calibration, which does not change: adaptive intervals are only those
    of `how.intervals`.

    Args:
        model: the forecaster.
        panel: the series with their origins.
        how: horizon, stride and intervals.
    """
    columns, season = model.columns.targets, panel[0][0].frequency.season
    training = [series.part(slice(first + model.sizes.first)) for series, (first, *_) in panel]
    narrow = with_columns(training, model.columns.inputs)
    fitted, early, later = baselines_before(model, narrow)
    sharing = -(-model.check_horizon(how.horizon) // (how.stride or model.sizes.pred_len))  # origins with equal rows
    scores = Scores(columns, [series.name for series, _ in panel], block=sharing)
    like = partial(calibrated, season=season, non_negative=model.model.non_negative, levels=model.quantiles)
    scores.baselines = [like(each, [early], [later]) for each in fitted]
    scores.notes = [each.note for each in scores.baselines]
    return scores


def baselines_before(model: TrainedModel, training: Sequence[Series]) -> tuple[list[FittedBaseline], Windows, Windows]:
    """A seasonal naive, and ridge if there are windows for training and validation before the first origin; and the
    windows on which they are fitted, and on which season and penalty are chosen."""
    positions, begins = model.columns.positions(model.columns.targets), np.cumsum([0, *map(len, training[:-1])])
    counts = [max(len(series) - model.sizes.rows + 1, 0) for series in training]
    firsts = [begin + np.arange(n) for begin, n in zip(begins, counts, strict=True)]
    early = np.concatenate([each[: len(each) - int(VALIDATION * len(each))] for each in firsts])
    later = np.concatenate([each[len(each) - int(VALIDATION * len(each)) :] for each in firsts])
    train = model.windows(training, early)
    val = train.at(torch.from_numpy(later))
    fitted: list[FittedBaseline] = [best_seasonal_naive(training, model.columns, val if len(val) else train)]
    if len(train) and len(val):
        effects = fit_known(model.checkpoint.dims, train, val, lag=training[0].frequency.season)
        fitted.append(fit_ridge(train, val, positions, known=effects))
    return fitted, train, val


MAX_ORIGINS, MOST_HELD = 256, 24
"""Maximum number of origins of a piece, and of those that errors of sums are learnt from."""


def roll_panel(
    model: TrainedModel,
    panel: Starts,
    rolling: PredictConfig,
    *,
    scores: Scores | None = None,
    digits: int | None = None,
) -> Iterator[pd.DataFrame]:
    """Forecasts from every `stride`-th origin of each series, oldest first, as tables in data units, in pieces.

    Columns: those that name the series, if any; origin (the last known time), step, the time column of the input,
    column, forecast, quantiles (q10), interval ends (lo80, hi80), actual; with a horizon beyond pred_len also rolled,
    which marks recursively forecast rows.

    Args:
        model: the forecaster.
        panel: series with the model's columns, and their origins.
        rolling: horizon, stride and intervals.
        scores: collects the errors, see `rolling_scores`; MASE is that of training, or of a new series relative to the
            rows before its first origin.
        digits: significant digits of the spread of each column to which forecasts and their ends are rounded.

    Raises:
        InputError: the model was not calibrated for a level, or a forecast is not finite.
    """
    horizon, pred_len, targets = model.check_horizon(rolling.horizon), model.sizes.pred_len, model.columns.targets
    at_once = min(max(AT_ONCE // (horizon * len(targets)), 1), MAX_ORIGINS)
    # origins until all actual values of the first pred_len rows of a forecast are known
    delay = -(-(model.sizes.offset + min(horizon, pred_len)) // (rolling.stride or pred_len))
    levels, known = rolling.intervals, model.checkpoint.data.mase_scales
    member = model.member if scores is None else replace(model.member, levels=DECILES)
    for series, firsts in panel:
        model.check_levels(levels, horizon)
        model.warn_about_new([series.name])
        truth, first = column_values(series, targets), firsts[0] + model.sizes.first
        unit = known.get(series.name) or mase_scale(truth[:first], series.frequency.season, range(len(targets)))
        roll = partial(
            backtest, windows=model.windows([series], firsts), panel=[series], columns=targets, batch_size=at_once,
            horizon=horizon, change=np.array([unit]),
        )  # fmt: skip
        adapt = Tracking(levels, delay) if rolling.adaptive and levels else None
        places = None if digits is None else [max(decimals_for(column, digits), 0) for column in truth.T]
        others = [roll(each) for each in scores.baselines] if scores else []
        for number, paths in enumerate(roll(member, levels=levels, adapt=adapt)):
            paths.check_finite()
            model.warn_about_equal(paths)
            if scores is not None:
                direct = {name: each[:, :pred_len] for name, each in paths.bands.items()}
                scores.add(model.model.family, replace(paths, bands=direct))
                for each, of in zip(scores.baselines, others, strict=True):
                    scores.add(each.name, next(of))
            chosen = np.array(firsts[number * at_once : (number + 1) * at_once])
            rows = chosen[:, None] + model.sizes.first + np.arange(horizon)
            paths = replace(paths, actual=truth[rows].swapaxes(1, 2).reshape(paths.mean.shape), direct=pred_len)
            yield tidy_table(paths if places is None else with_decimals(paths, places * len(chosen)), series)


def held_out(
    model: TrainedModel, tables: Iterable[tuple[Source, str] | Series], horizon: int, levels: Sequence[int],
    input_format: InputFormat | None = None,
) -> Forecasts | None:  # fmt: skip
    """Forecasts with intervals of these levels from up to MOST_HELD origins of each series, after its training rows if
    it has any; None if no series has an origin.

    Args:
        tables: series, or tables and their names; of a table that is too short for one origin there is nothing.
    """
    model, panel, origins, reach = model.scored, list[Series](), list[tuple[int, int]](), model.reach(horizon)
    for each in tables:
        with suppress(InputError):
            panel += [each] if isinstance(each, Series) else model.reader.series(*each, input_format, ahead=reach)
    for place, series in enumerate(panel):
        with suppress(InputError):  # without a row after its training rows
            first = first_origin(model, series, None) + model.sizes.first
            ends = spread(first, len(series) - reach + model.sizes.offset, MOST_HELD)
            origins += [(place, end) for end in ends]
    levels = model.member.supported(levels)
    return model.backtest(origins, panel=panel, horizon=horizon, levels=levels) if origins else None


def origins(model: TrainedModel, series: Series, rolling: PredictConfig, *, first: int = 0) -> list[int]:
    """First rows of the windows of all origins with enough observed rows before them; an InputError if none."""
    sizes = model.sizes
    stride = sizes.pred_len if rolling.stride is None else rolling.stride
    if stride < 1:
        raise InputError(f"stride: expected at least 1, found {stride}")
    needed = sizes.seq_len + model.reach(rolling.horizon)
    if len(series) < needed:
        blocks = (needed - sizes.first) // sizes.pred_len
        formula = "seq_len + model.offset" if sizes.offset else "seq_len"
        formula += " + pred_len" if blocks == 1 else f" + {blocks} pred_len"
        raise ShortError(
            f"{series.name}: expected at least {formula} = {needed} rows for one origin, found {len(series)}"
        )
    if len(series) < needed + first:
        since, is_given = rolling.from_date, rolling.from_date is not None
        raise ShortError(
            f"{series.name}: expected at least {counted(needed - sizes.first, 'row')} "
            f"{f'from {since} on' if is_given else 'after the training rows'}, found "
            f"{max(len(series) - first - sizes.first, 0)}; give newer rows, or "
            f"{'an earlier from=DATE' if is_given else 'from=DATE, which also forecasts training rows'}"
        )
    targets = [series.columns.index(name) for name in model.columns.targets]
    firsts, observed = np.array(every(first, len(series) - needed, stride)), observed_rows([series], targets)
    valid = firsts[are_observed(firsts, sizes.seq_len, observed, model.reader.min_observed)].tolist()
    if not valid:
        raise InputError(
            f"{series.name}: no origin has dataset.min_observed={model.reader.min_observed:g} of the {sizes.seq_len} "
            "rows before it observed; lower it"
        )
    return valid


def tidy_table(paths: Forecasts, series: Series) -> pd.DataFrame:
    """The table of the forecasts of one series, with the columns that name the series, if any, and the time column of
    the input; see `roll_panel`."""
    table = paths.table().drop(columns="series")
    if paths.rolled.any():
        table[ROLLED] = paths.rolled[paths.are_steps]
    keys, time = key_columns(series, [*table.columns.drop("time")])
    table.insert(3, "column", table.pop("column"))
    table = table.rename(columns={"time": time})
    for place, (column, cell) in enumerate(keys.items() if series.series_col is not None else ()):
        table.insert(place, column, cell)
    return table


def write_rolled(
    model: TrainedModel, panel: Sequence[Series], name: str, *, rolling: PredictConfig, writer: Writer
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
    chosen, left_out = with_origins(model, panel, rolling)
    found = rolling_scores(model, chosen, rolling)
    digits = writer.digits if writer.format == "csv" else None
    pieces = roll_panel(model, chosen, rolling, scores=found, digits=digits)
    with replacing(writer.folder / output) as temporary:
        write_pieces(temporary, writer.format, pieces)
        # before the table is renamed, which marks it as done
        write_atomic(writer.folder / metrics_of(name), found.to_csv(), durable=False)
    means, n = found.overall(found.model), counted(found.windows, "origin")
    mase = f", MASE {means['mase']:.4g}" if np.isfinite(means["mase"]) else ""
    log.info(f"{name}: {n}, MSE {means['mse']:.4g} and MAE {means['mae']:.4g} in scaled units{mase}")
    for line in filter(None, [f"{found.model}: {found.verdict}", found.warning]):
        log.info(line)
    return output, left_out


def with_origins(model: TrainedModel, panel: Sequence[Series], rolling: PredictConfig) -> tuple[Starts, list[str]]:
    """The series with their origins after the training rows, or from a date on, and a message for each other series.

    It is an InputError if no series has an origin.
    """
    chosen, errors = list[tuple[Series, Sequence[int]]](), list[str]()
    for series in panel:
        try:
            first = first_origin(model, series, rolling.from_date)
            chosen.append((series, origins(model, series, rolling, first=first)))
        except InputError as error:
            errors.append(str(error))
    if not chosen:
        raise InputError(and_more(errors))
    log_begins(model, chosen, rolling.from_date)
    return chosen, [f"{LEFT_OUT}: {line}" for line in errors]
