"""Settings of a linear map.

Options of the linear fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any

from informer.base.errors import InputError
from informer.linear.features import Group


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
        own_penalty = {} if self.own == inf else {"own": self.own}
        groups = {group.name: penalty for group, penalty in self.groups.items() if penalty < inf}
        names = ("lookback", "last", "taper", "aligned", "shared", "naive", "weight")
        return {name: getattr(self, name) for name in names} | own_penalty | {"groups": groups}

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

    def with_group(self, group: Group, penalty: float) -> "MapSettings":
        """A copy with another penalty for one group."""
        return replace(self, groups={**self.groups, group: penalty})


def in_words(averaged: Sequence[MapSettings]) -> str:
    """Description of an averaged forecast: the first setting, and how the others differ from it."""
    first, *others = averaged
    if not others:
        return first.in_words
    total = sum(setting.weight for setting in averaged)
    described = ", ".join(f"{setting.unlike(first)} ({setting.weight / total:.0%})" for setting in others)
    return f"{first.in_words}; averaged ({first.weight / total:.0%}) with: {described}"


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
    chosen: Sequence[MapSettings] = ()
    left_out: Sequence[int] = ()


def lookback_grid(seq_len: int, season: int) -> list[int]:
    """Lookback windows to choose from: about 1/8 to 8/8 of seq_len, in whole seasons where possible."""
    grid = {seq_len}
    for share in (1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8):
        rows = round(seq_len * share)
        rounded = round(rows / season) * season
        grid.add(rounded if 0 < rounded <= seq_len else max(rows, 1))
    return sorted(grid)
