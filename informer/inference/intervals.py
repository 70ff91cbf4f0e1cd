"""Intervals around a forecast by conformal prediction with locally scaled errors (Lei et al. 2018, "Distribution-Free
Predictive Inference for Regression", section 5.2).

The half width of a level is, for each step and column, the ceil((n + 1) level)-th smallest of n absolute errors on
calibration windows, which are used neither for fitting nor for model selection. Errors are divided by how much each
window's history varies. The interval covers the level's share of actual values if these are distributed as in the
calibration windows; overlapping windows and drifting series make this approximate. Errors are scaled, so each series
has intervals in its own units.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from informer.checkpoint.format import Checkpoint
from informer.data.windows import Batch, Windows
from informer.errors import InputError
from informer.models.base import model_forecast

DOES_NOT_FIT = "checkpoint: its calibration does not fit the model"

LEVELS = range(1, 100)
"""Percent; whole numbers, so that a checkpoint can store all of them."""

MAX_NUMBERS = 1 << 27
"""Number of errors sorted at once; more windows are thinned evenly."""


POWERS = (0.5, 0.25, 0.75, 0.0, 1.0)
"""Candidate powers of a window's variation."""

CHOSEN_AT = (80, 95)
"""Levels of the intervals whose score selects the power."""

COMPARED = 1 << 23
"""Number of errors from which the power is selected; of more, of a thousand columns, evenly spaced windows are used."""

LEAST = 0.05
"""Added to the variation of every window, relative to the usual one: errors after a constant history are not zero."""


@dataclass(frozen=True, slots=True)
class Variation:
    """Unit of a window's errors: how much its history varies, relative to the usual variation.

    unit = ((mean |x_t - x_(t - lag)| + LEAST usual) / ((1 + LEAST) usual))^power over the window's history. The mean
    is the error of a seasonal naive forecast, in which seasons cancel.

    Args:
        lag: rows of a season; 1 if the history does not contain two seasons.
        power: 0: the same widths for all windows; 1: widths proportional to the variation.
        median: median variation of each target over the calibration windows, scaled.
    """

    lag: int
    power: float
    median: Float[Tensor, "n"]

    def unit(self, differences: Float[Tensor, "b n"]) -> Float[Tensor, "b 1 n"]:
        """Units of windows with these `differences`; 1 where none is observed."""
        usual = self.median.to(differences)
        relative = (differences + LEAST * usual) / ((1 + LEAST) * usual)
        return torch.where((usual > 0) & ~differences.isnan(), relative, 1.0)[:, None] ** self.power


