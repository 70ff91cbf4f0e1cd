"""Configuration of the commands that look after a trained model: update, watch."""

from dataclasses import dataclass, field

from informer.config.commands import EvalDataset
from informer.config.input_format import InputFormat
from informer.runtime import device_problems


@dataclass(kw_only=True, slots=True)
class UpdateConfig:
    """`python -m informer.update checkpoint=RUN input=FILE`."""

    checkpoint: str = "runs/latest"
    """A run directory."""
    input: str | None = None
    """A file with the rows after the training data, with earlier rows or without."""
    output: str | None = None
    """Folder of the new run; null: runs/<time>_update_<name of the older run>."""
    steps: int = 0
    """Steps that the network is trained further, from the state of its optimiser; 0: it stays as it is."""
    lr: float | None = None
    """Learning rate of these steps; null: that of the older run at its last step."""
    dataset: InputFormat = field(default_factory=InputFormat)
    """How the file is written and repaired, if different from the training data."""
    trained: EvalDataset = field(default_factory=EvalDataset)
    """For a run that kept no rows and moments: where its training data is now."""
    data_dir: str | None = None
    """Folder of the datasets' files, for a run that kept nothing; null: as in training."""
    device: str = "auto"

    def problems(self) -> list[str]:
        """All values out of range, one sentence each."""
        found = [] if self.input else ["input: expected a file with later rows, found none; set input=FILE.csv"]
        found += [*self.dataset.problems(), *self.trained.problems(), *device_problems(self.device)]
        if self.steps < 0:
            found.append(f"steps: expected at least 0, found {self.steps}")
        if self.lr is not None and not self.lr > 0:
            found.append(f"lr: expected more than 0, found {self.lr}")
        if self.lr is not None and not self.steps:
            found.append("lr: only used with steps, found steps=0")
        return found


@dataclass(kw_only=True, slots=True)
class WatchConfig:
    """`python -m informer.watch checkpoint=RUN input=FILE`."""

    checkpoint: str = "runs/latest"
    """A run directory or a checkpoint file."""
    input: str | None = None
    """A file with the rows since training, with earlier rows or without."""
    output: str | None = None
    """Folder of watch.json and watch.html; null: `watch` next to the checkpoint."""
    dataset: InputFormat = field(default_factory=InputFormat)
    """How the file is written and repaired, if different from the training data."""
    device: str = "auto"
    batch_size: int = 256

    def problems(self) -> list[str]:
        """All values out of range, one sentence each."""
        found = (
            [] if self.input else ["input: expected a file with rows since training, found none; set input=FILE.csv"]
        )
        found += [*self.dataset.problems(), *device_problems(self.device)]
        if self.batch_size < 1:
            found.append(f"batch_size: expected at least 1, found {self.batch_size}")
        return found
