"""Shared by tests of the command line: ways to call it, and the arguments of a run that takes seconds."""

import contextlib
import importlib
import io
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

SMALL = [
    "model=tiny",
    "seq_len=24",
    "label_len=11",
    "pred_len=6",
    "dataset.split.kind=rows",
    "dataset.split.train=200",
    "dataset.split.val=50",
    "dataset.split.test=70",
    "non_negative=none",
]
"""A run of seconds on any series of 320 rows; its forecasts are what the network gives."""


class Outcome(NamedTuple):
    """Result of a call of an entry point: exit status, standard output, standard error."""

    status: int
    out: str
    err: str


def call(entry: str, *arguments: str) -> Outcome:
    """`python -m informer.<entry> <arguments>` within this process, in its folder."""
    module = importlib.import_module(f"informer.{entry}")
    argv, sys.argv = sys.argv, [f"informer-{entry}", *map(str, arguments)]
    out, err, status = io.StringIO(), io.StringIO(), 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            module.main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv = argv
    return Outcome(status, out.getvalue(), err.getvalue())


def script(name: str) -> ModuleType:
    """A module of `scripts/`, which may import the others."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def launch(entry: str, *arguments: str, cwd: Path) -> Outcome:
    """Run a command in a separate process."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", f"informer.{entry}", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    return Outcome(done.returncode, done.stdout, done.stderr)


class Trained(NamedTuple):
    """A finished run and what training printed."""

    run_dir: Path
    out: str
