"""The contract of every command in the table of `informer`: help, keys and options; `refusals.json` has wrong calls."""

import re
from pathlib import Path

import pytest
from entry_points import COMMANDS, call, refusal


@pytest.fixture(autouse=True)
def _nowhere(folder: Path) -> None:
    """Commands run in an empty folder."""


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_printed(name: str) -> None:
    """Red if a command has no help, or needs settings to show it."""
    outcome = call(name, "--help")
    assert (outcome.status, outcome.err) == (0, "")
    assert "Keys, as key=value" in outcome.out
    assert f"informer {name}" in outcome.out


def test_the_help_of_train_names_parameters_of_every_model() -> None:
    """Red if a key of a model family other than the Informer is nowhere in it."""
    said = call("train", "--help").out
    assert "  lstma: layers=1 teacher_forcing=1.0 teacher_forcing_end=0.0\n" in said
    assert "  zero: weights=zero-3 seasons=[] encoder_layers=3\n" in said


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_key_is_refused_with_the_nearest_one(name: str) -> None:
    """Red if a misspelt key is read, or if the error is longer than a line."""
    said = call(name, "--help").out
    key = next((key for key in ("device", "output", "folder", "seq_len", "runs") if f"\n  {key} " in said), None)
    assert key is not None
    line = refusal(name, f"{key[:-1]}=x")
    assert line.startswith("error: unknown key ")
    assert f"expected one such as {key}" in line


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("compare", "mcp")])
def test_an_option_means_the_setting(name: str) -> None:
    """Red if `--key value` and `--key=value`, as other programs have them, are not `key=value`."""
    key = {"serve": "port", "inspect": "seq_len", "train": "seed", "leaderboard": "horizon"}.get(name, "output")
    said = {call(name, *words, "--cfg", "job").out for words in ([f"{key}=7"], [f"--{key}", "7"], [f"--{key}=7"])}
    assert len(said) == 1
    assert f"{key}: " in said.pop()


def test_training_takes_one_length_of_the_horizon() -> None:
    """Red if `horizon` is another setting than `pred_len`, or one of the two is dropped without a word."""
    said = {call("train", word, "--cfg", "job").out for word in ("horizon=7", "pred_len=7", "--horizon=7")}
    assert len(said) == 1
    assert "\npred_len: 7\n" in said.pop()


NAMED = re.findall(r"^  (\S+) +(?:Column (?:with|to)|Time column|Sheet)\b", call("inspect", "--help").out, re.M)
"""Settings that name a column or a sheet."""


@pytest.mark.parametrize("key", NAMED)
def test_a_column_or_sheet_may_be_called_null(key: str) -> None:
    """Red if the name is taken for none."""
    assert f"{key.rpartition('.')[2]}: 'null'\n" in call("inspect", "a.csv", f"{key}=null", "--cfg", "job").out
