"""Shared by tests of the command line: ways to call it, and the arguments of a run that takes seconds."""

import contextlib
import importlib
import io
import itertools
import logging
import os
import re
import runpy
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from unittest.mock import patch

import pytest
import torch
from onnx_registry import registry_once
from shape_checks import switched

from informer import checkpoint

ROOT = Path(__file__).resolve().parents[1]

SMALL = [
    "model=tiny", "seq_len=24", "label_len=11", "pred_len=6", "dataset.split.kind=rows", "dataset.split.train=200",
    "dataset.split.val=50", "dataset.split.test=70", "non_negative=none", "trainer.tracker=[]", "trainer.max_epochs=2",
]  # fmt: skip
"""A run of half a second on any series of 320 rows; its forecasts are what the network gives. No losses and curves of
epochs, whose tables and pictures would take as long as the training; scores and files take longer than two epochs."""

CSV = "trainer.tracker=[csv]"
"""After `SMALL`: with losses and curves, as tables and a picture."""

TENSORBOARD = "trainer.tracker=[tensorboard]"
"""After `SMALL`: curves and pictures as in a run of the command line."""


class Outcome(NamedTuple):
    """Result of a call of an entry point: exit status, standard output, standard error."""

    status: int
    out: str
    err: str


def call(*words: str, checked: bool = False) -> Outcome:
    """`python -m informer <words>` within this process, in its folder.

    Shape types are checked only if `checked`, whatever the test's file, see `shape_checks.CHECKED`.
    """
    with switched(checked):
        return _ran(lambda: runpy.run_module("informer", run_name="__main__"), "informer", *words)


def flat(settings: Mapping[str, object], above: str = "") -> dict[str, object]:
    """Values of nested settings by their keys."""
    found: dict[str, object] = {}
    for key, value in settings.items():
        found |= flat(value, f"{above}{key}.") if isinstance(value, Mapping) and value else {f"{above}{key}": value}
    return found


def done(entry: str, *arguments: str) -> Outcome:
    """`call`, which must succeed without a word on standard error."""
    outcome = call(entry, *arguments)
    assert (outcome.status, outcome.err) == (0, ""), outcome.err
    return outcome


def refusal(entry: str, *arguments: str) -> str:
    """The error of a `call`, which must fail with one line."""
    outcome = call(entry, *arguments)
    assert (outcome.status, outcome.err.count("\n")) == (2, 1), outcome.err
    return outcome.err


def refused(outcome: Outcome, *parts: str, n_lines: int = 1) -> None:
    """A call failed with so many lines of errors and nothing else, in which these parts are."""
    assert (outcome.status, outcome.err.count("\n")) == (2, n_lines), outcome.err
    assert all(line.startswith("error: ") for line in outcome.err.splitlines())
    assert "Traceback" not in outcome.out
    assert [part for part in parts if part not in outcome.err] == [], outcome.err


_RENAMED: list[Callable[[str], None]] = []
"""Watch files that are put in their place; a hook of the interpreter stays to its end."""


def _audit(event: str, values: tuple[object, ...]) -> None:
    if event == "os.rename":
        for each in _RENAMED:
            each(str(values[1]))


sys.addaudithook(_audit)


@contextlib.contextmanager
def at_file(name: str, action: Callable[[], object], at: int = 1) -> Iterator[None]:
    """`action` is called when a file of this name is about to be put in its place for the `at`th time."""
    times = itertools.count(1)

    def renamed(path: str) -> None:
        if Path(path).name == name and next(times) == at:
            action()

    _RENAMED.append(renamed)
    try:
        yield
    finally:
        _RENAMED.remove(renamed)


class Killed(Exception):
    """Of a command that dies in a test."""


@contextlib.contextmanager
def killed(name: str = checkpoint.BEST, at: int = 1) -> Iterator[None]:
    """What is run within dies before it writes this file for the `at`th time: by default when nothing is saved."""

    def die() -> None:
        raise Killed

    with at_file(name, die, at), pytest.raises(Killed):
        yield


def assert_same_weights(one: Path | str, other: Path | str, name: str = checkpoint.LAST) -> None:
    """Two run directories hold the same weights, bit for bit."""
    first, second = (checkpoint.load(Path(run) / name).weights for run in (one, other))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)


def call_export(*arguments: str) -> Outcome:
    """`call("export", ...)` with the warnings of torch's converters, about code of their own, as warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        if "format=onnx" in arguments:
            registry_once()
        return call("export", *arguments)


def _ran(main: Callable[[], None], *words: object) -> Outcome:
    """`main` with these words as the command line."""
    argv, sys.argv = sys.argv, [*map(str, words)]
    out, err, status = io.StringIO(), io.StringIO(), 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):  # as Python does at the end of a process
            err.write(f"{end.code}\n")
    finally:
        sys.argv = argv
    return Outcome(status, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _scripts_on_path() -> Iterator[None]:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        yield
    finally:
        sys.path.remove(str(ROOT / "scripts"))


def script(name: str) -> ModuleType:
    """A module of `scripts/`, which may import the others."""
    with _scripts_on_path():
        return importlib.import_module(name)


def call_script(name: str, *arguments: object) -> Outcome:
    """`python scripts/<name>.py <arguments>` within this process, in its folder."""
    logger = logging.getLogger("informer")
    level = logger.level
    try:
        with switched(False), _scripts_on_path(), patch.dict(os.environ, PYTHONPATH=str(ROOT)):
            return _ran(script(name).main, f"{name}.py", *arguments)
    finally:
        logger.setLevel(level)


def launch(entry: str, *arguments: str, cwd: Path) -> Outcome:
    """Run a command in a separate process."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "informer", entry, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    return Outcome(done.returncode, done.stdout, done.stderr)


class Trained(NamedTuple):
    """A finished run and what training printed."""

    run_dir: Path
    out: str


COMMANDS = re.findall(r"^  (\w+)  ", call("--help").out, re.M)
"""As the help lists them."""
