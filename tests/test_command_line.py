"""Mistakes at the command line, interruptions, help, and the rule for outputs that a user names."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from entry_points import COMMANDS, ROOT, SMALL, Trained, call, done, launch, refusal, refused

from informer import __version__

Tree = Callable[[Path], dict[str, bytes | None]]

TRAIN = ["dataset=sample", *SMALL]


def test_a_failed_run_leaves_latest_alone(folder: Path) -> None:
    (folder / "runs" / "older").mkdir(parents=True)
    (folder / "runs" / "latest").write_text("older\n")
    refused(call("train", *TRAIN, "optim.lr=1e30", "run_dir=runs/new"), "training loss is", "lower optim.lr")
    assert (folder / "runs" / "latest").read_text() == "older\n"


def test_without_network_the_line_says_what_to_fetch(folder: Path, monkeypatch: pytest.MonkeyPatch, tree: Tree) -> None:
    # nothing listens on port 9 of this machine
    outcome = call("train", "dataset=ETTh1", "dataset.url=http://127.0.0.1:9/ETTh1.csv", *SMALL)
    refused(outcome, "download http://127.0.0.1:9/ETTh1.csv", "data/ETTh1.csv")
    assert {path for path in tree(folder) if path != "data"} == set()


@pytest.mark.slow
def test_jobs_before_the_bad_one_are_kept(folder: Path, tree: Tree) -> None:
    refused(call("train", "--multirun", *TRAIN, "attn=prob,nope"), "attn: expected one of")
    assert tree(folder) == {}
    refused(call("train", "--multirun", *TRAIN, "trainer.max_steps=1", "seed=3,-3,4"), "job 1", "seed=-3", "found -3")
    (run,) = (path for path in (folder / "runs").iterdir() if path.is_dir())
    assert (run / "best.safetensors").exists()
    assert [path.name for path in folder.iterdir()] == ["runs"]


@pytest.mark.parametrize("options", [["--multirun", "--cfg", "job"], ["--resolve"]])
def test_options_that_do_not_go_together(options: list[str], folder: Path, tree: Tree) -> None:
    refused(call("train", *options, *TRAIN))
    assert tree(folder) == {}


def test_options_may_follow_keys(folder: Path) -> None:
    """Red if an option after a key is taken for a setting, or its value for a path."""
    outcome = call("train", *TRAIN, "--cfg", "job", "seed=3")
    assert (outcome.status, outcome.err) == (0, "")
    assert "\nseed: 3\n" in outcome.out


@pytest.mark.slow
def test_ctrl_c_from_outside(folder: Path) -> None:
    command = [sys.executable, "-u", "-m", "informer.train", "dataset=sample", "model=small", "device=cpu"]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while "train loss" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, err) == (130, "")
    (run,) = (path for path in (folder / "runs").iterdir() if path.is_dir())
    assert f"Continue with: informer train resume=runs/{run.name}" in out
    assert (run / "last.safetensors").exists()


def test_a_process_of_its_own_says_the_same(folder: Path, tree: Tree) -> None:
    words = ["train", "dataset=csv", "dataset.path=absent.csv"]
    inside, outside = call(*words), launch(*words, cwd=folder)
    refused(outside)
    assert outside == inside
    assert tree(folder) == {}


@pytest.mark.slow
def test_standard_output_may_be_closed(folder: Path) -> None:
    """Red if a command of cron or a service manager, which may close it, ends with a traceback or writes to a file that
    has its number."""
    command = f"'{sys.executable}' -m informer inspect '{ROOT}/data/sample.csv' >&-"
    ended = subprocess.run(
        command, shell=True, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("device", ["cuda:1", "mps"])
def test_one_line_before_anything_is_written(device: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    line = refusal("train", "dataset=sample", "model=tiny", f"device={device}", f"run_dir={tmp_path}/run")
    assert f"device={device}: expected a" in line
    assert "use one of device=auto|cpu" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["report", "export"])
def test_only_a_file_of_the_same_command_is_replaced(command: str, trained: Trained, folder: Path) -> None:
    """Red if `overwrite=true` replaces a file of the user's, or refuses what the command has written."""
    run = trained.run_dir
    given = {"report": [f"input={run}"], "export": [f"checkpoint={run}"]}[command]
    given += ["format=safetensors"] if command == "export" else []
    Path("mine.txt").write_text("notes")
    outcome = call(command, *given, "output=mine.txt", "overwrite=true")
    assert (outcome.status, Path("mine.txt").read_text()) == (2, "notes")
    assert "output=mine.txt: overwrite=true replaces what this command has written, found another" in outcome.err
    done(command, *given, "output=new")
    first = Path("new").read_bytes()
    assert call(command, *given, "output=new").status == 2
    done(command, *given, "output=new", "overwrite=true")
    assert len(Path("new").read_bytes()) == len(first)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"]])
def test_help_says_what_to_type_first(arguments) -> None:
    outcome = call(*arguments)
    assert outcome.status == 0
    assert "Start with:\n  informer forecast my.csv\n" in outcome.out
    assert all(f"\n  {name} " in outcome.out for name in COMMANDS)


def test_version() -> None:
    assert call("--version").out == f"informer {__version__}\n"


def test_predict_takes_a_run_and_a_file_without_keys(tmp_path: Path) -> None:
    """Red if a run is taken for the input, or a file for the run."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "best.safetensors").touch()
    run, file = str(tmp_path / "run"), str(tmp_path / "rows.csv")
    for words, expected in (
        ([file, "output=out", run], {"output": "out", "input": file, "checkpoint": run}),
        (["a.safetensors", "from=2024"], {"from": "2024", "checkpoint": "a.safetensors"}),
        (["in/*.csv"], {"input": "in/*.csv"}),
    ):
        read = yaml.safe_load(done("predict", *words, "--cfg", "job").out)
        assert {key: read[key] for key in expected} == expected
