"""Configuration of the commands that show and score results: report, compare, score."""

from dataclasses import dataclass, field

from informer.config.commands import EvalDataset
from informer.config.input_format import InputFormat
from informer.runtime import device_problems


@dataclass(kw_only=True, slots=True)
class ReportConfig:
    """`python -m informer.report runs/latest`."""

    input: str = "runs/latest"
    """A run directory, a checkpoint file, the folder of an evaluation, or a file or folder of forecasts."""
    output: str | None = None
    """The page; null: report.html in the input, or next to it."""
    history: str | None = None
    """For forecasts: the file before them; null: the file named in their summary, if it exists."""
    actuals: str | None = None
    """For forecasts: a file with actual values, if known."""
    dataset: EvalDataset = field(default_factory=EvalDataset)
    """For a run: where its data is now or how it is written, if different from training."""
    data_dir: str | None = None
    """Folder of the datasets' files; null: as in training."""
    device: str = "auto"
    batch_size: int = 256

    def problems(self) -> list[str]:
        """All values out of range, one sentence each."""
        found = self.dataset.problems() + device_problems(self.device)
        if self.batch_size < 1:
            found.append(f"batch_size: expected at least 1, found {self.batch_size}")
        return found


@dataclass(kw_only=True, slots=True)
class CompareConfig:
    """`python -m informer.compare runs/*`."""

    runs: list[str] = field(default_factory=list)
    """Run directories."""
    output: str | None = None
    """An HTML page to write; null: the table only."""

    def problems(self) -> list[str]:
        """All values out of range, one sentence each."""
        return [] if self.runs else ["runs: expected run directories, found none: python -m informer.compare runs/*"]


@dataclass(kw_only=True, slots=True)
class ScoreConfig:
    """`python -m informer.score forecasts=FILE actuals=FILE history=FILE`."""

    forecasts: str | None = None
    """Forecasts, long or wide."""
    actuals: str | None = None
    """Actual values, long or wide."""
    history: str | None = None
    """Earlier values: for the baselines, MASE and OWA; missing ones, as cells or rows, keep their places."""
    season: int | None = None
    """Rows per season; null: derived from the step of the history."""
    output: str | None = None
    """Folder of scores.json and scores.csv; null: the table only."""
    dataset: InputFormat = field(default_factory=InputFormat)
    """How the files are written, if that cannot be detected."""

    def problems(self) -> list[str]:
        """All values out of range, one sentence each."""
        found = self.dataset.problems()
        for name in ("forecasts", "actuals", "history"):
            if not getattr(self, name):
                found.append(f"{name}: expected a file, found none; set {name}=FILE.csv")
        if self.season is not None and self.season < 1:
            found.append(f"season: expected at least 1, found {self.season}")
        return found
