"""One run in two processes on the CPU: who writes, who continues, and equal weights after a kill."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from entry_points import ROOT, SMALL, TENSORBOARD, assert_same_weights, done

from informer import checkpoint

RUN = ["dataset=sample", *SMALL, TENSORBOARD, "trainer.max_epochs=2", "trainer.batch_size=17", "optim.ema=0.9"]
"""171 training windows: ten batches of 17, which two cannot divide, and one of a single window."""

pytestmark = pytest.mark.slow


def _torchrun(what: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone", "--max-restarts=1"]
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    return subprocess.run([*start, *what, *arguments], env=os.environ | own, capture_output=True, text=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The run in two processes, and what it printed."""
    run_dir = tmp_path_factory.mktemp("whole") / "run"
    finished = _torchrun(["-m", "informer.train"], *RUN, f"run_dir={run_dir}")
    assert finished.returncode == 0, finished.stderr
    assert "Warning" not in finished.stderr
    return run_dir, finished.stdout


def _assert_same_run(one: Path, other: Path) -> None:
    for name in (checkpoint.BEST, checkpoint.LAST):
        assert_same_weights(one, other, name)
        first, second = (checkpoint.load(run / name) for run in (one, other))
        assert first.progress == second.progress
        assert first.state.keys() == second.state.keys()
        assert all(torch.equal(first.state[key], second.state[key]) for key in first.state)
    assert (one / "metrics.json").read_bytes() == (other / "metrics.json").read_bytes()


def test_the_first_process_writes_and_prints(whole: tuple[Path, str], folder: Path) -> None:
    """Red if both print, or the loss that is averaged over shares is not close to that of one process."""
    run_dir, out = whole
    assert out.count("epoch   train loss") == 1
    assert out.count("next: informer") == 1
    done("train", *RUN, "run_dir=alone")
    assert {path.name for path in run_dir.iterdir()} == {path.name for path in Path("alone").iterdir()}
    losses = [checkpoint.load(place).progress.best_loss for place in (run_dir, Path("alone"))]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)


DIES_ONCE = """
import os
from pathlib import Path
from informer import checkpoint
from informer.commands import cli
from informer.training import loop
step, calls = loop.train_step, iter(range(100))
def dying(*arguments):
    first_start = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if first_start and os.environ["RANK"] == "1" and next(calls) == 13:
        saved = checkpoint.load(Path("run/last.safetensors"))
        raise RuntimeError(f"this one dies in epoch {saved.progress.epoch}")
    return step(*arguments)
loop.train_step = dying
cli.run("train")
"""


def test_torchrun_restarts_a_run_where_it_was(whole: tuple[Path, str], folder: Path) -> None:
    """Red if the second start refuses the folder or begins the run again, or if a bit of weights, Adam's state, running
    statistics or generators differs from a run that nothing stops."""
    Path("entry.py").write_text(DIES_ONCE)
    saving = "trainer.save_every_minutes=1e-9"
    restarted = _torchrun(["entry.py"], *RUN, saving, "run_dir=run")
    assert restarted.returncode == 0, restarted.stderr
    assert "this one dies in epoch 1" in restarted.stderr
    assert len(json.loads(Path("run/run.json").read_text())["resumed"]) == 1
    _assert_same_run(whole[0], Path("run"))
