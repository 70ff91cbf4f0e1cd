"""Calendar fields and holidays that mark each row: `dataset.calendar` and `dataset.holidays`."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from informer.config.model import CalendarEmbed
from informer.errors import InputError, listed

FIELDS = ("second", "minute", "quarter_hour", "hour", "weekday", "day", "dayofyear", "week", "month")
"""Allowed values of `dataset.calendar`."""

DATE_FIELDS = ("day", "dayofyear", "week", "month")
"""The fields that occur once a month or year, so that few rows share a value."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """Calendar marks of each row.

    Args:
        kind: encoding of the marks.
        fields: names from FIELDS. Empty: the fields that change from row to row at the step of the series.
        holidays: countries or parts of countries (DE, DE-BY), with one mark each.

    Raises:
        InputError: unknown field or country, or the package for holidays is missing.
    """

    kind: CalendarEmbed
    fields: tuple[str, ...] = ()
    holidays: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for problem in [*field_problems(self.fields or None), *holiday_problems(self.holidays)]:
            raise InputError(problem)


def field_problems(fields: Sequence[str] | None) -> list[str]:
    """Problems of `dataset.calendar`: unknown or repeated fields; None means not given."""
    if fields is None:
        return []
    unknown = [name for name in fields if name not in FIELDS]
    if unknown or not fields:
        invalid = listed(unknown) if unknown else "[] (for none: model.embed=none)"
        return [f"dataset.calendar: expected some of {', '.join(FIELDS)}, found {invalid}"]
    return [] if len(set(fields)) == len(fields) else [f"dataset.calendar: a field is given twice in {listed(fields)}"]


def regions_of(holidays: Any) -> tuple[str, ...]:
    """The value of `dataset.holidays`, one country or several, as a tuple; the elements are not checked."""
    if holidays is None:
        return ()
    return tuple(holidays) if isinstance(holidays, list | tuple) else (holidays,)


def holiday_problems(holidays: Any) -> list[str]:
    """Problems of `dataset.holidays`: unknown or repeated countries, or the package for holidays is missing."""
    regions = regions_of(holidays)
    if not regions:
        return []
    if not all(isinstance(region, str) for region in regions):
        return [f"dataset.holidays: expected a country or a list of them, such as [DE,FR], found {str(holidays)[:80]}"]
    if len(set(regions)) < len(regions):
        return [f"dataset.holidays: a country is given twice in {listed(regions)}"]
    if importlib.util.find_spec("holidays") is None:
        return ["dataset.holidays needs the package holidays: pip install holidays"]
    return [problem for region in regions for problem in _region_problems(region)]


def _region_problems(region: str) -> list[str]:
    from holidays.utils import list_supported_countries  # imported here because only this check needs it

    supported = list_supported_countries(include_aliases=True)
    country, _, subdivision = region.partition("-")
    if country not in supported:
        return [
            f"dataset.holidays: expected the two capital letters of a country (one of {len(supported)}, such as DE, "
            f"FR, US), or with a part, such as DE-BY, found {region[:20]!r}"
        ]
    if "-" in region and subdivision not in supported[country]:
        subdivisions = ", ".join(supported[country]) or "none: give the country"
        return [f"dataset.holidays: {country} has no part {subdivision[:20]!r}; its parts are {subdivisions}"]
    return []
