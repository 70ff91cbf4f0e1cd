"""Format of the tables that a trained model forecasts: the keys `dataset.*` of all commands that read such a table."""

from dataclasses import dataclass, fields, replace

from informer.config.dataset import DatasetConfig, Short
from informer.config.repairs import Duplicates, Fill


@dataclass(kw_only=True, slots=True)
class InputFormat:
    """Format of a table to forecast, if different from the training data; null: as in training."""

    series_col: str | None = None
    attributes: str | None = None
    short: Short | None = None
    time_col: str | None = None
    clock_col: str | None = None
    time_format: str | None = None
    timezone: str | None = None
    frequency: str | None = None
    sheet: str | None = None
    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    missing_values: list[str] | None = None
    sort: bool | None = None
    duplicates: Duplicates | None = None
    fill: Fill | None = None
    max_gap: int | None = None
    min_observed: float | None = None
    confirm: list[str] | None = None
    max_file_mb: float | None = None
    max_line_mb: float | None = None
    max_cell: int | None = None

    def applied_to(self, dataset: DatasetConfig) -> DatasetConfig:
        """`dataset` with the values set here; limits that are not set here get their defaults."""
        default = DatasetConfig()
        usual = {name: getattr(default, name) for name in ("max_file_mb", "max_line_mb", "max_cell")}
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(dataset, **usual | {name: value for name, value in values.items() if value is not None})

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        return self.applied_to(DatasetConfig()).problems()
