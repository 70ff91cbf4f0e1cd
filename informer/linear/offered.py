"""Options of the linear fit."""

from collections.abc import Sequence
from dataclasses import dataclass

from informer.linear.strengths import Strengths


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearConfig:
    """Options of the linear fit; cross-validation decides which of them are used.

    Args:
        own_maps: a map per column or series, shrunk towards the shared one.
        other_columns: recent rows of the other columns.
        average: largest number of forecasts whose maps are averaged.
        lookbacks: lookback windows to choose from, in increasing order. Empty: see `lookback_grid`.
        chosen: settings of the maps to average, if they are known. Empty: choose them.
        left_out: columns of codes, which no map reads.
    """

    own_maps: bool = True
    other_columns: bool = True
    average: int = 3
    lookbacks: Sequence[int] = ()
    chosen: Sequence[Strengths] = ()
    left_out: Sequence[int] = ()


def lookback_grid(seq_len: int, season: int) -> list[int]:
    """Lookback windows to choose from: about 1/8 to 8/8 of seq_len, in whole seasons where possible."""
    grid = {seq_len}
    for share in (1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8):
        rows = round(seq_len * share)
        rounded = round(rows / season) * season
        grid.add(rounded if 0 < rounded <= seq_len else max(rows, 1))
    return sorted(grid)
