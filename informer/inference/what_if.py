"""Forecasts with changed columns known ahead: what a user asks for, and sliders for a page."""

import math
import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.base.errors import InputError, listed
from informer.checkpoint.format import Checkpoint
from informer.data.history import Future
from informer.inference.model import TrainedModel
from informer.read.series import Series, column_values


class Change(NamedTuple):
    """value -> value * factor + shift, of a column known ahead."""

    factor: float
    shift: float


@dataclass(frozen=True)
class ChangedFuture(Future):
    """Future covariates of which some columns are changed."""

    changes: Mapping[str, Change] | None = None

    def at(self, timestamps: pd.DatetimeIndex, columns: Sequence[str]) -> Float64[np.ndarray, "h k"]:
        """See `Future.at`."""
        values = Future.at(self, timestamps, columns).copy()
        for name, change in (self.changes or {}).items():
            place = list(columns).index(name)
            values[:, place] = values[:, place] * change.factor + change.shift
        return values


def read_changes(words: Sequence[str], saved: Checkpoint) -> dict[str, Change]:
    """Changes of columns known ahead: price=+10%, price=-2 (added), price=5 or weather=rain (the value of all rows).

    Raises:
        InputError: another form, or a column that the model does not read ahead.
    """
    changes = dict[str, Change]()
    for word in words:
        name, sign, value = word.rpartition("=")
        where, known = f"set={word}", saved.future_covariates
        if not sign:
            raise InputError(f"{where}: expected COLUMN=VALUE, such as price=+10%")
        if name not in known:
            role = "is not known ahead to" if name in saved.inputs else "is not read by"
            readable = f"it reads ahead {listed(known)}" if known else "it reads no column ahead"
            raise InputError(f"{where}: {name} {role} this model; {readable}")
        if name in saved.categories:
            if value not in saved.categories[name]:
                raise InputError(f"{where}: expected one of {listed(saved.categories[name])}")
            changes[name] = Change(0.0, 1.0 + list(saved.categories[name]).index(value))
        elif not (found := re.fullmatch(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(%?)", value)) or (found[3] and not found[1]):
            raise InputError(f"{where}: expected a number, or a change such as +10%, -10%, +2 or -2")
        else:
            number = float(found[1] + found[2])
            changes[name] = Change(1 + number / 100, 0.0) if found[3] else Change(float(bool(found[1])), number)
    return changes


def changed(futures: Sequence[Future], changes: Mapping[str, Change]) -> list[Future]:
    """Future covariates with these changes."""
    return [ChangedFuture(each.table, each.time_col, each.timestamps, changes=changes) for each in futures]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slider:
    """What changes of one column do.

    Args:
        column: its name.
        labels: the values that all rows may have; None: a number is added to them.
        points: codes or values of `labels`, or numbers to add.
        differences: of the forecasts of each series, for each point.
    """

    column: str
    labels: Sequence[str] | None
    points: Sequence[float]
    differences: Sequence[Sequence[Float64[np.ndarray, "h n"]]]


MOST_SLIDERS, MOST_VALUES, POINTS = 8, 12, 4
"""Maximum number of columns and of values of a category; points on each side of zero."""


def sliders(
    model: TrainedModel, series: Sequence[Series], futures: Sequence[Future], *, horizon: str | None
) -> tuple[list[Slider], bool]:
    """Sliders of the columns known ahead that have an effect on these forecasts; and whether the forecasts are linear
    in them, so that two points are enough, until they are clipped at zero."""
    targets = model.columns.positions(model.columns.targets)
    is_linear = model.model.network is None and not model.model.floor and not model.scaler.roots(targets)
    if is_linear:
        model = copy(model)
        model.model = copy(model.model)
        model.model.non_negative = ()
    pad_to, found = len(series), list[Slider]()
    base = model.forecast(series, horizon=horizon, futures=futures, pad_to=pad_to)
    for column in model.columns.future_covariates[:MOST_SLIDERS]:
        labels, points = _points(model, series, column, is_linear=is_linear)
        differences = []
        for value in points:
            ahead = changed(futures, {column: Change(float(labels is None), value)})
            then = model.forecast(series, horizon=horizon, futures=ahead, pad_to=pad_to)
            differences.append([b.values - a.values for a, b in zip(base, then, strict=True)])
        if any(each.any() for point in differences for each in point):
            found.append(Slider(column=column, labels=labels, points=points, differences=differences))
    return found, is_linear


def _points(
    model: TrainedModel, series: Sequence[Series], column: str, *, is_linear: bool
) -> tuple[list[str] | None, list[float]]:
    if column in model.checkpoint.categories:
        labels = list(model.checkpoint.categories[column])[:MOST_VALUES]
        return labels, [1.0 + place for place in range(len(labels))]
    values = np.concatenate([column_values(each, [column])[:, 0] for each in series])
    different = np.unique(values[np.isfinite(values)]).tolist()
    if len(different) <= 2:  # such as 0 and 1
        return [f"{value:g}" for value in different], different
    exact = float(np.nanstd(values)) * 2 / POINTS
    unit = 10.0 ** math.floor(math.log10(exact))
    step = unit * next(each for each in (1, 2, 5, 10) if each * unit >= exact)
    places = [-POINTS, POINTS] if is_linear else [place for place in range(-POINTS, POINTS + 1) if place]
    return None, [step * place for place in places]
