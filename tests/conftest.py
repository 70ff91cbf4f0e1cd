"""Shape types are checked while tests run: every jaxtyping annotation of the package becomes a runtime check.

And what tests of the entry points share: a way to call them, and one small trained run.
"""

import contextlib
import importlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from jaxtyping import install_import_hook

install_import_hook("informer", "beartype.beartype")

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
]
"""A run of seconds on any series of 320 rows."""


class Outcome(NamedTuple):
    """What a call of an entry point left: exit status, standard output, standard error."""

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


def launch(entry: str, *arguments: str, cwd: Path) -> Outcome:
    """The same as a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", f"informer.{entry}", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INFORMER_DATA_DIR", raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and the one that the test runs in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Trained(NamedTuple):
    """A finished run and what training printed."""

    run_dir: Path
    out: str


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    """A run on the sample data, two epochs; for reading, not for writing into."""
    run_dir = tmp_path_factory.mktemp("trained") / "run"
    outcome = call("train", "dataset=sample", *SMALL, "trainer.max_epochs=2", f"run_dir={run_dir}")
    assert outcome.status == 0, outcome.err
    yield Trained(run_dir, outcome.out)


@pytest.fixture
def tree() -> Callable[[Path], dict[str, bytes | None]]:
    """Every path below a folder with its content (None for folders), to compare before and after."""
    return lambda top: {
        str(path.relative_to(top)): path.read_bytes() if path.is_file() else None for path in sorted(top.rglob("*"))
    }
