"""Calendar fields and holidays that mark each row: `dataset.calendar` and `dataset.holidays`."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from informer.config.model import CalendarEmbed
from informer.errors import InputError, listed

FIELDS = ("second", "minute", "quarter_hour", "hour", "weekday", "day", "dayofyear", "week", "month")
"""Allowed values of `dataset.calendar`."""


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
        what = listed(unknown) if unknown else "[] (for none: model.embed=none)"
        return [f"dataset.calendar: expected some of {', '.join(FIELDS)}, found {what}"]
    return [] if len(set(fields)) == len(fields) else [f"dataset.calendar: a field is given twice in {listed(fields)}"]


def places_of(holidays: Any) -> tuple[str, ...]:
    """The value of `dataset.holidays`, one country or several, as a tuple; the elements are not checked."""
    if holidays is None:
        return ()
    return tuple(holidays) if isinstance(holidays, list | tuple) else (holidays,)


def holiday_problems(holidays: Any) -> list[str]:
    """Problems of `dataset.holidays`: unknown or repeated countries, or the package for holidays is missing."""
    places = places_of(holidays)
    if not places:
        return []
    if not all(isinstance(place, str) for place in places):
        return [f"dataset.holidays: expected a country or a list of them, such as [DE,FR], found {str(holidays)[:80]}"]
    if len(set(places)) < len(places):
        return [f"dataset.holidays: a country is given twice in {listed(places)}"]
    if importlib.util.find_spec("holidays") is None:
        return ["dataset.holidays needs the package holidays: pip install 'informer[holidays]'"]
    return [problem for place in places for problem in _place_problems(place)]


def _place_problems(place: str) -> list[str]:
    from holidays.utils import list_supported_countries  # imported here because only this check needs it

    known = list_supported_countries(include_aliases=True)
    country, _, part = place.partition("-")
    if country not in known:
        return [
            f"dataset.holidays: expected the two capital letters of a country (one of {len(known)}, such as DE, FR, "
            f"US), or with a part, such as DE-BY, found {place[:20]!r}"
        ]
    if "-" in place and part not in known[country]:
        parts = ", ".join(known[country]) or "none: give the country"
        return [f"dataset.holidays: {country} has no part {part[:20]!r}; its parts are {parts}"]
    return []
