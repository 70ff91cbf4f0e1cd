"""The typed configuration of each entry point, gathered from the dataclasses that live beside what they configure.

Hydra composes the yaml files of `conf/` into these, by way of `informer.conversion`.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from informer.data.columns import Features, Roles
from informer.data.scaler import ScalerConfig
from informer.data.source import DatasetConfig
from informer.data.windows import WindowSizes
from informer.errors import InputError
from informer.inference.export import ExportFormat
from informer.inference.reading import InputFormat
from informer.inference.writing import Format
from informer.layers.framing import Highway
from informer.model import ModelConfig
from informer.training.config import TrainerConfig
from informer.training.loss import LossConfig
from informer.training.optim import OptimConfig
from informer.training.precision import Precision


class Device(Enum):
    """auto is the first CUDA GPU if there is one, else the CPU."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


@dataclass(kw_only=True, slots=True)
class TrainConfig:
    """`python -m informer.train`: everything a run depends on; it is saved with the run and in the checkpoint."""

    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    attn: dict[str, Any] = field(default_factory=dict)
    """The encoder's mechanism: `_target_` and parameters."""
    decoder_attn: dict[str, Any] = field(default_factory=dict)
    decoder_attn_reason: str | None = None
    """Why decoder_attn is not what was asked for; written by the program."""
    cross_attn: dict[str, Any] = field(default_factory=dict)
    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    scaler: ScalerConfig = field(default_factory=ScalerConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    seq_len: int = 96
    """Rows of history the encoder reads."""
    label_len: int = 48
    """Rows of history the decoder starts from."""
    pred_len: int = 24
    """Rows to forecast."""
    features: Features = Features.M
    target: str | None = None
    """Column to forecast (S, MS) or to show first; null: the dataset's."""
    targets: list[str] | None = None
    """Columns to forecast, in place of features and target."""
    past_covariates: list[str] = field(default_factory=list)
    """Columns to read and not to forecast."""
    future_covariates: list[str] = field(default_factory=list)
    """The same, known over the horizon too: predict asks for them in `future`."""
    seed: int = 0
    device: Device = Device.auto
    data_dir: str = "data"
    run_dir: str | None = None
    """Folder of the run; null: runs/<time>_<dataset>_<attention>."""
    precision: Precision = Precision.float32
    """Number format of the products in training."""
    compile: bool = False
    """Compile the network before training."""
    init_from: str | None = None
    """A run directory or a checkpoint file whose weights a new run begins with."""
    resume: str | None = None
    """A run directory, or its last.pt, to go on with; the configuration is then the run's."""
    search: list[str] = field(default_factory=list)
    """Keys that are chosen on validation before training; written by the program where model=auto leaves them open."""

    @property
    def sizes(self) -> WindowSizes:
        """The three lengths."""
        return WindowSizes(seq_len=self.seq_len, label_len=self.label_len, pred_len=self.pred_len)

    @property
    def roles(self) -> Roles:
        """What is said of the columns."""
        return Roles(
            features=self.features,
            target=self.target,
            targets=self.targets,
            past_covariates=self.past_covariates,
            future_covariates=self.future_covariates,
        )

    def problems(self) -> list[str]:
        """Every value out of range, one sentence each."""
        parts = (self.dataset, self.loss, self.trainer, self.optim)
        found = [problem for part in parts for problem in part.problems()]
        if not 0 <= self.seed < 2**32:
            found.append(f"seed: expected 0 <= seed < 2^32, found {self.seed}")
        if self.search:  # lengths and sizes are not those of the run yet
            return found + self._search_problems()
        if self.trainer.time_budget_minutes is not None:
            found.append("trainer.time_budget_minutes: expected model=auto beside it, found another model")
        found += self.model.problems()
        if self.model.highway is not Highway.none and "head" in self.trainer.freeze and self.init_from is None:
            found.append(
                f"trainer.freeze: expected a head that learns with model.highway={self.model.highway.value}, which "
                "starts it at zero; leave head out, or begin with the weights of another run by init_from"
            )
        if self.trainer.max_steps == 0 and self.model.highway is not Highway.ridge:
            found.append("trainer.max_steps: expected at least 1, found 0 (which is for model.highway=ridge)")
        try:
            sizes = self.sizes
        except InputError as error:
            return [*found, str(error)]
        return found + self.model.length_problems(sizes.seq_len, sizes.label_len, sizes.pred_len)

    def _search_problems(self) -> list[str]:
        unknown = sorted(set(self.search) - set(SEARCHED))
        found = [f"search: expected some of {', '.join(SEARCHED)}, found {', '.join(unknown)}"] if unknown else []
        if self.init_from is not None:
            found.append("init_from: expected a model with the sizes of that run, found model=auto")
        if self.model.patch_len < 1:
            found.append(f"model.patch_len: expected at least 1, found {self.model.patch_len}")
        if self.model.highway is not Highway.ridge:
            found.append(f"model.highway: expected ridge with model=auto, found {self.model.highway.value}")
        return found


class Plots(Enum):
    """Pictures of an evaluation; false and true are none and standard."""

    none = "none"
    standard = "standard"
    """The error by step."""
    attention = "attention"
    """That, and what every layer and head attends to."""
    false = none
    true = standard


@dataclass(kw_only=True, slots=True)
class EvalDataset(InputFormat):
    """The file of the training data, where it now lies or is written otherwise; null: as in training."""

    path: str | None = None


@dataclass(kw_only=True, slots=True)
class EvalConfig:
    """`python -m informer.eval`."""

    checkpoint: str = "runs/latest"
    """A run directory or a checkpoint file."""
    output: str | None = None
    """Folder of the report; null: `eval` beside the checkpoint."""
    dataset: EvalDataset = field(default_factory=EvalDataset)
    data_dir: str | None = None
    """Folder of the datasets' files; null: as in training."""
    device: Device = Device.auto
    batch_size: int = 256
    plots: str = "standard"
    """A name of `Plots`; text, because `true` and `false` are no names to Hydra."""

    @property
    def pictures(self) -> Plots:
        """What to draw."""
        return Plots[self.plots.lower()]

    def problems(self) -> list[str]:
        """Every value out of range, one sentence each."""
        found = self.dataset.problems()
        if self.batch_size < 1:
            found.append(f"batch_size: expected at least 1, found {self.batch_size}")
        if self.plots.lower() not in Plots.__members__:
            found.append(f"plots: expected one of {', '.join(Plots.__members__)}, found {self.plots!r}")
        return found


class Mode(Enum):
    """ahead: what follows each file. rolling: forecasts from origins all through it, beside what then came."""

    ahead = "ahead"
    rolling = "rolling"


class EngineName(Enum):
    """What works on many files. local: this process, batch after batch. ray: the actors of a Ray cluster."""

    local = "local"
    ray = "ray"


@dataclass(kw_only=True, slots=True)
class PredictConfig:
    """`python -m informer.predict`."""

    checkpoint: str = "runs/latest"
    """A run directory or a checkpoint file."""
    input: str | None = None
    """The file to continue, or a folder or a pattern of many."""
    future: str | None = None
    """The file of future covariates at the times that follow, the same for all inputs, or a folder or a pattern of a
    file for each, of the same name."""
    output: str = "forecasts"
    """Folder of the forecasts."""
    dataset: InputFormat = field(default_factory=InputFormat)
    """How the files are written, where not as the training data."""
    mode: Mode = Mode.ahead
    stride: int | None = None
    """Rows between two origins of mode=rolling; null: pred_len."""
    horizon: int | None = None
    """Rows to forecast; null: pred_len. Rows beyond it come from the model's own output and are marked."""
    intervals: list[int] = field(default_factory=list)
    """Levels in percent; each adds columns such as OT_lo80 and OT_hi80."""
    format: Format = Format.csv
    batch_size: int = 64
    """Files of many that go through the model together."""
    resume: bool = False
    """Leave out the files of many that the same job has forecast and that have not changed since."""
    engine: EngineName = EngineName.local
    workers: int | None = None
    """Actors of engine=ray; null: one for each CPU of the cluster, or GPU where the device is one."""
    device: Device = Device.auto
    plots: bool | None = None
    """Draw each forecast; null: of a single file."""

    def problems(self) -> list[str]:
        """Every value out of range, one sentence each."""
        found = [] if self.input else ["input: expected a file or folder to continue, found none; give input=FILE.csv"]
        for name in ("horizon", "stride", "batch_size", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                found.append(f"{name}: expected at least 1, found {value}")
        if self.workers is not None and self.engine is EngineName.local:
            found.append(f"workers: expected engine=ray beside it, found workers={self.workers}")
        if any(not 1 <= level <= 99 or self.intervals.count(level) > 1 for level in self.intervals):
            found.append(f"intervals: expected different whole percentages from 1 to 99, found {self.intervals}")
        if self.resume and self.format is Format.long:
            found.append("resume: expected format=csv or parquet; the one file of format=long is written whole")
        return [*found, *self._mode_problems(), *self.dataset.problems()]

    def _mode_problems(self) -> list[str]:
        """What does not go with the mode."""
        if self.mode is Mode.ahead:
            return (
                [] if self.stride is None else [f"stride: expected mode=rolling beside it, found stride={self.stride}"]
            )
        found = [
            f"{name}: expected none with mode=rolling, {why}; leave it out"
            for name, value, why in [
                ("horizon", self.horizon, "which forecasts pred_len rows from every origin"),
                ("future", self.future, "which reads future covariates in the file itself"),
                ("plots", self.plots, "which draws nothing"),
            ]
            if value
        ]
        if self.format is Format.long:
            found.append("format: expected csv or parquet with mode=rolling, whose tables are long ones, found long")
        return found


@dataclass(kw_only=True, slots=True)
class ExportConfig:
    """`python -m informer.export`."""

    checkpoint: str = "runs/latest"
    """A run directory or a checkpoint file."""
    format: ExportFormat = ExportFormat.safetensors
    output: str | None = None
    """The file to write; null: beside the checkpoint."""

    def problems(self) -> list[str]:
        """Every value out of range, one sentence each."""
        return []


@dataclass(kw_only=True, slots=True)
class InspectConfig:
    """`python -m informer.inspect`."""

    input: str | None = None
    """The file, or a folder or a pattern of many."""
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    """How it is written, what to repair, how to split it."""
    seq_len: int = 96
    label_len: int = 48
    pred_len: int = 24

    @property
    def sizes(self) -> WindowSizes:
        """The three lengths."""
        return WindowSizes(seq_len=self.seq_len, label_len=self.label_len, pred_len=self.pred_len)

    def problems(self) -> list[str]:
        """Every value out of range, one sentence each."""
        found = self.dataset.problems()
        if not self.input:
            found.append("input: expected a file, found none: python -m informer.inspect FILE.csv")
        try:
            self.sizes  # noqa: B018 (made to be checked)
        except InputError as error:
            found.append(str(error))
        return found


SEARCHED = (
    "seq_len",
    "label_len",
    *(f"model.{name}" for name in ("d_model", "n_heads", "d_ff", "dropout", "embed")),
    *(f"model.{name}" for name in ("patch_len", "channel_independent")),
    "optim.lr",
    *(f"trainer.{name}" for name in ("max_epochs", "max_steps", "patience")),
)
"""Keys that a search can choose."""

Config = TypeVar("Config", TrainConfig, EvalConfig, PredictConfig, ExportConfig, InspectConfig)


def check(config: Config) -> Config:
    """Refuse a configuration with all its problems in one line."""
    found = config.problems()
    if found:
        raise InputError("; ".join(found))
    return config
