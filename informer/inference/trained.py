"""A trained model with the series of tables: forecasts after their ends, and from earlier rows with the actual values.

Earlier rows use the same store and windows as evaluation, so equal windows give equal numbers. Tables of rolling
forecasts are made in pieces so that memory does not grow with the number of origins.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import final

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from informer.base.errors import InputError, ShortError, counted, listed
from informer.config.commands import PredictConfig
from informer.data.history import Future, future_index, windows_ahead
from informer.data.panel import and_more
from informer.data.store import with_columns
from informer.data.windows import Batch, Windows, are_observed, observed_rows
from informer.inference.model import Answer, TrainedModel
from informer.inference.reader import LEFT_OUT
from informer.inference.sources import Pass, sources_of
from informer.inference.writing import decimals_for, tidy_table, with_decimals
from informer.members.baselines import FittedBaseline, best_seasonal_naive, fit_ridge
from informer.members.effects import fit_known
from informer.read.series import Series, column_values, row_of
from informer.read.zones import check_zones
from informer.scoring.backtest import AT_ONCE, DECILES, backtest
from informer.scoring.evaluate import calibrated, mase_scale
from informer.scoring.forecasts import Forecasts, joined
from informer.scoring.intervals import Tracking
from informer.scoring.origins import every, spread
from informer.scoring.scores import Scores

log = logging.getLogger(__name__)

VALIDATION = 0.2
"""Share of the windows before the first origin on which the baselines choose season and penalty."""
MOST_NAMED = 3
MAX_ORIGINS, MOST_HELD = 256, 24
"""Maximum number of origins of a piece, and of those that errors of sums are learnt from."""

Starts = Sequence[tuple[Series, Sequence[int]]]
"""Series, and the first rows of the windows of their origins."""


@final
class TrainedPanel:
    """A trained model, for the series of tables.

    Args:
        model: the model.
        read: reads the series of each table and what is known ahead of them; of histories the model needs the last
            rows only.
        whole: reads all rows of all series, of which so many follow the first forecast.
    """

    def __init__(
        self,
        model: TrainedModel,
        read: Callable[[], Sequence[tuple[Sequence[Series], Sequence[Future]]]] = list,
        whole: Callable[[int], Iterable[Series]] = lambda reach: [],
    ) -> None:
        self.model, self._read, self._whole = model, read, whole
        self.inputs, self.future_covariates = model.columns.inputs, model.columns.future_covariates
        self.categories = model.checkpoint.data.categories

    @cached_property
    def _scored(self) -> TrainedModel:
        """The model as it forecasts earlier rows."""
        return self.model.scored

    @cached_property
    def tables(self) -> Sequence[tuple[Sequence[Series], Sequence[Future]]]:
        """The series of each table, and what is known ahead of each of them."""
        return self._read()

    @cached_property
    def panel(self) -> Sequence[Series]:
        """The series of all tables."""
        return [each for panel, _ in self.tables for each in panel]

    @cached_property
    def futures(self) -> Sequence[Future]:
        """What is known ahead of each series; empty: nothing."""
        return [each for _, futures in self.tables for each in futures]

    def steps(self, horizon: int | str | None) -> int:
        """The most rows that are forecast of a series; an InputError if these are too many."""
        return max(self.model.check_horizon(horizon, each) for each in self.panel)

    def supported(self, levels: Sequence[int]) -> list[int]:
        """Those of these levels of intervals, in percent, that forecasts of earlier rows have too."""
        return self._scored.member.supported(levels)

    def parts(self, most: int) -> list["TrainedPanel"]:
        """The same in parts of at most so many series."""
        panel, futures = self.panel, self.futures
        places = (slice(first, first + most) for first in range(0, len(panel), most))
        of = [(panel[some], futures[some]) for some in places]
        return [TrainedPanel(self.model, partial(list, [part])) for part in of]

    def answers(
        self, horizon: int | str | None, *, levels: Sequence[int] = (), at_once: int | None = None
    ) -> list[Answer]:
        """The series of each table, and their forecasts in its time zone; arguments and errors as of `forecast`."""
        if not self.panel:
            return []
        paths = self.forecast(horizon, levels=levels, at_once=at_once)
        ends = len(paths.columns) * np.cumsum([0, *(len(panel) for panel, _ in self.tables)])
        parts = (paths.part(slice(*rows)) for rows in pairwise(ends))
        tables = zip(self.tables, parts, strict=True)
        return [(panel, replace(part, zone=panel[0].timestamps.tz)) for (panel, _), part in tables]

    def forecast(
        self,
        horizon: int | str | None = None,
        *,
        levels: Sequence[int] = (),
        at_once: int | None = None,
        explained: bool = False,
    ) -> Forecasts:
        """Forecast the rows after each series, in order; each until its own end if `horizon` is a date or a span.

        Args:
            horizon: rows to forecast, a span or a date, pred_len by default; rows beyond pred_len are forecast
                recursively.
            levels: interval levels in percent; where there is none, it is NaN, and a warning says so.
            at_once: series of a batch, to which the last one is padded, so that no forecast depends on the number of
                other series (matrix products may round differently for different numbers of rows); None: all.
            explained: also the sources of the forecasts, see `informer.inference.sources`.

        Raises:
            InputError: too few rows, missing future covariates, a horizon beyond pred_len of a model that reads columns
                it does not forecast, or a level without calibration.
        """
        model, series, futures = self.model, self.panel, self.futures or None
        sizes, targets, member, seen = model.sizes, model.columns.targets, model.member, list[Pass]()
        lengths = [model.check_horizon(horizon, history) for history in series]
        longest = max(lengths)
        model.check_levels(levels, longest)
        model.warn_about_new([history.name for history in series])
        if futures is not None:
            ends = [future_index(history, sizes.offset + n)[-1] for history, n in zip(series, lengths, strict=True)]
            futures = [replace(future, until=end) for future, end in zip(futures, ends, strict=True)]
        model.warn_about_constants()
        panel, windows = windows_ahead(
            series,
            columns=model.columns,
            scaler=model.scaler,
            sizes=sizes,
            calendar=model.calendar,
            device=model.device,
            n_ahead=model.reach(longest),
            futures=futures,
            pad=model.reader.pads,
            trained=model.checkpoint.data.names,
        )
        if explained:  # in the batches of `informer predict`
            at_once = PredictConfig().batch_size if len(series) > 1 else 1
            member = replace(member, output=partial(_noted, member.output, seen))
        n = at_once or len(series)
        windows = windows.at(windows.starts[torch.arange(-(-len(series) // n) * n).clamp(max=len(series) - 1)])
        paths = joined(backtest(member, windows, panel, targets, batch_size=n, horizon=longest, levels=levels))
        paths = replace(paths.part(slice(len(series) * len(targets))), levels={}, direct=sizes.pred_len)
        model.warn_about_equal(paths)
        paths = paths.until(np.repeat(lengths, len(targets)))
        paths.check_finite()
        return replace(paths, sources=sources_of(model, seen, paths.mean.shape)) if explained else paths

    def held(self, horizon: int, levels: Sequence[int]) -> Forecasts | None:
        """Forecasts with intervals of these levels from up to MOST_HELD origins of each series, after its training rows
        if it has any; None if no series has an origin."""
        model, panel, origins, reach = self._scored, list[Series](), list[tuple[int, int]](), self.model.reach(horizon)
        with suppress(InputError):  # a table may be too short for one origin
            panel += self._whole(reach)
        for place, series in enumerate(panel):
            with suppress(InputError):  # without a row after its training rows
                first = self._first(series, None) + model.sizes.first
                ends = spread(first, len(series) - reach + model.sizes.offset, MOST_HELD)
                origins += [(place, end) for end in ends]
        levels = self.supported(levels)
        return model.backtest(origins, panel=panel, horizon=horizon, levels=levels) if origins else None

    def rolling(self, how: PredictConfig) -> tuple[Sequence[Series], pd.DataFrame]:
        """The series, and the table of forecasts from their earlier rows, see `tables_of`; without `how.from_date`
        from all rows that have enough before them.

        Raises:
            InputError: see `tables_of`; or a series has too few rows for one origin.
        """
        if self.model.checkpoint.data.refit:
            log.warning("backtest: the model was fitted on all rows of its data; errors on these are too small")
        panel, start = [*self._whole(self.model.reach(how.horizon))], how.from_date
        firsts = [0 if start is None else self._first(series, start) for series in panel]
        chosen = [(each, self._origins(each, how, first)) for each, first in zip(panel, firsts, strict=True)]
        return panel, pd.concat(self.tables_of(chosen, how), ignore_index=True)

    def skill(self, how: PredictConfig) -> float:
        """Skill of forecasts from rows after those of training; an InputError if there is no such origin."""
        chosen, _ = self.starts(self._whole(self.model.reach(how.horizon)), how)
        scores = self.scores_of(chosen, how)
        deque(self.tables_of(chosen, how, scores=scores), maxlen=0)  # making the tables fills the scores
        return scores.skill

    def starts(self, panel: Iterable[Series], how: PredictConfig) -> tuple[Starts, list[str]]:
        """The series with their origins after the training rows, or from a date on, and a message for each other
        series.

        It is an InputError if no series has an origin.
        """
        chosen, errors = list[tuple[Series, Sequence[int]]](), list[InputError]()
        for series in panel:
            try:
                first = self._first(series, how.from_date)
                chosen.append((series, self._origins(series, how, first)))
            except InputError as error:
                errors.append(error)
        if not chosen:
            raise InputError(and_more([*map(str, errors)]), code=errors[0].code)
        self._log_begins(chosen, how.from_date)
        return chosen, [f"{LEFT_OUT}: {error}" for error in errors]

    def _first(self, series: Series, start: str | None) -> int:
        """First row of the window of the first origin that is scored.

        Raises:
            InputError: `start` is not a date, or no forecast time is after it or after the training rows.
        """
        first_target = self.model.sizes.first
        if start is not None:
            return max(row_of(start, series, "from") - first_target, 0)
        if (until := self._trained_until(series)) is None:
            return 0
        check_zones(series.name, series.timestamps.tz, until.tz, "training")
        row = int(series.timestamps.searchsorted(until, side="right"))
        if row >= len(series):
            raise ShortError(
                f"{series.name}: no row after the training rows, which end at {until}; give newer rows or, to forecast "
                f"training rows anyway, set from={series.timestamps[min(first_target, len(series) - 1)]:%Y-%m-%d} "
                "(start= of Forecaster.backtest)"
            )
        return max(row - first_target, 0)

    def _trained_until(self, series: Series) -> pd.Timestamp | None:
        """The last time of the training rows; None of a series that training did not have."""
        until, trained = self.model.checkpoint.fitted_until, self.model.checkpoint.data.names
        return None if until is None or (trained and series.name not in trained) else pd.Timestamp(until)

    def _origins(self, series: Series, how: PredictConfig, first: int) -> list[int]:
        """First rows of the windows of all origins with enough observed rows before them; an InputError if none."""
        model, sizes = self.model, self.model.sizes
        stride = how.stride or sizes.pred_len
        needed = sizes.seq_len + model.reach(how.horizon)
        if len(series) < needed:
            blocks = (needed - sizes.first) // sizes.pred_len
            formula = "seq_len + model.offset" if sizes.offset else "seq_len"
            formula += " + pred_len" if blocks == 1 else f" + {blocks} pred_len"
            raise ShortError(
                f"{series.name}: expected at least {formula} = {needed} rows for one origin, found {len(series)}"
            )
        if len(series) < needed + first:
            since, is_given = how.from_date, how.from_date is not None
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
                f"{series.name}: no origin has dataset.min_observed={model.reader.min_observed:g} of the "
                f"{sizes.seq_len} rows before it observed; lower it"
            )
        return valid

    def _log_begins(self, panel: Starts, start: str | None) -> None:
        """Log where forecasts start after the training rows, or, with `start`, that they include some; one line for all
        series alike."""
        groups, until = defaultdict[str, list[str]](list), self.model.checkpoint.fitted_until
        for series, (first, *_) in panel:
            begin = series.timestamps[min(first + self.model.sizes.first, len(series) - 1)]
            end = self._trained_until(series)
            if end is None or (begin.tz is None) != (end.tz is None):
                continue  # of different zones with `start` only, see `_first`
            if start is not None and begin <= end:
                groups[
                    f"rows up to {until} are training rows, where errors are too small (without from=, forecasts start "
                    "after them)"
                ].append(series.name)
            if start is None and first:
                groups[
                    f"forecasts start at {begin}, after the training rows, which end at {until} (from=DATE includes "
                    "them)"
                ].append(series.name)
        for line, names in groups.items():
            who = names[0] if len(names) == 1 else f"{len(names)} series ({listed(names, MOST_NAMED)})"
            log.info(f"{who}: {line}")

    def scores_of(self, panel: Starts, how: PredictConfig) -> Scores:
        """Scores for the rolling forecasts and baselines fitted on the rows before the first origin, which `tables_of`
        fills.

        The baselines' quantiles come from their errors on rows before the first origin. The deciles of a model without
        quantiles of its own are those of its calibration, which does not change: adaptive intervals are only those of
        `how.intervals`.
        """
        model, season = self.model, panel[0][0].frequency.season
        training = [series.part(slice(first + model.sizes.first)) for series, (first, *_) in panel]
        fitted, early, later = self._baselines(with_columns(training, model.columns.inputs))
        sharing = -(-model.check_horizon(how.horizon) // (how.stride or model.sizes.pred_len))  # origins of equal rows
        scores = Scores(model.columns.targets, [series.name for series, _ in panel], block=sharing)
        like = partial(calibrated, season=season, non_negative=model.model.non_negative, levels=model.quantiles)
        scores.baselines = [like(each, [early], [later]) for each in fitted]
        scores.notes = [each.note for each in scores.baselines]
        return scores

    def _baselines(self, training: Sequence[Series]) -> tuple[list[FittedBaseline], Windows, Windows]:
        """A seasonal naive, and ridge if there are windows for training and validation before the first origin; and the
        windows on which they are fitted, and on which season and penalty are chosen."""
        model, begins = self.model, np.cumsum([0, *map(len, training[:-1])])
        counts = [max(len(series) - model.sizes.rows + 1, 0) for series in training]
        firsts = [begin + np.arange(n) for begin, n in zip(begins, counts, strict=True)]
        early = np.concatenate([each[: len(each) - int(VALIDATION * len(each))] for each in firsts])
        later = np.concatenate([each[len(each) - int(VALIDATION * len(each)) :] for each in firsts])
        train = model.windows(training, early)
        val = train.at(torch.from_numpy(later))
        fitted: list[FittedBaseline] = [best_seasonal_naive(training, model.columns, val if len(val) else train)]
        if len(train) and len(val):
            effects = fit_known(model.checkpoint.dims, train, val, lag=training[0].frequency.season)
            fitted.append(fit_ridge(train, val, model.columns.positions(model.columns.targets), known=effects))
        return fitted, train, val

    def tables_of(
        self, panel: Starts, how: PredictConfig, *, scores: Scores | None = None, digits: int | None = None
    ) -> Iterator[pd.DataFrame]:
        """Forecasts from every `stride`-th origin of each series, oldest first, as tables in data units, in pieces.

        Columns: those that name the series, if any; origin (the last known time), step, the time column of the input,
        column, forecast, quantiles (q10), interval ends (lo80, hi80), actual; with a horizon beyond pred_len also
        rolled, which marks recursively forecast rows.

        Args:
            panel: series with the model's columns, and their origins.
            how: horizon, stride and intervals.
            scores: collects the errors, see `scores_of`; MASE is that of training, or of a new series relative to the
                rows before its first origin.
            digits: significant digits of the spread of each column to which forecasts and their ends are rounded.

        Raises:
            InputError: the model was not calibrated for a level, or a forecast is not finite.
        """
        model, sizes, targets = self._scored, self.model.sizes, self.model.columns.targets
        horizon, pred_len, levels = model.check_horizon(how.horizon), sizes.pred_len, how.intervals
        at_once = min(max(AT_ONCE // (horizon * len(targets)), 1), MAX_ORIGINS)
        # origins until all actual values of the first pred_len rows of a forecast are known
        delay = -(-(sizes.offset + min(horizon, pred_len)) // (how.stride or pred_len))
        member = model.member if scores is None else replace(model.member, levels=DECILES)
        for series, firsts in panel:
            model.check_levels(levels, horizon)
            model.warn_about_new([series.name])
            truth, first = column_values(series, targets), firsts[0] + sizes.first
            known = model.checkpoint.data.mase_scales.get(series.name)
            unit = known or mase_scale(truth[:first], series.frequency.season, range(len(targets)))
            roll = partial(
                backtest, windows=model.windows([series], firsts), panel=[series], columns=targets, batch_size=at_once,
                horizon=horizon, change=np.array([unit]),
            )  # fmt: skip
            adapt = Tracking(levels, delay) if how.adaptive and levels else None
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
                rows = chosen[:, None] + sizes.first + np.arange(horizon)
                paths = replace(paths, actual=truth[rows].swapaxes(1, 2).reshape(paths.mean.shape), direct=pred_len)
                yield tidy_table(paths if places is None else with_decimals(paths, places * len(chosen)), series)


def _noted(output: Callable[[Batch], Tensor], seen: list[Pass], batch: Batch) -> Tensor:
    seen.append((batch, output(batch)))
    return seen[-1][1]
