"""Intervals around a forecast by split conformal prediction (Lei et al. 2018, "Distribution-Free Predictive
Inference for Regression").

The size of the model's errors on windows that it was neither fitted to nor chosen by, for each step and column: the
interval of a level reaches as far to both sides as the ceil((n + 1) level)-th smallest of n such errors. It then covers
the level's share of what comes, if that is as the calibration windows were; windows that overlap and series that drift
make it approximate. Errors are scaled ones, so each series has intervals in its own units.
"""

from dataclasses import dataclass
from numbers import Integral

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from informer.checkpoint import Checkpoint
from informer.data.windows import Windows
from informer.errors import InputError
from informer.inference.network import model_forecast

LEVELS = range(1, 100)
"""Percent; whole ones, so that a checkpoint holds what any of them needs."""

MAX_NUMBERS = 1 << 27
"""Errors that are sorted at once; more windows than they stand for are thinned evenly."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Half widths of the intervals.

    Args:
        windows: errors for each step and column, n.
        half_widths: scaled, by level; infinite where n is too small for the level.
    """

    windows: int
    half_widths: Float[Tensor, "99 pred_len n"]

    def half_width(self, level: int) -> Float[Tensor, "pred_len n"]:
        """Of the interval of a level in percent.

        Raises:
            InputError: not a whole percentage, or one that takes more calibration windows.
        """
        if not isinstance(level, Integral) or level not in LEVELS:
            raise InputError(f"intervals: expected whole percentages from 1 to 99, found {level}")
        if not self.holds(level):
            raise InputError(
                f"intervals={level}: expected at least {needed(level)} calibration windows, the model had "
                f"{self.windows}; choose a lower level, or train with a longer validation part"
            )
        return self.half_widths[level - 1]

    def inside(
        self, level: int, forecast: Float[Tensor, "b pred_len n"], actual: Float[Tensor, "b pred_len n"]
    ) -> Bool[Tensor, "b pred_len n"]:
        """Which actual values lie in the interval of a level; all scaled."""
        return (forecast - actual).abs() <= self.half_width(level).to(forecast)

    def holds(self, level: int) -> bool:
        """There are enough windows for this level."""
        return rank(level, self.windows) <= self.windows

    def state(self) -> dict[str, Tensor]:
        """For a checkpoint."""
        return {"windows": torch.tensor(self.windows), "half_widths": self.half_widths}


def rank(level: int, n: int) -> int:
    """Place of the half width among n errors, from 1; above n where there are too few."""
    return -(-(n + 1) * level // 100)


def needed(level: int) -> int:
    """Fewest errors that a level takes."""
    return next(n for n in range(1, 100) if rank(level, n) <= n)


def saved_calibration(checkpoint: Checkpoint) -> Calibration | None:
    """The calibration in a checkpoint; None where there is none.

    Raises:
        InputError: it does not fit the model.
    """
    state = checkpoint.calibration
    if state is None:
        return None
    expected = (len(LEVELS), checkpoint.config["pred_len"], len(checkpoint.targets))
    if set(state) != {"windows", "half_widths"} or tuple(state["half_widths"].shape) != expected:
        raise InputError(f"checkpoint: its calibration does not fit the model: expected half widths {expected}")
    return Calibration(int(state["windows"]), state["half_widths"])


@torch.inference_mode()
def calibrate(model: nn.Module, windows: Windows, *, batch_size: int) -> Calibration:
    """The errors of a model, in eval mode, on windows that had no part in its training.

    Of a model of quantiles those of the median, so that every level can be had, and levels lie within each other.
    """
    per_window = windows.batch(torch.tensor([0])).target.numel()
    thinned = torch.arange(0, len(windows), -(-len(windows) * per_window // MAX_NUMBERS))
    batches = (windows.batch(numbers) for numbers in thinned.split(batch_size))
    errors = torch.cat([(model_forecast(model, batch) - batch.target).abs().float().cpu() for batch in batches])
    n = len(errors)
    ordered = torch.cat([errors.sort(dim=0).values, torch.full_like(errors[:1], torch.inf)])
    return Calibration(n, ordered[[min(rank(level, n), n + 1) - 1 for level in LEVELS]])
