"""Intervals around a forecast by split conformal prediction (Lei et al. 2018, "Distribution-Free Predictive
Inference for Regression").

Errors of the model on windows used neither for fitting nor for model selection, for each step and column: the interval
of a level extends to both sides by the ceil((n + 1) level)-th smallest of n absolute errors. It then covers the level's
share of actual values if these are distributed as in the calibration windows; overlapping windows and drifting series
make this approximate. Errors are scaled, so each series has intervals in its own units.
"""

import math
from dataclasses import dataclass
from numbers import Integral

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from informer.checkpoint.format import Checkpoint
from informer.data.windows import Windows
from informer.errors import InputError
from informer.models.base import model_forecast

LEVELS = range(1, 100)
"""Percent; whole numbers, so that a checkpoint can store all of them."""

MAX_NUMBERS = 1 << 27
"""Number of errors sorted at once; more windows are thinned evenly."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Half widths of conformal intervals.

    Args:
        windows: number n of errors for each step and column.
        half_widths: scaled, by level; infinite if n is too small for the level.
    """

    windows: int
    half_widths: Float[Tensor, "99 pred_len n"]

    def half_width(self, level: int) -> Float[Tensor, "pred_len n"]:
        """Half width of the interval of a level in percent.

        Raises:
            InputError: not a whole percentage, or a level that needs more calibration windows.
        """
        if not isinstance(level, Integral) or level not in LEVELS:
            raise InputError(f"intervals: expected whole percentages from 1 to 99, found {level}")
        if not self.holds(level):
            raise InputError(
                f"intervals={level}: expected at least {needed(level)} calibration windows, the model had "
                f"{self.windows}; choose a lower level, or train with a longer validation part (dataset.split.val)"
            )
        return self.half_widths[level - 1]

    def inside(
        self, level: int, forecast: Float[Tensor, "b pred_len n"], actual: Float[Tensor, "b pred_len n"]
    ) -> Bool[Tensor, "b pred_len n"]:
        """Which actual values are inside the interval of a level; all scaled."""
        return (forecast - actual).abs() <= self.half_width(level).to(forecast)

    def holds(self, level: int) -> bool:
        """Whether there are enough windows for this level."""
        return rank(level, self.windows) <= self.windows

    def state(self) -> dict[str, Tensor]:
        """For a checkpoint."""
        return {"windows": torch.tensor(self.windows), "half_widths": self.half_widths}


def rank(level: int, n: int) -> int:
    """Rank of the half width among n errors, from 1; above n if there are too few."""
    return -(-(n + 1) * level // 100)


def needed(level: int) -> int:
    """Minimum number of errors for a level."""
    return next(n for n in range(1, 100) if rank(level, n) <= n)


def validation_rows(level: int, pred_len: int, share: float) -> int:
    """Rows of a validation part of which the last share calibrates an interval of this level.

    Args:
        level: in percent.
        pred_len: rows of a forecast.
        share: `trainer.calibration`.
    """
    return math.ceil((needed(level) + pred_len - 1) / share)


def saved_calibration(checkpoint: Checkpoint) -> Calibration | None:
    """The calibration in a checkpoint; None without one.

    Raises:
        InputError: it does not fit the model.
    """
    state = checkpoint.calibration
    if state is None:
        return None
    expected = (len(LEVELS), checkpoint.config["pred_len"], len(checkpoint.targets))
    if set(state) != {"windows", "half_widths"} or tuple(state["half_widths"].shape) != expected:
        raise InputError(f"checkpoint: its calibration does not fit the model: expected half widths {expected}")
    windows, half_widths = state["windows"], state["half_widths"]
    if windows.dtype is not torch.int64 or windows.ndim or not int(windows) > 0:
        raise InputError("checkpoint: its calibration does not fit the model: expected a number of windows")
    if half_widths.dtype is not torch.float32 or not (half_widths >= 0).all():  # too few windows for a level: infinite
        raise InputError("checkpoint: its calibration does not fit the model: expected half widths of at least 0")
    return Calibration(int(windows), half_widths)


@torch.inference_mode()
def calibrate(model: nn.Module, windows: Windows, *, batch_size: int) -> Calibration:
    """Calibrate on the errors of a model, in eval mode, on windows not used in its training.

    A quantile model uses the errors of its median, so that every level is available and intervals are nested.
    """
    per_window = windows.batch(torch.tensor([0])).target.numel()
    thinned = torch.arange(0, len(windows), -(-len(windows) * per_window // MAX_NUMBERS))
    batches = (windows.batch(numbers) for numbers in thinned.split(batch_size))
    return of_errors(
        torch.cat([(model_forecast(model, batch) - batch.target).abs().float().cpu() for batch in batches])
    )


def of_errors(errors: Float[Tensor, "n pred_len c"]) -> Calibration:
    """From the sizes of scaled errors on windows that a model was not fitted on."""
    n = len(errors)
    ordered = torch.cat([errors.sort(dim=0).values, torch.full_like(errors[:1], torch.inf)])
    return Calibration(n, ordered[[min(rank(level, n), n + 1) - 1 for level in LEVELS]])
