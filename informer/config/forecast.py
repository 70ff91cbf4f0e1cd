"""Configuration of `informer forecast`: from files to forecasts and a report."""

from dataclasses import dataclass, field
from enum import Enum

from informer.config.dataset import DatasetConfig
from informer.config.overrides import NAME
from informer.runtime import device_problems


class Repair(Enum):
    """What to do about problems in the data that a repair would solve."""

    none = "none"
    """Report them, with the settings that would repair them, and stop."""
    auto = "auto"
    """Repair them, and log what was changed."""


@dataclass(kw_only=True, slots=True)
class ForecastConfig:
    """`informer forecast FILE`."""

    input: str | None = None
    """The file to forecast, or a folder or pattern of many files."""
    horizon: int | None = None
    """Rows to forecast; null: two seasons (48 hours, 14 days, ...), one if the data are short, and at most 96."""
    target: str | None = field(default=None, metadata=NAME)
    """Column to forecast, with all others as inputs; null: forecast every numeric column."""
    budget: float = 5.0
    """Time limit for everything in minutes; several datasets share it."""
    repair: Repair = Repair.none
    """none: stop if the data need repairs; auto: repair them."""
    intervals: list[int] = field(default_factory=lambda: [80, 95])
    """Interval levels in percent."""
    output: str | None = None
    """Folder for all results; null: runs/<time>_<file>."""
    model_name: str = "auto"
    """An option of training's `model`; auto chooses on validation data within the budget."""
    seed: int = 0
    """Seed of all random numbers."""
    device: str = "auto"
    """Device to run on: auto, cpu, cuda, cuda:1 or mps."""
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    """Format of the file, repairs and split, as far as they should not be detected."""

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        problems = self.dataset.problems() + device_problems(self.device)
        if not self.input:
            problems.append("input: expected a file or folder to forecast, found none: informer forecast FILE.csv")
        if self.horizon is not None and self.horizon < 1:
            problems.append(f"horizon: expected at least 1, found {self.horizon}")
        if not self.budget > 0:
            problems.append(f"budget: expected more than 0 minutes, found {self.budget}")
        if any(not 1 <= level <= 99 or self.intervals.count(level) > 1 for level in self.intervals):
            problems.append(f"intervals: expected different whole percentages from 1 to 99, found {self.intervals}")
        if self.dataset.path is not None:
            problems.append(f"dataset.path: expected none, found {self.dataset.path}; the file is given without a key")
        return problems
