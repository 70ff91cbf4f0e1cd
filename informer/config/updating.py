"""Configuration of the commands that maintain a trained model: update, watch."""

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
    """File with the rows after the training data; it may contain earlier rows too."""
    output: str | None = None
    """Folder of the new run; null: runs/<time>_update_<name of the older run>."""
    steps: int = 0
    """Further training steps of the network, starting from the state of its optimiser; 0: it is not changed."""
    lr: float | None = None
    """Learning rate of these steps; null: that of the older run at its last step."""
    dataset: InputFormat = field(default_factory=InputFormat)
    """Format and repairs of the file, if different from the training data."""
    trained: EvalDataset = field(default_factory=EvalDataset)
    """For a run without saved rows and moments: location and format of its training data, if they have changed."""
    data_dir: str | None = None
    """For a run without saved rows and moments: folder of the datasets' files; null: as in training."""
    device: str = "auto"
    """Device to run on: auto, cpu, cuda, cuda:1 or mps."""

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        problems = [] if self.input else ["input: expected a file with later rows, found none; set input=FILE.csv"]
        problems += [*self.dataset.problems(), *self.trained.problems(), *device_problems(self.device)]
        if self.steps < 0:
            problems.append(f"steps: expected at least 0, found {self.steps}")
        if self.lr is not None and not self.lr > 0:
            problems.append(f"lr: expected more than 0, found {self.lr}")
        if self.lr is not None and not self.steps:
            problems.append("lr: only used with steps, found steps=0")
        return problems


@dataclass(kw_only=True, slots=True)
class WatchConfig:
    """`python -m informer.watch checkpoint=RUN input=FILE`."""

    checkpoint: str = "runs/latest"
    """A run directory or a checkpoint file."""
    input: str | None = None
    """File with the rows since training; it may contain earlier rows too."""
    output: str | None = None
    """Folder for watch.json and watch.html; null: `watch` next to the checkpoint."""
    dataset: InputFormat = field(default_factory=InputFormat)
    """Format and repairs of the file, if different from the training data."""
    device: str = "auto"
    """Device to run on: auto, cpu, cuda, cuda:1 or mps."""
    batch_size: int = 256
    """Windows per batch."""

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        problems = (
            [] if self.input else ["input: expected a file with rows since training, found none; set input=FILE.csv"]
        )
        problems += [*self.dataset.problems(), *device_problems(self.device)]
        if self.batch_size < 1:
            problems.append(f"batch_size: expected at least 1, found {self.batch_size}")
        return problems
