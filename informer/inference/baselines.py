"""Two baselines that any model should beat: the last season repeated, and a linear map fitted by ridge regression."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from informer.data.windows import Batch, Windows
from informer.errors import InputError
from informer.linear.moments import window_products

PENALTIES = (1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5)
MAX_ROWS = 300_000
"""Histories (windows times columns) that ridge reads per part; larger panels are thinned evenly."""


@final
@dataclass(frozen=True, slots=True)
class SeasonalNaive:
    """The last season repeated; a season of 1 repeats the last value.

    Args:
        season: steps in one season.
        positions: the index of each target among the inputs.
        note: what a reader of its scores should know.
        offset: rows between the history and the forecast.
        seasons: of each target, where they are not all `season`.
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
        if max(seasons) > batch.enc_x.shape[1]:
            raise ValueError(f"season: expected at most seq_len={batch.enc_x.shape[1]}, found {max(seasons)}")
        steps = self.offset + torch.arange(batch.target.shape[1], device=batch.enc_x.device)
        lengths = torch.tensor(seasons, device=steps.device)
        rows = batch.enc_x.shape[1] - lengths + steps[:, None] % lengths
        return batch.enc_x[:, rows, torch.tensor(self.positions, device=steps.device)]


def seasonal_naive(season: int, positions: Sequence[int], *, seq_len: int, offset: int = 0) -> SeasonalNaive:
    """The season repeated if the history contains one, otherwise the last value; the name says which."""
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

    Args:
        weight: the map shared by all columns.
        positions: the index of each target among the inputs.
        penalty: the L2 penalty chosen on validation.
        note: what a reader of its scores should know.
    """

    weight: Float[Tensor, "seq_len pred_len"]
    positions: Sequence[int]
    penalty: float
    note: str = ""
    name: str = "ridge"

    def __call__(self, batch: Batch) -> Float[Tensor, "b pred_len n"]:
        """Forecast in scaled units."""
        history = batch.enc_x[:, :, list(self.positions)].transpose(1, 2)
        mean = history.mean(dim=-1, keepdim=True)
        return ((history - mean) @ self.weight.to(history) + mean).transpose(1, 2)


def fit_ridge(
    train: Windows,
    val: Windows,
    positions: Sequence[int],
    *,
    penalties: Sequence[float] = PENALTIES,
    max_rows: int = MAX_ROWS,
) -> RidgeForecast:
    """Least squares with an L2 penalty on mean-free histories, in scaled units.

    Minimises |X W - Y|^2 + penalty |W|^2 over the rows (window, column) of `train`; the penalty is the one with the
    least squared error on `val`. Memory is O(seq_len (seq_len + pred_len)) for any number of windows.

    Raises:
        InputError: a part without windows.
    """
    fitted, held_out = (_moments(part, positions, max_rows) for part in (train, val))
    design, response = fitted.as_rows()
    weights = {penalty: _solve(design, response, penalty) for penalty in penalties}
    best = min(weights, key=lambda penalty: held_out.rank(weights[penalty]))
    note = (
        f"ridge: one linear map {train.sizes.seq_len} -> {train.sizes.pred_len} shared by all columns, "
        f"penalty {best:g} chosen on validation, fitted on {fitted.windows} of {len(train)} training windows"
    )
    return RidgeForecast(torch.from_numpy(weights[best]), positions, best, note)


def _solve(design: np.ndarray, response: np.ndarray, penalty: float) -> np.ndarray:
    from sklearn.linear_model import Ridge  # forecasting, which fits nothing, starts faster without it

    model = Ridge(penalty, fit_intercept=False, solver="cholesky").fit(design, response)
    return np.atleast_2d(model.coef_).T


@dataclass(frozen=True, eq=False, slots=True)
class _Moments:
    """X^T X and X^T Y over rows of mean-free histories X and futures Y: sufficient for ridge."""

    gram: np.ndarray
    cross: np.ndarray
    windows: int

    def as_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """seq_len rows with the same moments, so that fitting them equals fitting all rows."""
        values, vectors = np.linalg.eigh(self.gram)
        # Without its mean X lacks one direction, and constant columns remove more: those rows stay zero.
        kept = values > values[-1] * len(values) * np.finfo(float).eps
        root = np.sqrt(values, where=kept, out=np.zeros_like(values))[:, None]
        rotated = vectors.T @ self.cross
        return root * vectors.T, np.divide(rotated, root, where=root > 0, out=np.zeros_like(rotated))

    def rank(self, weight: np.ndarray) -> float:
        """|X weight - Y|^2 less |Y|^2, a constant."""
        return float((weight * (self.gram @ weight - 2 * self.cross)).sum())


def _moments(windows: Windows, positions: Sequence[int], max_rows: int) -> _Moments:
    """Sums over evenly spaced windows, as many as `max_rows` allows."""
    if not len(windows):
        raise InputError("ridge baseline: expected training and validation windows, found a part without any")
    thinned = windows.at(windows.starts[:: -(-len(windows) * len(positions) // max_rows)])
    sizes, values = windows.sizes, windows.store.values
    kept = np.concatenate([np.arange(sizes.seq_len), np.arange(sizes.first, sizes.rows)])
    sums = np.zeros((len(kept), len(kept)))
    for first, count, stride in _evenly_spaced(thinned):
        last = first + stride * (count - 1) + sizes.rows
        for column in positions:
            rows = values[first:last, column].double().cpu().numpy()
            # constant columns then give zeros, and no other result changes: windows lose their own mean below
            sums += window_products(rows - rows.mean(), sizes.rows, kept, stride=stride)
    sums -= sums[: sizes.seq_len].mean(axis=0)
    sums -= sums[:, : sizes.seq_len].mean(axis=1, keepdims=True)
    own, ahead = slice(0, sizes.seq_len), slice(sizes.seq_len, None)
    return _Moments(sums[own, own], sums[own, ahead], len(thinned))


def _evenly_spaced(windows: Windows) -> Iterator[tuple[int, int, int]]:
    """First row, number and distance of windows of one series that are equally far from each other."""
    starts = np.sort(windows.starts.cpu().numpy())
    series = np.searchsorted(windows.store.first_rows.cpu().numpy(), starts, side="right")
    steps = np.diff(starts)
    step = int(np.median(steps)) if len(steps) else 1
    for part in np.split(starts, np.flatnonzero((steps != step) | (np.diff(series) != 0)) + 1):
        yield int(part[0]), len(part), step
