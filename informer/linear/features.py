"""Inputs of a linear forecast at the last row of a window, other than the column's own lookback window."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import pi

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from informer.config.model import CalendarEmbed
from informer.data.calendar import RANGES
from informer.networks.models.linear import HARMONICS

_DAYS = {"day": 1.0, "week": 7.0, "year": 365.25}


class Group(Enum):
    """Inputs that share a penalty."""

    own = "own history"
    level = "own level"
    bias = "constant"
    day = "time of day"
    week = "day of week"
    year = "time of year"
    recent = "recent rows of other columns"


@dataclass(frozen=True, slots=True)
class OriginFeatures:
    """Features of a window at its last row; they are the same for all forecast columns.

    In order: a constant, sines and cosines of the calendar, then the last `recent` rows of the columns, newest last,
    minus each column's mean over the window.

    Args:
        n_columns: number of columns of a window.
        recent: number of recent rows of every column; 0 for none.
        cycles: the cycles of HARMONICS that the marks and the length of the data support.
        fields: names of the mark columns.
        kind: encoding of the marks.
        left_out: columns whose rows are not read: codes of categories.
    """

    n_columns: int
    recent: int
    cycles: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    kind: CalendarEmbed = CalendarEmbed.none
    left_out: tuple[int, ...] = ()

    @property
    def columns(self) -> list[int]:
        """Columns whose recent rows are features."""
        return [column for column in range(self.n_columns) if column not in self.left_out]

    @property
    def groups(self) -> tuple[Group, ...]:
        """The group of each feature."""
        calendar = [Group[cycle] for cycle in self.cycles for _ in range(2 * HARMONICS[cycle])]
        return (Group.bias, *calendar, *[Group.recent] * (self.recent * len(self.columns)))

    @property
    def column_of(self) -> tuple[int, ...]:
        """The column that each feature comes from; -1 for the constant and the calendar."""
        calendar = 1 + sum(2 * HARMONICS[cycle] for cycle in self.cycles)
        return (*[-1] * calendar, *self.columns * self.recent)

    def compose(self, recent: Float[Tensor, "b k c"], mark: Float[Tensor, "b m"]) -> Float[Tensor, "b e"]:
        """Features from the recent rows minus the window means, and the marks of the last rows."""
        features = [recent.new_ones(len(recent), 1)]
        for cycle in self.cycles:
            angle = 2 * pi * self.turns(mark.to(recent.dtype), cycle)
            orders = torch.arange(1, HARMONICS[cycle] + 1, device=mark.device, dtype=recent.dtype)
            turns = angle[:, None] * orders
            features += [turns.cos(), turns.sin()]
        return torch.cat([*features, recent.flatten(1)], dim=1)

    def turns(self, mark: Float[Tensor, "b m"], cycle: str) -> Float[Tensor, "b"]:
        """Number of turns since the cycle began, a linear function of the marks."""
        return self._days(mark, cycle) / _DAYS[cycle]

    def _days(self, mark: Float[Tensor, "b m"], cycle: str) -> Float[Tensor, "b"]:
        """Days since the cycle began."""
        field = {name: self._field(mark, name) for name in self.fields if name in RANGES}
        if "minute" in field:
            field.pop("quarter_hour", None)
        zero = mark.new_zeros(len(mark))
        hours = field.get("hour", zero) + field.get("minute", zero) / 60 + field.get("second", zero) / 3600
        hours = hours + field.get("quarter_hour", zero) / 4
        if cycle == "day":
            return hours / 24
        if cycle == "week":
            return field["weekday"] + hours / 24
        if "dayofyear" in field:
            return field["dayofyear"] + hours / 24
        if "week" in field:
            return field["week"] * 7
        # with months of average length: off by at most four days
        return field["month"] * (_DAYS["year"] / 12) + field.get("day", zero) + hours / 24

    def _field(self, mark: Float[Tensor, "b m"], name: str) -> Float[Tensor, "b"]:
        value = mark[:, self.fields.index(name)]
        return value if self.kind is not CalendarEmbed.timeF else (value + 0.5) * RANGES[name][1] + RANGES[name][0]


def cycle_turns(features: OriginFeatures, cycle: str) -> tuple[Float64[Tensor, "m"], Float64[Tensor, ""]]:
    """(weights, constant) of `OriginFeatures.turns` as a linear function of the marks, in float64."""
    size = len(features.fields)
    at_zero = features.turns(torch.zeros(1, size, dtype=torch.float64), cycle)
    return features.turns(torch.eye(size, dtype=torch.float64), cycle) - at_zero, at_zero[0]


def cycles_of(fields: Sequence[str], rows: int, rows_per_day: int | None) -> tuple[str, ...]:
    """Cycles that marks with these fields can represent and that occur at least twice in `rows` rows."""
    representable = {
        "day": "hour" in fields,
        "week": "weekday" in fields,
        "year": bool({"dayofyear", "week", "month"} & set(fields)),
    }
    if rows_per_day is None:
        return ()
    days = rows / rows_per_day
    short = 1 / rows_per_day
    return tuple(
        cycle
        for cycle, days_in in _DAYS.items()
        if representable[cycle] and short * 2 <= days_in and days >= 2 * days_in
    )
