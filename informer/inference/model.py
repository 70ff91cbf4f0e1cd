"""A trained model with what its forecasts need: reader, scaler, windows, intervals, and warnings."""

import logging
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import final

import numpy as np
import torch

from informer import checkpoint as checkpoints
from informer.base.errors import InputError, counted, listed
from informer.base.runtime import pick_device
from informer.checkpoint.format import Rule, read
from informer.checkpoint.restore import restore_model
from informer.config.data import date_problems
from informer.data.store import build_store, with_columns
from informer.data.windows import Windows
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

    def warn_about_constants(self) -> None:
        """Warn once of inputs that never changed in training."""
        if self._constant_note:
            self._warn(self._constant_note)

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


def loaded(path: Path, device: str) -> TrainedModel | Rule:
    """The content of a model file, which may be the pretrained network with its settings; errors as of
    `TrainedModel.load`."""
    content = read(path)
    return content if isinstance(content, Rule) else TrainedModel(content, device=device)


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
