"""Configuration of eval, predict, export and inspect.

Where independent tasks run: the keys `engine` and `workers`.

Configuration of `informer forecast`: from files to forecasts and a report.

Configuration of `informer serve`: forecasts over HTTP.

Configuration of the commands that show and score results: report, compare, score.

Configuration of the commands that maintain a trained model: update, watch.
"""

from dataclasses import dataclass, field
from enum import Enum

from informer.base.errors import InputError
from informer.base.runtime import device_problems
from informer.config.data import DatasetConfig, InputFormat, Place, optional_settings
from informer.config.model import WindowSizes
from informer.config.overrides import NAME


class EngineName(Enum):
    """local: in this process. ray: by actors of the Ray cluster at RAY_ADDRESS, or of a local cluster."""

    local = "local"
    ray = "ray"


def workers_problems(engine: EngineName, workers: int | None) -> list[str]:
    """One sentence for each value out of range."""
    if workers is None:
        return []
    problems = [f"workers: expected at least 1, found {workers}"] if workers < 1 else []
    if engine is EngineName.local:
        problems.append(f"workers: only used with engine=ray, found workers={workers}")
    return problems


class RepairMode(Enum):
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
    repair: RepairMode = RepairMode.none
    """none: stop if the data need repairs; auto: repair them."""
    intervals: list[int] = field(default_factory=lambda: [80, 95])
    """Interval levels in percent."""
    output: str | None = None
    """Folder for all results; null: runs/<time>_<file>."""
    model_name: str = "auto"
    """An option of training's `model`; auto chooses on validation data within the budget; zero comes trained."""
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


class Plots(Enum):
    """Plots of an evaluation; false and true mean none and standard."""

    none = "none"
    standard = "standard"
    """Error by step."""
    attention = "attention"
    """Also the attention of every layer and head."""
    false = none
    true = standard


@dataclass(kw_only=True, slots=True)
class EvalDataset(optional_settings(InputFormat, place=Place.own)):  # type: ignore[misc]
    """Location and format of the training data, if they have changed; null: as in training.

    Without a path the file of the training run is read, and refused if it has changed. Without `cache_dir` the arrays
    of a run with memmap are in `cache` in data_dir if that is given, else in a temporary folder.
    """


class EvalDecoding(Enum):
    """How the decoder forecasts the rows of the horizon, see `informer.config.model.Decoding`."""

    one_pass = "one_pass"
    step = "step"
    both = "both"
    """As in training, and additionally each of the two, scored and timed."""


@dataclass(kw_only=True, slots=True)
class EvalModel:
    """Settings of the model that may differ from training, with the same weights; null: as in training."""

    decoding: EvalDecoding | None = None
    offset: int | None = None
    """Rows between the start token and the horizon."""


@dataclass(kw_only=True, slots=True)
class EvalConfig:
    """`python -m informer.eval`."""

    checkpoint: str = "runs/latest"
    """A run directory or a checkpoint file."""
    output: str | None = None
    """Folder of the report; null: `eval` next to the checkpoint."""
    dataset: EvalDataset = field(default_factory=EvalDataset)
    data_dir: str | None = None
    """Folder of the datasets' files; null: as in training."""
    model: EvalModel = field(default_factory=EvalModel)
    """Settings that may differ from training."""
    device: str = "auto"
    """Device to run on: auto, cpu, cuda, cuda:1 or mps."""
    batch_size: int = 256
    plots: str = "standard"
    """One of none, standard, attention; false and true mean none and standard."""
    plot_series: list[str] = field(default_factory=list)
    """Series whose forecasts of the test part are plotted, one picture each."""

    @property
    def pictures(self) -> Plots:
        """The plots to make."""
        return Plots[self.plots.lower()]

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        problems = self.dataset.problems() + device_problems(self.device)
        if self.batch_size < 1:
            problems.append(f"batch_size: expected at least 1, found {self.batch_size}")
        if self.plots.lower() not in Plots.__members__:
            problems.append(f"plots: expected one of {', '.join(Plots.__members__)}, found {self.plots!r}")
        return problems


class Mode(Enum):
    """ahead: forecast after the end of each file. rolling: from origins throughout the file, with the actual values."""

    ahead = "ahead"
    rolling = "rolling"


class Format(Enum):
    """csv, parquet: one file per series, with the columns of the input. long: one CSV with the columns series, time,
    column, y; the first two have their names from the input."""

    csv = "csv"
    parquet = "parquet"
    long = "long"


