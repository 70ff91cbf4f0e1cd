"""Forecasts of new series by a trained model, with timestamps and in data units."""

import logging
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from informer import checkpoint as checkpoints
from informer.base.errors import InputError, counted, listed
from informer.base.runtime import pick_device
from informer.checkpoint.restore import restore_model
from informer.config.data import date_problems
from informer.data.history import Future, future_index, windows_ahead
from informer.data.store import build_store, with_columns
from informer.data.windows import Batch, Windows
from informer.inference.reader import Reader
from informer.read.frequency import Frequency
from informer.read.series import Series
from informer.scoring.backtest import DECILES, Member, backtest
from informer.scoring.forecasts import Forecasts, joined
from informer.scoring.intervals import (
    NOTHING_LEARNED,
    Calibration,
    saved_calibration,
    validation_rows,
)
from informer.scoring.origins import Origins
from informer.scoring.scores import too_narrow

log = logging.getLogger(__name__)


Answer = tuple[Sequence[Series], Forecasts]
"""The series of a table, and their forecasts."""

Pass = tuple[Batch, Float[Tensor, "b pred_len n *q"]]
"""Windows, and the scaled output of the model for them."""

MOST_ROWS, MOST_VALUES = 100_000, 5_000_000
"""Maximum rows and values of one forecast, which is held in memory; pred_len rows are always allowed."""


