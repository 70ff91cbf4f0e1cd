"""Entries of run.json: the origin of a run, its data, the runs that resumed it and the digests of its files."""

from pathlib import Path
from typing import Any

from informer.checkpoint.paths import FACTS
from informer.config.plain import read_json
from informer.errors import InputError

KINDS = {"data": dict, "search": dict, "digests": dict, "parent": dict, "resumed": list}
"""Entries that the program reads, with their types; the others are only for people."""
PARTS = {"digests": (str, type(None)), "resumed": dict}
"""Types of the values in these entries."""


def read_facts(folder: Path) -> dict[str, Any]:
    """The content of run.json; empty without the file.

    Raises:
        InputError: the file is damaged, or an entry has the wrong type.
    """
    path = folder / FACTS
    if not path.exists():
        return {}
    facts = read_json(path)
    for name, kind in KINDS.items():
        entry = facts.get(name, kind())
        elements = entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else []
        if not isinstance(entry, kind) or not all(isinstance(element, PARTS.get(name, object)) for element in elements):
            raise InputError(f"{path}: {name}: found {entry!r:.80}, which no run writes; put the run's own file back")
    updates = facts.get("parent", {}).get("updates", 0)
    if type(updates) is not int:
        raise InputError(f"{path}: updates: expected how many there were, found {updates!r:.80}")
    return facts
