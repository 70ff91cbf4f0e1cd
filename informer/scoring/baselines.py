"""Two baselines for every model: a seasonal naive forecast, and a linear map fitted by ridge regression.

Season of the seasonal naive: the default for the step, or one detected in the training rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from informer.base.errors import InputError, counted, listed
from informer.data.columns import Columns
from informer.data.dataset import Data
from informer.data.diagnosis import seasons_of
from informer.data.panel import training_rows
from informer.data.windows import Batch, Windows
from informer.members.effects import NO_EFFECTS, KnownEffects
from informer.members.ridge import Sums, window_sums
from informer.networks.ops.gaps import carried, history_of
from informer.read.series import Series

PENALTIES = (1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5)
MAX_ROWS = 300_000
"""Maximum number of histories (windows times columns) of short series that ridge reads per part; more are thinned
evenly."""


@final
@dataclass(frozen=True, slots=True)
class SeasonalNaive:
    """The last season repeated; a season of 1 repeats the last value.

    A missing value is replaced by that of the most recent earlier season in the history; without any, by the last
    observed value; without that, by 0 (the training mean).

    Args:
        season: steps in one season.
        positions: the index of each target among the inputs.
        note: how the baseline was chosen, shown with its scores.
        offset: rows between the history and the forecast.
        seasons: season of each target; empty: `season` for all.
    """

    season: int
    positions: Sequence[int]
    note: str = ""
    offset: int = 0
    seasons: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name in reports."""
        return "naive" if {self.season, *self.seasons} == {1} else "seasonal naive"

    def __call__(self, batch: Batch) -> Float[Tensor, "b pred_len n"]:
        """Forecast in scaled units."""
        seasons = self.seasons or (self.season,) * len(self.positions)
        steps = self.offset + torch.arange(batch.target.shape[1], device=batch.enc_x.device)
        return repeated(batch.enc_x[:, :, list(self.positions)], seasons, steps)


def repeated(
    history: Float[Tensor, "b l n"], seasons: Sequence[int], steps: Int[Tensor, " h"]
) -> Float[Tensor, "b h n"]:
    """The last season of each column, repeated at these steps after the history; see `SeasonalNaive`."""
    lengths = torch.tensor(seasons, device=steps.device)
    rows = history.shape[1] - lengths + steps[:, None] % lengths
    forecast = history[:, rows, torch.arange(history.shape[2], device=steps.device)]
    if not bool(forecast.isnan().any()):
        return forecast
    last = carried(history, ~history.isnan())[:, -1:]
    each = (_of_season(history[:, :, i], rows[:, i], season) for i, season in enumerate(seasons))
    forecast = torch.stack(list(each), dim=2)
    return torch.where(forecast.isnan(), last, forecast)


def _of_season(history: Float[Tensor, "b l"], rows: Int[Tensor, " h"], season: int) -> Float[Tensor, "b h"]:
    """Values of these rows, each from the most recent season in which it is observed; NaN if none is."""
    values = history[:, rows]
    for back in range(season, history.shape[1], season):
        older = history[:, (rows - back).clamp(min=0)].masked_fill(rows < back, torch.nan)
        values = torch.where(values.isnan(), older, values)
    return values


def seasonal_naive(season: int, positions: Sequence[int], *, seq_len: int, offset: int = 0) -> SeasonalNaive:
    """Repeat the last season if the history contains one, otherwise the last value; `name` and `note` say which."""
    if season == 1:
        return SeasonalNaive(1, positions, "naive: the last value repeated")
    if season <= seq_len:
        return SeasonalNaive(season, positions, f"seasonal naive: the last {season} steps repeated", offset)
    note = f"naive: the last value repeated, since seq_len={seq_len} does not cover one season of {season} steps"
    return SeasonalNaive(1, positions, note)


@final
@dataclass(frozen=True, eq=False, slots=True)
class RidgeForecast:
    """forecast = mean + weight^T (history - mean), for each target from its own history.

    Known effects are subtracted from the history and added to the forecast. Missing values of the history are filled
    with the last observed one.

    Args:
        weight: linear map shared by all columns.
        positions: the index of each target among the inputs.
        penalty: L2 penalty chosen on validation.
        note: how the baseline was fitted, shown with its scores.
        known: effects of future covariates and holidays.
    """

    weight: Float[Tensor, "seq_len pred_len"]
    positions: Sequence[int]
    penalty: float
    note: str = ""
    name: str = "ridge"
    known: KnownEffects = NO_EFFECTS

    def __call__(self, batch: Batch) -> Float[Tensor, "b pred_len n"]:
        """Forecast in scaled units."""
        history, steps = batch.enc_x[:, :, list(self.positions)], self.weight.shape[1]
        if not self.known.nonzero:
            return self.mapped(history)
        # missing values of the horizon are set to the training mean
        ahead = self.known(batch.dec_x[:, -steps:].nan_to_num(0.0), batch.dec_mark[:, -steps:])
        return self.mapped(history - self.known(batch.enc_x, batch.enc_mark)) + ahead

    def mapped(self, history: Float[Tensor, "b seq_len n"]) -> Float[Tensor, "b pred_len n"]:
        """Forecast of the targets from their histories, without known effects."""
        rows = history_of(history).transpose(1, 2)
        mean = rows.mean(dim=-1, keepdim=True)
        return ((rows - mean) @ self.weight.to(rows) + mean).transpose(1, 2)


FittedBaseline = SeasonalNaive | RidgeForecast


