"""`model=auto` as a user meets it: whatever the columns, stopped and resumed, refused where it cannot work."""

import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml
from entry_points import SMALL, call, done, killed, refusal
from rich.console import Console
from test_configs import composed

from informer import Forecaster, checkpoint
from informer.base.errors import InputError
from informer.base.runtime import resource
from informer.build import read_dataset
from informer.search.stage import search_first
from informer.search.trials import TrialRunner
from informer.training.folder import RunFolder
from informer.training.optim import GuardedAdam
from informer.training.processes import Processes
from informer.training.run import RunContext

AUTO = [
    "model=auto", "trainer.tune_steps=3", "model.d_model=8", "trainer.max_steps=2", "trainer.batch_size=64",
    *SMALL[3:-1],
]  # fmt: skip
SAMPLE = ["dataset=sample", *AUTO]
BRIEF = "trainer.time_budget_minutes=0.01"
"""For what does not depend on how much is tried."""
ALONE = [BRIEF, "trainer.combine=[]"]
"""Nor on an average with the network that comes trained, whose forecasts of all windows take seconds."""


@pytest.mark.slow
def test_a_run_leaves_what_was_chosen_and_why(folder: Path) -> None:
    """Red if resume, eval or predict would search again."""
    outcome = done("train", *SAMPLE, *ALONE, "run_dir=runs/one")
    assert "within 0.01 minutes, the run that follows included (trainer.time_budget_minutes)" in outcome.out
    assert "kept as given: model.d_model=8 trainer.max_steps=2" in outcome.out
    assert outcome.out.count("\nchosen: ") == 1
    heads = next(line for line in outcome.out.splitlines() if "val loss" in line).split()
    assert (heads[0], heads[-4:]) == ("seq_len", ["steps", "val", "loss", "s"])
    saved = yaml.safe_load(Path("runs/one/config.yaml").read_text())
    facts = json.loads(Path("runs/one/run.json").read_text())
    chosen = facts["search"]["chosen"]
    assert saved["search"] == []
    assert saved["trainer"]["time_budget_minutes"] is None
    for key, value in chosen.items():
        node, _, name = key.rpartition(".")
        assert (saved[node] if node else saved)[name] == value
    assert facts["search"]["given"] == {"model.d_model": 8, "trainer.max_steps": 2}
    assert facts["data"]["windows"]["val"] > 0
    trials = pd.read_csv("runs/one/search.csv")
    assert "model.d_model" not in trials
    assert facts["search"]["trials"] == len(trials)
    assert set(trials["steps"]) <= {0, 2}
    best = trials.loc[trials["steps"] == 0, "val_loss"].min()
    assert facts["search"]["val_loss"] in trials["val_loss"].tolist()
    assert checkpoint.load(Path("runs/one")).val_loss <= best * (1 + 1e-6)
    assert "runs/one is finished" in call("train", "resume=runs/one").out
    done("eval", "checkpoint=runs/latest", "plots=none")
    done("predict", f"input={resource('data/sample.csv')}", "plots=false")
    done("train", "--config-dir=runs/one", "--config-name=config", "run_dir=runs/again")
    assert not Path("runs/again/search.csv").exists()
    assert Path("runs/again/metrics.csv").read_bytes() == Path("runs/one/metrics.csv").read_bytes()


@pytest.mark.parametrize(
    "overrides",
    [
        ["features=MS", "target=price", "pred_len=1"],
        ["loss=quantile"],
        *(
            pytest.param(overrides, marks=pytest.mark.slow)
            for overrides in (
                ["features=S", "target=price"],
                ["targets=[demand]", "past_covariates=[visitors]", "future_covariates=[price]"],
                ["seq_len=30", "trainer.calibration=0", "loss=mae"],
            )
        ),
    ],
)
def test_any_columns(overrides: list[str], folder: Path) -> None:
    done("train", *SAMPLE, *ALONE, *overrides, "run_dir=run")
    assert Path("run/metrics.csv").exists()


@pytest.mark.parametrize("short", ["error", "pad", pytest.param("skip", marks=pytest.mark.slow)])
def test_many_series(short: str, folder: Path) -> None:
    frame = pd.read_csv(resource("data/sample.csv"))
    Path("in").mkdir()
    for name, rows in {"a": 400, "b": 400, "c": 60 if short == "error" else 8}.items():
        frame.iloc[:rows].to_csv(f"in/{name}.csv", index=False)
    split = ["dataset.split.kind=ratio", "dataset.split.train=0.7", "dataset.split.val=0.15", "dataset.split.test=0.15"]
    arguments = ["dataset=csv", "dataset.path=in", *AUTO, *ALONE, *split, f"dataset.short={short}", "run_dir=run"]
    done("train", *arguments)
    windows = json.loads(Path("run/run.json").read_text())["data"]["windows"]
    assert windows["train"] > 1


