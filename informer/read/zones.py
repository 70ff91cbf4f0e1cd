"""Time zones: of local times that are said to be in one or show its clock changes, and of times with offsets from UTC.

When clocks are set back, an hour occurs twice, and its second occurrence in the file is the later one. When they are
set forward, an hour is skipped.
"""

from datetime import tzinfo

import numpy as np
import pandas as pd

from informer.base.errors import TimeError
from informer.read.date_text import HALF
from informer.read.frequency import SECOND, UNIT_NANOS, Frequency, nanos_of
from informer.read.table import Table, shown

OFFSET = r"(?:[Zz]|UTC|GMT|[+-]\d{2}(?::?\d{2})?)\s*$"
"""The end of a time with an offset from UTC."""

ZONES = (
    *("Europe/Berlin", "Europe/London", "Europe/Helsinki", "America/New_York", "America/Chicago", "America/Denver"),
    *("America/Los_Angeles", "Australia/Sydney", "America/Santiago", "Pacific/Auckland"),
)
"""One zone for each rule of clock changes and offset from UTC, as far as these are usual; others cannot be told from
them. Of local times, without offsets, only the rule is known: the first zone with it."""

HOUR = 3600 * SECOND


def with_offsets_of_names(text: pd.Series, table: Table, column: str) -> pd.Series:
    """Times with offsets in place of their names, such as CET and CEST."""
    names = text.str.extract(r"([A-Z]+)\s*$")[0]
    days = [pd.Timestamp(2024, month, 1, tz=zone) for zone in ("UTC", *ZONES) for month in (1, 7)]
    offsets = {str(day.tzname()): day.strftime("%z") for day in days} | {"MEZ": "+0100", "MESZ": "+0200"}
    bare = np.flatnonzero(text.notna() & ~names.isin(offsets))
    if len(bare):
        raise TimeError(
            f"{table.at(int(bare[0]), column)}: expected the name of a time zone such as CET, CEST, EST or EDT, found "
            f"{shown(text.iloc[bare[0]])}; write offsets from UTC, such as +01:00"
        )
    numbered = text.str.replace(HALF, r" \1m", regex=True).str.replace(r"[A-Z]+\s*$", "", regex=True)
    return numbered + names.map(offsets)


def with_offsets(text: pd.Series, time_format: str, table: Table, column: str) -> pd.DatetimeIndex:
    """Times with different UTC offsets, in the zone of ZONES with these offsets, otherwise in UTC.

    Raises:
        InputError: some have no offset.
    """
    bare = np.flatnonzero(text.notna() & ~text.str.contains(OFFSET, na=False))
    if len(bare):
        raise TimeError(
            f"{table.at(int(bare[0]), column)}: expected an offset from UTC as in other rows, found "
            f"{shown(text.iloc[bare[0]])}; use one time zone, such as UTC, for all rows"
        )
    times = pd.DatetimeIndex(pd.to_datetime(text.to_numpy(dtype=object), format=time_format, errors="coerce", utc=True))
    # such as +01:00, +0100 or +01, in minutes; 0 without one
    parts = text.str.extract(r"([+-])(\d{2}):?(\d{2})?\s*$").fillna("0")
    offsets = np.where(parts[0] == "-", -1, 1) * (parts[1].astype(int) * 60 + parts[2].astype(int))
    for zone in ZONES:
        local = times.tz_convert(zone)
        own = (local.tz_localize(None) - times.tz_localize(None)) / pd.Timedelta("1min")
        if (own == offsets)[times.notna()].all():
            return local
    return times