@dataclass(kw_only=True, slots=True)
class PredictConfig:
    """`python -m informer.predict`."""

    checkpoint: str = "runs/latest"
    """A run directory or a checkpoint file."""
    input: str | None = None
    """The file to forecast, or a folder or pattern of many files."""
    future: str | None = None
    """Future covariates of the forecast period: one file for all inputs, or a folder or pattern with one file of the
    same name per input."""
    output: str = "forecasts"
    """Folder for the forecasts."""
    dataset: InputFormat = field(default_factory=InputFormat)
    """Format of the files, if different from the training data."""
    mode: Mode = Mode.ahead
    stride: int | None = None
    """Rows between origins of mode=rolling; null: pred_len."""
    from_date: str | None = None
    """First forecast time of mode=rolling, written from=DATE; null: after the rows used in training."""
    horizon: int | None = None
    """Rows to forecast (from every origin with mode=rolling); null: pred_len. Rows beyond pred_len are forecast from
    the model's own output and are marked."""
    intervals: list[int] = field(default_factory=list)
    """Interval levels in percent; each adds columns such as OT_lo80 and OT_hi80."""
    adaptive: bool = False
    """With mode=rolling: adapt the widths of intervals to their coverage at earlier origins."""
    format: Format = Format.csv
    digits: int | None = 7
    """Digits of numbers in text files, relative to the standard deviation of the column's history; null: all."""
    batch_size: int = 64
    """Files per batch."""
    resume: bool = False
    """Skip files that an earlier run of the same job has finished, if they have not changed since."""
    engine: EngineName = EngineName.local
    workers: int | None = None
    """Number of actors with engine=ray; null: one per CPU of the cluster, or per GPU with device=cuda."""
    device: str = "auto"
    """Device to run on: auto, cpu, cuda, cuda:1 or mps."""
    plots: bool | None = None
    """Plot each forecast; null: only for a single file."""
    plot_series: list[str] = field(default_factory=list)
    """Plot only these: series of a single input file, or files of many, one picture each."""

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        problems = (
            [] if self.input else ["input: expected a file or folder to forecast, found none; set input=FILE.csv"]
        )
        problems += device_problems(self.device)
        for name in ("horizon", "stride", "batch_size", "digits"):
            value = getattr(self, name)
            if value is not None and value < 1:
                problems.append(f"{name}: expected at least 1, found {value}")
        problems += workers_problems(self.engine, self.workers)
        if any(not 1 <= level <= 99 or self.intervals.count(level) > 1 for level in self.intervals):
            problems.append(f"intervals: expected different whole percentages from 1 to 99, found {self.intervals}")
        if self.plot_series and self.plots:
            problems.append("plots: expected none with plot_series, which says what is drawn; leave one out")
        if self.resume and self.format is Format.long:
            problems.append("resume: expected format=csv or parquet; format=long is a single file, written at the end")
        return [*problems, *self._mode_problems(), *self.dataset.problems()]

    def _mode_problems(self) -> list[str]:
        """Problems of settings that do not fit the mode."""
        if self.mode is Mode.ahead:
            only = {
                "stride": self.stride,
                "from": self.from_date,
                "adaptive": "true" if self.adaptive else None,
            }
            return [
                f"{name}: only used with mode=rolling, found {name}={value}" for name, value in only.items() if value
            ]
        problems = [
            f"{name}: not supported with mode=rolling, {why}; leave it out"
            for name, value, why in [
                ("future", self.future, "which reads future covariates in the file itself"),
                ("plots", self.plots, "which draws nothing"),
                ("plot_series", self.plot_series, "which draws nothing"),
            ]
            if value
        ]
        if self.adaptive and not self.intervals:
            problems.append("adaptive: expected levels whose widths are adapted; set intervals=[80,95]")
        if self.format is Format.long:
            problems.append("format: expected csv or parquet with mode=rolling, which writes long tables, found long")
        return problems


class ExportFormat(Enum):
    """safetensors: weights and metadata, readable as a checkpoint. onnx, torch_export: the network as a graph."""

    safetensors = "safetensors"
    onnx = "onnx"
    torch_export = "torch_export"


@dataclass(kw_only=True, slots=True)
class ExportConfig:
    """`informer export`."""

    checkpoint: str = "runs/latest"
    """A run directory or a checkpoint file."""
    format: ExportFormat = ExportFormat.safetensors
    output: str | None = None
    """File to write; null: next to the checkpoint."""

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        return []


