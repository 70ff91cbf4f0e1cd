"""Season of the seasonal naive: the default for the step, or one detected in the training rows."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float64
from torch import Tensor

from informer.data.columns import Columns
from informer.data.pipeline import Data
from informer.data.read.source import Series
from informer.data.survey import seasons_of
from informer.data.windows import Windows
from informer.errors import listed
from informer.inference.baselines import SeasonalNaive, seasonal_naive
from informer.metrics import to_float64

GAIN = 0.02
"""Minimum relative reduction of the validation error for a detected season to replace the default."""

MOST_WINDOWS = 2_000
"""Maximum number of validation windows on which seasons are compared, evenly spaced."""

MOST_COLUMNS, MOST_SEASONS, MOST_NAMES = 12, 6, 3
"""Maximum number of targets searched for seasons, of seasons compared, and of target names in a note."""


def best_seasonal_naive(data: Data) -> SeasonalNaive:
    """Seasonal naive with, for each target, the season of lowest error on the validation windows."""
    slices = (slice(split.train.start, split.train.stop) for split in data.splits)
    training = [
        replace(series, timestamps=series.timestamps[rows], values=series.values[rows])
        for series, rows in zip(data.panel, slices, strict=True)
    ]
    return seasonal_naive_for(training, data.columns, data.val)


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
                (to_float64(baseline(batch)) - to_float64(batch.target)).square().nansum(dim=(0, 1)).cpu()
                for baseline in baselines
            ]
        )
    return sums
