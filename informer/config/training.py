"""How a network is trained: the nodes `trainer`, `optim` and `loss`, device and precision."""

from dataclasses import dataclass, field
from enum import Enum

from informer.quantiles import level_problem

MOST_BLOCKS = 50
"""That intervals are calibrated on."""


class Precision(Enum):
    """auto: bf16 if the processor or GPU supports it natively, otherwise float32."""

    float32 = "float32"
    bf16 = "bf16"
    auto = "auto"


class TrackerKind(Enum):
    """Where curves go. tensorboard: an event file in the run directory; csv: `curves.csv` there; mlflow: the server
    that MLFLOW_TRACKING_URI names, or a database next to the run (extra `mlflow`)."""

    tensorboard = "tensorboard"
    mlflow = "mlflow"
    csv = "csv"


class Extra(Enum):
    """What is tracked after each epoch on request: attention maps of a validation window; the norm of every weight."""

    attention = "attention"
    weights = "weights"


@dataclass(kw_only=True, slots=True)
class TrainerConfig:
    """The node `trainer`."""

    max_epochs: int = 6
    max_steps: int | None = None
    """Stop after this many steps, then validate as after an epoch; null: no limit; 0: only fit in closed form."""
    steps_per_epoch: int | None = None
    """Steps per epoch, after which the model is validated, on newly drawn windows; null: all windows once."""
    time_budget_minutes: float | None = None
    """With model=auto: time limit of its search and training together; null: no limit."""
    max_minutes: float | None = None
    """Training ends after so many minutes, validated as after an epoch; null: no bound."""
    batch_size: int = 32
    """Windows per step, over all processes."""
    eval_batch_size: int = 256
    """Windows per batch in validation and test; does not affect results."""
    patience: int = 3
    """Number of epochs without a lower validation loss after which training stops."""
    save_every_minutes: float | None = 10.0
    """last.pt is written after each epoch, and within an epoch after this time; null: only after epochs."""
    freeze: list[str] = field(default_factory=list)
    """Top-level modules of the network that keep their weights (`encoder`, ...)."""
    deterministic: bool = False
    """Refuse nondeterministic algorithms; GPUs have some, and are slower without."""
    collective_timeout_minutes: float = 10.0
    """How long a process waits for the others before the run ends."""

    keep: bool = True
    """Keep what `informer update` adds later rows to: the last rows (rows.csv), moments of linear maps (kept.pt)."""
    refit: bool = False
    """With linear maps: after the score fit these once more on the rows of all parts, for forecasts (refit.pt)."""
    combine: bool = False
    """With linear maps: the forecast is the average of network, linear maps and seasonal naive that does best on
    validation, chosen after training."""
    tracker: list[TrackerKind] = field(default_factory=lambda: [TrackerKind.tensorboard])
    """Where curves go: any of tensorboard, mlflow, csv."""
    track_also: list[Extra] = field(default_factory=list)
    """Further curves after each epoch: attention (maps of one validation window), weights (their norms)."""
    calibration: float = 0.5
    """Share of the validation rows, from the end, that calibrates intervals and is not used to stop training; 0: no
    intervals."""
    calibration_blocks: int = 5
    """With linear maps: blocks of training and validation that calibrate intervals, each forecast by maps fitted on the
    others; 0: the rows of `calibration` do, as for models without."""

    def problems(self) -> list[str]:
        """All values out of range, one sentence each."""
        values = {
            "max_epochs": self.max_epochs,
            "batch_size": self.batch_size,
            "eval_batch_size": self.eval_batch_size,
            "patience": self.patience,
        }
        found = [f"trainer.{name}: expected at least 1, found {value}" for name, value in values.items() if value < 1]
        for name, chosen in (("tracker", self.tracker), ("track_also", self.track_also)):
            if len(set(chosen)) < len(chosen):
                found.append(f"trainer.{name}: expected different names, found {[each.name for each in chosen]}")
        if self.max_steps is not None and self.max_steps < 0:
            found.append(f"trainer.max_steps: expected at least 0 or null, found {self.max_steps}")
        if self.steps_per_epoch is not None and self.steps_per_epoch < 1:
            found.append(f"trainer.steps_per_epoch: expected at least 1 or null, found {self.steps_per_epoch}")
        if self.time_budget_minutes is not None and not self.time_budget_minutes > 0:
            found.append(f"trainer.time_budget_minutes: expected more than 0 or null, found {self.time_budget_minutes}")
        if self.max_minutes is not None and not self.max_minutes > 0:
            found.append(f"trainer.max_minutes: expected more than 0 or null, found {self.max_minutes}")
        if not 0 < self.collective_timeout_minutes <= 1e6:
            minutes = self.collective_timeout_minutes
            found.append(f"trainer.collective_timeout_minutes: expected more than 0, at most 1e6, found {minutes}")
        if not 0 <= self.calibration < 1:
            found.append(f"trainer.calibration: expected 0 <= calibration < 1, found {self.calibration}")
        if self.calibration_blocks != 0 and not 2 <= self.calibration_blocks <= MOST_BLOCKS:
            wanted = f"trainer.calibration_blocks: expected 0, or 2 to {MOST_BLOCKS}"
            found.append(f"{wanted}, found {self.calibration_blocks}")
        if self.save_every_minutes is not None and not self.save_every_minutes > 0:
            found.append(f"trainer.save_every_minutes: expected more than 0 or null, found {self.save_every_minutes}")
        return found


