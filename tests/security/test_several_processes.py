"""Two processes never write to one folder; one that is killed ends the run of several with one line."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
import torch
from entry_points import ROOT, SMALL, Trained, call, done, refusal

from informer import Forecaster, InputError

Tree = Callable[[Path], dict[str, bytes | None]]

RUN = ["dataset=sample", *SMALL, "trainer.max_steps=2"]
HOLD = """
import sys
from pathlib import Path
from informer.base.files import only_writer
with only_writer(Path(sys.argv[1]), "run_dir"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process_writes(folder: Path) -> Iterator[int]:
    """Yields its number; it is killed in the end, so that it releases nothing by itself."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        process.kill()


def test_a_second_run_gets_one_line_until_the_first_is_killed(folder: Path, tree: Tree) -> None:
    with another_process_writes(Path("run")) as number:
        before = tree(folder)
        line = refusal("train", *RUN, "run_dir=run")
        assert line.startswith(f"error: run_dir=run: another process is writing to this folder (process {number} on ")
        assert tree(folder) == before
    assert Path("run", ".informer.lock").exists(), "the killed one could not remove it"
    done("train", *RUN, "run_dir=run")
    assert not Path("run", ".informer.lock").exists()


def test_a_second_command_gets_one_line(folder: Path, trained: Trained, tree: Tree) -> None:
    """Red if a command writes where another one does, or if it is refused after some of its results are written."""
    shutil.copytree(trained.run_dir, "run")
    Path("run/metrics.json").unlink()
    Path("in").mkdir()
    rows = (ROOT / "data/sample.csv").read_bytes()
    Path("in/a.csv").write_bytes(rows)
    Path("in/next.csv").write_bytes(b"".join(rows.splitlines(keepends=True)[place] for place in (0, -2, -1)))
    with another_process_writes(Path("out")), another_process_writes(Path("run")):
        before = tree(folder)
        assert "=run: another process is writing to this folder" in refusal("train", "resume=run")
        for words in (
            ["predict", "checkpoint=run", "input=in", "output=out"],
            ["predict", "checkpoint=run", "input=in/a.csv", "output=out"],
            ["eval", "checkpoint=run", "output=out"],
            ["explain", "checkpoint=run", "input=in/a.csv", "output=out"],
            ["explain", "checkpoint=run", "importance=true", "output=out"],
            ["report", "run", "output=out/page.html"],
            ["export", "checkpoint=run", "format=safetensors", "output=out/model.safetensors"],
            ["score", "forecasts=in/next.csv", "actuals=in/a.csv", "history=in/a.csv", "output=out"],
            ["forecast", "in/a.csv", "horizon=3", "output=out"],
        ):
            assert "=out: another process is writing to this folder" in refusal(*words)
        with pytest.raises(InputError, match="another process is writing"):
            Forecaster(run_dir="run", **{"trainer.max_steps": 1}).fit(pd.read_csv("in/a.csv"))
        assert tree(folder) == before


BROKEN = """
import os, signal
from informer.commands import cli
from informer.training import loop
step, calls = loop.train_step, iter(range(100))
def broken(*arguments):
    if os.environ["RANK"] == "1" and next(calls) == 3:
        os.kill(os.getpid(), signal.SIGNAL)
    return step(*arguments)
loop.train_step = broken
cli.run("train")
"""
"""A process whose fourth step does not come."""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
def test_one_that_is_killed_or_stopped(name: str, folder: Path) -> None:
    """Only the output of the surviving process is checked: torchrun adds its own lines."""
    Path("entry.py").write_text(BROKEN.replace("SIGNAL", name))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])  # a free one
    environment = os.environ | {
        "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        "WORLD_SIZE": "2", "LOCAL_RANK": "0",
    }  # fmt: skip
    minutes = "trainer.collective_timeout_minutes=1"  # also a busy machine starts the other process in this time
    command = [sys.executable, "entry.py", "dataset=sample", *SMALL, "trainer.max_epochs=2", "run_dir=run", minutes]
    first, second = (
        subprocess.Popen(command, env=environment | {"RANK": rank}, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        for rank in "01"
    )
    _, err = first.communicate()
    second.kill()
    second.communicate()
    assert first.returncode == 2, err
    assert err.decode().count("\n") == 1, err.decode()
    assert err.startswith(b"error: another process of the run ended, or did not answer within ")


@pytest.mark.slow
def test_another_number_of_threads_is_a_warning(folder: Path, trained: Trained) -> None:
    """The runs stop before their first step; only the output before it is checked."""
    Path("run").mkdir()
    for path in trained.run_dir.iterdir():
        if path.name not in ("metrics.json", "metrics.csv"):
            shutil.copy(path, "run")
    facts = json.loads(Path("run/run.json").read_text())
    Path("run/run.json").write_text(json.dumps(facts | {"threads": 3}))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        outcome = call("train", "resume=run", "device=cpu")
    finally:
        torch.set_num_threads(before)
    assert outcome.status == 0, outcome.err
    warning = "resume: the run began with 3 threads, and continues with 1: results will differ"
    assert warning in " ".join(outcome.out.split())
