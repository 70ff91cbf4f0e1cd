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
    """HTML file to write; null: report.html in the input folder, or next to the input file."""
    history: str | None = None
    """For forecasts: file with the values before them; null: the file named in their summary, if it exists."""
    actuals: str | None = None
    """For forecasts: file with actual values, if known."""
    dataset: EvalDataset = field(default_factory=EvalDataset)
    """For a run: location and format of its data, if they have changed since training."""
    data_dir: str | None = None
    """Folder of the datasets' files; null: as in training."""
    device: str = "auto"
    """Device to run on: auto, cpu, cuda, cuda:1 or mps."""
    batch_size: int = 256
    """Windows per batch."""

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        problems = self.dataset.problems() + device_problems(self.device)
        if self.batch_size < 1:
            problems.append(f"batch_size: expected at least 1, found {self.batch_size}")
        return problems


@dataclass(kw_only=True, slots=True)
class CompareConfig:
    """`informer compare runs/*`."""

    runs: list[str] = field(default_factory=list)
    """Run directories."""
    output: str | None = None
    """HTML file to write; null: only print the table."""

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        return [] if self.runs else ["runs: expected run directories, found none: informer compare runs/*"]


@dataclass(kw_only=True, slots=True)
class ScoreConfig:
    """`python -m informer.score forecasts=FILE actuals=FILE history=FILE`."""

    forecasts: str | None = None
    """File of forecasts, long or wide."""
    actuals: str | None = None
    """File of actual values, long or wide."""
    history: str | None = None
    """File of earlier values, for the baselines, MASE and OWA; missing cells and rows keep their places."""
    season: int | None = None
    """Rows per season; null: derived from the time step of the history."""
    output: str | None = None
    """Folder for scores.json and scores.csv; null: only print the table."""
    dataset: InputFormat = field(default_factory=InputFormat)
    """Format of the files, as far as it should not be detected."""

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        problems = self.dataset.problems()
        for name in ("forecasts", "actuals", "history"):
            if not getattr(self, name):
                problems.append(f"{name}: expected a file, found none; set {name}=FILE.csv")
        if self.dataset.attributes is not None:
            problems.append("dataset.attributes: expected none, scores need no attributes; leave it out")
        if self.season is not None and self.season < 1:
            problems.append(f"season: expected at least 1, found {self.season}")
        return problems
