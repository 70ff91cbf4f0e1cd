"""When an exchange or a shop is closed: days of a market or public holidays of a country, and hours of the week.

The days are known by the package `holidays`: XNYS is the New York Stock Exchange, DE is Germany, DE-BY is Bavaria.
"""

import importlib.util
import re
import warnings
from collections.abc import Sequence
from datetime import date
from functools import lru_cache

import numpy as np
import pandas as pd
from jaxtyping import Bool

from informer.base.errors import TimeError

CALENDAR = r"[A-Z]{4}|[A-Z]{2}(?:-[A-Z0-9]{1,3})?"
"""How calendars are written: the four letters of a market, or a country with or without a part."""

FIRST = ("XNYS", "XETR", "XLON", "XPAR", "US", "DE", "GB", "FR")
"""Calendars that are preferred to others that explain the same days."""

LONGEST_PART = 3
"""Characters of the part of a country; longer ones are communities and regions of schools."""

MOST_YEARS = 150
"""Longest history that is compared with calendars, whose first years are of the 20th century."""
CHANCE = 0.01
"""Number of calendars, of which all days are missing by chance, above which none is taken."""


@lru_cache(maxsize=1 << 16)
def _days_of_year(calendar: str, year: int) -> frozenset[date]:
    """The days of a calendar; none of a year for which the package warns that it does not know them."""
    import holidays  # an optional dependency, slow to import

    country, _, part = calendar.partition("-")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")  # not an error, and not once only, whatever the program has set
        if len(calendar) == len("XNYS"):
            days = holidays.financial_holidays(calendar, years=year)
        else:
            days = holidays.country_holidays(country, subdiv=part or None, years=year)
    return frozenset(() if warned else days)


def are_closed(times: pd.DatetimeIndex, calendar: str) -> Bool[np.ndarray, " t"]:
    """Which times are on days of a calendar, by the local time; the calendar may not know all years."""
    days = times.tz_localize(None).normalize()
    years = range(days[0].year, days[-1].year + 1) if len(days) else ()
    closed = frozenset[date]().union(*(_days_of_year(calendar, year) for year in years))
    return days.isin(pd.DatetimeIndex(sorted(closed)))


@lru_cache(maxsize=1)
def _calendars() -> dict[str, Sequence[str]]:
    """Markets and countries, the preferred ones and their parts first, and the parts of each."""
    from holidays.utils import list_supported_countries, list_supported_financial

    known: dict[str, Sequence[str]] = {name: () for name in list_supported_financial() if len(name) == len("XNYS")}
    known |= {name: parts for name, parts in list_supported_countries().items() if len(name) == len("US")}
    first = [name for name in FIRST if name in known]  # older versions of the package have fewer markets
    parts = [f"{name}-{part}" for name in first for part in known[name] if len(part) <= LONGEST_PART]
    return {name: known.get(name, ()) for name in (*first, *parts, *known)}


def check_calendar(calendar: str) -> None:
    """Check that the days of a calendar are known.

    Raises:
        InputError: they are not, or the package for holidays is missing.
    """
    if importlib.util.find_spec("holidays") is None:
        raise TimeError(f"frequency with the holidays of {calendar}: needs the package: pip install holidays")
    name, _, part = calendar.partition("-")
    if name not in _calendars() or (part and part not in _calendars()[name]):
        raise TimeError(
            f"frequency with the holidays of {calendar!r}: expected a market such as XNYS, or a country or a part of "
            "it, such as DE or DE-BY"
        )


def find_calendar(days: pd.DatetimeIndex, is_missing: Bool[np.ndarray, " d"]) -> str | None:
    """The calendar that explains most missing days, and at least half of them; None without one.

    All days of a calendar must be missing. With m of n days missing by chance, so are h given ones with a probability
    of about (m / n)^h, which times the number of calendars must be at most CHANCE.
    """
    share = is_missing.mean() if len(days) else 0.0
    if share in (0.0, 1.0) or importlib.util.find_spec("holidays") is None:
        return None
    if days[-1].year - days[0].year > MOST_YEARS:
        return None
    least = max(np.log(CHANCE / len(_calendars())) / np.log(share), is_missing.sum() / 2)
    missing, present = frozenset(days[is_missing].date), frozenset(days[~is_missing].date)
    if least > len(missing):
        return None

    def n_explained(calendar: str) -> int:
        n = 0
        for year in range(days[0].year, days[-1].year + 1):
            closed = _days_of_year(calendar, year)
            if closed & present:
                return 0
            n += len(closed & missing)
        return n

    best = max(_calendars(), key=n_explained)
    if n_explained(best) < least:
        return None
    parts = (f"{best}-{part}" for part in _calendars()[best] if len(part) <= LONGEST_PART)
    return max([best, *parts], key=n_explained)


WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

OPENING = re.compile(rf"(?P<days>(?:{'|'.join(WEEKDAYS)})+)(?P<first>[012]\d[0-5]\d)-(?P<last>[012]\d[0-5]\d)")

OpenHours = tuple[tuple[int, int] | None, ...]
"""For each weekday from Monday on, the minutes of the day of its first and last row; None for closed days."""

MINUTE = 60 * 10**9
"""Nanoseconds of a minute."""

MOST_CLOSED, LEAST_CLOSED = 0.1, 7
"""Maximum share of rows that are missing within opening hours; minimum number of rows outside of them, as one in each
night of a week, since fewer are gaps."""


CLOCKS_CHANGE = 4 * 60
"""Minutes of a day before which clocks are changed."""


def hours_shown(timestamps: pd.DatetimeIndex, nanos: int) -> OpenHours | None:
    """The opening hours that rows show, at a step of `nanos`; None if rows are at all hours, or too often missing."""
    wall = timestamps.tz_localize(None)
    weeks = (wall[-1] - wall[0]).total_seconds() / (7 * 86_400)
    minutes, days = np.asarray(wall.hour * 60 + wall.minute), np.asarray(wall.day_of_week)
    step, within = divmod(nanos, MINUTE)
    if within or weeks < 1 or not 0 < step < 24 * 60 or (24 * 60) % step or wall.second.any():
        return None
    hours = tuple((int(at.min()), int(at.max())) if len(at := minutes[days == day]) else None for day in range(7))
    n_open = sum((day[1] - day[0]) // step + 1 for day in hours if day)
    # in a time zone, hours are skipped and repeated in the first ones of a day
    may_change = timestamps.tz is not None and any(day and day[0] < CLOCKS_CHANGE for day in hours)
    n_closed = weeks * 7 * 24 * 60 / step + 1 - len(wall)
    is_closed = n_open < 7 * 24 * 60 // step and n_closed >= LEAST_CLOSED and not may_change
    return hours if is_closed and len(wall) >= (1 - MOST_CLOSED) * n_open * weeks else None


def opening_hours(text: str) -> OpenHours:
    """Opening hours from their code, such as MonTue0800-1900-Sat0900-1200.

    Raises:
        InputError: the code has another form, or hours that end before they begin.
    """
    hours: dict[str, tuple[int, int]] = {}
    parts = list(OPENING.finditer(text))
    for part in parts:
        first, last = (60 * int(part[end][:2]) + int(part[end][2:]) for end in ("first", "last"))
        hours |= dict.fromkeys(re.findall("...", part["days"]), (first, last))
    if "-".join(part[0] for part in parts) != text or not all(first <= last < 1440 for first, last in hours.values()):
        raise TimeError(
            f"frequency with opening hours {text!r}: expected weekdays with the times of their first and last row, "
            "such as MonTueWedThuFri0900-1700-Sat0900-1200"
        )
    return tuple(map(hours.get, WEEKDAYS))
