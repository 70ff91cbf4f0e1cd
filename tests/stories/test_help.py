"""`informer COMMAND --help` names every key that the command takes, and `--cfg job` shows what it is if none is set.

`python tests/stories/test_help.py --record` writes these values to `defaults.json`.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from entry_points import COMMANDS, done, flat

STORED = Path(__file__).with_name("defaults.json")
CALLS = [
    *COMMANDS,
    *(f"train model={each}" for each in ("informer", "informer_stack", "linear", "lstma", "small", "zero")),
    *(f"train experiment={each}" for each in ("informer2020", "informer2020_full", "paper_text")),
]


def defaults(call: str) -> dict[str, Any]:
    return flat(yaml.safe_load(done(*call.split(), "--cfg", "job").out))


@pytest.mark.parametrize("call", CALLS)
def test_what_is_not_set_stays(call: str) -> None:
    """Red if a command or a model does something else without settings."""
    assert defaults(call) == json.loads(STORED.read_text(encoding="utf-8"))[call]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_names_every_key(name: str) -> None:
    """Red if a key is added without a word in the help; an error names keys that a user then looks for there."""
    keys = {key.rpartition(".")[2] for key in defaults(name)} - {"_target_"}
    assert sorted(keys - set(re.findall(r"\w+", done(name, "--help").out))) == []


if __name__ == "__main__":
    found = {call: defaults(call) for call in CALLS}
    STORED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
