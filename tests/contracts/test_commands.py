"""The contract of every command in the table of `informer`: help, refusals, exit codes, and answers in JSON."""

import json
from pathlib import Path

import pytest
from entry_points import call, refusal

from informer.commands.cli import COMMANDS
from informer.config.compose import help_of


@pytest.fixture(autouse=True)
def _nowhere(folder: Path) -> None:
    """Commands run in an empty folder."""


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_printed(name: str) -> None:
    """Red if a command has no help, or needs settings to show it."""
    outcome = call(name, "--help")
    assert (outcome.status, outcome.err) == (0, "")
    assert "Keys, as key=value" in outcome.out
    assert outcome.out.strip().endswith(help_of(name).strip()[-40:])


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_key_is_refused_with_the_nearest_one(name: str) -> None:
    """Red if a misspelt key is read, or if the error is longer than a line."""
    key = "device" if "device" in help_of(name) else "output" if "output=" in help_of(name) else None
    line = refusal(name, f"{key[:-1] if key else 'no_such_key'}=x")
    assert line.startswith("error: unknown key ")
    assert key is None or f"expected one such as {key}" in line


@pytest.mark.parametrize("name", COMMANDS)
def test_errors_are_in_the_json_object(name: str) -> None:
    """Red if a program has to read standard error, or if the exit status is another one than without `--json`."""
    outcome = call(name, "no_such_key=1", "--json")
    answer = json.loads(outcome.out)
    assert (answer["command"], answer["exit_status"], outcome.status) == (name, 2, 2)
    assert [f"error: {line}\n" for line in answer["errors"]] == [refusal(name, "no_such_key=1")]
