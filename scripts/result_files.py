"""Helpers of several scripts: rows in CSV files, Markdown tables, folders for a single set-up, memory."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from informer.base.errors import InputError
from informer.base.files import write_atomic

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = TypeVar("Row", bound="DataclassInstance")
"""A dataclass whose fields are text and numbers."""


def write_rows(kind: type[Row], rows: Sequence[Row], path: Path) -> None:
    """Write rows as CSV with a header of field names, atomically."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(kind)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    write_atomic(path, text.getvalue())


def read_rows(kind: type[Row], path: Path) -> list[Row]:
    """Read the rows of `write_rows`; empty without a file."""
    if not path.exists():
        return []
    types = get_type_hints(kind)
    with path.open(newline="") as file:
        return [kind(**{name: types[name](text) for name, text in row.items()}) for row in csv.DictReader(file)]


def markdown_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines of a Markdown table."""
    return "".join(f"| {' | '.join(line)} |\n" for line in [heading, ["---"] * len(heading), *rows])


def open_folder(folder: Path, facts: Mapping[str, Any]) -> None:
    """Record the facts shared by all rows of a folder.

    Raises:
        InputError: the folder has rows with other facts.
    """
    path, content = folder / "setup.json", json.dumps(facts, indent=2) + "\n"
    if path.exists() and path.read_text() != content:
        raise InputError(
            f"{folder}: expected results of this set-up, found those of another, see {path}; choose another --output"
        )
    write_atomic(path, content)


def resident(key: str) -> int:
    """Bytes of this process on Linux: VmRSS now, VmHWM at its peak; getrusage includes the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(key))
