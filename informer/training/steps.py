"""Number of optimiser steps of a run."""

from informer.config.training import TrainerConfig


def epoch_steps(config: TrainerConfig, n_windows: int) -> int:
    """Optimiser steps per epoch, limited by the number of windows."""
    whole = -(-n_windows // config.batch_size)
    return whole if config.steps_per_epoch is None else min(config.steps_per_epoch, whole)


def n_steps(config: TrainerConfig, n_windows: int) -> int:
    """Optimiser steps of a run without early stopping."""
    steps = config.max_epochs * epoch_steps(config, n_windows)
    return steps if config.max_steps is None else min(steps, config.max_steps)