def in_zone(
    times: pd.DatetimeIndex, zone: str, table: Table, column: str, groups: np.ndarray | None
) -> pd.DatetimeIndex:
    """Local times of the rows of a table in a zone; times with an offset are converted.

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
        raise TimeError(
            f"{table.at(row, column)}: {times[row]} does not exist in {zone}, where clocks were set forward{more}; "
            "remove the row, or set the zone that the times are in, dataset.timezone"
        )
    return local


def _localized(times: pd.DatetimeIndex, zone: str, groups: np.ndarray | None = None) -> pd.DatetimeIndex:
    """Local times in a zone, of which `groups` are the series; NaT for times that do not exist in it.

    Of an hour that occurs twice, rows are in the second one if their time was there before, or a later time, unless
    rows are out of order by an hour or more.
    """
    rows, present = pd.DataFrame({"time": times, "group": 0 if groups is None else groups}), times[times.notna()]
    rows = rows[::-1] if len(present) > 1 and present[0] > present[-1] else rows
    back, is_second = rows.groupby("group")["time"].cummax() - rows["time"], rows.duplicated()
    if back.max() < pd.Timedelta(HOUR):
        is_second |= back > pd.Timedelta(0)
    return times.tz_localize(zone, ambiguous=~is_second.sort_index().to_numpy(), nonexistent="NaT")


FEW_REPEATED = 0.05
"""Chance that other repeated times, by their share, explain those of a clock change, below which one is reported."""


def in_changing_zone(times: pd.DatetimeIndex) -> tuple[pd.DatetimeIndex, bool] | None:
    """Local times in the zone whose clock changes they show, and whether this is clear; None without such changes.

    Some rows next to a change are one step apart, and none contradict one. It is clear if the changes explain more than
    half of the repeated times, or, if no time is repeated, of the gaps. It is not if they explain half, or fewer while
    others are so seldom repeated that those of the change hardly are by chance.

    Args:
        times: of one series, in the order of the file.
    """
    if len(times) < 3 or times.tz is not None or times.hasnans or len(once := times.unique().sort_values()) < 2:
        return None
    nanos, unit = nanos_of(Frequency.closest(once)[0].offset), UNIT_NANOS[times.unit]
    repeated, steps = times[times.duplicated()], np.diff(once.asi8) * unit
    if nanos is None or nanos > HOUR or not (len(repeated) or (steps == nanos + HOUR).any()):
        return None
    n_gaps, hours = int((steps > nanos).sum()), steps == nanos + HOUR
    for zone in ZONES:
        if len(repeated):  # only these can be times that occur twice
            if not repeated.tz_localize(zone, ambiguous="NaT", nonexistent="shift_forward").hasnans:
                continue
        else:
            passed = _localized(once[1:][hours], zone) - _localized(once[:-1][hours], zone)
            if not (passed == pd.Timedelta(nanos)).any():
                continue  # no hour that is left out is one of this zone
        local = _localized(times, zone)
        ordered = local.sort_values()
        steps, on_clocks = (np.diff(each.asi8) * unit for each in (ordered, ordered.tz_localize(None)))
        changes = on_clocks != steps
        if local.hasnans or (on_clocks[changes] == nanos).any() or not (steps[changes] == nanos).any():
            continue  # rows in an hour that is left out, or none twice; a change in a gap says nothing
        n_left, n = int((steps > nanos).sum()), n_gaps
        if len(repeated):
            n_left, n = int(local.duplicated().sum()), len(repeated)
        is_seldom = len(repeated) > 0 and (n_left / len(once)) ** (n - n_left) <= FEW_REPEATED
        if 2 * n_left <= n or is_seldom:
            return local, 2 * n_left < n
    return None


def zone_advice(zone: tzinfo | None, *, is_clear: bool = True) -> str:
    """What to set for local times with the clock changes of a zone, if they have some."""
    advice = f"set dataset.timezone={zone}, or another zone with the same clock changes"
    return advice if is_clear else f"{advice}, or, if no clock was changed, dataset.timezone=UTC"


def check_zones(name: str, zone: tzinfo | str | None, other: tzinfo | str | None, where: str) -> None:
    """Check that times which are compared have a time zone both, or neither.

    Args:
        name: what has the times in `zone`.
        where: what has the times in `other`.

    Raises:
        InputError: only one of them has a zone.
    """
    if (zone is None) != (other is None):
        expected, found = ("without a time zone" if each is None else f"in {each}" for each in (other, zone))
        cure = "set the zone of these local times, dataset.timezone" if zone is None else "write them without a zone"
        raise TimeError(f"{name}: expected times {expected} as in {where}, found times {found}; {cure}")
