"""The baselines next to every model and every file of forecasts: seasonal naive, one linear map fitted by ridge
regression, and Naive2 of the M competitions. They forecast windows in scaled units, or go on from histories alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from informer.base.errors import InputError, ShortError, counted, listed
from informer.config.model import WindowSizes
from informer.data.columns import Columns
from informer.data.diagnosis import seasons_of
from informer.data.scaler import standard_deviation
from informer.data.seasonality import bridged
from informer.data.windows import Batch, DataUnits, Store, Windows
from informer.members.effects import KnownEffects
from informer.members.ridge import Sums, window_sums
from informer.members.theta import LEAST_SEASONS, seasonal_factors
from informer.networks.ops.gaps import carried, history_of
from informer.read.series import Series

PENALTIES = (1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5)
MAX_ROWS = 300_000
"""Maximum number of histories (windows times columns) of short series that ridge reads per part; more are thinned
evenly."""
GAIN = 0.02
"""Minimum relative reduction of the validation error for a detected season to replace the default."""
MOST_WINDOWS = 2_000
"""Maximum number of validation windows on which seasons are compared, evenly spaced."""
MOST_COLUMNS, MOST_SEASONS, MOST_NAMES = 12, 6, 3
"""Maximum number of targets searched for seasons, of seasons compared, and of target names in a note."""

Histories = Sequence[Float64[np.ndarray, " _"]]
"""Values before a forecast, oldest first, NaN where one is missing."""
Paths = Float64[np.ndarray, "p h"]


@final
@dataclass(frozen=True, slots=True)
class SeasonalNaive:
    """The last season repeated; a season of 1 repeats the last value.

    A missing value is replaced by that of the most recent earlier season in the history; without any, by the last
    observed value; without that, by 0 (the training mean).

    Args:
        seasons: steps in one season of each target.
        positions: the index of each target among the inputs.
        note: how the baseline was chosen, shown with its scores.
        offset: rows between the history and the forecast.
    """

    seasons: tuple[int, ...]
    positions: Sequence[int]
    note: str = ""
    offset: int = 0

    @property
    def name(self) -> str:
        """Name in reports."""
        return "naive" if {*self.seasons} == {1} else "seasonal naive"

    def __call__(self, batch: Batch) -> Float[Tensor, "b pred_len n"]:
        """Forecast in scaled units."""
        steps = self.offset + torch.arange(batch.target.shape[1], device=batch.enc_x.device)
        return repeated(batch.enc_x[:, :, list(self.positions)], self.seasons, steps)


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


@torch.inference_mode()
def best_seasonal_naive(training: Sequence[Series], columns: Columns, val: Windows) -> SeasonalNaive:
    """Seasonal naive with, for each target, the season of lowest error on validation windows: that of the step, or one
    that is detected, as far as a history contains it; otherwise the last value.

    Args:
        training: training rows of each series, in which seasons are detected.
        columns: roles of the columns.
        val: windows on which seasons are compared.
    """
    positions, frequency = columns.positions(columns.targets), training[0].frequency
    seq_len, offset, season = val.sizes.seq_len, val.sizes.offset, frequency.season
    usual = season if season <= seq_len else 1
    # seasons detected in the targets' training rows, and a week for steps shorter than a day
    found = [each.period for each in seasons_of(training, columns.targets[:MOST_COLUMNS])][:MOST_SEASONS]
    a_day = frequency.per_day or 1
    candidates = dict.fromkeys([*found, *([7 * a_day] if a_day > 1 else [])])
    seasons = [usual, *(each for each in candidates if each <= seq_len and each not in (1, usual))]
    baselines = [SeasonalNaive((each,) * len(positions), positions, "", offset) for each in seasons]
    chosen = baselines[0].seasons
    if len(seasons) > 1:
        errors = _errors(baselines, val)
        errors[1:] /= 1 - GAIN
        chosen = tuple(seasons[place] for place in errors.argmin(dim=0).tolist())
    instead = "the last value" if usual == 1 else f"the last {usual} steps"
    others = {each: [name for name, own in zip(columns.targets, chosen, strict=True) if own == each] for each in chosen}
    if {*chosen} == {usual}:
        short = f", since seq_len={seq_len} does not cover one season of {season} steps" if season > seq_len else ""
        note = f"{baselines[0].name}: {instead} repeated{short}"
    elif len(others) == 1:
        note = f"seasonal naive: the last {chosen[0]} steps repeated, better on validation than {instead}"
    else:
        exceptions = ", ".join(f"{each} for {listed(on, MOST_NAMES)}" for each, on in others.items() if each != usual)
        note = f"seasonal naive: {instead} repeated, except where better on validation: {exceptions}"
    return SeasonalNaive(chosen, positions, note, offset)


def _errors(baselines: Sequence[SeasonalNaive], val: Windows) -> Float64[Tensor, "baselines n"]:
    """Sum of squared errors of each baseline and target over the validation windows."""
    sums = torch.zeros(len(baselines), 1, dtype=torch.float64)
    for numbers in torch.arange(0, len(val), max(1, -(-len(val) // MOST_WINDOWS))).split(256):
        batch = val.batch(numbers)
        actual = batch.target.cpu().double()
        errors = [(baseline(batch).cpu().double() - actual).square().nansum(dim=(0, 1)) for baseline in baselines]
        sums = sums + torch.stack(errors)
    return sums


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
    known: KnownEffects | None = None

    def __call__(self, batch: Batch) -> Float[Tensor, "b pred_len n"]:
        """Forecast in scaled units."""
        history, steps = batch.enc_x[:, :, list(self.positions)], self.weight.shape[1]
        if self.known is None:
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
    max_rows: int = MAX_ROWS,
    known: KnownEffects | None = None,
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
    known = known if known and known.nonzero else None
    fitted, held_out = (_sums(windows, known, positions, max_rows) for windows in (train, val))
    weights = {penalty: fitted.ridge(np.full(train.sizes.seq_len, penalty)) for penalty in PENALTIES}
    best = min(weights, key=lambda penalty: held_out.loss(weights[penalty]).sum())
    n_fitted = -(-fitted.windows // len(positions))  # fewer where windows with long gaps are left out
    note = (
        f"ridge: one linear map {train.sizes.seq_len} -> {train.sizes.pred_len} shared by all columns, "
        f"penalty {best:g} chosen on validation, fitted on {n_fitted} of {len(train)} training windows"
    )
    if known:
        note += f", with the effects of {counted(len(known.nonzero), 'known covariate')}"
    return RidgeForecast(torch.from_numpy(weights[best]), positions, best, note, known=known)


def _sums(windows: Windows, effects: KnownEffects | None, positions: Sequence[int], max_rows: int) -> Sums:
    """Sums over windows and columns of mean-free histories and futures, after subtracting known effects."""
    if not len(windows):
        raise ShortError("ridge baseline: expected training and validation windows, found a part without any")
    store = effects.without(windows.store) if effects else windows.store
    adjusted = Windows(store, starts=windows.starts, sizes=windows.sizes, targets=positions)
    sums = window_sums(adjusted, [positions], most=max(max_rows // len(positions), 1))[0]
    if not sums.is_known:
        raise ShortError("ridge baseline: some step of the horizon is observed in no window; lower pred_len")
    return sums


def naive_after(histories: Histories, season: int, steps: int) -> Paths:
    """The last season repeated, see `SeasonalNaive`; of a history shorter than a season, the last value."""
    ahead = torch.arange(steps)
    parts = [(torch.tensor(each)[None, :, None], [season if len(each) >= season else 1]) for each in histories]
    return torch.cat([repeated(*part, ahead)[:, :, 0] for part in parts]).numpy()


def naive_quantiles_after(
    histories: Histories, season: int, forecast: Paths, levels: Sequence[float]
) -> dict[float, Paths]:
    """Quantiles around `naive_after` by level; NaN where a history has too few errors.

    Quantile q is the end of a conformal interval of level w = |2 q - 1|: its half width is the ceil((n + 1) w)-th
    smallest of the n absolute errors of the seasonal naive at the same step ahead over the unit's history, without
    missing values (NaN).

    Args:
        forecast: the result of `naive_after`.
        levels: levels of the quantiles.
    """
    widths, ahead = {level: round(abs(2 * level - 1), 8) for level in levels}, np.arange(1, forecast.shape[1] + 1)
    halves = {width: np.full(forecast.shape, np.nan if width else 0.0) for width in widths.values()}
    for place, history in enumerate(histories):
        # rows between a value and the one repeated there
        lags = ahead if len(history) < season else season * -(-ahead // season)
        for lag in np.unique(lags):
            errors = np.abs(history[lag:] - history[:-lag])
            errors = np.sort(errors[~np.isnan(errors)])
            for width, half in halves.items():
                rank = math.ceil(round((len(errors) + 1) * width, 6))
                if 0 < rank <= len(errors):
                    half[place, lags == lag] = errors[rank - 1]
    return {level: forecast + math.copysign(1.0, level - 0.5) * halves[width] for level, width in widths.items()}


def naive2_after(histories: Histories, season: int, steps: int) -> Paths:
    """The last value of the seasonally adjusted history, with seasonality added back.

    A history counts as seasonal if its autocorrelation at one season passes the 90 % test; the adjustment is a
    multiplicative classical decomposition (Makridakis, Spiliotis & Assimakopoulos 2020, "The M4 Competition", section
    2.3 and its public code). Missing values (NaN) are interpolated linearly.
    """
    forecasts = []
    for history in map(bridged, histories):
        rows, length = torch.tensor(history)[None], season if len(history) >= LEAST_SEASONS * season else 1
        factors, is_seasonal = seasonal_factors(rows, torch.ones_like(rows, dtype=torch.bool), length, least=-math.inf)
        own = factors[0].numpy() if bool(is_seasonal) else np.ones(1)
        forecasts.append(history[-1] / own[-1] * own[np.arange(steps) % len(own)])
    return np.stack(forecasts)


def ridge_after(histories: Histories, season: int, steps: int) -> tuple[Paths, str] | None:
    """Forecasts of `fit_ridge` on all histories together, and a note about it.

    The penalty is chosen on the last `steps` rows of the histories, twice as many if values are missing. Each history
    is scaled by its own mean and standard deviation; missing values (NaN) are ignored. Returns None if fewer than two
    windows fit into every history, or if some step is observed in no window.
    """
    shortest = min(map(len, histories))
    # one window of the last rows may not observe every step
    held_out_rows = 2 * steps if any(np.isnan(history).any() for history in histories) else steps
    seq_len = min(max(2 * season, 2 * steps), shortest - steps - held_out_rows)
    if seq_len < max(2, season):
        return None
    sizes = WindowSizes(seq_len=seq_len, label_len=0, pred_len=steps)
    center = np.array([np.nanmean(history) for history in histories])[:, None]
    spread = np.array([standard_deviation(history) for history in histories])[:, None]
    scale = np.where(spread > 0, spread, 1.0)
    scaled = [(history - c) / s for history, c, s in zip(histories, center, scale, strict=True)]
    firsts = np.cumsum([0, *map(len, scaled[:-1])])
    store = Store(
        values=torch.from_numpy(np.concatenate(scaled)[:, None]).float(),
        marks=torch.zeros(sum(map(len, scaled)), 0),
        first_rows=torch.from_numpy(firsts),
        mark_shift=torch.zeros(len(firsts), dtype=torch.long),
        units=DataUnits(torch.from_numpy(center), torch.from_numpy(scale)),
        numbers=torch.full((len(scaled),), -1),
    )
    ends = [(first, first + len(history)) for first, history in zip(firsts, scaled, strict=True)]
    train = [np.arange(first, end - held_out_rows - sizes.rows + 1) for first, end in ends]
    val = [np.arange(end - held_out_rows - seq_len, end - sizes.rows + 1) for _, end in ends]
    fitted_on, held_out = (
        Windows(store, starts=torch.from_numpy(np.concatenate(each)), sizes=sizes, targets=[0]) for each in (train, val)
    )
    try:
        fitted = fit_ridge(fitted_on, held_out, [0])
    except InputError:  # of steps that are never observed
        return None
    last = torch.from_numpy(np.stack([history[-seq_len:] for history in scaled])[:, :, None]).float()
    return fitted.mapped(last)[:, :, 0].double().numpy() * scale + center, fitted.note
