"""Settings of a training run, with the nodes `trainer`, `optim` and `loss`; checks of every command's settings.

Hydra composes the yaml files in `conf/` into these classes; nothing here imports torch or another large library.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any, ClassVar, TypeVar

from informer.base.errors import InputError
from informer.base.quantiles import level_problem
from informer.base.runtime import device_problems
from informer.config.data import DatasetConfig, FeatureMode, NonNegative, ScalerConfig, Transform
from informer.config.fields import Checked, setting
from informer.config.model import CalendarEmbed, InformerConfig, LinearSkip, ModelConfig, WindowSizes

MOST_BLOCKS = 50
"""Largest number of blocks on which intervals are calibrated."""


class Precision(Enum):
    """Number format of matrix products. auto: bf16 if the processor or GPU supports it natively, otherwise float32."""

    float32 = "float32"
    bf16 = "bf16"
    auto = "auto"


class TrackerKind(Enum):
    """Where training curves are written. tensorboard: an event file in the run directory. csv: `curves.csv` there.
    mlflow: the server named by MLFLOW_TRACKING_URI, or a database next to the run (extra `mlflow`)."""

    tensorboard = "tensorboard"
    mlflow = "mlflow"
    csv = "csv"


class Extra(Enum):
    """Optional curves after each epoch. attention: maps of a validation window. weights: norm of every weight."""

    attention = "attention"
    weights = "weights"


@dataclass(kw_only=True, slots=True)
class TrainerConfig(Checked):
    """The node `trainer`."""

    NODE: ClassVar[str] = "trainer."

    max_epochs: int = setting(6, least=1)
    """Largest number of epochs."""
    max_steps: int | None = setting(least=0)
    """Stop after this many steps and validate; null: no limit; 0: only fit in closed form."""
    steps_per_epoch: int | None = setting(least=1)
    """Steps per epoch, on newly drawn windows; the model is validated after each epoch; null: all windows once."""
    max_minutes: float | None = setting(above=0)
    """Stop training after this time and validate; null: no limit."""
    batch_size: int = setting(32, least=1)
    """Windows per step, over all processes together."""
    eval_batch_size: int = setting(256, least=1)
    """Windows per batch in validation and test; does not affect results."""
    patience: int = setting(3, least=1)
    """Stop after this many epochs in a row without a lower validation loss."""
    save_every_minutes: float | None = setting(10.0, above=0)
    """Interval within an epoch at which last.safetensors is written, as after each epoch; null: only after epochs."""
    freeze: list[str] = setting(list)
    """Top-level modules of the network whose weights are not trained (`encoder`, ...)."""
    deterministic: bool = False
    """Use only deterministic algorithms; some are slower on GPUs."""
    collective_timeout_minutes: float = setting(10.0, above=0, most=1_000_000)
    """How long a process waits for the others before the run is ended."""

    refit: bool = False
    """With linear maps: after scoring, fit them again on the rows of all parts, for forecasts (refit.safetensors)."""
    tracker: list[TrackerKind] = setting(lambda: [TrackerKind.tensorboard])
    """Where training curves are written: any of tensorboard, mlflow, csv."""
    track_also: list[Extra] = setting(list)
    """Additional curves after each epoch: attention (maps of one validation window), weights (their norms)."""
    calibration: float = setting(0.5, least=0, below=1)
    """Share of the validation rows, from the end, that calibrates intervals and is not used for early stopping; 0: no
    intervals."""
    calibration_blocks: int = setting(5, least=0, most=MOST_BLOCKS)
    """With linear maps: number of blocks for calibrating intervals, each forecast by maps fitted on the others; 0: use
    the rows of `calibration`, as models without linear maps do."""

    def epoch_steps(self, n_windows: int) -> int:
        """Optimiser steps per epoch for this number of training windows."""
        n_batches = -(-n_windows // self.batch_size)
        return n_batches if self.steps_per_epoch is None else min(self.steps_per_epoch, n_batches)

    def n_steps(self, n_windows: int) -> int:
        """Optimiser steps of a run without early stopping."""
        steps = self.max_epochs * self.epoch_steps(n_windows)
        return steps if self.max_steps is None else min(steps, self.max_steps)

    def _joint_problems(self) -> Iterator[str]:
        for name, kinds in (("tracker", self.tracker), ("track_also", self.track_also)):
            if len(set(kinds)) < len(kinds):
                yield f"trainer.{name}: expected different names, found {[kind.name for kind in kinds]}"
        if self.calibration_blocks == 1:
            yield f"trainer.calibration_blocks: expected 0, or 2 to {MOST_BLOCKS}, found 1"


class Schedule(Enum):
    """Learning rate over time. halving: lr / 2^(n-1) in epoch n, as in the paper. constant: lr throughout. cosine: from
    lr to 0 along half a cosine, step by step over the whole run.
    """

    halving = "halving"
    constant = "constant"
    cosine = "cosine"


class OptimKind(Enum):
    """Optimiser. adam: the weight decay is an L2 penalty. adamw: the weights shrink by lr * weight_decay in each step,
    apart from the gradient (Loshchilov & Hutter 2019, "Decoupled Weight Decay Regularization")."""

    adam = "adam"
    adamw = "adamw"


@dataclass(kw_only=True, slots=True)
class OptimConfig(Checked):
    """The node `optim`."""

    NODE: ClassVar[str] = "optim."

    kind: OptimKind = OptimKind.adam
    """Optimiser: adam or adamw."""
    lr: float = setting(1e-4, above=0)
    """Initial learning rate."""
    schedule: Schedule = Schedule.halving
    """Learning rate over time: halving, constant or cosine."""
    weight_decay: float = setting(0.0, least=0)
    """With adam the L2 penalty, with adamw the share of lr by which weights shrink per step."""
    clip_norm: float | None = setting(above=0)
    """Maximum gradient norm; larger gradients are scaled down to it; null: no limit."""
    ema: float = setting(0.0, least=0, below=1)
    """Decay per step of an exponential moving average of the weights, such as 0.999; the average is validated and is
    the model. 0: no average."""


class LossKind(Enum):
    """Mean over all forecast values of: mse: squared error. mae: absolute error. huber: Huber loss (delta 1). spectral:
    absolute error and error of the spectrum. quantile: pinball loss of quantiles. normal, student_t, negative_binomial:
    negative log-likelihood of this distribution, of counts with negative_binomial."""

    mse = "mse"
    mae = "mae"
    huber = "huber"
    spectral = "spectral"
    quantile = "quantile"
    normal = "normal"
    student_t = "student_t"
    negative_binomial = "negative_binomial"

    @property
    def is_distribution(self) -> bool:
        """Whether the network forecasts the parameters of a distribution."""
        return self in (LossKind.normal, LossKind.student_t, LossKind.negative_binomial)

    @property
    def has_levels(self) -> bool:
        """Whether the model forecasts quantiles."""
        return self is LossKind.quantile or self.is_distribution


@dataclass(kw_only=True, slots=True)
class LossConfig(Checked):
    """The node `loss`."""

    NODE: ClassVar[str] = "loss."

    kind: LossKind = LossKind.mse
    alpha: float = setting(0.2, above=0)
    """With kind=spectral: weight of the error of the spectrum."""
    quantiles: list[float] = setting(list)
    """With kind=quantile or a distribution: levels to forecast. Point forecast: the median, of counts the mean."""
    training: LossKind | None = None
    """Loss of the training steps, if it is another one than `kind`, by which epochs and models are compared."""

    @property
    def of_steps(self) -> "LossConfig":
        """The loss of the training steps."""
        return replace(self, kind=self.training or self.kind, training=None)

    def _joint_problems(self) -> Iterator[str]:
        if self.training not in (None, self.kind) and (self.training.has_levels or self.kind.has_levels):
            yield f"loss.training: expected null with loss.kind={self.kind.value}, found {self.training.value}"
        elif self.kind.has_levels:
            if problem := level_problem(self.quantiles):
                yield f"loss.quantiles: {problem}"
        elif self.quantiles:
            yield f"loss.quantiles: only used with loss=quantile or a distribution, found loss.kind={self.kind.value}"


SLOTS = ("attn", "decoder_attn", "cross_attn")
"""Nodes of the configuration for attention mechanisms, with `_target_` and parameters."""


@dataclass(kw_only=True, slots=True)
class TrainConfig(Checked):
    """`python -m informer.train`: everything a run depends on; saved with the run and in the checkpoint."""

    dataset: DatasetConfig = setting(DatasetConfig)
    attn: dict[str, Any] = setting(dict)
    """Attention mechanism of the encoder: `_target_` and parameters."""
    decoder_attn: dict[str, Any] = setting(dict)
    """Mechanism of the decoder's self-attention; empty: like attn."""
    decoder_attn_reason: str | None = None
    """Why decoder_attn differs from the requested mechanism; set by the program."""
    cross_attn: dict[str, Any] = setting(dict)
    model: ModelConfig = setting(InformerConfig)
    loss: LossConfig = setting(LossConfig)
    scaler: ScalerConfig = setting(ScalerConfig)
    optim: OptimConfig = setting(OptimConfig)
    trainer: TrainerConfig = setting(TrainerConfig)
    seq_len: int = 96
    """Rows of the lookback window, which the encoder reads."""
    label_len: int = 48
    """Rows of the decoder's start token, the end of the lookback window."""
    pred_len: int = 24
    """Rows of the forecast horizon."""
    features: FeatureMode | None = None
    """Columns to read and to forecast: M, S or MS; null: MS if a target is given, else M."""
    target: str | None = setting(is_name=True)
    """Column to forecast (S, MS) or to plot first; null: the dataset's target."""
    targets: list[str] | None = None
    """Columns to forecast; replaces features and target."""
    past_covariates: list[str] = setting(list)
    """Columns to read but not forecast."""
    future_covariates: list[str] = setting(list)
    """Columns to read whose future values are known; predict reads these from `future`."""
    non_negative: NonNegative = NonNegative.auto
    """Targets whose forecasts and intervals are at least zero."""
    seed: int = setting(0, least=0, below=2**32)
    """Seed of all random numbers."""
    device: str = setting("auto", check=device_problems)
    """Device to run on: auto, cpu, cuda, cuda:1 or mps."""
    data_dir: str = setting("data", is_path=True)
    """Folder of the datasets' files."""
    run_dir: str | None = setting(is_path=True)
    """Folder of the run; null: runs/<time>_<dataset>_<attention>."""
    precision: Precision = Precision.float32
    """Number format of matrix products in training."""
    compile: bool = False
    """Compile the network before training."""
    init_from: str | None = setting(is_path=True)
    """Run directory or checkpoint file whose weights initialise a new run."""
    resume: str | None = setting(is_path=True)
    """Run directory, or its last.safetensors, to continue with its own configuration."""

    @property
    def used_features(self) -> FeatureMode:
        """The value of `features`, or its default if it is not given."""
        if self.features is not None:
            return self.features
        return FeatureMode.M if self.target is None else FeatureMode.MS

    @property
    def sizes(self) -> WindowSizes:
        """Lengths of a window."""
        return WindowSizes(
            seq_len=self.seq_len, label_len=self.label_len, pred_len=self.pred_len, offset=self.model.offset
        )

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        nodes = (self.dataset, self.loss, self.trainer, self.optim)
        return [*self.own_problems(), *(line for node in nodes for line in node.problems()), *self._joint_problems()]

    def _joint_problems(self) -> Iterator[str]:
        if self.dataset.keeps_gaps and LossKind.spectral in (self.loss.kind, self.loss.training):
            yield "loss=spectral: expected complete horizons, found dataset.fill=mask; use loss=mse, mae or huber"
        if self.loss.kind is LossKind.negative_binomial and self.scaler.transform is not Transform.none:
            yield f"scaler.transform: expected none with loss=negative_binomial, found {self.scaler.transform.value}"
        yield from self.model.problems()
        skip = self.model.skip
        if self.model.embed is CalendarEmbed.none and (self.dataset.calendar or self.dataset.holidays):
            yield (
                "dataset.calendar, dataset.holidays: expected model.embed=timeF, fixed or learned with them, found "
                "none, which reads no calendar"
            )
        if skip is not LinearSkip.none and "head" in self.trainer.freeze and self.init_from is None:
            yield (
                f"trainer.freeze: expected a head that learns with model.skip={skip.value}, which starts it at zero; "
                "remove head, or start from another run's weights with init_from"
            )
        if self.trainer.max_steps == 0 and not self.model.is_fitted_first:
            yield "trainer.max_steps: expected at least 1, found 0 (which is for model.skip=ridge, model=linear)"
        if self.trainer.refit and not self.model.CLOSED_FORM:
            yield f"trainer.refit: expected model=linear with it, found {self.model.family}"
        try:
            yield from self.model.length_problems(self.sizes.seq_len, self.sizes.label_len, self.sizes.pred_len)
        except InputError as error:
            yield str(error)


Settings = TypeVar("Settings", bound=Checked)


def check(settings: Settings) -> Settings:
    """Return settings, or raise one InputError with all of their problems."""
    # NaN must be checked separately: every comparison with it is false
    problems = [f"{key}: expected a number, found nan" for key in _nans(settings)] or settings.problems()
    if problems:
        raise InputError("; ".join(problems))
    return settings


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
