"""All problems of a table, collected and reported together: one line each."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from informer.errors import InputError, ReportError

MOST_LINES = 50
"""Problems listed one by one; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A line for the user, and what repairs it: settings, or otherwise excluding a column."""

    line: str
    settings: tuple[str, ...] = ()
    column: str | None = None


@dataclass(slots=True)
class Report:
    """Problems, which stop reading; warnings and repairs, for the log."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)

    def add(self, line: str, *settings: str, column: str | None = None) -> None:
        """Record a problem; see `Problem`."""
        self.problems.append(Problem(line, settings, column))

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """An InputError within ends the block and becomes a problem; a ReportError becomes all of its problems."""
        try:
            yield
        except ReportError as error:
            self.problems += map(Problem, error.lines)
        except InputError as error:
            self.problems.append(Problem(str(error)))

    def refuse(self) -> None:
        """Raise an error if there are problems.

        Raises:
            ReportError: one line each.
        """
        lines = [problem.line for problem in self.problems[:MOST_LINES]]
        if len(self.problems) > MOST_LINES:
            lines.append(f"and {len(self.problems) - MOST_LINES} more problems")
        if lines:
            raise ReportError(lines)


def several(n: int, what: str) -> str:
    """ " (3 such cells)" if there is more than one, for the end of a sentence about the first."""
    return f" ({n} {what})" if n > 1 else ""
