"""`informer COMMAND --help` names every key that the command takes."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from entry_points import done

from informer.commands.cli import COMMANDS


def keys_of(settings: Mapping[str, Any]) -> Iterator[str]:
    """The last words of all keys."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from keys_of(value)
        else:
            yield key


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_names_every_key(name: str) -> None:
    """Red if a key is added without a word in the help; an error names keys that a user then looks for there."""
    keys = set(keys_of(yaml.safe_load(done(name, "--cfg", "job").out))) - {"_target_"}
    assert sorted(keys - set(re.findall(r"\w+", done(name, "--help").out))) == []
