"""The configurations of eval, predict, export and inspect."""

from dataclasses import dataclass, field
from enum import Enum

from informer.config.dataset import DatasetConfig
from informer.config.input_format import InputFormat
from informer.config.lengths import WindowSizes
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
class EvalDataset(InputFormat):
    """The training data's file, if it was moved or is written differently now; null: as in training.

    Without a path, the file of training is read only if it has not changed since.
    """

    path: str | None = None
    cache_dir: str | None = None
    """Folder of the arrays of a run with memmap; null: `cache` in data_dir if given, otherwise a temporary one."""


class EvalDecoding(Enum):
    """How the decoder comes to the rows of the horizon, see `informer.config.model.Decoding`."""

    one_pass = "one_pass"
    step = "step"
    both = "both"
    """As in training, and then each of them scored and timed."""


@dataclass(kw_only=True, slots=True)
class EvalModel:
    """What of the model can be another than in training, with the same weights; null: as in training."""

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
    device: str = "auto"
    batch_size: int = 256
    plots: str = "standard"
    """A name of `Plots`; text, because Hydra does not accept `true` and `false` as enum names."""
    plot_series: list[str] = field(default_factory=list)
    """Series whose forecasts of the test part are drawn, one picture each."""

    @property
    def pictures(self) -> Plots:
        """Which plots to make."""
        return Plots[self.plots.lower()]

    def problems(self) -> list[str]:
        """All values out of range, one sentence each."""
        found = self.dataset.problems() + device_problems(self.device)
        if self.batch_size < 1:
            found.append(f"batch_size: expected at least 1, found {self.batch_size}")
        if self.plots.lower() not in Plots.__members__:
            found.append(f"plots: expected one of {', '.join(Plots.__members__)}, found {self.plots!r}")
        return found


class Mode(Enum):
    """ahead: forecast after the end of each file. rolling: from origins throughout the file, with the actual values."""

    ahead = "ahead"
    rolling = "rolling"


class EngineName(Enum):
    """How many files are processed. local: in this process. ray: by actors of a Ray cluster."""

    local = "local"
    ray = "ray"


class Format(Enum):
    """csv, parquet: one file per series, with the columns of the input. long: one CSV of series, time,
    column, y, the first two called as in the input."""

    csv = "csv"
    parquet = "parquet"
    long = "long"


@dataclass(kw_only=True, slots=True)
class PredictConfig:
    """`python -m informer.predict`."""

    checkpoint: str = "runs/latest"
    """A run directory or a checkpoint file."""
    input: str | None = None
    """The file to forecast, or a folder or pattern of many."""
    future: str | None = None
    """File of future covariates for the forecast period, shared by all inputs, or a folder or pattern with one file per
    input, with the same names."""
    output: str = "forecasts"
    """Folder of the forecasts."""
    dataset: InputFormat = field(default_factory=InputFormat)
    """How the files are written, if different from the training data."""
    mode: Mode = Mode.ahead
    stride: int | None = None
    """Rows between origins of mode=rolling; null: pred_len."""
    from_date: str | None = None
    """First forecast time of mode=rolling, written from=DATE; null: after the rows that the model was trained on."""
    horizon: int | None = None
    """Rows to forecast, with mode=rolling from every origin; null: pred_len. Rows beyond pred_len come from the model's
    own output and are marked."""
    intervals: list[int] = field(default_factory=list)
    """Levels in percent; each adds columns such as OT_lo80 and OT_hi80."""
    adaptive: bool = False
    """With mode=rolling: widths of intervals follow the coverage that they had at earlier origins."""
    refit_every: int | None = None
    """With mode=rolling: origins from one fit of linear maps and ridge, on all rows before, to the next; null: none."""
    format: Format = Format.csv
    digits: int | None = 7
    """Digits of numbers in text, of the spread of the column's history; null: all."""
    batch_size: int = 64
    """Files per batch."""
    resume: bool = False
    """Skip files that the same job has finished and that have not changed since."""
    engine: EngineName = EngineName.local
    workers: int | None = None
    """Actors of engine=ray; null: one per CPU of the cluster, or per GPU with device=cuda."""
    device: str = "auto"
    plots: bool | None = None
    """Plot each forecast; null: only for a single file."""
    plot_series: list[str] = field(default_factory=list)
    """Series of a single file, or files of many, whose forecasts are plotted, one picture each, instead."""

    def problems(self) -> list[str]:
        """All values out of range, one sentence each."""
        found = [] if self.input else ["input: expected a file or folder to forecast, found none; set input=FILE.csv"]
        found += device_problems(self.device)
        for name in ("horizon", "stride", "refit_every", "batch_size", "workers", "digits"):
            value = getattr(self, name)
            if value is not None and value < 1:
                found.append(f"{name}: expected at least 1, found {value}")
        if self.workers is not None and self.engine is EngineName.local:
            found.append(f"workers: only used with engine=ray, found workers={self.workers}")
        if any(not 1 <= level <= 99 or self.intervals.count(level) > 1 for level in self.intervals):
            found.append(f"intervals: expected different whole percentages from 1 to 99, found {self.intervals}")
        if self.plot_series and self.plots:
            found.append("plots: expected none with plot_series, which says what is drawn; leave one out")
        if self.resume and self.format is Format.long:
            found.append("resume: expected format=csv or parquet; format=long is a single file, written at the end")
        return [*found, *self._mode_problems(), *self.dataset.problems()]

    def _mode_problems(self) -> list[str]:
        """Settings that do not fit the mode."""
        if self.mode is Mode.ahead:
            only = {
                "stride": self.stride,
                "from": self.from_date,
                "adaptive": "true" if self.adaptive else None,
                "refit_every": self.refit_every,
            }
            return [
                f"{name}: only used with mode=rolling, found {name}={value}" for name, value in only.items() if value
            ]
        found = [
            f"{name}: not supported with mode=rolling, {why}; leave it out"
            for name, value, why in [
                ("future", self.future, "which reads future covariates in the file itself"),
                ("plots", self.plots, "which draws nothing"),
                ("plot_series", self.plot_series, "which draws nothing"),
            ]
            if value
        ]
        if self.adaptive and not self.intervals:
            found.append("adaptive: expected levels whose widths are adapted; set intervals=[80,95]")
        if self.format is Format.long:
            found.append("format: expected csv or parquet with mode=rolling, which writes long tables, found long")
        return found


class ExportFormat(Enum):
    """safetensors: weights and metadata, readable as a checkpoint; onnx, torch_export: the network as a graph."""

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
    """The file to write; null: next to the checkpoint."""

    def problems(self) -> list[str]:
        """All values out of range, one sentence each."""
        return []


@dataclass(kw_only=True, slots=True)
class InspectConfig:
    """`python -m informer.inspect`."""

    input: str | None = None
    """The file, or a folder or pattern of many."""
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    """How the file is written, what to repair, how to split it."""
    seq_len: int = 96
    label_len: int = 48
    pred_len: int = 24
    target: str | None = None
    """The column to forecast, for the commands that are proposed."""

    @property
    def sizes(self) -> WindowSizes:
        """The three lengths."""
        return WindowSizes(seq_len=self.seq_len, label_len=self.label_len, pred_len=self.pred_len)

    def problems(self) -> list[str]:
        """All values out of range, one sentence each."""
        found = self.dataset.problems()
        if not self.input:
            found.append("input: expected a file, found none: python -m informer.inspect FILE.csv")
        try:
            self.sizes  # noqa: B018 (made to be checked)
        except InputError as error:
            found.append(str(error))
        return found
