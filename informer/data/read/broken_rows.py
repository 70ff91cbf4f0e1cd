"""Locate rows of a CSV file that do not match its header."""

import codecs
import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager

SHOWN = 60
"""Maximum number of characters of a row in a message."""


class BrokenRow(ValueError):
    """A row that does not match the header.

    Args:
        row: its number; the header is row 1.
        problem: what is wrong, and how to fix it.
    """

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(f"row {row}: {problem}")
        self.row, self.problem = row, problem


def find_broken_row(content: io.BufferedIOBase, encoding: str, separator: str, message: str) -> BrokenRow | None:
    """The row at which pandas stopped; None if it is not found.

    Args:
        content: the file.
        encoding, separator: its format.
        message: error message of pandas.
    """
    if opened := re.search(r"EOF inside string starting at row (\d+)", message):
        return BrokenRow(int(opened[1]) + 1, "a quotation mark has no partner; add or remove one")
    content.seek(0)
    # not a TextIOWrapper, which would close the file
    lines = codecs.getreader(encoding)(content)
    rows = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    expected = len(next(rows))
    before = rows.line_num
    for cells in rows:
        if len(cells) > expected:
            return BrokenRow(
                before + 1,
                f"expected {expected} cells as in the header, found {len(cells)} in "
                f"{separator.join(cells)[:SHOWN]!r}; quote the cells that contain the separator {separator!r}",
            )
        before = rows.line_num
    return None


@contextmanager
def rows_before(number: int) -> Iterator[None]:
    """Correct the row numbers of errors in a piece of a file that follows `number` other rows."""
    try:
        yield
    except BrokenRow as error:
        raise BrokenRow(error.row + number, error.problem) from error
