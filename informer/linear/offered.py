"""What a linear forecast is offered to choose from."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from informer.linear.solve import Strengths


class FitOn(Enum):
    """Rows that the maps are fitted on, once strengths are chosen on blocks of training and validation."""

    train = "train"
    both = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearConfig:
    """What to offer.

    Args:
        own_maps: a map for each column or series, shrunk to the shared one.
        other_columns: their recent rows.
        calendar: time of day, of week, of year, where the marks show them and the data saw them twice.
        level: the mean of the window itself, which draws long forecasts back to the mean of all.
        average: forecasts whose maps are averaged, at most.
        fit_on: rows to fit on.
        lookbacks: rows of history to choose from, increasing; none: see `lookback_grid`.
        chosen: strengths of the maps to average, where they are known; none: they are chosen.
        left_out: columns of codes, which no map reads.
    """

    own_maps: bool = True
    other_columns: bool = True
    calendar: bool = True
    level: bool = True
    average: int = 3
    fit_on: FitOn = FitOn.train
    lookbacks: Sequence[int] = ()
    chosen: Sequence[Strengths] = ()
    left_out: Sequence[int] = ()


def lookback_grid(seq_len: int, season: int) -> list[int]:
    """Lookbacks to choose from: whole seasons where there are any, from an eighth of seq_len to all of it."""
    grid = {seq_len}
    for share in (1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8):
        rows = round(seq_len * share)
        whole = round(rows / season) * season
        grid.add(whole if 0 < whole <= seq_len else max(rows, 1))
    return sorted(grid)
