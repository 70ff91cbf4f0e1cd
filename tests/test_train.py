"""A run from the command line: its defaults, what it leaves, that it can be repeated, and every kind of series."""

import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml
from entry_points import CSV, ROOT, SMALL, Trained, assert_same_weights, done, launch

from informer import checkpoint

SAMPLE = ["dataset=sample", *SMALL]
N_TRAIN, N_VAL, N_TEST = 200 - 24 - 6 + 1, 25 - 6 + 1, 70 - 6 + 1
"""Windows of SMALL: training ones lie within their rows, others look back; half of the validation rows calibrate."""
STEPS = math.ceil(N_TRAIN / 32)
"""Steps of one epoch."""


def run(*arguments: str, run_dir: str = "run") -> checkpoint.Checkpoint:
    """Train in the present folder; the last checkpoint."""
    done("train", *arguments, f"run_dir={run_dir}")
    return checkpoint.load(Path(run_dir) / "last.safetensors")


def latest() -> Path:
    """The run that `runs/latest` names."""
    return Path("runs", Path("runs/latest").read_text().strip())


def test_the_run_directory(trained: Trained) -> None:
    names = {path.name for path in trained.run_dir.iterdir() if not path.name.startswith("events.out.tfevents")}
    written = {"config.yaml", "run.json", "train.log", "best.safetensors", "last.safetensors", "test_forecasts.parquet"}
    assert names == written | {"metrics.json", "metrics.csv", "losses.csv", "losses.png", "attention.json"}
    assert len(list(trained.run_dir.glob("events.out.tfevents*"))) == 1
    assert not (trained.run_dir.parent / "latest").exists()  # that is for runs/
    facts = json.loads((trained.run_dir / "run.json").read_text())
    assert facts["seed"] == 0
    assert facts["versions"]["torch"]
    assert facts["command"][0] == "informer train"
    assert facts["data"]["windows"] == {"train": N_TRAIN, "val": N_VAL, "calibration": N_VAL, "test": N_TEST}


def test_the_log_holds_what_was_printed(trained: Trained) -> None:
    log = [
        re.split(" (?:INFO|WARNING) ", line, maxsplit=1)[1]
        for line in (trained.run_dir / "train.log").read_text().splitlines()
    ]
    assert set(log) <= set(trained.out.splitlines())
    assert log[0].startswith(f"sample: 6000 rows at h, 4 columns in, 4 out; windows {N_TRAIN} train")
    assert sum(line.split()[0] in ("1", "2") and len(line.split()) >= 6 for line in log) == 2


@pytest.mark.slow
def test_the_saved_configuration_makes_the_same_run(folder: Path, trained: Trained) -> None:
    done("train", f"--config-dir={trained.run_dir}", "--config-name=config")
    again = latest()
    for name in ("best.safetensors", "last.safetensors"):
        assert_same_weights(trained.run_dir, again, name)
        assert (
            checkpoint.load(trained.run_dir / name).progress.best_loss
            == checkpoint.load(again / name).progress.best_loss
        )
    assert (again / "config.yaml").read_bytes() == (trained.run_dir / "config.yaml").read_bytes()
    assert (again / "metrics.csv").read_bytes() == (trained.run_dir / "metrics.csv").read_bytes()
    assert {path.name for path in folder.iterdir()} == {"runs"}


def test_attention_chosen_by_length_is_told_and_kept(folder: Path) -> None:
    """Red if a layer's length is not its own (the encoder's halves), or the trained choice is not the restored one."""
    arguments = ["attn=auto", "attn.crossover=12", "attn.factor=1", "attn@cross_attn=auto", "cross_attn.crossover=6"]
    outcome = done("train", *SAMPLE, *arguments, "model.encoder_stacks=[3]", "trainer.max_steps=1", "run_dir=run")
    assert (
        "attention by length: encoder 1.1 (24 rows) prob, encoder 1.2 (12 rows) prob, encoder 1.3 (6 rows) full, "
        "decoder 1 (17 rows) prob, cross 1 (6 rows) prob\n"
    ) in outcome.out
    done("eval", "checkpoint=run", "plots=false")
    assert Path("run/eval/metrics.csv").read_bytes() == Path("run/metrics.csv").read_bytes()


