"""The one exception that means "the user can mend this": entry points print its lines and exit with status 2."""

from collections.abc import Sequence


class InputError(ValueError):
    """A user's mistake, told in one line: what was expected, what was found and where, what to do.

    A ValueError, so that callers of the Python interface may catch it as such.
    """


class ReportError(InputError):
    """All problems of one file or table: each of `lines` is told as an InputError's one line is."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


def counted(n: int, thing: str) -> str:
    """`1 file`, `2 files`."""
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def one_of(what: str, found: object, allowed: list[str]) -> InputError:
    """The error for a name that is not among `allowed`."""
    return InputError(f"unknown {what} {found!r}: expected one of {', '.join(allowed)}")
