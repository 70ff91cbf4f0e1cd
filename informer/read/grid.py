"""Times with jitter moved to the regular grid that they are near, and weekly ones to their usual weekday."""

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int

from informer.base.errors import counted
from informer.read.closures import WEEKDAYS
from informer.read.frequency import DAY, SECOND, SIZES, UNIT_NANOS, Frequency, fixed, nanos_of, usual_distance

JITTER = 0.25
"""Maximum distance of times from a regular grid to which they are rounded, in steps."""

FEWEST_TIMES = 10
"""Minimum number of times that show a grid from which they deviate."""

RARE = 1e-6
"""Probability of times that are all late by more than seems: rounder grids are taken for wrong if it is lower."""

FEWEST_OFF = 0.05
"""Minimum share of times off the grid; fewer are taken for wrong."""

MOST_MOVED = 0.4
"""Maximum share of weekly rows on another day than usual."""


def _on_weekday(times: pd.DatetimeIndex, step: Frequency | None) -> tuple[pd.DatetimeIndex, str] | None:
    """Weekly times of which some are up to three days off, as after a holiday, on the usual weekday, and a note on it;
    None for other times, and if two would be in one week."""
    once = times[times.notna()].unique().sort_values()
    if times.tz is not None or len(once) < (FEWEST_TIMES if step is None else 2):
        return None
    distances, expected = np.diff(once.asi8) * UNIT_NANOS[once.unit], getattr(step and step.offset, "weekday", None)
    if step is not None and expected is None:
        return None
    usual = 7 * DAY * step.offset.n if step else usual_distance(once) * UNIT_NANOS[once.unit]
    if usual not in (7 * DAY, 14 * DAY) or (distances % DAY).any() or not (distances % usual).any():
        return None
    usually = int(np.bincount(once.day_of_week).argmax())
    weekday = usually if expected is None or len(once) >= FEWEST_TIMES else expected
    off, off_once = ((np.asarray(each.day_of_week) - weekday + 3) % 7 - 3 for each in (times, once))
    moved = once - pd.to_timedelta(off_once, unit="D")
    lonely = np.diff(moved) > pd.Timedelta(2 * usual)  # after a gap, as with a wrong year
    if not moved.is_unique or (off_once != 0).mean() > MOST_MOVED or (lonely & (off_once != 0)[1:]).any():
        return None
    day, first = WEEKDAYS[weekday], once[off_once != 0][0]
    note = f"{counted(int((off_once != 0).sum()), 'week')} not dated on {day}, the first {first:%Y-%m-%d}, moved to it"
    return times - pd.to_timedelta(off, unit="D"), note


def on_grid(times: pd.DatetimeIndex, step: Frequency | None) -> tuple[pd.DatetimeIndex, str] | None:
    """Times with jitter rounded to a regular grid of steps of at most a day, or of weeks, and a note on it; None for
    other times.

    The step and the start of the grid are the roundest that fit about as well as the best ones: 10 minutes from a full
    hour, or 333333333 ns for 3 Hz. Rows that are missing or double remain so.

    Args:
        times: in any order; missing ones stay.
        step: expected step; None: the one that fits best.
    """
    distances = np.diff(times.asi8)
    if step is None and (distances == distances[:1]).all():  # as usual, and much faster than what follows
        return None
    if (weekly := _on_weekday(times, step)) is not None:
        return weekly
    each, present = UNIT_NANOS[times.unit], np.asarray(times.notna())
    expected = nanos_of(step.offset) if step is not None else None
    counts = np.sort(times.asi8[present])
    if len(counts) < (FEWEST_TIMES if step is None else 2) or (step is not None and expected is None):
        return None
    distances = np.diff(counts)
    first, usual = int(counts[0]) * each, int(np.median(distances)) * each
    is_far = max(-first, int(counts[-1]) * each, first + usual) >= 2**62  # of nanoseconds
    if is_far or not 0 < usual <= 1.5 * DAY:
        return None
    if not (distances * each % (expected or distances[distances > 0].min() * each)).any():
        return None
    resolution = int(np.gcd.reduce(distances)) * each
    if resolution % (900 * SECOND) == 0:  # clock changes move times by whole hours
        return None
    past = (counts - counts[0]) * each
    nanos = float(expected or usual)
    for _ in range(0 if expected else 2):  # over long gaps, the first estimate loses count
        nanos = max(float(np.polyfit(_slots(past, nanos), past, 1)[0]), 1.0)
    slots = _slots(past, nanos)
    width = np.ptp(past - nanos * slots)
    rate = [round(SECOND / round(SECOND / nanos))] if nanos < SECOND else []
    rounded = (*rate, *(round(nanos / size) * size for size in SIZES.values() if size <= nanos))
    size = expected or next(
        (size for size in rounded if np.ptp(past - size * slots) <= 1.5 * width + resolution), round(nanos)
    )
    late = past - size * slots  # after the first time
    low, high = first + int(late.min()), first + int(late.max())
    # the fewer times, the later may be the least late one; delays are taken for uniform
    fit = max(1.1, RARE ** (-1 / len(counts))) * (high - low) + resolution
    starts = (round((low + high) / 2 / unit) * unit for unit in ([size] * (DAY % size == 0) + [*SIZES.values()]))
    start = next(start for start in starts if max(start - low, high - start) <= fit or 2 * fit < high - low)
    deviation = max(start - low, high - start)
    few = np.unique(late, return_counts=True)[1].max() > (1 - FEWEST_OFF) * len(late)
    mostly_double = 2 * (np.diff(slots) == 0).sum() > len(slots)
    if deviation > JITTER * size or few or mostly_double or (times.tz is not None and size % DAY == 0):
        return None
    nearest = start + (times.asi8[present] * each - start + size // 2) // size * size
    exact = pd.DatetimeIndex(pd.Series(nearest.astype("M8[ns]"), np.flatnonzero(present)).reindex(range(len(times))))
    unit = times.unit if size % each == 0 and start % each == 0 else "ns"
    local = exact if times.tz is None else exact.tz_localize("UTC").tz_convert(times.tz)
    note = f"times rounded to steps of {fixed(size).freqstr}, from which they are up to {deviation / SECOND:.3g} s off"
    return local.as_unit(unit), note


def _slots(past: Int[np.ndarray, " t"], nanos: float) -> Float64[np.ndarray, " t"]:
    """The number of steps from the first time to each, of which none is far from a whole number of steps."""
    return np.concatenate([[0.0], np.round(np.diff(past) / nanos).cumsum()])
