"""The season that the seasonal naive repeats: that of the step, or one found in the training rows."""

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
"""Share of the validation error that a season found in the data must save, for that of the step to be given up."""

MOST_WINDOWS = 2_000
"""Validation windows that the seasons are compared on, evenly spaced."""

MOST_COLUMNS, MOST_SEASONS, MOST_NAMES = 12, 6, 3
"""Targets whose seasons are looked for, seasons that are compared, and names of targets in a note."""


def best_seasonal_naive(data: Data) -> SeasonalNaive:
    """The seasonal naive, for each target with the season whose error on validation windows is lowest."""
    parts = (slice(split.train.start, split.train.stop) for split in data.splits)
    training = [
        replace(series, timestamps=series.timestamps[part], values=series.values[part])
        for series, part in zip(data.panel, parts, strict=True)
    ]
    return seasonal_naive_for(training, data.columns, data.val)


@torch.inference_mode()
def seasonal_naive_for(training: Sequence[Series], columns: Columns, val: Windows) -> SeasonalNaive:
    """The same for training rows of each series, and the windows that the seasons are compared on."""
    positions, frequency = columns.positions(columns.targets), training[0].frequency
    seq_len, offset = val.sizes.seq_len, val.sizes.offset
    usual = seasonal_naive(frequency.season, positions, seq_len=seq_len, offset=offset)
    seasons = _found(training, columns.targets)
    found = [season for season in seasons if season <= seq_len and season not in (1, usual.season)]
    if not found:
        return usual
    seasons = [usual.season, *found]
    errors = _errors([SeasonalNaive(season, positions, offset=offset) for season in seasons], val)
    errors[1:] /= 1 - GAIN
    chosen = tuple(seasons[place] for place in errors.argmin(dim=0).tolist())
    if set(chosen) == {usual.season}:
        return usual
    return replace(usual, seasons=chosen, offset=offset, note=_note(usual, chosen, columns.targets))


def _note(usual: SeasonalNaive, chosen: Sequence[int], targets: Sequence[str]) -> str:
    """Which seasons were found, and for which targets."""
    instead = "the last value" if usual.season == 1 else f"the last {usual.season} steps"
    own = {season: [name for name, one in zip(targets, chosen, strict=True) if one == season] for season in chosen}
    own.pop(usual.season, None)
    if len(own) == 1 and len(set(chosen)) == 1:
        return f"seasonal naive: the last {chosen[0]} steps repeated, better on validation than {instead}"
    parts = ", ".join(f"{season} for {listed(names, MOST_NAMES)}" for season, names in own.items())
    return f"seasonal naive: {instead} repeated, or what is better on validation: {parts}"


def _found(training: Sequence[Series], targets: Sequence[str]) -> list[int]:
    """Seasons of the targets in training rows, and a week for steps of less than a day."""
    found = [season.period for season in seasons_of(training, targets[:MOST_COLUMNS])][:MOST_SEASONS]
    a_day = training[0].frequency.per_day or 1
    return list(dict.fromkeys([*found, *([7 * a_day] if a_day > 1 else [])]))


def _errors(baselines: Sequence[SeasonalNaive], val: Windows) -> Float64[Tensor, "baselines n"]:
    """Sums of squared errors of each target over the same validation windows."""
    n, sums = len(val), torch.zeros(len(baselines), 1, dtype=torch.float64)
    for numbers in torch.arange(0, n, max(1, -(-n // MOST_WINDOWS))).split(256):
        batch = val.batch(numbers)
        sums = sums + torch.stack(
            [(to_float64(one(batch)) - to_float64(batch.target)).square().nansum(dim=(0, 1)).cpu() for one in baselines]
        )
    return sums
