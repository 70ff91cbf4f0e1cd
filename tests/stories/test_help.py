"""`informer COMMAND --help` names every key that the command takes."""

import re

import pytest
import yaml
from entry_points import COMMANDS, done, flat


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_names_every_key(name: str) -> None:
    """Red if a key is added without a word in the help; an error names keys that a user then looks for there."""
    keys = {key.rpartition(".")[2] for key in flat(yaml.safe_load(done(name, "--cfg", "job").out))} - {"_target_"}
    assert sorted(keys - set(re.findall(r"\w+", done(name, "--help").out))) == []
