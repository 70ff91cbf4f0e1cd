"""Choice of penalties and lookback window by leave-one-block-out cross-validation, from moments.

Blocks of time for cross-validation.

Moments of the fitted and the held-out part of each fold, within a time limit.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from math import inf, isfinite
from operator import add

import numpy as np
from jaxtyping import Float64, Int64

from informer.base.runtime import one_blas_thread
from informer.linear.moments import Moments, WindowRun, as_runs
from informer.linear.settings import Group, MapSettings
from informer.linear.solve import Layout, blended, normal_equations, penalties, solve

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fold:
    """Windows held out, and windows to fit on; no row is in the horizon of both."""

    held: list[WindowRun]
    fitted: list[WindowRun]
    between: list[WindowRun]
    """Windows in neither, because their horizons share rows with those of held-out windows."""


def folds(runs: Sequence[WindowRun], n_blocks: int, pred_len: int) -> list[Fold]:
    """Folds of leave-one-block-out cross-validation: block i is the i-th part of each series' windows.

    Args:
        runs: windows, in order of time within each series.
        n_blocks: number of blocks.
        pred_len: rows of the forecast horizon. Windows closer than this to a held-out one are not used in the fit.
    """
    starts, series = starts_of(runs), np.repeat([run.series for run in runs], [len(run) for run in runs])
    firsts = np.flatnonzero(np.diff(series, prepend=-1))
    counts = np.diff(np.append(firsts, len(series)))
    number = np.repeat(np.arange(len(firsts)), counts)
    bounds = firsts + np.linspace(0, counts, n_blocks + 1).round().astype(int)
    place, blocks = np.arange(len(starts)), list[Fold]()
    for first, stop in pairwise(bounds):
        is_held = (place >= first[number]) & (place < stop[number])
        begin, end = starts[np.minimum(first, len(starts) - 1)] - pred_len, starts[stop - 1] + pred_len
        is_near = (starts > begin[number]) & (starts < end[number]) & (stop > first)[number]
        parts = (is_held, ~is_near, is_near & ~is_held)
        blocks.append(Fold(*(as_runs(starts[part], series[part]) for part in parts)))
    return blocks


def starts_of(runs: Sequence[WindowRun]) -> Int64[np.ndarray, "windows"]:
    """Store rows at which the windows start."""
    counts = np.array([len(run) for run in runs])
    return np.arange(counts.sum()) + np.repeat([run.first for run in runs] - counts.cumsum() + counts, counts)


SHARED = (1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5)
OWN = (inf, 1e6, 1e5, 1e4, 1e3, 1e2, 1e1)
FURTHER = (inf, 1e0, 1e1, 1e2, 1e3, 1e4)
TAPERS = (0.0, 1.0, 2.0)
ALIGNED = (1.0, 0.3, 0.1, 0.03)
NAIVE = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Values to choose from: penalties of the shared map, of separate maps and of additional inputs, tapers, shares
of the penalty for rows a whole number of seasons ago, weights of the seasonal naive."""

SURE, SURE_OF_INPUT = 1.0, 2.0
"""Standard errors over blocks by which a change, or an additional input, must lower the loss."""

AGAIN = 2.0
"""Time of a fit whose map is kept, relative to that of a trial."""

ONE_ERROR = 1.0
"""Standard errors by which separate maps must be better than one shared map."""

LEAST_GAIN, LEAST_GAIN_OF_INPUT = 5e-4, 2.5e-3
"""Least share by which a change, or an additional input, must lower the loss."""


TRIES = 2
"""The search for longer or shorter lookback windows stops after this many in a row without a gain."""


@dataclass(frozen=True, eq=False, slots=True)
class FoldMoments:
    """Moments of one fold: of its fitted and of its held-out part, one entry per channel."""

    fitted: Sequence[Moments]
    held: Sequence[Moments]


