"""One run in two processes on the CPU is the run of one process: losses, metrics, who writes, who continues."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.multiprocessing as multiprocessing
from entry_points import ROOT, SMALL, TENSORBOARD, done
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from informer import checkpoint
from informer.training.processes import Processes, WholeBatchNorm

RUN = ["dataset=sample", *SMALL, TENSORBOARD, "model.dropout=0", "trainer.max_epochs=2", "trainer.batch_size=17"]
"""171 training windows: ten batches of 17, which two cannot divide, and one of a single window.

The rate is the small default: gradients that are zero but for rounding (of keys' biases, of the bias before BatchNorm)
become steps of Adam as large as the rate. Evaluation, with its running statistics, sees the latter, so that its losses
are compared to four digits and those of training to five.
"""
ROWS, WIDTH = 11, 3

pytestmark = pytest.mark.slow


def _environment(**more: str) -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **more}


def _torchrun(*arguments: str, code: str | None = None, restarts: int = 0) -> subprocess.CompletedProcess[str]:
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone"]
    start.append(f"--max-restarts={restarts}")
    if code is None:
        what = ["-m", "informer.train"]
    else:
        Path("entry.py").write_text(code)
        what = ["entry.py"]
    own = _environment(TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
    return subprocess.run([*start, *what, *arguments], env=own, capture_output=True, text=True)


def _losses(run_dir: str) -> dict[str, np.ndarray]:
    events = EventAccumulator(run_dir, size_guidance={"scalars": 0}).Reload()
    tags = ["train/loss_step", "train/gradient_norm", "train/loss", "val/loss", "test/mse", "test/mae"]
    return {tag: np.array([(point.step, point.value) for point in events.Scalars(tag)]) for tag in tags}


def _assert_same(one: str, other: str) -> None:
    first, second = _losses(one), _losses(other)
    for tag in first:
        seen_by_eval = tag.startswith(("val/", "test/"))
        np.testing.assert_allclose(first[tag], second[tag], rtol=1e-4 if seen_by_eval else 1e-5, err_msg=tag)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The run in one process."""
    run_dir = tmp_path_factory.mktemp("alone") / "run"
    done("train", *RUN, f"run_dir={run_dir}")
    return str(run_dir)


def test_two_processes_give_the_losses_of_one(alone: str, folder: Path) -> None:
    done = _torchrun(*RUN, "run_dir=run")
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    _assert_same(alone, "run")
    assert {path.name for path in Path("run").iterdir()} == {path.name for path in Path(alone).iterdir()}
    assert done.stdout.count("epoch   train loss") == 1
    assert done.stdout.count("next: informer") == 1


DIES = """
import os
from informer.commands import cli
from informer.training import loop
step, calls = loop.train_step, iter(range(100))
def dying(*arguments):
    if os.environ["RANK"] == "1" and next(calls) == 13:
        raise RuntimeError("this one dies")
    return step(*arguments)
loop.train_step = dying
cli.run("train")
"""


def test_one_that_dies_ends_the_run_and_another_number_goes_on(alone: str, folder: Path) -> None:
    died = _torchrun(*RUN, "run_dir=run", code=DIES)
    assert died.returncode != 0
    assert "this one dies" in died.stderr
    assert checkpoint.load(Path("run/last.safetensors")).progress.epoch == 1
    done("train", "resume=run")
    _assert_same(alone, "run")


def test_torchrun_restarts_a_run_where_it_was(alone: str, folder: Path) -> None:
    """Red if the second start refuses the folder, or begins the run again."""
    once = DIES.replace('os.environ["RANK"] == "1"', '(os.environ["RANK"], os.environ[COUNT]) == ("1", "0")')
    done = _torchrun(*RUN, "run_dir=run", code=f'COUNT = "TORCHELASTIC_RESTART_COUNT"{once}', restarts=1)
    assert done.returncode == 0, done.stderr
    assert "this one dies" in done.stderr
    assert len(json.loads(Path("run/run.json").read_text())["resumed"]) == 1
    _assert_same(alone, "run")


def _normalise(rank: int, folder: str) -> None:
    """One of two processes: gradients of its part of a batch of 11 rows, one of them to fill up."""
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "RANK": str(rank), "WORLD_SIZE": "2"}
    x, weight = torch.load(f"{folder}/x.pt"), torch.load(f"{folder}/w.pt")
    with Processes.started(torch.device("cpu")) as processes:
        own, n = processes.share(torch.arange(ROWS))
        part = x[own].requires_grad_()
        norm = WholeBatchNorm(torch.nn.BatchNorm1d(WIDTH), processes)
        (norm(part)[:n] * weight[own[:n]]).sum().backward()
        torch.save((part.grad[:n], own[:n], norm.running_mean, norm.running_var), f"{folder}/{rank}.pt")


def test_the_norm_of_shares_is_that_of_the_batch(folder: Path) -> None:
    x, weight = torch.randn(ROWS, WIDTH) * 3 + 100, torch.randn(ROWS, WIDTH)
    torch.save(x, "x.pt")
    torch.save(weight, "w.pt")
    multiprocessing.spawn(_normalise, args=(str(folder),), nprocs=2)
    norm = torch.nn.BatchNorm1d(WIDTH)
    (norm(x.requires_grad_()) * weight).sum().backward()
    rows = []
    for rank in (0, 1):
        gradient, own, mean, variance = torch.load(f"{rank}.pt")
        rows += own.tolist()
        torch.testing.assert_close(gradient, x.grad[own], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(mean, norm.running_mean)
        torch.testing.assert_close(variance, norm.running_var)
    assert sorted(rows) == list(range(ROWS))


@pytest.mark.parametrize(("n", "size"), [(32, 2), (17, 2), (1, 2), (5, 4), (3, 8)])
def test_shares_hold_every_window_once(n: int, size: int) -> None:
    windows = torch.randperm(n)
    shares = [Processes(rank, size).share(windows) for rank in range(size)]
    assert len({len(own) for own, _ in shares}) == 1, "as long as each other: the same random numbers everywhere"
    assert sorted(int(i) for own, counted in shares for i in own[:counted]) == list(range(n))
