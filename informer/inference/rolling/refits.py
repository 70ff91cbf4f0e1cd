"""Refits of the linear maps during rolling forecasts.

Each refit uses all windows that end at or before the origin, with the penalty strengths that training chose; the
network is not changed. Moments of windows add up, so a refit sums only the windows since the last one.
"""

from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import final

import pandas as pd
import torch

from informer.checkpoint.format import COMBINED
from informer.data.panel import training_series
from informer.data.read.source import Series
from informer.data.store import build_store, with_columns
from informer.data.windows import Windows
from informer.errors import InputError
from informer.inference.predictor import TrainedModel
from informer.linear.fold import fold
from informer.linear.moments import Run
from informer.linear.saved_fit import KeptFit
from informer.linear.shares import Shares, apply, maps_of
from informer.linear.sums import Sums


@dataclass(frozen=True, eq=False, slots=True)
class Refit:
    """Settings of refits.

    Args:
        every: origins between two fits.
        kept_fit: fit of the run, for its penalty strengths; its moments are not used, since they include later rows.
        repeated: row of the history that the seasonal naive part of the forecast repeats at each step; None without
            such a part.
    """

    every: int
    kept_fit: KeptFit
    repeated: Sequence[int] | None


@final
class Refits:
    """A copy of a model whose linear maps are refitted.

    Args:
        model: the trained model; not modified.
        panel: all rows of the training series; other series are ignored.
        refit: settings.

    Attributes:
        model: the copy, with the maps of the last fit.
        sums: moments of the last fit; None before the first.
        count: number of fits so far.

    Raises:
        InputError: a training series is missing, or has missing values.
    """

    def __init__(self, model: TrainedModel, panel: Sequence[Series], refit: Refit) -> None:
        self.model, self.every, self.count = copy(model), refit.every, 0
        self.model.model = deepcopy(model.model)
        self._panel = with_columns(training_series(panel, model.checkpoint.series, "refit_every"), model.columns.inputs)
        self._store = build_store(
            self._panel,
            scalers=[model.scaler.of(series.name, series.values[: model.sizes.seq_len]) for series in self._panel],
            calendar=model.calendar,
            device=model.device,
            trained=model.checkpoint.series,
        )
        if self._store.has_gaps:
            raise InputError("refit_every: expected no missing values; fill them: dataset.fill=linear")
        self._kept, self._repeated = refit.kept_fit, None if refit.repeated is None else torch.tensor(refit.repeated)
        self._fit = refit.kept_fit.fit(self._store, model.sizes, model.columns.positions(model.columns.targets))
        facts = model.checkpoint.data
        self._shares = Shares.from_plain(facts[COMBINED]) if COMBINED in facts else Shares()
        self._stops = [0] * len(self._panel)
        self.sums: Sums | None = None

    @property
    def windows(self) -> int:
        """Number of windows of the last fit."""
        return sum(self._stops)

    def until(self, time: pd.Timestamp) -> Windows:
        """Fit on all windows that end at or before this time; returns the windows added since the last fit.

        Raises:
            InputError: there is no window.
        """
        runs, least = [], self.model.sizes.rows
        for number, series in enumerate(self._panel):
            stop = max(int(series.timestamps.searchsorted(time, side="right")) - least + 1, 0)
            first = int(self._store.first_rows[number])
            if stop > self._stops[number]:
                runs.append(Run(number, first + self._stops[number], first + stop))
            self._stops[number] = max(stop, self._stops[number])
        if not self.windows:
            raise InputError(
                f"refit_every: expected at least {least} rows (seq_len + pred_len) up to the first origin, {time}, "
                "found fewer; provide the whole history, or start later (from=DATE)"
            )
        later = self._fit.sums(self._kept.strengths, runs)
        self.sums = later if self.sums is None else self.sums + later
        maps = maps_of(self.model.model)
        assert maps is not None, "only runs with linear maps save moments"
        fold(self._fit.fit_from(self._kept.strengths, self.sums), maps)
        apply(maps, self._shares, self._repeated)  # the weight of the network is in the checkpoint already
        self.count += 1
        starts = torch.cat([torch.arange(run.first, run.stop) for run in runs]) if runs else torch.zeros(0).long()
        return Windows.of_columns(self._store, self.model.columns, starts=starts, sizes=self.model.sizes)