@final
class TrainedModel:
    """A network with everything needed to use it: scaler, columns, window sizes, reader of tables.

    Args:
        checkpoint: content of a checkpoint file.
        device: "auto", "cpu", "cuda", "cuda:1" or "mps".
        warns: whether forecasts log warnings, such as of missing intervals.
    """

    def __init__(self, checkpoint: checkpoints.Checkpoint, *, device: str = "auto", warns: bool = True) -> None:
        self.checkpoint = checkpoint
        self.device: torch.device = pick_device(device)
        self.model = restore_model(checkpoint).to(self.device)
        self.quantiles = self.model.quantiles
        self.scaler = checkpoint.scaler
        self.columns = checkpoint.columns
        self._constant_note = self.scaler.constant_note(self.columns)
        self.sizes = checkpoint.settings.sizes
        self.reader = Reader(checkpoint)
        self.calendar = checkpoint.calendar
        self.calibration = saved_calibration(checkpoint, recent=True)
        self._warned: set[str] | None = set() if warns else None

    @classmethod
    def load(cls, path: Path, *, device: str = "auto") -> "TrainedModel":
        """Load a checkpoint file or a run directory.

        Raises:
            InputError: no readable checkpoint, or the device is not available.
        """
        return cls(checkpoints.load(path), device=device)

    @property
    def scored(self) -> "TrainedModel":
        """The model with intervals that know nothing of the test part."""
        scored = copy(self)
        scored.calibration = saved_calibration(self.checkpoint)
        return scored

    def check_horizon(self, horizon: int | str | None, series: Series | None = None) -> int:
        """The number of rows to forecast: those of `horizon`, see `Frequency.rows_of`, or pred_len for None.

        Args:
            horizon: rows, a span, or with a series, whose last rows it is counted from, a date.
            series: the history; None: any, and pred_len for a date.

        Raises:
            InputError: the horizon is below 1 or too long.
        """
        pred_len = self.sizes.pred_len
        if horizon is None or (series is None and not any(date_problems(str(horizon)))):
            return pred_len
        step = Frequency.parse(self.checkpoint.frequency) if series is None else series.frequency
        horizon = step.rows_of(horizon, None if series is None else series.timestamps)
        available = self.columns.targets + self.columns.known
        unknown = [name for name in self.columns.inputs if name not in available]
        if horizon > pred_len and unknown:
            raise InputError(
                f"horizon={horizon}: expected at most pred_len={pred_len}; the model does not forecast "
                f"{listed(unknown)}, which it reads; train with features=M or S to go further"
            )
        if horizon > pred_len and self.sizes.offset:
            raise InputError(
                f"horizon={horizon}: expected at most pred_len={pred_len} with model.offset={self.sizes.offset}: the "
                "rows before the horizon are not forecast, so the model cannot continue from its own output"
            )
        farthest = max(pred_len, min(MOST_ROWS, MOST_VALUES // len(self.columns.targets)))
        if horizon > farthest:
            raise InputError(
                f"horizon={horizon}: expected at most {farthest} rows of "
                f"{counted(len(self.columns.targets), 'target')};"
                " forecast fewer, or train on a longer step, such as days for hours"
            )
        return horizon

    def check_future(self, series: Series, future: Future, horizon: int | str | None) -> None:
        """Raise an InputError if the future covariates are too short for a forecast of `series`."""
        ahead = future_index(series, self.sizes.offset + self.check_horizon(horizon, series))[self.sizes.offset :]
        future.at(ahead, self.columns.future_covariates)

    def reach(self, horizon: int | str | None) -> int:
        """Rows after the history that a forecast covers: offset plus the horizon rounded up to a multiple of pred_len.

        Raises:
            InputError: see `check_horizon`.
        """
        pred_len = self.sizes.pred_len
        return self.sizes.offset + -(-self.check_horizon(horizon) // pred_len) * pred_len

    @property
    def member(self) -> Member:
        """The network with its intervals, for `backtest`."""
        return Member.of_model(self.model, self.calibration)

    def forecast(
        self,
        series: Sequence[Series],
        *,
        horizon: int | str | None = None,
        levels: Sequence[int] = (),
        futures: Sequence[Future] | None = None,
        at_once: int | None = None,
        seen: list[Pass] | None = None,
    ) -> Forecasts:
        """Forecast the rows after each series, in order; each until its own end if `horizon` is a date or a span.

        Args:
            series: at least seq_len rows each, with the input columns in any order; additional columns are allowed.
            horizon: rows to forecast, a span or a date, pred_len by default; rows beyond pred_len are forecast
                recursively.
            levels: interval levels in percent; where there is none, it is NaN, and a warning says so.
            futures: future covariates of each series, for the horizon; the model reads a multiple of pred_len rows, so
                the last ones are repeated.
            at_once: series of a batch, to which the last one is padded, so that no forecast depends on the number of
                other series (matrix products may round differently for different numbers of rows); None: all.
            seen: gets the passes of each batch.

        Raises:
            InputError: too few rows, missing future covariates, a horizon beyond pred_len of a model that reads columns
                it does not forecast, or a level without calibration.
        """
        lengths = [self.check_horizon(horizon, history) for history in series]
        horizon = max(lengths, default=self.sizes.pred_len)
        self.check_levels(levels, horizon)
        self.warn_about_new([history.name for history in series])
        if futures is not None:
            ends = [
                future_index(history, self.sizes.offset + n)[-1] for history, n in zip(series, lengths, strict=True)
            ]
            futures = [replace(future, until=end) for future, end in zip(futures, ends, strict=True)]
        if self._constant_note:
            self._warn(self._constant_note)
        panel, windows = windows_ahead(
            series,
            columns=self.columns,
            scaler=self.scaler,
            sizes=self.sizes,
            calendar=self.calendar,
            device=self.device,
            n_ahead=self.reach(horizon),
            futures=futures,
            pad=self.reader.pads,
            trained=self.checkpoint.data.names,
        )
        n, targets, member = at_once or len(series), self.columns.targets, self.member
        windows = windows.at(windows.starts[torch.arange(-(-len(series) // n) * n).clamp(max=len(series) - 1)])
        if seen is not None:
            member = replace(member, output=partial(_noted, member.output, seen))
        paths = joined(backtest(member, windows, panel, targets, batch_size=n, horizon=horizon, levels=levels))
        paths = replace(paths.part(slice(len(series) * len(targets))), levels={}, direct=self.sizes.pred_len)
        self.warn_about_equal(paths)
        paths = paths.until(np.repeat(lengths, len(targets)))
        paths.check_finite()
        return paths

    def backtest(
        self, origins: Origins, *, panel: Sequence[Series], horizon: int | None = None, levels: Sequence[int] = ()
    ) -> Forecasts:
        """Forecasts from some origins of a panel, also at DECILES; pred_len rows without a horizon."""
        member, parts = replace(self.member, levels=DECILES), list[Forecasts]()
        for place, some in groupby(origins, itemgetter(0)):
            windows = self.windows([panel[place]], [end - self.sizes.first for _, end in some])
            parts += backtest(member, windows, [panel[place]], self.columns.targets, horizon=horizon, levels=levels)
        return joined(parts)

    def windows(self, panel: Sequence[Series], starts: Sequence[int] | np.ndarray) -> Windows:
        """The windows that begin at some rows of series.

        A series without a scaler from training is scaled by its history at the first origin.
        """
        panel = with_columns(panel, self.columns.inputs)
        store = build_store(
            panel,
            scalers=[self.scaler.of(series.name, series.values[: self.sizes.seq_len]) for series in panel],
            calendar=self.calendar,
            device=self.device,
            trained=self.checkpoint.data.names,
        )
        return Windows.of_columns(store, self.columns, starts=torch.tensor(starts, dtype=torch.int64), sizes=self.sizes)

    def warn_about_equal(self, paths: Forecasts) -> None:
        """Warn once if some of these paths have no quantiles."""
        bands = [values for name, values in paths.bands.items() if name.startswith("q")]
        if bands and np.isnan(bands[0][:, 0]).any():
            self._warn("no quantiles where all of them are equal")

    def warn_about_new(self, names: Sequence[str]) -> None:
        """Warn once about series that training did not have, if each series has its own scaler."""
        new = [name for name in names if self.scaler.is_new(name)]
        if new:
            self._warn(
                f"scaler.per_series: training had no series named {listed(new)}, scaled by its own "
                f"seq_len={self.sizes.seq_len} rows of history; it had {listed(list(self.scaler.by_series))}",
                about="series",
            )

    def _warn(self, line: str, *, about: str | None = None) -> None:
        """Warn, once for each subject, by default the line itself."""
        if self._warned is not None and (about or line) not in self._warned:
            self._warned.add(about or line)
            log.warning(line)

    def check_levels(self, levels: Sequence[int], horizon: int | str | None = None) -> None:
        """Check interval levels, and warn once of what `interval_notes` says.

        Raises:
            InputError: the model was not calibrated, or has too few calibration windows for a level.
        """
        calibration = self.calibration
        if levels and calibration is None:
            raise InputError(
                "intervals: the model was trained without calibration; train with trainer.calibration=0.5 and at "
                f"least {validation_rows(80, self.sizes.pred_len, 0.5)} validation rows (dataset.split.val), which an "
                "80 % interval needs"
            )
        for level in levels:
            assert calibration is not None
            calibration.check(level)
        for note in interval_notes(self.checkpoint, calibration, levels, self.check_horizon(horizon)):
            self._warn(note)


def interval_notes(
    checkpoint: checkpoints.Checkpoint,
    calibration: Calibration | None,
    levels: Sequence[int],
    horizon: int | None = None,
) -> list[str]:
    """Where a model has no intervals of these levels or no quantiles, and whether they were too narrow when tested.

    Args:
        checkpoint, calibration: the model, and its calibration if any.
        levels: interval levels in percent for which there is a calibration.
        horizon: rows to forecast; None: pred_len.
    """
    quantiles, pred_len, notes = checkpoint.settings.loss.quantiles, checkpoint.settings.pred_len, list[str]()
    horizon = horizon or pred_len
    if not levels and not quantiles:
        return []
    absent = [] if calibration is None else np.array(checkpoint.targets)[~calibration.is_learned.numpy()].tolist()
    if absent:
        notes.append(f"no intervals for {listed(absent)}: {NOTHING_LEARNED}")
    if calibration is not None and levels and (steps := min(map(calibration.steps, levels))) < horizon:
        notes.append(f"no intervals after row {steps} of {horizon}: too few held-out rows for errors so far ahead")
    scored = saved_calibration(checkpoint)
    if untested := [f"{level} %" for level in levels if scored is None or not scored.supports(level)]:
        notes.append(f"intervals of {listed(untested)} are not tested: their widths come from errors on the test part")
    if quantiles and horizon > pred_len:
        notes.append(f"no quantiles after row {pred_len} of {horizon}, where the history is itself a forecast")
    tested = checkpoint.data.too_narrow
    warning = too_narrow({name: tested[name] for name in tested if not name.isdigit() or int(name) in levels})
    recent = "; these errors have now widened them" if levels else ""
    return [*notes, f"{warning}{recent}"] if warning else notes


def _noted(output: Callable[[Batch], Tensor], seen: list[Pass], batch: Batch) -> Tensor:
    seen.append((batch, output(batch)))
    return seen[-1][1]


def of_panels(paths: Forecasts, panels: Sequence[Sequence[Series]]) -> list[Answer]:
    """The forecasts of the series of several tables by table; each table has its own time zone."""
    ends = len(paths.columns) * np.cumsum([0, *map(len, panels)])
    parts = (paths.part(slice(*rows)) for rows in pairwise(ends))
    return [(of, replace(part, zone=of[0].timestamps.tz)) for of, part in zip(panels, parts, strict=True)]
