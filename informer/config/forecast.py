"""The configuration of `informer forecast`: one file or folder to forecasts and a report."""

from dataclasses import dataclass, field
from enum import Enum

from informer.config.dataset import DatasetConfig
from informer.runtime import device_problems


class Repair(Enum):
    """What to do about problems in the data that a setting would repair."""

    none = "none"
    """Report them with that setting, and stop."""
    auto = "auto"
    """Set it, and log what was repaired."""


@dataclass(kw_only=True, slots=True)
class ForecastConfig:
    """`informer forecast FILE`."""

    input: str | None = None
    """The file to forecast, or a folder or a pattern of many."""
    horizon: int | None = None
    """Rows to forecast; null: two seasons of the step (48 hours, 14 days), one where the data is short, at most 96."""
    target: str | None = None
    """The column to forecast from all others; null: every column of numbers."""
    budget: float = 5.0
    """Minutes for everything; with several datasets they share it."""
    repair: Repair = Repair.none
    intervals: list[int] = field(default_factory=lambda: [80, 95])
    """Levels in percent."""
    output: str | None = None
    """Folder of everything that is made; null: runs/<time>_<file>."""
    model_name: str = "auto"
    """An option of training's `model`; auto chooses on the validation part within the budget."""
    seed: int = 0
    device: str = "auto"
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    """How the file is written, repaired and split, where that should not be found."""

    def problems(self) -> list[str]:
        """Every value out of range, one sentence each."""
        found = self.dataset.problems() + device_problems(self.device)
        if not self.input:
            found.append("input: expected a file or folder to forecast, found none: informer forecast FILE.csv")
        if self.horizon is not None and self.horizon < 1:
            found.append(f"horizon: expected at least 1, found {self.horizon}")
        if not self.budget > 0:
            found.append(f"budget: expected more than 0 minutes, found {self.budget}")
        if any(not 1 <= level <= 99 or self.intervals.count(level) > 1 for level in self.intervals):
            found.append(f"intervals: expected different whole percentages from 1 to 99, found {self.intervals}")
        if self.dataset.path is not None:
            found.append(f"dataset.path: expected none, found {self.dataset.path}; the file is given without a key")
        return found
