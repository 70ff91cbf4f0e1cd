"""A killed or stopped process ends the run of several with one line; another number of threads is reported."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from entry_points import ROOT, SMALL, Trained, call

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


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
def test_one_that_is_killed_or_stopped(name: str, folder: Path) -> None:
    """Only the output of the surviving process is checked: torchrun adds its own lines."""
    Path("entry.py").write_text(BROKEN.replace("SIGNAL", name))
    environment = os.environ | {
        "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(),
        "WORLD_SIZE": "2", "LOCAL_RANK": "0",
    }  # fmt: skip
    minutes = "trainer.collective_timeout_minutes=0.1"
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


@pytest.mark.parametrize("threads", [1, 3])
def test_another_number_of_threads_is_a_warning(threads: int, folder: Path, trained: Trained) -> None:
    """The runs stop before their first step; only the output before it is checked."""
    Path("run").mkdir()
    for path in trained.run_dir.iterdir():
        if path.name not in ("metrics.json", "metrics.csv"):
            shutil.copy(path, "run")
    facts = json.loads(Path("run/run.json").read_text())
    Path("run/run.json").write_text(json.dumps(facts | {"threads": threads}))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        outcome = call("train", "resume=run", "device=cpu")
    finally:
        torch.set_num_threads(before)
    assert outcome.status == 0, outcome.err
    warning = "resume: the run began with 3 threads, and continues with 1: results will differ"
    assert (warning in " ".join(outcome.out.split())) == (threads == 3)
