"""What the measuring scripts share: rows in a CSV file, Markdown tables, and a folder that holds one set-up alone."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from informer.errors import InputError
from informer.files import write_atomic

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = TypeVar("Row", bound="DataclassInstance")
"""A dataclass whose fields are text and numbers."""


def write_rows(kind: type[Row], rows: Sequence[Row], path: Path) -> None:
    """One line a row under the names of the fields, whole or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(kind)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    write_atomic(path, text.getvalue())


def read_rows(kind: type[Row], path: Path) -> list[Row]:
    """What `write_rows` wrote; nothing where there is no file."""
    if not path.exists():
        return []
    types = get_type_hints(kind)
    with path.open(newline="") as file:
        return [kind(**{name: types[name](text) for name, text in row.items()}) for row in csv.DictReader(file)]


def markdown_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines of a table."""
    return "".join(f"| {' | '.join(line)} |\n" for line in [heading, ["---"] * len(heading), *rows])


def open_folder(folder: Path, facts: Mapping[str, Any]) -> None:
    """Note what all rows in a folder share.

    Raises:
        InputError: it holds rows that were made with other facts.
    """
    path, content = folder / "setup.json", json.dumps(facts, indent=2) + "\n"
    if path.exists() and path.read_text() != content:
        raise InputError(
            f"{folder}: expected results of this set-up, found those of another, see {path}; choose another --output"
        )
    write_atomic(path, content)
