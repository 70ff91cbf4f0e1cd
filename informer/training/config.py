"""How long a run is, and how it goes."""

from dataclasses import dataclass, field


@dataclass(kw_only=True, slots=True)
class TrainerConfig:
    """The node `trainer`."""

    max_epochs: int = 6
    max_steps: int | None = None
    """Stop after so many steps, validated as after an epoch; null: no bound; 0: ridge of model.highway=ridge alone."""
    steps_per_epoch: int | None = None
    """An epoch, after which the model is validated, is so many steps on windows drawn anew; null: all windows once."""
    time_budget_minutes: float | None = None
    """With model=auto: how long its search and its training may take; null: as long as they do."""
    batch_size: int = 32
    """Windows a step, over all processes together."""
    eval_batch_size: int = 256
    """Windows a batch in validation and test; no result depends on it."""
    patience: int = 3
    """Epochs without a lower validation loss after which training stops."""
    save_every_minutes: float | None = 10.0
    """last.pt is written after each epoch, and within an epoch when so much time has gone by; null: after epochs."""
    freeze: list[str] = field(default_factory=list)
    """Top-level modules of the network that keep their weights (`encoder`, ...)."""
    deterministic: bool = False
    """Refuse algorithms that may give other bits each time; GPUs have some, and are slower without."""

    calibration: float = 0.5
    """Share of the validation rows, the later ones, that make intervals and do not stop training; 0: no intervals."""

    def problems(self) -> list[str]:
        """Every value out of range, one sentence each."""
        values = {
            "max_epochs": self.max_epochs,
            "batch_size": self.batch_size,
            "eval_batch_size": self.eval_batch_size,
            "patience": self.patience,
        }
        found = [f"trainer.{name}: expected at least 1, found {value}" for name, value in values.items() if value < 1]
        if self.max_steps is not None and self.max_steps < 0:
            found.append(f"trainer.max_steps: expected at least 0 or null, found {self.max_steps}")
        if self.steps_per_epoch is not None and self.steps_per_epoch < 1:
            found.append(f"trainer.steps_per_epoch: expected at least 1 or null, found {self.steps_per_epoch}")
        if self.time_budget_minutes is not None and not self.time_budget_minutes > 0:
            found.append(f"trainer.time_budget_minutes: expected more than 0 or null, found {self.time_budget_minutes}")
        if not 0 <= self.calibration < 1:
            found.append(f"trainer.calibration: expected 0 <= calibration < 1, found {self.calibration}")
        if self.save_every_minutes is not None and not self.save_every_minutes > 0:
            found.append(f"trainer.save_every_minutes: expected more than 0 or null, found {self.save_every_minutes}")
        return found


def epoch_steps(config: TrainerConfig, n_windows: int) -> int:
    """Optimiser steps of an epoch: no more than the windows allow."""
    whole = -(-n_windows // config.batch_size)
    return whole if config.steps_per_epoch is None else min(config.steps_per_epoch, whole)


def n_steps(config: TrainerConfig, n_windows: int) -> int:
    """Optimiser steps of a run that is not stopped early."""
    steps = config.max_epochs * epoch_steps(config, n_windows)
    return steps if config.max_steps is None else min(steps, config.max_steps)