def fit_shared(pooled: Moments, layout: Layout, strengths: MapSettings) -> Float64[np.ndarray, "p h"]:
    """One map for all columns, from the sum of their moments."""
    features = layout.read(None, strengths)
    normal = normal_equations(pooled, layout, strengths, features)
    penalty = penalties(normal, layout, strengths, features)
    penalty[: strengths.lookback] *= strengths.shared
    return solve(normal, penalty)


def fit_own(
    moments: Moments, column: int, shared: Float64[np.ndarray, "p h"], layout: Layout, strengths: MapSettings
) -> Float64[np.ndarray, "q h"]:
    """The map of one column, shrunk towards the shared one."""
    features = layout.read(column, strengths)
    prior = spread(shared, column, layout, strengths)
    reads_others = len(features) > len(layout.read(None, strengths))  # inputs that the shared map does not have
    if (strengths.own == inf and not reads_others) or not moments.windows:
        return prior
    normal = normal_equations(moments, layout, strengths, features)
    penalty = penalties(normal, layout, strengths, features)
    penalty[: strengths.lookback] *= min(strengths.own, 1e12)
    return solve(normal, penalty, prior)


def has_own_maps(strengths: Sequence[MapSettings]) -> bool:
    """Whether any of the settings has separate maps for columns or series."""
    return any(setting.own < inf or setting.penalty(Group.recent) < inf for setting in strengths)


def spread(
    shared: Float64[np.ndarray, "p h"], column: int, layout: Layout, strengths: MapSettings
) -> Float64[np.ndarray, "q h"]:
    """The shared map with rows for all inputs of a column; zero for inputs that only the column has."""
    features = layout.read(column, strengths)
    common = np.isin(features, layout.read(None, strengths))
    before = len(shared) - int(common.sum())
    widened = np.zeros((before + len(features), shared.shape[1]))
    widened[:before] = shared[:before]
    widened[before:][common] = shared[before:]
    return widened


@dataclass(eq=False, slots=True)
class CrossValidation:
    """Cross-validation loss of settings.

    Args:
        folds: moments of each fold.
        columns: column of each entry of a fold.
        layout: layout of the moments.
        weights: weight of the squared errors of each entry. Empty: equal weights.
    """

    folds: Sequence[FoldMoments]
    columns: Sequence[int]
    layout: Layout
    weights: Sequence[float] = ()
    pooled: list[Moments] = field(init=False)

    def __post_init__(self) -> None:
        self.weights = list(self.weights) or [1.0] * len(self.columns)
        self.pooled = [total(fold.fitted, self.weights) for fold in self.folds]

    @one_blas_thread
    def losses(self, strengths: MapSettings) -> Float64[np.ndarray, "folds"]:
        """Mean squared error on each held-out block."""
        return np.array(
            [self._loss(strengths, fold, pooled) for fold, pooled in zip(self.folds, self.pooled, strict=True)]
        )

    def _loss(self, strengths: MapSettings, fold: FoldMoments, pooled: Moments) -> float:
        shared = fit_shared(pooled, self.layout, strengths)
        error = 0.0
        for column, fitted, held_out, share in zip(self.columns, fold.fitted, fold.held, self.weights, strict=True):
            weight = blended(fit_own(fitted, column, shared, self.layout, strengths), self.layout, strengths)
            features = self.layout.read(column, strengths)
            error += share * float(normal_equations(held_out, self.layout, strengths, features).loss(weight).sum())
        return error / max(sum(moments.windows for moments in fold.held) * self.layout.steps, 1)


def total(parts: Iterable[Moments], weights: Sequence[float]) -> Moments:
    """Weighted sum of moments."""
    return reduce(add, (part.times(weight) for part, weight in zip(parts, weights, strict=True)))


