"""How a run ends before its end: numbers that are not finite, a full disk, signals; and what it continues from."""

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT, SMALL, TENSORBOARD, call, done, refusal
from test_resume import assert_same_run

from informer import checkpoint
from informer.scoring.scores import Scores
from informer.training import loop, run
from informer.training.optim import GuardedAdam

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


@pytest.mark.parametrize(
    ("size", "name"), [(500, "run.json"), (2_000, "config.yaml"), (20_000, "events.out.tfevents.run")]
)
def test_a_full_disk_is_one_line(size: int, name: str, folder: Path) -> None:
    with files_limited_to(size):
        outcome = call("train", *SAMPLE, "trainer.max_steps=2")
    assert outcome.status == 2
    assert outcome.err == f"error: run/{name}: expected a writable path, found: File too large; choose another\n"
    assert not list(Path("run").glob(".*"))
    assert not list(Path("run").glob("*.safetensors"))


def _signalled(name: str, at: Callable[[], bool], number: int, monkeypatch: pytest.MonkeyPatch, owner: Any) -> None:
    """The signal comes inside `owner.name` when `at` says so."""
    function = getattr(owner, name)

    def watched(*arguments: Any, **settings: Any) -> Any:
        if at():
            os.kill(os.getpid(), number)
        return function(*arguments, **settings)

    monkeypatch.setattr(owner, name, watched)


@pytest.mark.parametrize(
    ("where", "number", "status"),
    [("step", signal.SIGTERM, 143), pytest.param("validation", signal.SIGINT, 130, marks=pytest.mark.slow)],
)
def test_a_signal_saves_between_two_steps(
    number: int, status: int, where: str, whole: Callable[[str], Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(1, 10_000))
    owner, name, at = (GuardedAdam, "step", 30) if where == "step" else (loop, "mean_loss", 2)
    _signalled(name, lambda: next(calls) == at, number, monkeypatch, owner)
    outcome = call("train", *SAMPLE, "trainer.max_epochs=2")
    assert outcome.status == status
    assert outcome.out.rstrip().endswith("saved. Continue with: informer train resume=run")
    assert outcome.err == ""
    sample = f"input={ROOT / 'data' / 'sample.csv'}"
    said = "run: interrupted, or still training: best.safetensors is what it has so far; continue with: informer train"
    assert said in " ".join(call("predict", "checkpoint=run", sample, "output=forecasts").out.split())
    last = checkpoint.load(Path("run/last.safetensors"))
    assert (last.progress.epoch, last.progress.step) == (1, 30 if where == "step" else 2 * STEPS)
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    done("train", "resume=run/last.safetensors")
    assert "interrupted" not in call("predict", "checkpoint=run", sample, "output=forecasts").out
    assert_same_run(whole("trainer.max_epochs=2"), Path("run"))


@pytest.mark.slow
def test_ctrl_c_while_scoring_says_how_to_go_on(
    whole: Callable[[str], Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if it ends with only the word `interrupted`: the training before may have taken hours."""
    _signalled("score_best", lambda: True, signal.SIGINT, monkeypatch, run)
    outcome = call("train", *SAMPLE, "trainer.max_steps=3")
    assert (outcome.status, outcome.err) == (130, "")
    last_line = outcome.out.rstrip().splitlines()[-1]
    assert last_line == "interrupted by SIGINT; continue with: informer train resume=run"
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    done("train", "resume=run")
    assert_same_run(whole("trainer.max_steps=3"), Path("run"))


def test_ctrl_c_after_the_scores_are_saved_proposes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished run is not resumed, so the command that does it must not be proposed."""
    _signalled("table", lambda: True, signal.SIGINT, monkeypatch, Scores)
    outcome = call("train", *SAMPLE, "trainer.max_steps=3")
    assert (outcome.status, outcome.err) == (130, "interrupted\n")
    assert "resume=" not in outcome.out
