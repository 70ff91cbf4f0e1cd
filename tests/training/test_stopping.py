"""How a run ends before its end: numbers that are not finite, a full disk, signals; and what it continues from."""

import logging
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT, SMALL, TENSORBOARD, at_file, call, done, refusal
from test_resume import assert_same_run
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook

from informer import checkpoint

SAMPLE = ["dataset=sample", *SMALL, TENSORBOARD, "trainer.batch_size=8", "run_dir=run"]
STEPS = 22
"""Of an epoch: 171 training windows in batches of 8."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The run of this length that nothing stops, made once."""

    @cache
    def made(length: str) -> Path:
        run_dir = tmp_path_factory.mktemp("whole") / "run"
        done("train", *SAMPLE[:-1], length, f"run_dir={run_dir}")
        return run_dir

    return made


def test_the_windows_of_the_bad_batch_are_named(folder: Path) -> None:
    """A value that overflows the squared error: the windows that hold it come first, in their own time."""
    rows = 320
    frame = pd.DataFrame({"date": pd.date_range("2020-01-01", periods=rows, freq="h"), "a": np.sin(np.arange(rows))})
    frame.loc[150, "a"] = 1e30
    frame.to_csv("wild.csv", index=False)
    line = refusal("train", "dataset=csv", "dataset.path=wild.csv", *SMALL, "scaler=none", "run_dir=run")
    assert "training loss is inf" in line or "training loss is nan" in line
    named = line.split("wild.csv ")[1]
    first, last = (pd.Timestamp(text) for text in named.split(" (up to 1e+30)")[0].split(" to "))
    assert first <= frame["date"][150] <= last
    assert last - first == pd.Timedelta(hours=24 + 6 - 1)
    assert "29 more" in named


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """No file can grow beyond so many bytes, as on a full disk; outside, pytest writes to one that may be longer."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(("size", "name"), [(2_000, "config.yaml"), (20_000, "events.out.tfevents.run")])
def test_a_full_disk_is_one_line(size: int, name: str, folder: Path) -> None:
    with files_limited_to(size):
        outcome = call("train", *SAMPLE, "trainer.max_steps=2")
    assert outcome.status == 2
    assert outcome.err == f"error: run/{name}: expected a writable path, found: File too large; choose another\n"
    assert not list(Path("run").glob(".*"))
    assert not list(Path("run").glob("*.safetensors"))


@contextmanager
def signalled(number: int, step: int, *, is_training: bool) -> Iterator[None]:
    """The signal comes within a step of the optimiser, or at the first forecast of a validation after so many steps."""
    steps, waiting = 0, True

    def stepping(*_: object) -> None:
        nonlocal steps
        steps += 1
        if is_training and steps == step:
            os.kill(os.getpid(), number)

    def forecasting(module: nn.Module, _: object) -> None:
        nonlocal waiting
        if not is_training and not module.training and steps == step and waiting:
            waiting = False
            os.kill(os.getpid(), number)

    hooks = register_optimizer_step_pre_hook(stepping), register_module_forward_pre_hook(forecasting)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@pytest.mark.parametrize(
    ("is_training", "number", "status"),
    [
        pytest.param(True, signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param(False, signal.SIGINT, 130, marks=pytest.mark.slow),
    ],
)
def test_a_signal_saves_between_two_steps(
    number: int, status: int, is_training: bool, whole: Callable[[str], Path], folder: Path
) -> None:
    step = 30 if is_training else 2 * STEPS
    with signalled(number, step, is_training=is_training):
        outcome = call("train", *SAMPLE, "trainer.max_epochs=2")
    assert outcome.status == status
    assert outcome.out.rstrip().endswith("saved. Continue with: informer train resume=run")
    assert outcome.err == ""
    sample = f"input={ROOT / 'data' / 'sample.csv'}"
    said = "run: interrupted, or still training: best.safetensors is what it has so far; continue with: informer train"
    assert said in " ".join(call("predict", "checkpoint=run", sample, "output=forecasts").out.split())
    last = checkpoint.load(Path("run/last.safetensors"))
    assert (last.progress.epoch, last.progress.step) == (1, step)
    done("train", "resume=run/last.safetensors")
    assert "interrupted" not in call("predict", "checkpoint=run", sample, "output=forecasts").out
    assert_same_run(whole("trainer.max_epochs=2"), Path("run"))


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.slow
def test_ctrl_c_while_scoring_says_how_to_go_on(whole: Callable[[str], Path], folder: Path) -> None:
    """Fails if it ends with only the word `interrupted`: the training before may have taken hours."""
    with at_file("metrics.json", interrupt):
        outcome = call("train", *SAMPLE, "trainer.max_steps=3")
    assert (outcome.status, outcome.err) == (130, "")
    last_line = outcome.out.rstrip().splitlines()[-1]
    assert last_line == "interrupted by SIGINT; continue with: informer train resume=run"
    done("train", "resume=run")
    assert_same_run(whole("trainer.max_steps=3"), Path("run"))


def test_ctrl_c_after_the_scores_are_saved_proposes_nothing(folder: Path) -> None:
    """A finished run is not resumed, so the command that does it must not be proposed."""

    class Verdict(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "seasonal naive" in record.getMessage():
                interrupt()

    verdict, logger = Verdict(), logging.getLogger("informer")
    logger.addHandler(verdict)
    try:
        outcome = call("train", *SAMPLE, "trainer.max_steps=3")
    finally:
        logger.removeHandler(verdict)
    assert (outcome.status, outcome.err) == (130, "interrupted\n")
    assert "resume=" not in outcome.out
