"""Linear maps with later rows added, and errors on these rows that intervals come from."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from informer.config.schema import TrainConfig
from informer.data.pipeline import Data
from informer.data.windows import Windows
from informer.inference.intervals import Residuals, joined, lag_of, residuals
from informer.linear.blocks import folds
from informer.linear.fit import LinearFit
from informer.linear.fold import fold
from informer.linear.kept import KeptFit
from informer.linear.moments import Run
from informer.linear.residuals import MOST_WINDOWS
from informer.linear.shares import Shares, apply, maps_of
from informer.linear.sums import Sums
from informer.models.base import ForecastModel
from informer.training.keeping import Kept

FEWEST_BLOCKS = 2
"""Blocks of later rows, each forecast with maps that were not fitted on it."""


@dataclass(frozen=True, eq=False, slots=True)
class Later:
    """Windows that contain a later row.

    Args:
        data: older and later rows.
        known: how many rows of each series are older.
    """

    data: Data
    known: Sequence[int]

    @property
    def firsts(self) -> list[int]:
        """Row of the store at which each series begins."""
        return self.data.train.store.first_rows.cpu().tolist()

    @property
    def runs(self) -> list[Run]:
        """All of them."""
        return self.until([len(series) for series in self.data.panel])

    @property
    def runs_before_test(self) -> list[Run]:
        """Those whose last row is before the test part."""
        return self.until([split.val.stop for split in self.data.splits])

    def until(self, stops: Sequence[int]) -> list[Run]:
        """Those that end before these rows of each series."""
        rows, made = self.data.sizes.rows, []
        for number, (first, known, stop) in enumerate(zip(self.firsts, self.known, stops, strict=True)):
            begin, end = first + max(known - rows + 1, 0), first + stop - rows + 1
            if begin < end:
                made.append(Run(number, begin, end))
        return made

    def untouched(self, windows: Windows) -> Windows:
        """Those whose whole horizon is later."""
        starts = windows.starts
        series = windows.series(torch.arange(len(windows)))
        least = torch.tensor([first + known for first, known in zip(self.firsts, self.known, strict=True)])
        return windows.at(starts[starts + self.data.sizes.first >= least.to(starts.device)[series]])


@dataclass(frozen=True, eq=False, slots=True)
class LinearPart:
    """The linear maps of a model, from the moments that a run kept and later windows.

    Args:
        kept: of the older run.
        fit: over the later rows.
        shares, repeated: of the average that the maps are part of.
    """

    kept: KeptFit
    fit: LinearFit
    shares: Shares
    repeated: Sequence[int] | None

    @classmethod
    def of(cls, kept: Kept, shares: Shares, data: Data) -> "LinearPart | None":
        """None where the run kept no moments."""
        if kept.fit is None:
            return None
        fit = kept.fit.fit(data.train.store, data.sizes, data.columns.positions(data.targets))
        return cls(kept.fit, fit, shares, kept.repeated)

    def sums(self, runs: Sequence[Run]) -> Sums:
        """Moments of the older windows and of these."""
        return self.kept.sums + self.fit.sums(self.kept.strengths, runs)

    def without(self, sums: Sums, runs: Sequence[Run]) -> Sums:
        """Less those of some of the windows."""
        return sums - self.fit.sums(self.kept.strengths, runs)

    def give(self, model: ForecastModel, sums: Sums) -> None:
        """Give the model the maps that follow from these moments."""
        maps = maps_of(model)
        assert maps is not None, "a run keeps moments only of maps"
        fold(self.fit.fit_from(self.kept.strengths, sums), maps)
        repeated = None if self.repeated is None else torch.tensor(self.repeated)
        apply(maps, self.shares, repeated)  # what the network adds has its weight already


def later_errors(
    model: ForecastModel, settings: TrainConfig, later: Later, part: LinearPart | None, *, is_tuned: bool
) -> Residuals | None:
    """Errors on later windows before the test part, by maps that were not fitted on them; None without such a window.

    Args:
        model: with what it has learned; it stays as it is.
        is_tuned: its network was trained on the later rows for training, so that only those for validation count.
    """
    data, errors = later.data, list[Residuals]()
    lag = lag_of(data.frequency.season, data.sizes.seq_len)
    targets = data.columns.positions(data.targets)
    errors_of = partial(residuals, batch_size=settings.trainer.eval_batch_size, lag=lag, targets=targets)
    for one, windows in _held_out(model, settings, later, part):
        kept = later.untouched(windows)
        if is_tuned:
            stop = torch.tensor(
                [first + split.train.stop for first, split in zip(later.firsts, data.splits, strict=True)]
            )
            kept = kept.at(kept.starts[kept.starts + data.sizes.first >= stop[kept.series(torch.arange(len(kept)))]])
        if len(kept):
            errors.append(errors_of(one, kept))
    return joined(errors) if errors else None


def _held_out(
    model: ForecastModel, settings: TrainConfig, later: Later, part: LinearPart | None
) -> Iterator[tuple[ForecastModel, Windows]]:
    """Blocks of later windows before the test part, each with a model whose maps were not fitted on it."""
    runs, windows = later.runs_before_test, later.data.train
    if part is None:
        yield model, windows.at(_starts(runs)).thinned(MOST_WINDOWS)
        return
    n_blocks, scratch = max(settings.trainer.calibration_blocks, FEWEST_BLOCKS), deepcopy(model).eval()
    sums = part.sums(runs)
    for block in folds(runs, n_blocks, later.data.sizes.pred_len):
        if block.held:
            part.give(scratch, part.without(sums, [*block.held, *block.between]))
            yield scratch, windows.at(_starts(block.held)).thinned(MOST_WINDOWS // n_blocks)


def _starts(runs: Sequence[Run]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([np.arange(run.first, run.stop) for run in runs]))


def recent(older: Residuals | None, later: Residuals | None) -> Residuals | None:
    """The later errors, and as many of the older ones, the latest, as make MOST_WINDOWS."""
    found = [one for one in (older, later) if one is not None]
    if len(found) < 2 or older is None or later is None or older.lag != later.lag:
        return later or older
    room = max(MOST_WINDOWS - len(later.errors), 0)
    if not room:
        return later
    return joined([Residuals(older.errors[-room:], older.differences[-room:], older.lag), later])


def windows_of(runs: Sequence[Run]) -> int:
    """How many there are."""
    return sum(map(len, runs))
