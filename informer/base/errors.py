"""Errors that a user can fix: commands print their lines and exit with status 2."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

MOST_SIGNS = 2_000
"""Maximum length of a line; it may contain names and cells of a file."""

MOST_SHOWN = 100
"""Maximum length of a name or cell in an error."""

MOST_TIMES = 1_000
"""Larger ratios are shown as "more than 1,000 times", since they compare with almost nothing."""

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that control a terminal or the direction of text."""


SHOWN_AS: dict[str, str] = {}
"""Addresses set by the user, by the local folder of their copy; messages show the address."""


def with_addresses(text: str) -> str:
    """Text in which local folders of copies are replaced by their addresses."""
    for place, name in SHOWN_AS.items():
        text = text.replace(place, name)
    return text


def printable(text: str, max_length: int | None = None) -> str:
    """Text that is safe to print: control characters are escaped, lines are cut at `max_length` characters."""
    escaped = _CONTROL.sub(lambda sign: sign[0].encode("unicode_escape").decode(), with_addresses(text))
    lines = escaped.split("\n")
    return "\n".join(
        line if max_length is None or len(line) <= max_length else f"{line[: max_length - 3]}..." for line in lines
    )


@dataclass(frozen=True, slots=True)
class Repair:
    """A setting `dataset.<setting>` and the value of it that repairs a file."""

    setting: str
    value: Any


class InputError(ValueError):
    """A user's error in one line: what was expected, what was found and where, what to do.

    It is a ValueError, so that callers from Python can catch it as such. The line is printable for any names and cells
    of a file.

    Args:
        repairs: settings that fix it.
        code: kind of the problem: setting, or file, column, time or short, as the classes below have it, or that of a
            check of rows, such as gap, duplicate or text.
        table: name of the table or series.
        row, column: its first place there; None: the table as a whole.
    """

    CODE = "setting"
    """A setting or argument that is unknown, has a wrong value, or does not go with others, the data or the system."""

    def __init__(
        self,
        line: str,
        *repairs: Repair,
        code: str = "",
        table: str = "",
        row: int | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(printable(line, MOST_SIGNS))
        self.repairs, self.code, self.table, self.row, self.column = repairs, code or self.CODE, table, row, column

    def reword(self, change: Callable[[str], str]) -> None:
        """Change its line."""
        self.args = (change(str(self)),)


class FileError(InputError):
    """A file or object that is missing, damaged, too large or no table."""

    CODE = "file"


class ColumnError(InputError):
    """A column that is missing, has no name or another kind, or has two roles."""

    CODE = "column"


class TimeError(InputError):
    """No time column, or times or a step that cannot be read."""

    CODE = "time"


class ShortError(InputError):
    """Series with too few rows for what is asked."""

    CODE = "short"


class ReportError(InputError):
    """All problems of a file or table; each of `lines` is printed like the line of an InputError. `problems` are what
    the lines of a table sum up; the code is that of the first, or file."""

    CODE = "file"

    def __init__(self, lines: Sequence[str], problems: Sequence[InputError] = ()) -> None:
        super().__init__("\n".join(lines), code=problems[0].code if problems else "")
        self.lines, self.problems = tuple(printable(line, MOST_SIGNS) for line in lines), tuple(problems)

    def reword(self, change: Callable[[str], str]) -> None:
        super().reword(change)
        self.lines = tuple(map(change, self.lines))
        for problem in self.problems:
            problem.reword(change)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it is an out-of-memory error of Python, numpy or torch; checked by name, without importing torch."""
    named = type(error).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator" in str(error)
    return isinstance(error, MemoryError) or named


def reason_of(error: BaseException, *, max_length: int = 200) -> str:
    """The message of an error on one line, cut at `max_length` characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= max_length else f"{text[:max_length]}..."


def counted(n: int, noun: str) -> str:
    """`1 file`, `2 files`, `1,200 files`."""
    return f"{n} {noun}" if n == 1 else f"{n:,} {noun}s"


def skill_text(skill: float) -> str:
    """A skill, 1 - value / other, as text: `25.0 % lower`, `50.0 % higher`, `3.2 times as high`."""
    if skill > -1:
        return f"{100 * abs(skill):.1f} % {'lower' if skill > 0 else 'higher'}"
    return f"{1 - skill:.3g} times as high" if skill > 1 - MOST_TIMES else f"more than {MOST_TIMES:,} times as high"


def signed_percent(share: float) -> str:
    """`+14.4 %` for 0.144."""
    return f"{round(100 * share, 1) + 0.0:+.1f} %" if share > -MOST_TIMES / 100 else f"below -{MOST_TIMES:,} %"


def one_of(what: str, value: object, allowed: list[str]) -> InputError:
    """The error for a name that is not among `allowed`."""
    return InputError(f"unknown {what} {value!r}: expected one of {', '.join(allowed)}")


def nearest(name: str, names: Sequence[str]) -> str:
    """`; did you mean 'price'?` after an error about a name that is like one of these, else nothing."""
    close = get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def listed(names: Sequence[str], max_names: int = 12) -> str:
    """Names separated by commas, for messages; at most `max_names`, then the number of others."""
    more = f" and {len(names) - max_names} more" if len(names) > max_names else ""
    printed = (printable(str(name), MOST_SHOWN).replace("\n", r"\n") for name in names[:max_names])
    return ", ".join(printed) + more if names else "none"
