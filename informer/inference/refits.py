"""Linear maps fitted again as the origins of rolling forecasts go on.

Each refit is the fit of all windows whose last row is at the origin or before it, with the strengths that training
chose; what a network adds to the maps stays. Moments of windows add up, so that a refit sums only the windows that came
since the one before.
"""

from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import final

import pandas as pd
import torch

from informer.checkpoint.format import COMBINED
from informer.data.read.source import Series
from informer.data.store import build_store, narrowed
from informer.data.windows import Windows
from informer.errors import InputError, listed
from informer.inference.predictor import TrainedModel
from informer.linear.fold import fold
from informer.linear.kept import KeptFit
from informer.linear.moments import Run
from informer.linear.shares import Shares, apply, maps_of
from informer.linear.sums import Sums


@dataclass(frozen=True, eq=False, slots=True)
class Refit:
    """When linear maps are fitted again, and from what.

    Args:
        every: origins from one fit to the next.
        kept: the strengths of a run; its moments are not used, since they are of later rows too.
        repeated: row of the history that the seasonal naive in the forecast repeats at each step, if it has any.
    """

    every: int
    kept: KeptFit
    repeated: Sequence[int] | None


@final
class Refits:
    """A model whose linear maps are fitted again.

    Args:
        model: it stays as it is.
        panel: all rows of the series of training; those of others are not fitted on.
        refit: when, and what the maps follow from.

    Attributes:
        model: with the maps of the last fit.
        sums: the moments that they follow from; None before the first.
        count: fits so far.

    Raises:
        InputError: a series of training is not there, or values are missing.
    """

    def __init__(self, model: TrainedModel, panel: Sequence[Series], refit: Refit) -> None:
        self.model, self.every, self.count = copy(model), refit.every, 0
        self.model.model = deepcopy(model.model)
        self._panel = narrowed(_ordered(panel, model.checkpoint.series), model.columns.inputs)
        self._store = build_store(
            self._panel,
            scalers=[model.scaler.of(one.name, one.values[: model.sizes.seq_len]) for one in self._panel],
            calendar=model.calendar,
            device=model.device,
            known=model.checkpoint.series,
        )
        if self._store.has_gaps:
            raise InputError("refit_every: expected no missing values; fill them: dataset.fill=linear")
        self._kept, self._repeated = refit.kept, None if refit.repeated is None else torch.tensor(refit.repeated)
        self._fit = refit.kept.fit(self._store, model.sizes, model.columns.positions(model.columns.targets))
        facts = model.checkpoint.data
        self._shares = Shares.from_plain(facts[COMBINED]) if COMBINED in facts else Shares()
        self._stops = [0] * len(self._panel)
        self.sums: Sums | None = None

    @property
    def windows(self) -> int:
        """Of the last fit."""
        return sum(self._stops)

    def until(self, time: pd.Timestamp) -> Windows:
        """Fit on all windows whose last row is at this time or before; returns those that came since the last fit.

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
                "found fewer; give the whole history, or begin later (from=DATE)"
            )
        later = self._fit.sums(self._kept.strengths, runs)
        self.sums = later if self.sums is None else self.sums + later
        maps = maps_of(self.model.model)
        assert maps is not None, "a run keeps moments only of maps"
        fold(self._fit.fit_from(self._kept.strengths, self.sums), maps)
        apply(maps, self._shares, self._repeated)  # what a network adds has its weight already
        self.count += 1
        starts = torch.cat([torch.arange(run.first, run.stop) for run in runs]) if runs else torch.zeros(0).long()
        return Windows.of_columns(self._store, self.model.columns, starts=starts, sizes=self.model.sizes)


def _ordered(panel: Sequence[Series], names: Sequence[str]) -> list[Series]:
    """The series of training, in its order."""
    if not names:
        if len(panel) != 1:
            raise InputError(f"refit_every: expected one series as in training, found {len(panel)}")
        return list(panel)
    found = {series.name: series for series in panel}
    if missing := [name for name in names if name not in found]:
        raise InputError(f"refit_every: expected all series of training, found no {listed(missing)}")
    return [found[name] for name in names]
