"""The error for a step whose loss or gradient is not finite."""

import math

import numpy as np
import torch
from torch import Tensor

from informer.data.pipeline import Data
from informer.errors import InputError
from informer.training.tracking.step_log import StepRecord

NAMED = 3
"""Maximum number of windows listed."""


def is_finite(record: StepRecord) -> bool:
    """Whether loss and gradient norm are finite."""
    return math.isfinite(record.loss) and math.isfinite(record.gradient_norm)


def divergence(record: StepRecord, data: Data, *, step: int, epoch: int, learning_rate: float) -> InputError:
    """The error that stops a run: the step, what is not finite, and its windows, most extreme first.

    Args:
        record: the first step that was not finite; the weights are those before it.
        data: the record's indices refer to its training windows.
        step, epoch: counted from 1.
        learning_rate: learning rate of that step.
    """
    what = (
        f"gradient norm is {record.gradient_norm}" if math.isfinite(record.loss) else f"training loss is {record.loss}"
    )
    return InputError(
        f"step {step} (epoch {epoch}, learning rate {learning_rate:.3g}): {what}, expected a finite number; "
        f"its {len(record.windows)} windows, those with the largest scaled values first: "
        f"{_named(data, record.windows)}; lower optim.lr, set optim.clip_norm, or look for extreme values there"
    )


def _named(data: Data, windows: Tensor) -> str:
    """`ETTh1.csv 2016-07-01 00:00:00 to 2016-07-05 23:00:00 (up to 3.1), ...`."""
    batch = data.train.batch(windows)
    magnitudes = [
        values.abs().nan_to_num(0.0, posinf=math.inf).amax(dim=(1, 2)) for values in (batch.enc_x, batch.target)
    ]
    peaks = torch.maximum(*magnitudes)
    most = peaks.argsort(descending=True)[:NAMED]
    starts = data.train.starts[windows.to(most.device)][most]
    firsts, lasts = (_times(data, starts + shift) for shift in (0, data.sizes.rows - 1))
    named = [
        f"{first} to {last} (up to {peak:.3g})"
        for first, last, peak in zip(firsts, lasts, peaks[most].tolist(), strict=True)
    ]
    more = [] if len(windows) <= NAMED else [f"{len(windows) - NAMED} more"]
    return f"{data.provenance.path.name} {', '.join([*named, *more])}"


def _times(data: Data, rows: Tensor) -> list[str]:
    """Timestamps of rows of the store."""
    ends = np.cumsum([len(series) for series in data.panel])
    times = []
    for row in rows.tolist():
        i = int(np.searchsorted(ends, row, side="right"))
        times.append(str(data.panel[i].timestamps[row - ends[i]]))  # counted from the series' end
    return times
