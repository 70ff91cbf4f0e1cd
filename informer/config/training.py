"""Settings of a training run, with the nodes `trainer`, `optim` and `loss`; checks of every command's settings.

Hydra composes the yaml files in `conf/` into these classes; nothing here imports torch or another large library.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from informer.base.errors import InputError
from informer.base.quantiles import level_problem
from informer.base.runtime import device_problems
from informer.config.data import DatasetConfig, FeatureMode, NonNegative, ScalerConfig, SplitConfig
from informer.config.fields import Checked, adapter, setting, settings
from informer.config.model import WindowSizes, checked, config_class, family_of, settings_of
from informer.networks.models.config import InformerConfig, ModelConfig

MOST_BLOCKS = 50
"""Largest number of blocks on which intervals are calibrated."""


Precision = Literal["float32", "bf16", "auto"]
"""Number format of matrix products. auto: bf16 if the processor or GPU supports it natively, otherwise float32."""


TrackerKind = Literal["tensorboard", "mlflow", "csv"]
"""Where training curves are written. tensorboard: an event file in the run directory. csv: `curves.csv` there. mlflow:
the server named by MLFLOW_TRACKING_URI, or a database next to the run (extra `mlflow`)."""


@settings
class TrainerConfig(Checked):
    """The node `trainer`."""

    NODE: ClassVar[str] = "trainer."

    max_epochs: int = setting(6, "Largest number of epochs.", ge=1)
    max_steps: int | None = setting(None, "Stop after this many steps; 0: only fit in closed form.", ge=0)
    steps_per_epoch: int | None = setting(None, "Steps per epoch, on newly drawn windows; null: all windows.", ge=1)
    max_minutes: float | None = setting(
        None, "Stop training after so many minutes of computing (of a GPU: minutes), and validate.", gt=0
    )
    batch_size: int = setting(32, "Windows per step, over all processes together.", ge=1)
    eval_batch_size: int = setting(256, "Windows per batch in validation and test; does not affect results.", ge=1)
    patience: int = setting(3, "Stop after this many epochs without a lower validation loss.", ge=1)
    save_every_minutes: float | None = setting(10.0, "How often the state is saved within an epoch.", gt=0)
    freeze: list[str] = setting(list, "Top-level modules of the network that are not trained, such as [encoder].")
    deterministic: bool = setting(False, "Use only deterministic algorithms; some are slower on GPUs.")
    collective_timeout_minutes: float = setting(
        10.0, "How long a process of torchrun waits for the others.", gt=0, le=1_000_000
    )
    refit: bool = setting(False, "Of model=linear: after scoring, fit again on the rows of all parts, for forecasts.")
    tracker: list[TrackerKind] = setting(lambda: ["tensorboard"], "Where training curves are written.")
    track_also: list[Literal["attention", "weights"]] = setting(
        list, "Curves after each epoch of attention maps or of norms of weights."
    )
    calibration: float = setting(0.5, "Share of the validation rows that calibrates intervals.", ge=0, lt=1)
    calibration_blocks: int = setting(
        5, "Of model=linear: number of blocks for calibrating intervals; 0: by calibration.", ge=0, le=MOST_BLOCKS
    )

    def epoch_steps(self, n_windows: int) -> int:
        """Optimiser steps per epoch for this number of training windows."""
        n_batches = -(-n_windows // self.batch_size)
        return n_batches if self.steps_per_epoch is None else min(self.steps_per_epoch, n_batches)

    def n_steps(self, n_windows: int) -> int:
        """Optimiser steps of a run without early stopping."""
        steps = self.max_epochs * self.epoch_steps(n_windows)
        return steps if self.max_steps is None else min(steps, self.max_steps)

    def problems(self) -> Iterator[str]:
        """See `Checked`."""
        for name, kinds in (("tracker", self.tracker), ("track_also", self.track_also)):
            if len(set(kinds)) < len(kinds):
                yield f"trainer.{name}: expected different names, found {kinds}"
        if self.calibration_blocks == 1:
            yield f"trainer.calibration_blocks: expected 0, or 2 to {MOST_BLOCKS}, found 1"


OptimKind = Literal["adam", "adamw"]
"""Optimiser. adam: the weight decay is an L2 penalty. adamw: the weights shrink by lr * weight_decay in each step,
apart from the gradient (Loshchilov & Hutter 2019, "Decoupled Weight Decay Regularization")."""


@settings
class OptimConfig(Checked):
    """The node `optim`."""

    NODE: ClassVar[str] = "optim."

    kind: OptimKind = setting("adam", "Optimiser; chosen with optim=NAME.")
    lr: float = setting(1e-4, "Initial learning rate.", gt=0)
    schedule: Literal["halving", "constant", "cosine"] = setting(
        "halving", "Learning rate over time; halving: lr / 2^(n-1) in epoch n."
    )
    weight_decay: float = setting(
        0.0, "With adam the L2 penalty, with adamw the share of lr by which weights shrink.", ge=0
    )
    clip_norm: float | None = setting(None, "Maximum gradient norm; null: no limit.", gt=0)
    ema: float = setting(0.0, "Decay per step of a moving average of the weights, such as 0.999; 0: none.", ge=0, lt=1)


LossKind = Literal["mse", "mae", "huber", "spectral", "quantile", "normal", "student_t", "negative_binomial"]
"""Mean over all forecast values of: mse: squared error. mae: absolute error. huber: Huber loss (delta 1). spectral:
absolute error and error of the spectrum. quantile: pinball loss of quantiles. normal, student_t, negative_binomial:
negative log-likelihood of this distribution, of counts with negative_binomial."""
DISTRIBUTIONS = ("normal", "student_t", "negative_binomial")
"""Losses with which the network forecasts the parameters of a distribution."""
WITH_LEVELS = ("quantile", *DISTRIBUTIONS)
"""Losses with which the model forecasts quantiles."""


@settings
class LossConfig(Checked):
    """The node `loss`."""

    NODE: ClassVar[str] = "loss."

    kind: LossKind = setting("mse", "Loss that compares epochs; chosen with loss=NAME.")
    alpha: float = setting(0.2, "With loss=spectral: weight of the error of the spectrum.", gt=0)
    quantiles: list[float] = setting(list, "With loss=quantile or a distribution: levels to forecast.")
    training: LossKind | None = setting(None, "Loss of the training steps, if it is another one than kind.")

    @property
    def of_steps(self) -> "LossConfig":
        """The loss of the training steps."""
        return replace(self, kind=self.training or self.kind, training=None)

    def problems(self) -> Iterator[str]:
        """See `Checked`."""
        if self.training not in (None, self.kind) and {self.training, self.kind} & {*WITH_LEVELS}:
            yield f"loss.training: expected null with loss.kind={self.kind}, found {self.training}"
        elif self.kind in WITH_LEVELS:
            if problem := level_problem(self.quantiles):
                yield f"loss.quantiles: {problem}"
        elif self.quantiles:
            yield f"loss.quantiles: only used with loss=quantile or a distribution, found loss.kind={self.kind}"


SLOTS = ("attn", "decoder_attn", "cross_attn")
"""Nodes of the configuration for attention mechanisms, with `_target_` and parameters."""


def _of_family(node: Any) -> Any:
    """The node `model` as settings of its family."""
    if isinstance(node, Mapping):
        return adapter(config_class(family_of(node))).validate_python(dict(node))
    return checked(node) if isinstance(node, ModelConfig) else node


@settings
class TrainConfig(Checked):
    """Train an Informer, score it once on the test part of the data, and save everything in a run directory.

    informer train my.csv target=sales model=small
    informer train dataset=ETTh1 attn=prob
    informer train --multirun dataset=ETTh1 seed=0,1,2
    informer train resume=runs/latest
    """

    dataset: DatasetConfig = setting(DatasetConfig)
    attn: dict[str, Any] = setting(dict, "Parameters of the mechanism, such as attn.factor=5; chosen with attn=NAME.")
    decoder_attn: dict[str, Any] = setting(dict, "Those of the decoder's self-attention, attn@decoder_attn=NAME.")
    decoder_attn_reason: str | None = setting(None, "Set by the program: why decoder_attn differs from attn.")
    cross_attn: dict[str, Any] = setting(dict, "Those of the attention to the encoder, attn@cross_attn=NAME.")
    model: Annotated[ModelConfig, BeforeValidator(_of_family)] = setting(settings_of(InformerConfig))
    loss: LossConfig = setting(LossConfig)
    scaler: ScalerConfig = setting(ScalerConfig)
    optim: OptimConfig = setting(OptimConfig)
    trainer: TrainerConfig = setting(TrainerConfig)
    seq_len: int = setting(96, "Rows of the lookback window, which the encoder reads.")
    label_len: int = setting(48, "Rows of the decoder's start token, the end of the lookback window; half of seq_len.")
    pred_len: int = setting(24, "Rows of the forecast horizon; horizon=24 says the same.")
    features: FeatureMode | None = setting(
        None,
        "M: all columns in and out; S: only the target; MS: all in, the target out; null: MS with a target, else M.",
    )
    target: str | None = setting(None, "Column to forecast; null: the dataset's.", is_name=True)
    targets: list[str] | None = setting(None, "Columns to forecast; replaces features and target.")
    past_covariates: list[str] = setting(list, "Columns to read but not forecast.")
    future_covariates: list[str] = setting(list, "Columns to read whose future values are known, in predict's future=.")
    weight_col: str | None = setting(
        None, "Column with weights, at least 0, of the rows in training and validation losses; not read by the model.",
        is_name=True,
    )  # fmt: skip
    non_negative: NonNegative = setting("auto", "Targets with forecasts of at least zero; auto: counts.")
    seed: int = setting(0, "Seed of all random numbers.", ge=0, lt=2**32)
    device: str = setting("auto", "auto, cpu, cuda, cuda:1 or mps.", check=device_problems)
    data_dir: str = setting("data", "Folder of the datasets' files; also INFORMER_DATA_DIR.", is_path=True)
    run_dir: str | None = setting(
        None, "Folder of the run; null: runs/<time>_<dataset>_<model>_<attention>.", is_path=True
    )
    precision: Precision = setting("float32", "Number format of matrix products in training.")
    compile: bool = setting(False, "Compile the network before training.")
    init_from: str | None = setting(None, "Run or model file whose weights start a new run.", is_path=True)
    resume: str | None = setting(
        None, "Run to continue with its own settings; trainer.max_epochs=20 trains it longer.", is_path=True
    )

    @property
    def used_features(self) -> FeatureMode:
        """The value of `features`, or its default if it is not given."""
        if self.features is not None:
            return self.features
        return "M" if self.target is None else "MS"

    @property
    def sizes(self) -> WindowSizes:
        """Lengths of a window."""
        return WindowSizes(
            seq_len=self.seq_len, label_len=self.label_len, pred_len=self.pred_len, offset=self.model.offset
        )

    def problems(self) -> Iterator[str]:
        """See `Checked`."""
        if self.dataset.keeps_gaps and "spectral" in (self.loss.kind, self.loss.training):
            yield "loss=spectral: expected complete horizons, found dataset.fill=mask; use loss=mse, mae or huber"
        if self.loss.kind == "negative_binomial" and self.scaler.transform != "none":
            yield f"scaler.transform: expected none with loss=negative_binomial, found {self.scaler.transform}"
        skip = self.model.skip
        if self.weight_col is not None and (self.model.CLOSED_FORM or skip != "none"):
            found = f"model={self.model.family}" if self.model.CLOSED_FORM else f"model.skip={skip}"
            yield f"weight_col: expected a network with model.skip=none, found {found}, which is fitted without weights"
        if self.weight_col is not None and "spectral" in (self.loss.kind, self.loss.training):
            yield "weight_col: expected a loss of single rows, found loss=spectral; use loss=mse, mae or huber"
        if self.model.embed == "none" and (self.dataset.calendar or self.dataset.holidays):
            yield (
                "dataset.calendar, dataset.holidays: expected model.embed=timeF, fixed or learned with them, found "
                "none, which reads no calendar"
            )
        if skip != "none" and "head" in self.trainer.freeze and self.init_from is None:
            yield (
                f"trainer.freeze: expected a head that learns with model.skip={skip}, which starts it at zero; "
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


TUNED = {
    "model": "zero", "loss": "mae", "optim.schedule": "constant", "trainer.steps_per_epoch": 50,
    "trainer.max_epochs": 1000, "trainer.max_steps": None, "trainer.patience": 4, "label_len": 0,
    "dataset.short": "pad",
}  # fmt: skip
"""How the pretrained network is trained further. The rate is constant, so that a run of as many steps is the same."""
TUNED_ROWS = 512
"""Most rows that it then reads, of longer series; of others half of them."""


def tuning(minutes: float, rows: int, split: SplitConfig) -> dict[str, Any]:
    """Settings, by their keys, of a training of the pretrained network.

    Args:
        minutes: of computing.
        rows: of the median series.
        split: its parts.
    """
    parts = {f"dataset.split.{name}": getattr(split, name) for name in ("train", "val", "test")}
    kind = {"dataset.split.kind": split.kind}
    return {**TUNED, "trainer.max_minutes": minutes, "seq_len": max(min(TUNED_ROWS, rows // 2), 1), **kind, **parts}