def differences(history: Float[Tensor, "b seq_len n"], lag: int) -> Float[Tensor, "b n"]:
    """Mean absolute difference of observed rows `lag` apart; NaN without any, 0 if the history is not longer than
    `lag`."""
    if history.shape[1] <= lag:
        return torch.zeros_like(history[:, 0])
    absolute = (history[:, lag:] - history[:, :-lag]).abs()
    means = absolute.mean(dim=1)
    return torch.where(means.isnan(), absolute.nanmean(dim=1), means)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Half widths of conformal intervals.

    Args:
        windows: number n of errors per step and column, the minimum if some actual values are missing.
        half_widths: scaled half widths by level, for a window of usual variation; infinite if n is too small for the
            level.
        variation: scales the half widths by window; None in older files: the same widths for all windows.
    """

    windows: int
    half_widths: Float[Tensor, "99 pred_len n"]
    variation: Variation | None = None

    def unit(self, history: Float[Tensor, "b seq_len n"]) -> Float[Tensor, "b 1 n"]:
        """Factor of `half_width` for windows with this scaled history of the targets."""
        variation = self.variation
        return (
            torch.ones_like(history[:, :1])
            if variation is None
            else variation.unit(differences(history, variation.lag))
        )

    def half_width(self, level: int) -> Float[Tensor, "pred_len n"]:
        """Scaled half width of the interval of a level in percent, for a window of usual variation.

        Raises:
            InputError: not a whole percentage, or too few calibration windows for the level.
        """
        if not isinstance(level, Integral) or level not in LEVELS:
            raise InputError(f"intervals: expected whole percentages from 1 to 99, found {level}")
        if not self.supports(level):
            raise InputError(
                f"intervals={level}: expected at least {min_windows(level)} calibration windows, the model had "
                f"{self.windows}; choose a lower level, or train with a longer validation part (dataset.split.val)"
            )
        return self.half_widths[level - 1]

    def supports(self, level: int) -> bool:
        """Whether there are enough windows for this level."""
        return rank(level, self.windows) <= self.windows

    def state(self) -> dict[str, Tensor]:
        """Tensors to store in a checkpoint."""
        state = {"windows": torch.tensor(self.windows), "half_widths": self.half_widths}
        if self.variation is None:
            return state
        lag, power = torch.tensor(self.variation.lag), torch.tensor(self.variation.power)
        return state | {"lag": lag, "power": power, "usual": self.variation.median}


Count = TypeVar("Count", int, Tensor)


def rank(level: int, n: Count) -> Count:
    """Rank of the half width among n errors, from 1; above n if n is too small for the level."""
    return -(-(n + 1) * level // 100)


def min_windows(level: int) -> int:
    """Minimum number of errors for a level."""
    return next(n for n in range(1, 100) if rank(level, n) <= n)


def validation_rows(level: int, pred_len: int, share: float) -> int:
    """Minimum number of validation rows so that their last share calibrates an interval of this level.

    Args:
        level: in percent.
        pred_len: rows of a forecast.
        share: `trainer.calibration`.
    """
    return math.ceil((min_windows(level) + pred_len - 1) / share)


def saved_calibration(checkpoint: Checkpoint) -> Calibration | None:
    """The calibration in a checkpoint; None without one.

    Raises:
        InputError: it does not fit the model.
    """
    state = checkpoint.calibration
    if state is None:
        return None
    n_targets = len(checkpoint.targets)
    expected = (len(LEVELS), checkpoint.config["pred_len"], n_targets)
    if not {"windows", "half_widths"} <= set(state) or tuple(state["half_widths"].shape) != expected:
        raise InputError(f"{DOES_NOT_FIT}: expected half widths {expected}")
    windows, half_widths = state["windows"], state["half_widths"]
    if windows.dtype is not torch.int64 or windows.ndim or not int(windows) > 0:
        raise InputError(f"{DOES_NOT_FIT}: expected a number of windows")
    if half_widths.dtype is not torch.float32 or not (half_widths >= 0).all():  # too few windows for a level: infinite
        raise InputError(f"{DOES_NOT_FIT}: expected half widths of at least 0")
    further = {name: tensor for name, tensor in state.items() if name not in ("windows", "half_widths")}
    return Calibration(int(windows), half_widths, _saved_variation(further, n_targets) if further else None)


def _saved_variation(state: dict[str, Tensor], n_targets: int) -> Variation:
    if set(state) != {"lag", "power", "usual"} or any(state[name].ndim for name in ("lag", "power")):
        raise InputError(f"{DOES_NOT_FIT}: expected the numbers lag, power and usual, found {sorted(state)}")
    lag, power, usual = state["lag"], state["power"], state["usual"]
    if lag.dtype is not torch.int64 or not int(lag) > 0 or float(power) not in POWERS:
        raise InputError(f"{DOES_NOT_FIT}: expected a lag of at least 1 and a power of {sorted(POWERS)}")
    if usual.dtype is not torch.float32 or usual.shape != (n_targets,) or not (usual.isfinite() & (usual >= 0)).all():
        raise InputError(f"{DOES_NOT_FIT}: expected a variation of at least 0 for each of {n_targets} targets")
    return Variation(int(lag), float(power), usual)


@dataclass(frozen=True, slots=True)
class Residuals:
    """Errors of a model on windows that it was not fitted on.

    Args:
        errors: absolute errors, scaled; NaN where the actual value is missing.
        differences: variation of the windows' histories; see `differences`.
        lag: lag of these differences.
    """

    errors: Float[Tensor, "n pred_len c"]
    differences: Float[Tensor, "n c"]
    lag: int

    def calibration(self, compared: int | None = None) -> Calibration:
        """Calibration with the power of POWERS that has the lowest interval score on these windows.

        Args:
            compared: number of errors from which the power is selected; None: COMPARED.
        """
        usual = self.differences.nanmedian(dim=0).values.nan_to_num(0.0)
        every = max(self.errors.numel() // (compared or COMPARED), 1)
        sample = Residuals(self.errors[::every], self.differences[::every], self.lag)
        variations = [Variation(self.lag, power, usual) for power in POWERS]
        best = min(variations, key=lambda variation: sample._interval_score(sample._calibration(variation)))
        return self._calibration(best)

    def _calibration(self, variation: Variation) -> Calibration:
        counts = (~self.errors.isnan()).sum(dim=0)
        relative = (self.errors / variation.unit(self.differences)).nan_to_num(torch.inf, posinf=torch.inf)
        ordered = torch.cat([relative, torch.full_like(relative[:1], torch.inf)]).sort(dim=0).values
        places = (rank(level, counts).minimum(counts + 1) - 1 for level in LEVELS)
        half_widths = torch.cat([ordered.gather(0, place[None]) for place in places])
        return Calibration(int(counts.min()), half_widths, variation)

    def _interval_score(self, calibration: Calibration) -> float:
        """Half the interval score, width + 2 / (1 - level) times the distance outside the interval, summed over
        CHOSEN_AT, relative to each column's mean error (T. Gneiting and A. Raftery, "Strictly Proper Scoring Rules",
        2007, equation 43)."""
        assert calibration.variation is not None, "see `_calibration`"
        unit, size = calibration.variation.unit(self.differences), self.errors.nanmean(dim=(0, 1))
        total = 0.0
        for level in filter(calibration.supports, CHOSEN_AT):
            half = calibration.half_width(level) * unit
            score = half + (self.errors - half).clamp(min=0) / (1 - level / 100)
            total += float((score.nanmean(dim=(0, 1)) / torch.where(size > 0, size, 1.0)).mean())
        return total


@torch.inference_mode()
def residuals(
    model: nn.Module | Callable[[Batch], Float[Tensor, "b pred_len n"]],
    windows: Windows,
    *,
    batch_size: int,
    lag: int,
    targets: Sequence[int],
) -> Residuals:
    """Residuals of a forecaster on windows that it was not fitted on.

    Of a quantile model, those of its median, so that every level is available and intervals are nested.

    Args:
        model: in eval mode; or a function that maps a batch to scaled targets.
        windows: thinned evenly above MAX_NUMBERS errors.
        batch_size: windows per batch.
        lag: see `lag_of`.
        targets: indices of the targets among the inputs.
    """
    forecast = partial(model_forecast, model) if isinstance(model, nn.Module) else model
    per_window = windows.batch(torch.tensor([0])).target.numel()
    errors, variations = [], []
    for batch in windows.thinned(max(MAX_NUMBERS // per_window, 1)).batches(batch_size):
        errors.append((forecast(batch) - batch.target).abs().float().cpu())
        variations.append(differences(batch.enc_x[:, :, list(targets)], lag).float().cpu())
    return Residuals(torch.cat(errors), torch.cat(variations), lag)


def joined(parts: Sequence[Residuals]) -> Residuals:
    """Concatenate residuals of the same lag."""
    return Residuals(
        torch.cat([part.errors for part in parts]), torch.cat([part.differences for part in parts]), parts[0].lag
    )


def lag_of(season: int, seq_len: int) -> int:
    """Rows of a season if a history contains two seasons, otherwise 1."""
    return season if 2 * season <= seq_len else 1
