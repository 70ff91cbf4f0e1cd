"""Early stopping, and the best epoch."""

import math
from typing import final

from informer.errors import InputError


@final
class EarlyStopping:
    """Counts epochs without a new lowest validation loss.

    Args:
        patience: epochs without improvement after which training stops.
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.start_loss: float | None = None
        self.best_loss = math.inf
        self.best_epoch = 0
        self.epochs_without_improvement = 0

    def update(self, loss: float, epoch: int) -> bool:
        """Record the validation loss of `epoch` (from 1; 0: before the first step); True if it is the lowest so far.

        Raises:
            InputError: the loss is not finite.
        """
        if not math.isfinite(loss):
            raise InputError(
                f"epoch {epoch}: validation loss is {loss}; expected a finite number: "
                "lower optim.lr or look for extreme values in the data"
            )
        if epoch == 0:
            self.start_loss = loss
        if loss < self.best_loss:
            self.best_loss, self.best_epoch, self.epochs_without_improvement = loss, epoch, 0
            return True
        self.epochs_without_improvement += 1
        return False

    @property
    def epochs(self) -> int:
        """The last recorded epoch."""
        return self.best_epoch + self.epochs_without_improvement

    @property
    def should_stop(self) -> bool:
        """Whether patience has run out."""
        return self.epochs_without_improvement >= self.patience
