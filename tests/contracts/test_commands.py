"""The contract of every command in the table of `informer`: help, refusals, exit codes, and answers in JSON."""

import json
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


OTHERS = {"horizon": ["forecast", "predict", "train"], "pred_len": ["forecast", "predict"], "h": ["forecast", "train"],
          "prediction_length": ["forecast", "train"], "e_layers": ["train"], "train_epochs": ["train"],
          "learning_rate": ["train"]}  # fmt: skip
"""Names that other programs have for settings -> commands with such a setting."""


@pytest.mark.parametrize(("key", "name"), [(key, name) for key, names in OTHERS.items() for name in names])
def test_a_key_of_another_program_is_known_or_names_ours(key: str, name: str) -> None:
    """Red if the error lists keys that have nothing to do with it."""
    outcome = call(name, f"{key}=5", "--cfg", "job")
    expected = {"e_layers": "encoder_stacks", "train_epochs": "max_epochs", "learning_rate": "optim.lr"}
    ours = expected.get(key, "pred_len" if name == "train" else "horizon")
    assert f"{ours}: " in outcome.out or f"expected one such as {ours}" in outcome.err.replace("trainer.", "").replace(
        "model.", ""
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_errors_are_in_the_json_object(name: str) -> None:
    """Red if a program has to read standard error, or if the exit status is another one than without `--json`."""
    outcome = call(name, "no_such_key=1", "--json")
    answer = json.loads(outcome.out)
    assert (answer["command"], answer["exit_status"], outcome.status) == (name, 2, 2)
    assert [f"error: {line}\n" for line in answer["errors"]] == [refusal(name, "no_such_key=1")]


def test_training_takes_one_length_of_the_horizon() -> None:
    """Red if `horizon` is another setting than `pred_len`, or one of the two is dropped without a word."""
    said = {call("train", word, "--cfg", "job").out for word in ("horizon=7", "pred_len=7", "--horizon=7")}
    assert len(said) == 1
    assert "\npred_len: 7\n" in said.pop()
    assert "leave one out" in refusal("train", "horizon=7", "pred_len=8")