def fit_ridge(
    train: Windows,
    val: Windows,
    positions: Sequence[int],
    *,
    penalties: Sequence[float] = PENALTIES,
    max_rows: int = MAX_ROWS,
    known: KnownEffects = NO_EFFECTS,
) -> RidgeForecast:
    """Least squares with an L2 penalty on mean-free histories, in scaled units.

    Minimises |X W - Y|^2 + penalty |W|^2 over the rows (window, column) of `train`; the penalty is the one with the
    lowest squared error on `val`. Memory is O(seq_len (seq_len + pred_len)) for any number of windows.

    Args:
        known: known effects, see `RidgeForecast`: the model's own, so that the two differ only in how they use the
            past.

    Raises:
        InputError: a part has no windows, or a step of the horizon is never observed.
    """
    fitted, held_out = (_sums(windows, known, positions, max_rows) for windows in (train, val))
    weights = {penalty: fitted.ridge(np.full(train.sizes.seq_len, penalty)) for penalty in penalties}
    best = min(weights, key=lambda penalty: held_out.loss(weights[penalty]).sum())
    n_fitted = -(-fitted.windows // len(positions))  # fewer where windows with long gaps are left out
    note = (
        f"ridge: one linear map {train.sizes.seq_len} -> {train.sizes.pred_len} shared by all columns, "
        f"penalty {best:g} chosen on validation, fitted on {n_fitted} of {len(train)} training windows"
    )
    if known.nonzero:
        note += f", with the effects of {counted(len(known.nonzero), 'known covariate')}"
    return RidgeForecast(torch.from_numpy(weights[best]), positions, best, note, known=known)


def _sums(windows: Windows, effects: KnownEffects, positions: Sequence[int], max_rows: int) -> Sums:
    """Sums over windows and columns of mean-free histories and futures, after subtracting known effects."""
    if not len(windows):
        raise InputError("ridge baseline: expected training and validation windows, found a part without any")
    store = effects.without(windows.store, positions)
    adjusted = Windows(store, starts=windows.starts, sizes=windows.sizes, targets=positions)
    most = max(max_rows // len(positions), 1)
    sums = window_sums(adjusted, [positions], most=most)[0]
    if not sums.is_known:
        raise InputError("ridge baseline: some step of the horizon is observed in no window; lower pred_len")
    return sums.centred(windows.sizes.seq_len, windows.sizes.seq_len)


GAIN = 0.02
"""Minimum relative reduction of the validation error for a detected season to replace the default."""

MOST_WINDOWS = 2_000
"""Maximum number of validation windows on which seasons are compared, evenly spaced."""

MOST_COLUMNS, MOST_SEASONS, MOST_NAMES = 12, 6, 3
"""Maximum number of targets searched for seasons, of seasons compared, and of target names in a note."""


def best_seasonal_naive(data: Data) -> SeasonalNaive:
    """Seasonal naive with, for each target, the season of lowest error on the validation windows."""
    return seasonal_naive_for(training_rows(data.panel, data.splits), data.columns, data.val)


@torch.inference_mode()
def seasonal_naive_for(training: Sequence[Series], columns: Columns, val: Windows) -> SeasonalNaive:
    """See `best_seasonal_naive`.

    Args:
        training: training rows of each series, in which seasons are detected.
        columns: roles of the columns.
        val: windows on which seasons are compared.
    """
    positions, frequency = columns.positions(columns.targets), training[0].frequency
    seq_len, offset = val.sizes.seq_len, val.sizes.offset
    usual = seasonal_naive(frequency.season, positions, seq_len=seq_len, offset=offset)
    seasons = _found(training, columns.targets)
    candidates = [season for season in seasons if season <= seq_len and season not in (1, usual.season)]
    if not candidates:
        return usual
    seasons = [usual.season, *candidates]
    errors = _errors([SeasonalNaive(season, positions, offset=offset) for season in seasons], val)
    errors[1:] /= 1 - GAIN
    chosen = tuple(seasons[place] for place in errors.argmin(dim=0).tolist())
    if set(chosen) == {usual.season}:
        return usual
    return replace(usual, seasons=chosen, offset=offset, note=_note(usual, chosen, columns.targets))


def _note(usual: SeasonalNaive, chosen: Sequence[int], targets: Sequence[str]) -> str:
    """The chosen seasons and their targets, as text."""
    instead = "the last value" if usual.season == 1 else f"the last {usual.season} steps"
    by_season = {
        season: [name for name, chosen_season in zip(targets, chosen, strict=True) if chosen_season == season]
        for season in chosen
    }
    by_season.pop(usual.season, None)
    if len(by_season) == 1 and len(set(chosen)) == 1:
        return f"seasonal naive: the last {chosen[0]} steps repeated, better on validation than {instead}"
    exceptions = ", ".join(f"{season} for {listed(names, MOST_NAMES)}" for season, names in by_season.items())
    return f"seasonal naive: {instead} repeated, except where better on validation: {exceptions}"


def _found(training: Sequence[Series], targets: Sequence[str]) -> list[int]:
    """Seasons detected in the targets' training rows, and a week for steps shorter than a day."""
    periods = [season.period for season in seasons_of(training, targets[:MOST_COLUMNS])][:MOST_SEASONS]
    a_day = training[0].frequency.per_day or 1
    return list(dict.fromkeys([*periods, *([7 * a_day] if a_day > 1 else [])]))


def _errors(baselines: Sequence[SeasonalNaive], val: Windows) -> Float64[Tensor, "baselines n"]:
    """Sum of squared errors of each baseline and target over the validation windows."""
    n, sums = len(val), torch.zeros(len(baselines), 1, dtype=torch.float64)
    for numbers in torch.arange(0, n, max(1, -(-n // MOST_WINDOWS))).split(256):
        batch = val.batch(numbers)
        sums = sums + torch.stack(
            [
                (baseline(batch).cpu().double() - batch.target.cpu().double()).square().nansum(dim=(0, 1))
                for baseline in baselines
            ]
        )
    return sums