def test_short_data_are_trained_on(folder: Path) -> None:
    """Red if a history is taken that the rows do not allow: 96 would need 180."""
    pd.read_csv(resource("data/sample.csv")).iloc[:70].to_csv("short.csv", index=False)
    split = ["dataset.split.kind=ratio", "dataset.split.train=0.7", "dataset.split.val=0.15", "dataset.split.test=0.15"]
    arguments = ["dataset=csv", "dataset.path=short.csv", *split, "pred_len=6"]
    assert "too few" in call("train", *arguments, "model=tiny").err
    done("train", *arguments, *AUTO[:4], BRIEF, "run_dir=run")


def test_from_python(folder: Path) -> None:
    frame = pd.read_csv(resource("data/sample.csv")).iloc[:320]
    trainer = {"max_steps": 2, "batch_size": 64, "time_budget_minutes": 0.001, "combine": []}
    forecaster = Forecaster.fit(frame, device="cpu", model="auto", pred_len=5, trainer=trainer, **{"model.d_model": 8})
    assert len(forecaster.predict(frame)) == 5
    assert forecaster.trained.checkpoint.config["model"]["family"] == "linear"
    assert forecaster.trained.checkpoint.refit
    assert not any(folder.iterdir())


def interrupted(monkeypatch: pytest.MonkeyPatch, number: int, at: int) -> None:
    """The signal comes at the at-th step of an optimiser."""
    step, calls = GuardedAdam.step, iter(range(1, 1000))

    def watched(optimizer: GuardedAdam) -> None:
        if next(calls) == at:
            os.kill(os.getpid(), number)
        step(optimizer)

    monkeypatch.setattr(GuardedAdam, "step", watched)


@pytest.mark.slow
def test_a_search_that_is_interrupted_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, and the same trials, choice and weights as a search that was not; without a bound on time, which would
    depend on the machine."""
    interrupted(monkeypatch, signal.SIGTERM, at=4)
    keys = [*SAMPLE, "seq_len=24", "model.dropout=0", "trainer.time_budget_minutes=null", "trainer.combine=[]"]
    outcome = call("train", *keys, "run_dir=runs/cut")
    assert outcome.status == 143
    assert outcome.err == ""
    assert "continue the search with: informer train resume=runs/cut" in outcome.out.splitlines()[-1]
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    known = len(pd.read_csv("runs/cut/search.csv"))
    assert known > 1
    done("train", "resume=runs/latest")
    done("train", *keys, "run_dir=whole")
    one, other = (
        pd.read_csv(Path(run) / "search.csv").drop(columns=["seconds", "closing_seconds", "linear.fit_seconds"])
        for run in ("runs/cut", "whole")
    )
    pd.testing.assert_frame_equal(one, other)
    assert Path("runs/cut/metrics.csv").read_bytes() == Path("whole/metrics.csv").read_bytes()


@pytest.mark.slow
def test_killed_after_its_search_a_run_keeps_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with killed():
        call("train", *SAMPLE, *ALONE, "run_dir=run")
    monkeypatch.setattr(TrialRunner, "trial", None)
    done("train", "resume=run")
    assert json.loads(Path("run/run.json").read_text())["search"]["trials"] > 0


def test_data_that_changed_since_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.read_csv(resource("data/sample.csv")).iloc[:320]
    frame.to_csv("mine.csv", index=False)
    interrupted(monkeypatch, signal.SIGINT, at=1)
    assert call("train", "dataset=csv", "dataset.path=mine.csv", *AUTO, "run_dir=run").status == 130
    frame.assign(price=frame["price"] + 1).to_csv("mine.csv", index=False)
    for named, part in (
        ([], "mine.csv has changed since training"),
        (["dataset.path=mine.csv"], "expected the data that the search began with, mine.csv has changed since"),
    ):
        assert part in refusal("train", "resume=run", *named)


def test_several_processes_are_refused(folder: Path, tree: Callable[[Path], object]) -> None:
    place = RunContext(
        folder=RunFolder(Path("run")), console=Console(quiet=True), device=torch.device("cpu"),
        processes=Processes(rank=0, size=2), start_log_file=lambda path: None,
    )  # fmt: skip
    settings = composed(*SAMPLE)
    with pytest.raises(InputError, match="model=auto: expected one process, torchrun started 2"):
        search_first(settings, place, partial(read_dataset, settings))
    assert tree(folder) == {}


def test_a_network_that_cannot_be_built_is_refused_before_anything_is_written(folder: Path) -> None:
    assert "factor" in refusal("train", *SAMPLE, "attn.factor=-1", "run_dir=other")
    assert not Path("other").exists()
