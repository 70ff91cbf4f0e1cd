"""Format of a file as set by the user: separators, encoding, format of times."""

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from informer.errors import InputError, listed

DECIMALS, THOUSANDS = (".", ","), ("", ",", ".", "'", " ")
"""Characters allowed in numbers."""

TAB = r"\t"
"""A tab as written on the command line."""

ISO = "ISO8601"
"""ISO 8601: year first, from dates to fractions of a second."""

EXCEL = "excel"
"""Days since 1899-12-30 with the time of day as fraction, as in spreadsheets."""

EPOCHS: dict[str, Literal["s", "ms", "us", "ns"]] = {"s": "s", "ms": "ms", "us": "us", "ns": "ns"}
"""Values of `time_format` for counts since 1970."""

QUARTER, WEEK = "%q", "%V"
"""Directives of quarters, which go with the year, and of ISO weeks, which go with their year %G: `%Y-Q%q`, `%G-W%V`."""

_DIRECTIVES = "aAwdbBmyYHIpMSfzZjUWVGuq%"
"""Directives that can be read: those of pandas' strptime, and %q."""


def format_problems(time_format: str) -> list[str]:
    """One sentence for each problem of `dataset.time_format`."""
    if time_format in (ISO, EXCEL, *EPOCHS):
        return []
    directives = re.findall(r"%(.?)", time_format)
    unknown = [letter for letter in directives if letter == "" or letter not in _DIRECTIVES]
    repeated = sorted({letter for letter in directives if letter != "%" and directives.count(letter) > 1})
    quarter_without_year = "q" in directives and set(directives) != {"q", "Y"}
    if unknown or repeated or quarter_without_year or not directives:
        wrong = f"%{unknown[0]}" if unknown else f"%{repeated[0]} twice" if repeated else repr(time_format)
        return [
            f"dataset.time_format: expected ISO8601, excel, s, ms, us, ns or one such as %d/%m/%Y %H:%M, found {wrong}"
        ]
    return []


def hint_problems(separator: str | None, decimal: str | None, thousands: str | None, encoding: str | None) -> list[str]:
    """One sentence for each invalid separator or encoding."""
    problems: list[str] = []
    if separator is not None and separator != TAB and len(separator) != 1:
        problems.append(f"dataset.separator: expected one character, found {separator!r}")
    elif separator is not None and separator != TAB and not _may_separate(separator):
        problems.append(f"dataset.separator: expected a separator such as , ; | or a tab, found {separator!r}")
    for setting, mark, allowed in (("decimal", decimal, DECIMALS), ("thousands", thousands, THOUSANDS)):
        if mark is not None and mark not in allowed:
            problems.append(f"dataset.{setting}: expected one of {' '.join(map(repr, allowed))}, found {mark!r}")
    if thousands and thousands == decimal:
        problems.append(f"dataset.thousands: must differ from dataset.decimal={decimal!r}")
    if encoding is not None and not _is_text_encoding(encoding):
        problems.append(f"dataset.encoding: expected a text encoding such as latin-1, found {encoding!r}")
    return problems


def missing_problems(words: Sequence[str]) -> list[str]:
    """Problem of `dataset.missing_values`: an empty word, or one with a blank at either end, which no cell has."""
    wrong = [word for word in words if word != word.strip() or not word]
    return (
        [f"dataset.missing_values: expected words such as closed, found {listed(list(map(repr, wrong)))}"]
        if wrong
        else []
    )


def _may_separate(mark: str) -> bool:
    return mark.isascii() and not mark.isalnum() and mark not in "\"'\r\n\0+-."


def _is_text_encoding(name: str) -> bool:
    """Whether Python can decode text incrementally with this encoding."""
    try:
        codec = codecs.lookup(name)
        return codec._is_text_encoding and codec.incrementaldecoder is not None and bool("a".encode(name))
    except (LookupError, ValueError, TypeError):
        return False


@dataclass(frozen=True, slots=True)
class Hints:
    """Format of a file as set by the user; None means detected.

    Args:
        separator, decimal, thousands, encoding: format of CSV text.
        sheet: sheet of a workbook, by name or by number from 1; None: the first.
        missing_values: words and numbers that mean a missing value, in addition to the usual ones.

    Raises:
        InputError: invalid separator or encoding.
    """

    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    missing_values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for problem in hint_problems(self.separator, self.decimal, self.thousands, self.encoding):
            raise InputError(problem)
        if self.separator == TAB:
            object.__setattr__(self, "separator", "\t")


NO_HINTS = Hints()


def zone_problems(zone: str | None) -> list[str]:
    """Problem of `dataset.timezone`: not the name of a time zone."""
    if zone is None or _exists(zone):
        return []
    return [f"dataset.timezone: expected the name of a time zone such as Europe/Berlin, found {zone!r}"]


def _exists(zone: str) -> bool:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
