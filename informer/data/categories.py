"""Categories of a model: those in the training rows, and their codes in the rows of all parts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from informer.data.attributes import Attributes
from informer.data.read.categories import Labels
from informer.data.read.source import Series
from informer.data.split import Split
from informer.errors import InputError


class Trained(NamedTuple):
    """Meaning of the codes and numbers in a network's inputs, from its training."""

    series: Sequence[str]
    """Names of the training series, in the order of their numbers; empty for a single series."""
    categories: Labels
    """Categories of each categorical column, in the order of their codes."""
    masked: tuple[int, ...] | None = None
    """Positions of the inputs that have a mask column; None: the network does not read gaps."""
    attributes: Attributes | None = None
    """Attributes of the training series; None: they came with the rows, or there are none."""


NUMBERS_ONLY = Trained((), {})
"""A single series without categories."""


def trained_labels(panel: Sequence[Series], splits: Sequence[Split], labels: Labels) -> dict[str, tuple[str, ...]]:
    """Sorted categories in the training rows, by column; `labels` are the categories of the codes in the panel."""
    trained: dict[str, tuple[str, ...]] = {}
    for name, categories in labels.items():
        position = panel[0].columns.index(name)
        training = (
            series.values[split.train.start : split.train.stop] for series, split in zip(panel, splits, strict=True)
        )
        numbers = {int(number) for rows in training for number in np.unique(rows[:, position])}
        trained[name] = tuple(sorted(categories[number - 1] for number in numbers if number))
    return trained


def check_static(panel: Sequence[Series], names: Sequence[str], labels: Labels) -> None:
    """Raise InputError if a static covariate changes within a series."""
    for name in names:
        for series in panel:
            values = series.values[:, series.columns.index(name)]
            other = np.flatnonzero(values != values[0])
            if len(other):
                first, then = (
                    repr(labels[name][int(value) - 1]) if name in labels else f"{value:g}"
                    for value in (values[0], values[other[0]])
                )
                raise InputError(
                    f"dataset.static_covariates={name}: expected one value within {series.name}, found {first} and "
                    f"then {then} at {series.timestamps[other[0]]}; name it in past_covariates or future_covariates"
                )


def renumbered(panel: list[Series], labels: Labels, trained_labels: Labels) -> list[Series]:
    """Replace the codes of `labels` by those of `trained_labels`; categories without one there become 0."""
    if not labels:
        return panel
    tables = {}
    for name, categories in labels.items():
        numbers = {label: number for number, label in enumerate(trained_labels[name], start=1)}
        tables[panel[0].columns.index(name)] = np.array(
            [0, *(numbers.get(label, 0) for label in categories)], dtype=float
        )
    changed = []
    for series in panel:
        values = np.array(series.values)
        for position, table in tables.items():
            values[:, position] = table[values[:, position].astype(np.int64)]
        changed.append(replace(series, values=values))
    return changed
