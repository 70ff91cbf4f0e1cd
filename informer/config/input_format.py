"""Format of the tables that a trained model forecasts: the keys `dataset.*` of all commands that read such a table."""

from dataclasses import dataclass, field, fields, make_dataclass, replace
from typing import Any, get_type_hints

from informer.config.dataset import DatasetConfig, settings_that


def optional_settings(*bases: type, **what: Any) -> Any:
    """A dataclass with the settings of a dataset that are declared as `what`; each may be None, which is the default.

    mypy knows no classes made by a call: it takes their attributes for Any.
    """
    hints = get_type_hints(DatasetConfig)
    optional = [
        (entry.name, hints[entry.name] | None, field(default=None, metadata=entry.metadata))
        for entry in fields(DatasetConfig)
        if entry.name in settings_that(**what)
    ]
    return make_dataclass("Settings", optional, bases=bases, kw_only=True, slots=True)


@dataclass(kw_only=True, slots=True)
class InputFormat(optional_settings(per_file=True)):  # type: ignore[misc]
    """Format of a table to forecast, if different from the training data; null: as in training."""

    def applied_to(self, dataset: DatasetConfig) -> DatasetConfig:
        """`dataset` with the values set here; limits that are not set here get their defaults."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        limits = {name: getattr(DatasetConfig(), name) for name in settings_that(is_limit=True)}
        return replace(dataset, **limits | {name: value for name, value in values.items() if value is not None})

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        return self.applied_to(DatasetConfig()).problems()