@dataclass(eq=False, slots=True)
class ChosenMap:
    """Coordinate descent over settings; the loss of every trial is cached.

    Args:
        validation: computes the losses.
        offered: groups of inputs that may be used.
        lookbacks: lookback windows to choose from.
        start: lookback window to start with.
        second: lookback window that is tried next, however far away; 0: none.
        own: penalties of separate maps to choose from.
        left: returns the seconds left. Trials that would take longer are skipped.
    """

    validation: CrossValidation
    offered: Sequence[Group]
    lookbacks: Sequence[int]
    start: int
    second: int = 0
    own: Sequence[float] = OWN
    left: Callable[[], float] = lambda: inf
    was_cut: bool = False
    """Whether trials were skipped because time was short."""
    _pace: float = 0.0
    """Seconds of a trial per squared row of its lookback window."""
    _known: dict[str, np.ndarray] = field(default_factory=dict)

    def run(self) -> MapSettings:
        """The best setting found by changing one thing at a time."""
        best = MapSettings(lookback=self.start, own=self.own[0])
        # other changes are judged by their gain, which a penalty that is far off would hide; also if time is up
        best = self._better(best, (replace(best, shared=shared) for shared in SHARED), sure=0.0, always=True)
        if self.second:
            best = self._better(best, [replace(best, lookback=self.second)], always=True)
        for _ in range(2):
            before = best
            best = self._better(best, (replace(best, own=penalty) for penalty in self.own))
            best = self._climbed(best)
            for group in self.offered:
                trials = (replace(best, groups={**best.groups, group: penalty}) for penalty in FURTHER)
                best = self._better(best, trials, sure=SURE_OF_INPUT)
            best = self._better(best, (replace(best, shared=shared) for shared in SHARED))
            best = self._better(best, (replace(best, taper=taper) for taper in TAPERS))
            best = self._better(best, self._aligned(best))
            best = self._better(best, [replace(best, last=not best.last)])
            if best.lookback >= self.validation.layout.repeated:
                best = self._better(best, (replace(best, naive=naive) for naive in NAIVE))
            if best == before:
                break
        return self._simplest(best)

    def _aligned(self, best: MapSettings) -> Iterator[MapSettings]:
        """Lower penalties for rows a whole number of seasons ago, where other rows need the same or a higher one."""
        if self.validation.layout.repeated > 1:
            for aligned in ALIGNED:
                for shared in (best.shared, 10 * best.shared):
                    yield replace(best, aligned=aligned, shared=shared)

    def _simplest(self, best: MapSettings) -> MapSettings:
        """One shared map, if it is worse by at most one standard error: separate maps vary more with the sample."""
        if best.own == inf:
            return best
        pooled = [replace(best, own=inf, shared=shared) for shared in SHARED]
        affordable = [setting for setting in pooled if self._has_time(setting)]
        if not affordable:
            return best
        simplest = min(affordable, key=lambda setting: self.loss(setting).mean())
        gain = self.loss(simplest) - self.loss(best)
        error = gain.std(ddof=1) / len(gain) ** 0.5
        return simplest if gain.mean() <= ONE_ERROR * error else best

    def in_time(self, wanted: Sequence[MapSettings]) -> list[MapSettings]:
        """The first settings for which there is time, at least one; each needs another fit."""
        affordable, seconds = list(wanted[:1]), 0.0
        for setting in wanted[1:]:
            seconds += AGAIN * self._pace * setting.lookback**2
            if seconds and seconds >= self.left():
                self.was_cut = True
                break
            affordable.append(setting)
        return affordable

    def loss(self, strengths: MapSettings) -> Float64[np.ndarray, "folds"]:
        """Loss of each held-out block, cached."""
        key, before = repr(strengths), self.left()
        if key not in self._known:
            self._known[key] = self.validation.losses(strengths)
            if isfinite(before):
                self._pace = max((before - self.left()) / strengths.lookback**2, self._pace / 2)
        return self._known[key]

    @property
    def n_trials(self) -> int:
        """Number of settings whose loss was computed."""
        return len(self._known)

    def _has_time(self, strengths: MapSettings) -> bool:
        """Whether the trial will finish in time, estimated from earlier trials; False sets `was_cut`."""
        if repr(strengths) in self._known or self._pace * strengths.lookback**2 < self.left():
            return True
        self.was_cut = True
        return False

    def fits(self, strengths: MapSettings) -> bool:
        """Whether the lookback window covers the season that the seasonal naive repeats."""
        return not strengths.naive or strengths.lookback >= self.validation.layout.repeated

    def _climbed(self, best: MapSettings) -> MapSettings:
        """Try longer lookback windows, then shorter ones, until TRIES in a row are no better; long ones cost most."""
        for step in (1, -1):
            position, misses = self.lookbacks.index(best.lookback) + step, 0
            while 0 <= position < len(self.lookbacks) and misses < TRIES:
                longer = replace(best, lookback=self.lookbacks[position])
                winner = self._better(best, [longer] if self.fits(longer) else [])
                misses = misses + 1 if winner is best else 0
                best, position = winner, position + step
        return best

    def _better(
        self, current: MapSettings, trials: Iterable[MapSettings], sure: float = SURE, *, always: bool = False
    ) -> MapSettings:
        """The best trial that is significantly better than `current`, or else `current`; `always`: however long."""
        loss = self.loss(current)
        best, bar = current, loss.mean() * (1 - LEAST_GAIN)
        for trial in trials:
            if not always and not self._has_time(trial):
                continue
            trial_loss = self.loss(trial)
            gain = loss - trial_loss
            error = gain.std(ddof=1) / len(gain) ** 0.5
            if trial_loss.mean() < bar and gain.mean() > sure * error:
                best, bar = trial, trial_loss.mean()
        if best is not current:
            log.debug(f"{best}: {bar:.4f}")
        return best


