"""Steps and numbers of steps in words: `hourly rows`, `48 hours`."""

from informer.data.read.frequency import Frequency, Unit
from informer.data.read.steps import SECOND, nanos_of
from informer.errors import counted

_ADJECTIVES = {
    Unit.hour: "hourly",
    Unit.day: "daily",
    Unit.business_day: "business-day",
    Unit.week: "weekly",
    Unit.month: "monthly",
    Unit.quarter: "quarterly",
    Unit.year: "yearly",
}
_LARGER = {Unit.second: (60, Unit.minute), Unit.minute: (60, Unit.hour)}
HOURS = 48
"""Longer spans of whole days are in days."""
_UNNAMED = ("bh", "cbh", "SME", "SMS", "HYE", "HYS", "BHYE", "BHYS")
"""Offsets whose step is no multiple of a unit with a name: business hours, half-months, half-years."""


def adjective(frequency: Frequency) -> str:
    """`hourly`, `15-minute`, `monthly`; steps without a common name by their code, as in `SMS-15-step`."""
    if not _has_name(frequency):
        return f"{frequency.code}-step"
    usual = _ADJECTIVES.get(frequency.unit)
    if frequency.multiple == 1 and usual is not None:
        return usual
    return f"{frequency.multiple}-{_name(frequency.unit)}"


def lasting(n: int, frequency: Frequency) -> str:
    """How long n steps are: `48 hours`, `24 hours` for 96 steps of 15 minutes, `7 days` for 168 hours."""
    if not _has_name(frequency):
        return counted(n, "row")
    total, unit = n * frequency.multiple, frequency.unit
    while unit in _LARGER and total % _LARGER[unit][0] == 0:
        total, unit = total // _LARGER[unit][0], _LARGER[unit][1]
    if unit is Unit.hour and total > HOURS and total % 24 == 0:
        total, unit = total // 24, Unit.day
    return counted(total, _name(unit))


def _has_name(frequency: Frequency) -> bool:
    nanos = nanos_of(frequency.offset)
    if nanos is not None:
        return nanos % SECOND == 0
    return frequency.offset.rule_code.partition("-")[0] not in _UNNAMED


def _name(unit: Unit) -> str:
    return unit.value.replace("_", " ")