@pytest.mark.parametrize("name", ["informer2020_full", "paper_text"])
def test_an_experiment_cut_after_some_steps(name: str, folder: Path) -> None:
    last = run(*SAMPLE, f"experiment={name}", f"trainer.max_steps={STEPS + 2}")
    assert (last.progress.step, last.progress.epoch) == (STEPS + 2, 2)


def test_early_stopping_keeps_the_best_epoch(folder: Path) -> None:
    """With a rate at which the loss soon rises; red if training goes on, or another epoch than the best is kept."""
    last = run(*SAMPLE, CSV, "optim.lr=0.5", "trainer.max_epochs=30", "trainer.patience=2")
    best, losses = checkpoint.load(Path("run")), pd.read_csv("run/losses.csv").set_index("epoch")["val_loss"].dropna()
    assert best.progress.epoch == losses.idxmin()
    assert last.progress.epoch == losses.idxmin() + 2 < 30
    assert last.progress.best_loss == best.progress.best_loss == pytest.approx(losses.min())
    assert not best.state
    assert last.state


def test_several_jobs_have_a_folder_each_and_nothing_else(folder: Path) -> None:
    outcome = done("train", "--multirun", *SAMPLE, "trainer.max_steps=1", "seed=0,1")
    runs = sorted(path for path in Path("runs").iterdir() if path.is_dir())
    assert [path.name[-1] for path in runs] == ["0", "1"]
    assert [yaml.safe_load((path / "config.yaml").read_text())["seed"] for path in runs] == [0, 1]
    assert latest() == runs[1]
    assert [path.name for path in folder.iterdir()] == ["runs"]
    assert "job 0: seed=0\n" in outcome.out
    assert "job 1: seed=1\n" in outcome.out
    runs.sort(key=lambda path: json.loads((path / "metrics.json").read_text())["skill"], reverse=True)
    closing = [line.split() for line in outcome.out.rpartition(" val ")[2].splitlines()]
    for rank, path in enumerate(runs, start=1):
        own = json.loads((path / "metrics.json").read_text())["scores"]["informer"]["scaled"]["overall"]
        row = next(words for words in closing if words[:1] == [str(rank)])
        assert row[-2:] == [f"{own[name]:.4g}" for name in ("mse", "mae")]


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_a_job_of_a_launcher(launcher: str, folder: Path) -> None:
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.partition('_')[0]}_launcher")
    arguments = ["dataset=sample", *SMALL, "trainer.max_steps=1", "seed=3"]
    outcome = launch("train", "--multirun", f"hydra/launcher={launcher}", *arguments, cwd=folder)
    assert outcome.status == 0, outcome.err
    (run,) = (path for path in Path("runs").iterdir() if path.is_dir())
    assert yaml.safe_load((run / "config.yaml").read_text())["seed"] == 3
    assert (run / "best.safetensors").exists()
    assert [path.name for path in folder.iterdir()] == ["runs"]


def test_a_file_needs_no_key_and_a_run_that_loses_says_what_would_do_better(folder: Path) -> None:
    """An untrained network is worse than a baseline, and a command is suggested; red if maps that lose suggest maps, or
    the run is not named after the file."""
    pd.read_csv(ROOT / "data" / "sample.csv").iloc[:400].to_csv("my.csv", index=False)
    outcome = done("train", "my.csv", *SMALL, "trainer.max_steps=1")
    assert latest().name.endswith("_my_tiny_prob")
    (line,) = (line for line in outcome.out.splitlines() if line.startswith("try: "))
    assert "informer train dataset=csv dataset.path=my.csv dataset.split.kind=rows dataset.split.train=200 " in line
    assert "pred_len=6 model=linear" in line
    few = ["model=linear", "dataset.split.train=40", "dataset.split.val=30"]
    maps = done("train", "my.csv", "target=demand", *SMALL[1:], *few)
    assert latest().name.endswith("_my_linear_demand")
    assert "worse than seasonal naive" in maps.out
    assert "try: " not in maps.out