MOMENTS_SHARE = 0.4
"""Largest share of the time limit for computing moments."""

Channel = tuple[int, int]
"""(series, column)."""


def fold_moments(
    blocks: Sequence[Fold],
    channels: Sequence[Channel],
    moments: Callable[[Channel, Sequence[WindowRun]], Moments],
    left: Callable[[], float],
) -> tuple[list[Channel], list[FoldMoments]]:
    """Moments of each fold for as many channels as the time allows (at least one), spread evenly over all.

    Every window is summed once or twice: the moments of a fold's fitted part are the total minus its block and the
    windows close to it.

    Args:
        blocks: the folds.
        channels: channels to sum.
        moments: computes the moments of a channel over runs.
        left: returns the seconds left for the whole choice; at most MOMENTS_SHARE of them are used here.

    Returns:
        The channels used, in their order, and their moments by fold.
    """
    budget, by_channel = left(), dict[Channel, list[tuple[Moments, Moments]]]()
    for n_done, position in enumerate(evenly_ordered(len(channels))):
        elapsed = budget - left() if isfinite(budget) else 0.0
        if n_done and elapsed * (n_done + 1) / n_done > MOMENTS_SHARE * budget:
            break
        channel = channels[position]
        held_out = [moments(channel, block.held) for block in blocks]
        between = [moments(channel, block.between) for block in blocks]
        rest = [reduce(add, held_out) - (held + near) for held, near in zip(held_out, between, strict=True)]
        # exactly zero if there are no such windows
        fitted = [each if each.is_known else Moments(np.zeros_like(each.products), 0) for each in rest]
        by_channel[channel] = list(zip(fitted, held_out, strict=True))
    used_channels = [channel for channel in channels if channel in by_channel]
    by_fold = zip(*(by_channel[channel] for channel in used_channels), strict=True)
    return used_channels, [FoldMoments(*zip(*pairs, strict=True)) for pairs in by_fold]


def evenly_ordered(n: int) -> list[int]:
    """0 to n - 1, ordered so that every prefix is spread evenly: first, middle, quarters, ..."""
    step, order = 1 << max(n - 1, 0).bit_length(), [0] if n else []
    while step > 1:
        order += range(step // 2, n, step)
        step //= 2
    return order
