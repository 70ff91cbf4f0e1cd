"""Configuration of a training run, and validation of every command's configuration.

Hydra composes the yaml files in `conf/` into these classes; nothing here imports torch or another large library.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from informer.config.addresses import PATHS, address_problems
from informer.config.dataset import DatasetConfig, Features, NonNegative, ScalerConfig
from informer.config.engines import EngineName, workers_problems
from informer.config.lengths import WindowSizes
from informer.config.model import CalendarEmbed, InformerConfig, LinearSkip, ModelConfig
from informer.config.overrides import NAME
from informer.config.training import LossConfig, LossKind, OptimConfig, Precision, TrainerConfig
from informer.errors import InputError
from informer.runtime import device_problems

SLOTS = ("attn", "decoder_attn", "cross_attn")
"""Nodes of the configuration for attention mechanisms, with `_target_` and parameters."""


@dataclass(kw_only=True, slots=True)
class TrainConfig:
    """`python -m informer.train`: everything a run depends on; saved with the run and in the checkpoint."""

    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    attn: dict[str, Any] = field(default_factory=dict)
    """Attention mechanism of the encoder: `_target_` and parameters."""
    decoder_attn: dict[str, Any] = field(default_factory=dict)
    """Mechanism of the decoder's self-attention; empty: like attn."""
    decoder_attn_reason: str | None = None
    """Why decoder_attn differs from the requested mechanism; set by the program."""
    cross_attn: dict[str, Any] = field(default_factory=dict)
    model: ModelConfig = field(default_factory=InformerConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    scaler: ScalerConfig = field(default_factory=ScalerConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    seq_len: int = 96
    """Rows of the lookback window, which the encoder reads."""
    label_len: int = 48
    """Rows of the decoder's start token, the end of the lookback window."""
    pred_len: int = 24
    """Rows of the forecast horizon."""
    features: Features | None = None
    """Columns to read and to forecast: M, S or MS; null: MS if a target is given, else M."""
    target: str | None = field(default=None, metadata=NAME)
    """Column to forecast (S, MS) or to plot first; null: the dataset's target."""
    targets: list[str] | None = None
    """Columns to forecast; replaces features and target."""
    past_covariates: list[str] = field(default_factory=list)
    """Columns to read but not forecast."""
    future_covariates: list[str] = field(default_factory=list)
    """Columns to read whose future values are known; predict reads these from `future`."""
    non_negative: NonNegative = NonNegative.auto
    """Targets whose forecasts and intervals are at least zero."""
    seed: int = 0
    """Seed of all random numbers."""
    device: str = "auto"
    """Device to run on: auto, cpu, cuda, cuda:1 or mps."""
    data_dir: str = "data"
    """Folder of the datasets' files."""
    run_dir: str | None = None
    """Folder of the run; null: runs/<time>_<dataset>_<attention>."""
    precision: Precision = Precision.float32
    """Number format of matrix products in training."""
    compile: bool = False
    """Compile the network before training."""
    init_from: str | None = None
    """Run directory or checkpoint file whose weights initialise a new run."""
    resume: str | None = None
    """Run directory, or its last.pt, to continue with its own configuration."""
    engine: EngineName = EngineName.local
    """Where the trials of model=auto run."""
    workers: int | None = None
    """Trials at a time with engine=ray; null: one per CPU of the cluster, or per GPU with device=cuda."""
    search: list[str] = field(default_factory=list)
    """Keys to choose on validation data before training; set by the program for model=auto."""

    @property
    def used_features(self) -> Features:
        """The value of `features`, or its default if it is not given."""
        if self.features is not None:
            return self.features
        return Features.M if self.target is None else Features.MS

    @property
    def sizes(self) -> WindowSizes:
        """Lengths of a window."""
        return WindowSizes(
            seq_len=self.seq_len, label_len=self.label_len, pred_len=self.pred_len, offset=self.model.offset
        )

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        nodes = (self.dataset, self.loss, self.trainer, self.optim)
        problems = [problem for node in nodes for problem in node.problems()] + device_problems(self.device)
        problems += workers_problems(self.engine, self.workers)
        if not 0 <= self.seed < 2**32:
            problems.append(f"seed: expected 0 <= seed < 2^32, found {self.seed}")
        if self.dataset.keeps_gaps and LossKind.spectral in (self.loss.kind, self.loss.training):
            problems.append(
                "loss=spectral: expected complete horizons, found dataset.fill=mask; use loss=mse, mae or huber"
            )
        if self.search:  # lengths and sizes are still open
            return problems + self._search_problems()
        if self.trainer.time_budget_minutes is not None:
            problems.append("trainer.time_budget_minutes: only used with model=auto, found another model")
        if self.engine is not EngineName.local:
            problems.append("engine=ray: only used with model=auto, for its trials, found another model")
        problems += self.model.problems()
        if self.model.marks is CalendarEmbed.none and (self.dataset.calendar or self.dataset.holidays):
            problems.append(
                "dataset.calendar, dataset.holidays: expected model.embed=timeF, fixed or learned with them, found "
                "none, which reads no calendar"
            )
        if self.model.skip is not LinearSkip.none and "head" in self.trainer.freeze and self.init_from is None:
            problems.append(
                f"trainer.freeze: expected a head that learns with model.skip={self.model.skip.value}, which "
                "starts it at zero; remove head, or start from another run's weights with init_from"
            )
        if self.trainer.max_steps == 0 and not self.model.is_fitted_first:
            problems.append(
                "trainer.max_steps: expected at least 1, found 0 (which is for model.skip=ridge|maps, model=linear)"
            )
        maps = self.model.CLOSED_FORM or self.model.skip is LinearSkip.maps
        for name in ("refit", "combine"):
            if getattr(self.trainer, name) and not maps:
                problems.append(
                    f"trainer.{name}: expected model=linear or model.skip=maps with it, found {self.model.family} with "
                    f"model.skip={self.model.skip.value}"
                )
        try:
            sizes = self.sizes
        except InputError as error:
            return [*problems, str(error)]
        return problems + self.model.length_problems(sizes.seq_len, sizes.label_len, sizes.pred_len)

    def _search_problems(self) -> list[str]:
        unknown = sorted(set(self.search) - set(SEARCHED))
        problems = [f"search: expected some of {', '.join(SEARCHED)}, found {', '.join(unknown)}"] if unknown else []
        if self.engine is EngineName.ray and self.dataset.memmap:
            problems.append(
                "engine=ray: expected dataset.memmap=false with it, since each worker gets a copy of the data"
            )
        if self.init_from is not None:
            problems.append("init_from: expected a model with the sizes of that run, found model=auto")
        if not isinstance(self.model, InformerConfig):
            return [*problems, f"search: expected model.family=informer, found {self.model.family}"]
        if self.model.patch_len < 1:
            problems.append(f"model.patch_len: expected at least 1, found {self.model.patch_len}")
        if self.model.skip is not LinearSkip.maps:
            problems.append(f"model.skip: expected maps with model=auto, found {self.model.skip.value}")
        return problems


SEARCHED = (
    "seq_len",
    "label_len",
    *(f"model.{name}" for name in ("d_model", "n_heads", "d_ff", "dropout", "embed")),
    *(f"model.{name}" for name in ("patch_len", "channel_independent")),
    "optim.lr",
    "optim.ema",
    "loss.training",
    *(f"trainer.{name}" for name in ("max_epochs", "max_steps", "patience")),
)
"""Keys that a search can choose."""


@runtime_checkable
class Checkable(Protocol):
    """A configuration that can check itself."""

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""


Config = TypeVar("Config", bound=Checkable)


def check(config: Config) -> Config:
    """Return a configuration, or raise one InputError with all of its problems."""
    # NaN must be checked separately: every comparison with it is false
    problems = [f"{key}: expected a number, found nan" for key in _nans(config)] or config.problems()
    problems += address_problems(config, PATHS)
    if problems:
        raise InputError("; ".join(problems))
    return config


def _nans(node: Any) -> Iterator[str]:
    """Dotted keys whose value is NaN."""
    if is_dataclass(node):
        node = {field.name: getattr(node, field.name) for field in fields(node)}
    if isinstance(node, list):
        node = dict(enumerate(node))
    for key, value in node.items() if isinstance(node, dict) else ():
        if isinstance(value, float) and math.isnan(value):
            yield str(key)
        yield from (f"{key}.{inner}" for inner in _nans(value))
