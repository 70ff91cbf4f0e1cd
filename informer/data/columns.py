"""Roles of columns: which ones a model forecasts, and which others it reads.

Categories of a model: those in the training rows, and their codes in the rows of all parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from informer.base.errors import ColumnError, listed
from informer.config.data import FeatureMode
from informer.read.columns import Labels
from informer.read.series import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Column names by role, each in the model's order.

    Args:
        inputs: all columns that the model reads.
        targets: forecast columns.
        future_covariates: inputs with known future values, which the decoder reads.
        static_covariates: inputs that are constant within a series, which the decoder reads too.
        main: the target in all plots; None: the last target.
    """

    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    future_covariates: tuple[str, ...] = ()
    static_covariates: tuple[str, ...] = ()
    main: str | None = None

    @property
    def known(self) -> tuple[str, ...]:
        """Inputs that the decoder reads over the forecast horizon."""
        return (*self.future_covariates, *self.static_covariates)

    def positions(self, names: Sequence[str]) -> list[int]:
        """Positions of `names` among the inputs."""
        return [self.inputs.index(name) for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """Roles of columns given by the user; `choose` derives the others from a table.

    Args:
        features: rule for the columns that are in none of the lists below.
        target: column to forecast (S, MS); None takes the last column that is not a covariate.
        targets: columns to forecast; replaces `features` and `target`.
        past_covariates: columns to read but not to forecast.
        future_covariates: columns to read but not to forecast, with known future values.
        static_covariates: columns to read but not to forecast, constant within each series.
        weight: column with the weights of rows, which the model neither reads nor forecasts.
    """

    features: FeatureMode = "M"
    target: str | None = None
    targets: Sequence[str] | None = None
    past_covariates: Sequence[str] = ()
    future_covariates: Sequence[str] = ()
    static_covariates: Sequence[str] = ()
    weight: str | None = None

    @property
    def covariates(self) -> list[str]:
        """Columns to read but not to forecast."""
        return [*self.past_covariates, *self.future_covariates, *self.static_covariates]

    @property
    def only_target(self) -> str | None:
        """The target, if it alone is named and forecast."""
        if self.targets is not None:
            return self.targets[0] if len(self.targets) == 1 else None
        return None if self.features == "M" else self.target

    def with_categories(self, names: Sequence[str]) -> "Roles":
        """These roles with categorical columns added as past covariates, unless they have a role already.

        Raises:
            InputError: a categorical column is a target.
        """
        for name in names:
            if name == self.target or name in (self.targets or []):
                raise ColumnError(f"target={name}: its cells are categories, which are not forecast; choose another")
        past = [name for name in names if name not in self.covariates]
        return replace(self, past_covariates=[*self.past_covariates, *past])

    def choose(self, available: Sequence[str], *, name: str) -> Columns:
        """Roles of the `available` columns, in their order.

        Args:
            name: name of the table in errors.

        Raises:
            InputError: a missing column or one with two roles, or no column to forecast.
        """
        self._check(available, name)
        covariates = set(self.covariates)
        free = [column for column in available if column not in covariates and column != self.weight]
        if not free:
            raise ColumnError(f"{name}: no column left to forecast, all of {listed(available)} are covariates")
        if self.targets is not None:
            targets = inputs = set(self.targets)
        else:
            target = free[-1] if self.target is None else self.target
            targets = set(free) if self.features == "M" else {target}
            inputs = targets if self.features == "S" else set(free)
        return Columns(
            inputs=tuple(column for column in available if column in inputs | covariates),
            targets=tuple(column for column in available if column in targets),
            future_covariates=tuple(column for column in available if column in self.future_covariates),
            static_covariates=tuple(column for column in available if column in self.static_covariates),
            main=self.target if self.target in targets else None,
        )

    def _check(self, available: Sequence[str], name: str) -> None:
        if self.targets is not None and not self.targets:
            raise ColumnError("targets: expected at least one column, found []")
        by_role = {
            "target": [] if self.target is None or self.targets is not None else [self.target],
            "targets": list(self.targets or []),
            "past_covariates": list(self.past_covariates),
            "future_covariates": list(self.future_covariates),
            "dataset.static_covariates": list(self.static_covariates),
            "weight_col": [] if self.weight is None else [self.weight],
        }
        roles = dict[str, str]()
        for role, columns in by_role.items():
            for column in columns:
                if column not in available:
                    raise ColumnError(
                        f"{role}={column}: {name} has no such column, its columns are {listed(available)}"
                    )
                if other := roles.get(column):
                    twice = f"twice in {role}" if role == other else f"in {other} and in {role}"
                    raise ColumnError(f"column {column!r} is given {twice}; give it once")
                if role != "target" or self.features != "M":  # which forecasts all, for any target
                    roles[column] = role


class Trained(NamedTuple):
    """Meaning of the codes and numbers in a network's inputs, from its training."""

    series: Sequence[str]
    """Names of the training series, in the order of their numbers; empty for a single series."""
    categories: Labels
    """Categories of each categorical column, in the order of their codes."""
    masked: tuple[int, ...] | None = None
    """Positions of the inputs that have a mask column; None: the network does not read gaps."""


def trained_labels(training: Sequence[Series], labels: Labels) -> dict[str, tuple[str, ...]]:
    """Sorted categories in the training rows, by column; `labels` are the categories of the codes in these rows."""
    trained: dict[str, tuple[str, ...]] = {}
    for name, categories in labels.items():
        position = training[0].columns.index(name)
        numbers = {int(number) for series in training for number in np.unique(series.values[:, position])}
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
                raise ColumnError(
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
        codes = [0, *(numbers.get(label, 0) for label in categories)]
        tables[panel[0].columns.index(name)] = np.array(codes, dtype=np.float64)
    changed = []
    for series in panel:
        values = np.array(series.values)
        for position, table in tables.items():
            values[:, position] = table[values[:, position].astype(np.int64)]
        changed.append(replace(series, values=values))
    return changed
