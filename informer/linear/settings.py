"""What a linear map reads besides the column's own lookback window, and its settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from math import inf
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from informer.base.errors import InputError
from informer.config.model import CalendarEmbed
from informer.data.calendar import RANGES
from informer.networks.models.linear import HARMONICS, harmonics

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
        columns: columns whose recent rows are features.
        recent: number of these rows; 0 for none.
        cycles: the cycles of HARMONICS that the marks and the length of the data support.
        fields: names of the mark columns.
        kind: encoding of the marks.
    """

    columns: tuple[int, ...]
    recent: int
    cycles: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    kind: CalendarEmbed = CalendarEmbed.none

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
        mark = mark.to(recent.dtype)
        calendar = (harmonics(self.turns(mark, cycle), HARMONICS[cycle]) for cycle in self.cycles)
        return torch.cat([recent.new_ones(len(recent), 1), *calendar, recent.flatten(1)], dim=1)

    def turns(self, mark: Float[Tensor, "b m"], cycle: str) -> Float[Tensor, "b"]:
        """Number of turns since the cycle began, a linear function of the marks."""
        return self._days(mark, cycle) / _DAYS[cycle]

    def _days(self, mark: Float[Tensor, "b m"], cycle: str) -> Float[Tensor, "b"]:
        known = {name: self._field(mark, name) for name in self.fields if name in RANGES}
        if "minute" in known:
            known.pop("quarter_hour", None)
        zero = mark.new_zeros(len(mark))
        hours = known.get("hour", zero) + known.get("minute", zero) / 60 + known.get("second", zero) / 3600
        hours = hours + known.get("quarter_hour", zero) / 4
        if cycle == "day":
            return hours / 24
        if cycle == "week":
            return known["weekday"] + hours / 24
        if "dayofyear" in known:
            return known["dayofyear"] + hours / 24
        if "week" in known:
            return known["week"] * 7
        # with months of average length: off by at most four days
        return known["month"] * (_DAYS["year"] / 12) + known.get("day", zero) + hours / 24

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


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSettings:
    """Settings of one linear map, chosen by leave-one-block-out cross-validation.

    Penalties are relative to the mean square of their input, so that they do not depend on units. An input with penalty
    inf is not used.

    Args:
        lookback: rows of the lookback window.
        last: subtract the last value of the window instead of its mean.
        taper: exponent of a row's age in its penalty; the larger, the less older rows count.
        shared: penalty of the shared map.
        aligned: penalty of rows a whole number of seasons before the forecast step, as a share of other rows' penalty.
        own: penalty on the difference between a column's map and the shared one; inf: all columns use the shared map.
        groups: penalties of additional inputs.
        naive: weight of the seasonal naive forecast, from 0 to 1.
        weight: weight of the map in a mean of several, relative to theirs.
    """

    lookback: int
    last: bool = False
    taper: float = 1.0
    aligned: float = 1.0
    shared: float = 1e4
    own: float = 1e5
    groups: Mapping[Group, float] = field(default_factory=dict)
    naive: float = 0.0
    weight: float = 1.0

    def penalty(self, group: Group) -> float:
        """Penalty of a group of additional inputs; inf if it is not used."""
        return self.groups.get(group, inf)

    @property
    def in_words(self) -> str:
        """Description for the log."""
        maps = (
            "one map for all"
            if self.own == inf
            else f"one map per column or series, shrunk to a shared one (penalty {self.own:g})"
        )
        further = ", ".join(f"{group.value} ({penalty:g})" for group, penalty in self.groups.items() if penalty < inf)
        reference = "last value" if self.last else "mean"
        aligned = f", whole seasons ago {self.aligned:.2g} of it" if self.aligned != 1 else ""
        naive = f"; {self.naive:.0%} of the seasonal naive" if self.naive else ""
        return (
            f"{self.lookback} rows of history minus their {reference}; {maps} (penalty {self.shared:g} times age to "
            f"the power of {self.taper:g}{aligned}); additional inputs and their penalties: {further or 'none'}{naive}"
        )

    def unlike(self, other: "MapSettings") -> str:
        """Description of the differences from another setting, for the log."""
        differences = [f"{self.lookback} rows"]
        if self.last != other.last:
            differences.append(f"minus their {'last value' if self.last else 'mean'}")
        if self.own != other.own:
            differences.append("one map for all" if self.own == inf else f"own maps (penalty {self.own:g})")
        if self.groups != other.groups:
            left_out = [group.value for group, penalty in other.groups.items() if self.penalty(group) != penalty]
            differences.append(f"without {' and '.join(left_out)}")
        if self.naive != other.naive:
            differences.append(
                f"with {self.naive:.0%} of the seasonal naive" if self.naive else "without the seasonal naive"
            )
        return " ".join(differences)

    def to_plain(self) -> dict[str, Any]:
        """Plain values for a configuration, without unused inputs and without `own` if it is inf."""
        groups = {group.name: penalty for group, penalty in self.groups.items() if penalty < inf}
        plain = {entry.name: getattr(self, entry.name) for entry in fields(self)} | {"groups": groups}
        return {name: value for name, value in plain.items() if name != "own" or value < inf}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "MapSettings":
        """Inverse of `to_plain`.

        Raises:
            InputError: unknown or missing names, or values out of range.
        """
        entries = {"own": inf, "naive": 0.0, "aligned": 1.0, "weight": 1.0, **plain}
        groups = entries.pop("groups", {})
        names = {entry.name for entry in fields(cls)} - {"groups"}
        sound = set(entries) == names and isinstance(groups, Mapping) and set(groups) <= set(Group.__members__)
        if sound:
            numbers = {name: value for name, value in entries.items() if name != "last"}
            positive = [entries["lookback"], entries["shared"], entries["aligned"], entries["weight"], *groups.values()]
            sound = isinstance(entries["last"], bool) and isinstance(entries["lookback"], int)
            sound &= all(isinstance(value, int | float) and value >= 0 for value in numbers.values())
            sound &= all(isinstance(value, int | float) and 0 < value < inf for value in positive)
        if not sound:
            raise InputError(
                f"model.maps: expected {', '.join(sorted(names))} and groups among {', '.join(Group.__members__)}, "
                f"each with its number, found {dict(plain)}; leave model.maps out to have them chosen"
            )
        return cls(**entries, groups={Group[name]: float(penalty) for name, penalty in groups.items()})


def in_words(averaged: Sequence[MapSettings]) -> str:
    """Description of an averaged forecast: the first setting, and how the others differ from it."""
    first, *others = averaged
    if not others:
        return first.in_words
    total = sum(setting.weight for setting in averaged)
    described = ", ".join(f"{setting.unlike(first)} ({setting.weight / total:.0%})" for setting in others)
    return f"{first.in_words}; averaged ({first.weight / total:.0%}) with: {described}"


def lookback_grid(seq_len: int, season: int) -> list[int]:
    """Lookback windows to choose from: about 1/8 to 8/8 of seq_len, in whole seasons where possible."""
    grid = {seq_len}
    for share in (1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8):
        rows = round(seq_len * share)
        rounded = round(rows / season) * season
        grid.add(rounded if 0 < rounded <= seq_len else max(rows, 1))
    return sorted(grid)