class Schedule(Enum):
    """halving: the rate of epoch n is lr / 2^(n-1), as in the paper's runs; constant: lr throughout.

    cosine: from lr to 0 along half a cosine, step by step over the whole run.
    """

    halving = "halving"
    constant = "constant"
    cosine = "cosine"


@dataclass(kw_only=True, slots=True)
class OptimConfig:
    """The node `optim`: Adam."""

    lr: float = 1e-4
    schedule: Schedule = Schedule.halving
    weight_decay: float = 0.0
    clip_norm: float | None = None
    """Maximum gradient norm; longer gradients are scaled down to it."""
    ema: float = 0.0
    """Share of an average of the weights that a step keeps, such as 0.999; the average is validated and is the model.
    0: none."""

    def problems(self) -> list[str]:
        """All values out of range, one sentence each."""
        found = []
        if not self.lr > 0:
            found.append(f"optim.lr: expected more than 0, found {self.lr}")
        if self.weight_decay < 0:
            found.append(f"optim.weight_decay: expected at least 0, found {self.weight_decay}")
        if self.clip_norm is not None and not self.clip_norm > 0:
            found.append(f"optim.clip_norm: expected more than 0 or null, found {self.clip_norm}")
        if not 0 <= self.ema < 1:
            found.append(f"optim.ema: expected at least 0 and less than 1, found {self.ema}")
        return found


class LossKind(Enum):
    """Mean over all forecast values: squared error, absolute error, Huber loss (delta 1), absolute error and that of
    the spectrum, or pinball loss of quantiles."""

    mse = "mse"
    mae = "mae"
    huber = "huber"
    spectral = "spectral"
    quantile = "quantile"


@dataclass(kw_only=True, slots=True)
class LossConfig:
    """The node `loss`."""

    kind: LossKind = LossKind.mse
    alpha: float = 0.2
    """Weight of the error's spectrum with kind=spectral."""
    quantiles: list[float] = field(default_factory=list)
    """Levels of the forecast quantiles with kind=quantile; the median is the point forecast."""

    def problems(self) -> list[str]:
        """All values out of range, one sentence each."""
        if not self.alpha > 0:
            return [f"loss.alpha: expected more than 0, found {self.alpha}"]
        if self.kind is LossKind.quantile:
            problem = level_problem(self.quantiles)
            return [f"loss.quantiles: {problem}"] if problem else []
        if self.quantiles:
            return [f"loss.quantiles: only used with loss=quantile, found loss.kind={self.kind.value}"]
        return []