@dataclass(kw_only=True, slots=True)
class InspectConfig:
    """`informer inspect`."""

    input: str | None = None
    """The file to inspect, or a folder or pattern of many files."""
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    """Format of the file, repairs and split."""
    seq_len: int = 96
    label_len: int = 48
    pred_len: int = 24
    target: str | None = field(default=None, metadata=NAME)
    """Column to forecast, used in the suggested commands."""

    @property
    def sizes(self) -> WindowSizes:
        """Lookback window, start token and horizon."""
        return WindowSizes(seq_len=self.seq_len, label_len=self.label_len, pred_len=self.pred_len)

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        problems = self.dataset.problems()
        if not self.input:
            problems.append("input: expected a file, found none: informer inspect FILE.csv")
        try:
            self.sizes  # noqa: B018 (its constructor checks the lengths)
        except InputError as error:
            problems.append(str(error))
        return problems


@dataclass(kw_only=True, slots=True)
class ServeConfig:
    """`informer serve checkpoint=RUN`."""

    checkpoint: str = "runs/latest"
    """A run directory or a checkpoint file."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 means every address of the machine."""
    port: int = 8000
    """Port to listen on; 0: any free port, printed at the start."""
    device: str = "auto"
    """Device to run on: auto, cpu, cuda, cuda:1 or mps."""
    dataset: InputFormat = field(default_factory=InputFormat)
    """Format of the tables in requests, if different from the training data."""
    hosts: list[str] = field(default_factory=list)
    """Names of the service in the Host header of requests, besides localhost, 127.0.0.1, [::1] and `host`."""
    timeout: float = 30.0
    """Seconds from the first byte of a request to its answer."""
    max_mb: float = 10.0
    """Maximum size of a request's body in MB."""
    max_columns: int = 1000
    """Maximum number of columns of a table, besides those that the model reads."""
    max_cells: int = 1_000_000
    """Maximum number of cells of a table; separators inside text count as well."""
    max_series: int = 1000
    """Maximum number of series in a request."""
    max_horizon: int = 1000
    """Maximum number of rows to forecast."""
    max_requests: int = 128
    """Maximum number of requests in progress; further ones are refused at once."""

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        problems = self.dataset.problems() + device_problems(self.device)
        if self.dataset.attributes is not None:
            problems.append("dataset.attributes: expected none; requests contain the attributes of new series")
        if not 0 <= self.port <= 65535:
            problems.append(f"port: expected 0 to 65535, found {self.port}")
        for name in ("max_columns", "max_cells", "max_series", "max_horizon", "max_requests"):
            if (value := getattr(self, name)) < 1:
                problems.append(f"{name}: expected at least 1, found {value}")
        for name in ("timeout", "max_mb"):
            if not 0 < (value := getattr(self, name)) <= 1e6:
                problems.append(f"{name}: expected more than 0, at most 1e6, found {value}")
        return problems


@dataclass(kw_only=True, slots=True)
class ReportConfig:
    """`informer report runs/latest`."""

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
    """`informer score forecasts=FILE actuals=FILE history=FILE`."""

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


@dataclass(kw_only=True, slots=True)
class UpdateConfig:
    """`informer update checkpoint=RUN input=FILE`."""

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
    history: str | None = None
    """File with the rows of training, as they were; null: the file of training, if it has not changed."""
    device: str = "auto"
    """Device to run on: auto, cpu, cuda, cuda:1 or mps."""

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        problems = [] if self.input else ["input: expected a file with later rows, found none; set input=FILE.csv"]
        problems += [*self.dataset.problems(), *device_problems(self.device)]
        if self.steps < 0:
            problems.append(f"steps: expected at least 0, found {self.steps}")
        if self.lr is not None and not self.lr > 0:
            problems.append(f"lr: expected more than 0, found {self.lr}")
        if self.lr is not None and not self.steps:
            problems.append("lr: only used with steps, found steps=0")
        return problems


@dataclass(kw_only=True, slots=True)
class WatchConfig:
    """`informer watch checkpoint=RUN input=FILE`."""

    checkpoint: str = "runs/latest"
    """A run directory or a checkpoint file."""
    input: str | None = None
    """File with the rows since training; it may contain earlier rows too."""
    output: str | None = None
    """Folder for watch.json and watch.html; null: `watch` next to the checkpoint."""
    history: str | None = None
    """File with the rows of training, as they were; null: the file of training, if it has not changed."""
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
