"""Configuration of eval, predict, export and inspect."""

from dataclasses import dataclass, field
from enum import Enum

from informer.config.dataset import DatasetConfig, Place
from informer.config.engines import EngineName, workers_problems
from informer.config.input_format import InputFormat, optional_settings
from informer.config.lengths import WindowSizes
from informer.config.overrides import NAME
from informer.errors import InputError
from informer.runtime import device_problems


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
    """`python -m informer.export`."""

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
    """`python -m informer.inspect`."""

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
