"""Local times and clock changes: resolve repeated hours, and detect the time zone of a file.

When clocks are set back, an hour occurs twice; its second occurrence in the file is the later one. When they are set
forward, an hour is skipped.
"""

import re

import numpy as np
import pandas as pd

from informer.data.read.frequency import Frequency
from informer.data.read.steps import SECOND, UNIT_NANOS, nanos_of
from informer.data.read.table import Table, shown
from informer.errors import InputError

ZONES = (
    "Europe/Berlin",
    "Europe/London",
    "Europe/Helsinki",
    "America/New_York",
    "Australia/Sydney",
    "America/Santiago",
    "Pacific/Auckland",
)
"""One zone for each rule of clock changes; others with the same rule cannot be distinguished."""

OFFSET = re.compile(r"(?:[Zz]|UTC|GMT|[+-]\d{2}(?::?\d{2})?)\s*$")
"""The end of a time with an offset from UTC."""

HOUR = 3600 * SECOND


def in_zone(
    times: pd.DatetimeIndex, zone: str, table: Table, column: str, groups: np.ndarray | None = None
) -> pd.DatetimeIndex:
    """Localize local times to a zone; times with an offset are converted.

    Args:
        times: times of the rows of a table; NaT stays.
        zone: time zone, such as Europe/Berlin.
        table, column: for errors.
        groups: name of the series of each row; None: one series.

    Raises:
        InputError: a local time that does not exist in the zone.
    """
    if times.tz is not None:
        return times.tz_convert(zone)
    local = _localized(times, zone, groups)
    left_out = np.flatnonzero(np.asarray(local.isna()) & np.asarray(times.notna()))
    if len(left_out):
        row = int(left_out[0])
        more = f" ({len(left_out)} such rows)" if len(left_out) > 1 else ""
        raise InputError(
            f"{table.at(row, column)}: {times[row]} does not exist in {zone}, where clocks were set forward{more}; "
            "remove the row, or set the zone that the times are in, dataset.timezone"
        )
    return local


def _localized(times: pd.DatetimeIndex, zone: str, groups: np.ndarray | None) -> pd.DatetimeIndex:
    """Local times in a zone; NaT for times that do not exist in it."""
    keys = {"time": times} if groups is None else {"time": times, "group": groups}
    occurrence = pd.DataFrame(keys).groupby(list(keys), sort=False, dropna=False).cumcount().to_numpy()
    present = times[times.notna()]
    goes_back = len(present) > 1 and present[0] > present[-1]
    return times.tz_localize(zone, ambiguous=(occurrence > 0) if goes_back else occurrence == 0, nonexistent="NaT")


def with_offsets(text: pd.Series, time_format: str, table: Table, column: str) -> pd.DatetimeIndex:
    """Times with different UTC offsets, in the zone of ZONES with these offsets, otherwise in UTC.

    Raises:
        InputError: some have no offset.
    """
    bare = np.flatnonzero(~text.str.contains(OFFSET).to_numpy(dtype=bool, na_value=True))
    if len(bare):
        raise InputError(
            f"{table.at(int(bare[0]), column)}: expected an offset from UTC as in other rows, found "
            f"{shown(text.iloc[bare[0]])}; use one time zone, such as UTC, for all rows"
        )
    times = pd.DatetimeIndex(pd.to_datetime(text.to_numpy(dtype=object), format=time_format, errors="coerce", utc=True))
    offsets = _minutes(text.str.extract(r"([+-]\d{2}:?\d{2}|[+-]\d{2})\s*$")[0])
    zone = next((zone for zone in ZONES if (_offsets(times, zone) == offsets)[times.notna()].all()), None)
    return times if zone is None else times.tz_convert(zone)


def _minutes(offsets: pd.Series) -> np.ndarray:
    """Offsets such as +01:00, +0100 or +01 in minutes; 0 without one."""
    sign = np.where(offsets.str.startswith("-").fillna(False), -1, 1)
    digits = offsets.str.replace(r"\D", "", regex=True).fillna("0000").str.ljust(4, "0")
    return sign * (digits.str[:2].astype(int) * 60 + digits.str[2:].astype(int)).to_numpy()


def _offsets(times: pd.DatetimeIndex, zone: str) -> np.ndarray:
    wall = times.tz_convert(zone).tz_localize(None)
    return ((wall - times.tz_localize(None)) / pd.Timedelta("1min")).to_numpy()


def changing_zone(times: pd.DatetimeIndex) -> str | None:
    """The zone whose clock changes explain every repeated and every missing time; None without such changes.

    Args:
        times: local times of one series, in the order of the file.
    """
    if len(times) < 3 or times.tz is not None or times.hasnans:
        return None
    distinct = times.unique().sort_values()
    if len(distinct) < 2:
        return None
    frequency, _ = Frequency.closest(distinct)
    nanos = nanos_of(frequency.offset)
    if nanos is None or nanos > HOUR or not (times.has_duplicates or leaves_hours_out(times)):
        return None
    return next((zone for zone in ZONES if _is_regular(_localized(times, zone, None), frequency)), None)


def zone_advice(zone: str) -> str:
    """What to set for local times with the clock changes of a zone."""
    return f"set dataset.timezone={zone}, or another zone with the same clock changes"


def leaves_hours_out(times: pd.DatetimeIndex) -> bool:
    """Whether steps are equal but for some that are an hour longer, as when clocks are set forward."""
    steps, hour = np.diff(times.asi8), HOUR // UNIT_NANOS[times.unit]
    if not len(steps):
        return False
    low, high = steps.min(), steps.max()
    return bool(0 < low <= hour and high == low + hour and ((steps == low) | (steps == high)).all())


def _is_regular(times: pd.DatetimeIndex, frequency: Frequency) -> bool:
    return not times.hasnans and times.is_monotonic_increasing and bool((frequency.strides(times) == 1).all())
