"""Update linear maps with later rows, and compute errors on these rows for calibration."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch

from informer.config.schema import TrainConfig
from informer.data.pipeline import Data
from informer.data.windows import Windows
from informer.inference.intervals import Residuals, joined, residuals_of
from informer.linear.blocks import folds
from informer.linear.fit import LinearFit
from informer.linear.fold import fold
from informer.linear.moments import Run
from informer.linear.residuals import MOST_WINDOWS
from informer.linear.saved_fit import KeptFit
from informer.linear.shares import Shares, apply, maps_of
from informer.linear.sums import Sums
from informer.models.base import ForecastModel
from informer.training.update_state import UpdateState

FEWEST_BLOCKS = 2
"""Minimum number of blocks of later rows; each is forecast with maps that were not fitted on it."""


@dataclass(frozen=True, eq=False, slots=True)
class Later:
    """Windows that contain a later row.

    Args:
        data: older and later rows.
        n_old: number of older rows of each series.
    """

    data: Data
    n_old: Sequence[int]

    @property
    def firsts(self) -> list[int]:
        """Row of the store at which each series begins."""
        return self.data.train.store.first_rows.cpu().tolist()

    @property
    def runs(self) -> list[Run]:
        """All windows."""
        return self.until([len(series) for series in self.data.panel])

    @property
    def runs_before_test(self) -> list[Run]:
        """Windows that end before the test part."""
        return self.until([split.val.stop for split in self.data.splits])

    def until(self, stops: Sequence[int]) -> list[Run]:
        """Windows that end before these rows of each series."""
        rows, runs = self.data.sizes.rows, []
        for number, (first, n_known, stop) in enumerate(zip(self.firsts, self.n_old, stops, strict=True)):
            begin, end = first + max(n_known - rows + 1, 0), first + stop - rows + 1
            if begin < end:
                runs.append(Run(number, begin, end))
        return runs

    def untouched(self, windows: Windows) -> Windows:
        """Those of `windows` whose whole horizon is in later rows."""
        starts = windows.starts
        series = windows.series(torch.arange(len(windows)))
        least = torch.tensor([first + n_known for first, n_known in zip(self.firsts, self.n_old, strict=True)])
        return windows.at(starts[starts + self.data.sizes.first >= least.to(starts.device)[series]])


@dataclass(frozen=True, eq=False, slots=True)
class LinearPart:
    """The linear maps of a model, fitted from the saved moments of a run and later windows.

    Args:
        kept_fit: fit of the older run.
        fit: fit on the later rows.
        shares, repeated: weights of the forecast combination, and the rows its seasonal naive repeats.
    """

    kept_fit: KeptFit
    fit: LinearFit
    shares: Shares
    repeated: Sequence[int] | None

    @classmethod
    def of(cls, state: UpdateState, shares: Shares, data: Data) -> "LinearPart | None":
        """The part for a run's data; None if the run saved no moments."""
        if state.fit is None:
            return None
        fit = state.fit.fit(data.train.store, data.sizes, data.columns.positions(data.targets))
        return cls(state.fit, fit, shares, state.repeated)

    def sums(self, runs: Sequence[Run]) -> Sums:
        """Moments of the older windows plus those of `runs`."""
        return self.kept_fit.sums + self.fit.sums(self.kept_fit.strengths, runs)

    def without(self, sums: Sums, runs: Sequence[Run]) -> Sums:
        """`sums` minus the moments of `runs`."""
        return sums - self.fit.sums(self.kept_fit.strengths, runs)

    def give(self, model: ForecastModel, sums: Sums) -> None:
        """Set the model's maps to those fitted from these moments."""
        maps = maps_of(model)
        assert maps is not None, "only runs with linear maps save moments"
        fold(self.fit.fit_from(self.kept_fit.strengths, sums), maps)
        repeated = None if self.repeated is None else torch.tensor(self.repeated)
        apply(maps, self.shares, repeated)  # the weight of the network is in the checkpoint already


def later_errors(
    model: ForecastModel, settings: TrainConfig, later: Later, linear_part: LinearPart | None, *, is_tuned: bool
) -> Residuals | None:
    """Errors on later windows before the test part, with maps that were not fitted on them; None without such a window.

    Args:
        model: the updated model; not modified.
        settings: configuration of the new run.
        later: windows with later rows.
        linear_part: linear maps of the model, if it has some.
        is_tuned: the network was tuned on the later training rows, so only windows that forecast later validation rows
            are used.
    """
    data, errors = later.data, list[Residuals]()
    errors_of = residuals_of(data, settings.trainer.eval_batch_size)
    for block_model, windows in _held_out(model, settings, later, linear_part):
        untouched = later.untouched(windows)
        if is_tuned:
            stop = torch.tensor(
                [first + split.train.stop for first, split in zip(later.firsts, data.splits, strict=True)]
            )
            series = untouched.series(torch.arange(len(untouched)))
            untouched = untouched.at(untouched.starts[untouched.starts + data.sizes.first >= stop[series]])
        if len(untouched):
            errors.append(errors_of(block_model, untouched))
    return joined(errors) if errors else None


def _held_out(
    model: ForecastModel, settings: TrainConfig, later: Later, linear_part: LinearPart | None
) -> Iterator[tuple[ForecastModel, Windows]]:
    """Blocks of later windows before the test part, each with a model whose maps were not fitted on it."""
    runs, windows = later.runs_before_test, later.data.train
    if linear_part is None:
        yield model, windows.at(_starts(runs)).thinned(MOST_WINDOWS)
        return
    n_blocks, scratch = max(settings.trainer.calibration_blocks, FEWEST_BLOCKS), deepcopy(model).eval()
    sums = linear_part.sums(runs)
    for block in folds(runs, n_blocks, later.data.sizes.pred_len):
        if block.held:
            linear_part.give(scratch, linear_part.without(sums, [*block.held, *block.between]))
            yield scratch, windows.at(_starts(block.held)).thinned(MOST_WINDOWS // n_blocks)


def _starts(runs: Sequence[Run]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([np.arange(run.first, run.stop) for run in runs]))


def newest_errors(older: Residuals | None, later: Residuals | None) -> Residuals | None:
    """The later errors, preceded by the most recent older ones up to MOST_WINDOWS in total."""
    present = [errors for errors in (older, later) if errors is not None]
    if len(present) < 2 or older is None or later is None or older.lag != later.lag:
        return later or older
    room = max(MOST_WINDOWS - len(later.errors), 0)
    if not room:
        return later
    return joined([older.last(room), later])


def windows_of(runs: Sequence[Run]) -> int:
    """Number of windows."""
    return sum(map(len, runs))
