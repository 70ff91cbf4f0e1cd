"""Which columns of a table a model forecasts, and which others it reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from informer.data.table import listed
from informer.errors import InputError


class Features(Enum):
    """M: all columns in, all out; S: the target in and out; MS: all in, the target out."""

    M = "M"
    S = "S"
    MS = "MS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Names by role, each in the order that the model reads or writes them.

    Args:
        inputs: all that it reads of the history.
        targets: what it forecasts.
        future_covariates: inputs whose values are known over the horizon too, where the decoder reads them.
    """

    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    future_covariates: tuple[str, ...] = ()

    def positions(self, names: Sequence[str]) -> list[int]:
        """Where these stand among the inputs."""
        return [self.inputs.index(name) for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """What a user says of the columns; `choose` fills in the rest from a table.

    Args:
        features: the roles in short, for columns that no list below names.
        target: the column to forecast (S, MS); None takes the last that is no covariate.
        targets: the columns to forecast, in place of `features` and `target`; None leaves it to them.
        past_covariates: columns to read and not to forecast.
        future_covariates: the same, known over the horizon too.
    """

    features: Features = Features.M
    target: str | None = None
    targets: Sequence[str] | None = None
    past_covariates: Sequence[str] = ()
    future_covariates: Sequence[str] = ()

    def choose(self, found: Sequence[str], *, name: str) -> Columns:
        """The roles of the columns `found`, in the order in which they stand there.

        Args:
            name: what to call the table in errors.

        Raises:
            InputError: a column that is not there or has two roles, or nothing left to forecast.
        """
        self._check(found, name)
        covariates = {*self.past_covariates, *self.future_covariates}
        free = [column for column in found if column not in covariates]
        if not free:
            raise InputError(f"{name}: no column left to forecast, all of {listed(found)} are covariates")
        if self.targets is not None:
            targets = read = set(self.targets)
        else:
            target = free[-1] if self.target is None else self.target
            targets = set(free) if self.features is Features.M else {target}
            read = targets if self.features is Features.S else set(free)
        return Columns(
            inputs=tuple(column for column in found if column in read | covariates),
            targets=tuple(column for column in found if column in targets),
            future_covariates=tuple(column for column in found if column in self.future_covariates),
        )

    def _check(self, found: Sequence[str], name: str) -> None:
        if self.targets is not None and not self.targets:
            raise InputError("targets: expected at least one column, found []")
        named = {
            "target": [] if self.target is None or self.targets is not None else [self.target],
            "targets": list(self.targets or []),
            "past_covariates": list(self.past_covariates),
            "future_covariates": list(self.future_covariates),
        }
        for role, columns in named.items():
            for column in columns:
                if column not in found:
                    raise InputError(f"{role}={column}: {name} has no such column, its columns are {listed(found)}")
        if self.features is Features.M:  # which forecasts all, whatever the target
            named["target"] = []
        given = [(column, role) for role, columns in named.items() for column in columns]
        for place, (column, role) in enumerate(given):
            for other, other_role in given[:place]:
                if column == other:
                    twice = f"twice in {role}" if role == other_role else f"in {other_role} and in {role}"
                    raise InputError(f"column {column!r} stands {twice}; expected it once")
