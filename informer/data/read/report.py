"""Problems of a table, collected and reported together, one line each."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from informer.errors import InputError, ReportError, listed

FEW_ALIKE, MOST_ALIKE = 4, 6
"""Maximum number of problems of the same kind that are listed; of more, maximum number of columns that are named."""

MOST_LINES = 50
"""Maximum number of problems listed; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem and its repair.

    Args:
        line: message for the user.
        settings: settings that repair it.
        column: column to exclude if they do not.
    """

    line: str
    settings: tuple[str, ...] = ()
    column: str | None = None


@dataclass(slots=True)
class Report:
    """Problems, which are errors; warnings and repairs, for the log."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)

    def add(self, line: str, *settings: str, column: str | None = None) -> None:
        """Record a problem; see `Problem`."""
        self.problems.append(Problem(line, settings, column))

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Record an InputError in the context as a problem, or a ReportError as several."""
        try:
            yield
        except ReportError as error:
            self.problems += map(Problem, error.lines)
        except InputError as error:
            self.problems.append(Problem(str(error), error.settings))

    def refuse(self) -> None:
        """Raise an error if there are problems.

        Raises:
            ReportError: one line per problem.
        """
        lines = [problem.line for problem in self.problems[:MOST_LINES]]
        if len(self.problems) > MOST_LINES:
            lines.append(f"and {len(self.problems) - MOST_LINES} more problems")
        if lines:
            raise ReportError(lines)


def grouped(problems: Sequence[Problem]) -> list[str]:
    """Lines of problems; if many columns of a table have the same repair, the first and the names of the others."""
    alike: dict[object, list[Problem]] = {}
    for index, problem in enumerate(problems):
        is_of_column = problem.column is not None and bool(problem.settings)
        where = problem.line.partition(", row ")[0]
        alike.setdefault((where, problem.settings) if is_of_column else index, []).append(problem)
    lines = []
    for group in alike.values():
        few = len(group) <= FEW_ALIKE
        lines += [problem.line for problem in (group if few else group[:1])]
        if not few:
            names = listed([str(problem.column) for problem in group[1:]], MOST_ALIKE)
            lines.append(f"the same in {len(group) - 1} more columns: {names}")
    return lines


def count_note(n: int, noun: str) -> str:
    """ " (3 such cells)" for n = 3; empty for n = 1. Follows a sentence about the first."""
    return f" ({n} {noun})" if n > 1 else ""
