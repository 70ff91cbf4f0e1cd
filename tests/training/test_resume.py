"""A run that was stopped and resumed is the run that was never stopped: weights, metrics and curves, bit for bit."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from entry_points import ROOT, SMALL, TENSORBOARD, Trained, assert_same_weights, call, done, refusal
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from informer import checkpoint


def curves(run_dir: Path) -> dict[str, list[tuple[int, float | bytes]]]:
    """Every point of every curve and picture but the throughput, which is the machine's."""
    events = EventAccumulator(str(run_dir), size_guidance={"images": 0, "scalars": 0}).Reload()
    points: dict[str, list[tuple[int, float | bytes]]] = {
        tag: sorted({(point.step, point.value) for point in events.Scalars(tag)})
        for tag in events.Tags()["scalars"]
        if tag != "train/samples_per_second"
    }
    # a finished run that trains on has the scores of both of its ends
    points |= {tag: points[tag][-1:] for tag in points if tag.startswith(("test/", "val/best_loss"))}
    points |= {
        tag: sorted({(image.step, image.encoded_image_string) for image in events.Images(tag)})
        for tag in events.Tags()["images"]
    }
    return points


def table(run_dir: Path) -> list[str]:
    """The different rows of curves.csv but for throughput and final scores; a resumed run may have some twice."""
    lines = (run_dir / "curves.csv").read_text().splitlines()
    return sorted(
        {line for line in lines if not line.startswith(("train/samples_per_second", "test/", "val/best_loss"))}
    )


def assert_same_run(one: Path, other: Path) -> None:
    """Two run directories hold the same run."""
    # a kill after the end leaves the file of a lock that nobody holds
    assert {path.name for path in one.iterdir()} == {path.name for path in other.iterdir()} - {".informer.lock"}
    for name in ("metrics.json", "metrics.csv", "config.yaml"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    for name in ("best.safetensors", "last.safetensors"):
        assert_same_weights(one, other, name)
        first, second = checkpoint.load(one / name), checkpoint.load(other / name)
        assert first.progress == second.progress, name
    assert curves(one) == curves(other) != {}
    assert (one / "losses.csv").read_bytes() == (other / "losses.csv").read_bytes()
    if (one / "losses.png").exists():
        assert (one / "losses.png").read_bytes() == (other / "losses.png").read_bytes()
    if (one / "curves.csv").exists():
        assert table(one) == table(other)


@pytest.mark.slow
def test_killed_at_twelve_moments(folder: Path) -> None:
    """Red if a generator, a sum, Adam's state or the place in the epoch is lost, or a point of a curve is doubled."""
    script = Path(__file__).with_name("killed_runs.py")
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script), "0", "12"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    moments = done.stdout.splitlines()
    assert len(moments) == 12
    assert len(set(moments)) >= 8, moments
    runs = sorted(folder.glob("killed-*"))
    assert len(runs) >= 3
    for each in runs:
        assert_same_run(folder / "whole", each)


SAMPLE = ["dataset=sample", *SMALL, TENSORBOARD, "trainer.max_epochs=2"]


def test_a_finished_run_says_so(trained: Trained, tree: Callable[[Path], object]) -> None:
    before = tree(trained.run_dir)
    outcome = done("train", f"resume={trained.run_dir}")
    assert f"{trained.run_dir} is finished: nothing to resume" in outcome.out
    assert tree(trained.run_dir) == before


def test_data_may_move_but_not_change(folder: Path) -> None:
    """Red if `data_dir=` next to `resume=` is read and not used, or if a run goes on with another file."""
    Path("before").mkdir()
    shutil.copy(ROOT / "data" / "sample.csv", "before/own.csv")
    arguments = ["dataset=csv", "dataset.file=own.csv", "data_dir=before", *SMALL, "trainer.max_steps=1", "run_dir=run"]
    done("train", *arguments)
    Path("run/metrics.json").unlink()
    Path("before").rename("after")
    assert call("train", "resume=run").status == 2
    Path("after/own.csv").write_text((ROOT / "data" / "sample.csv").read_text() + "\n")
    assert "own.csv has changed since" in refusal("train", "resume=run", "data_dir=after")
    shutil.copy(ROOT / "data" / "sample.csv", "after/own.csv")
    done("train", "resume=run", "data_dir=after")


@pytest.mark.slow
def test_a_finished_run_trains_on_as_one_of_that_length(folder: Path) -> None:
    """Red if weights, scores, curves or config.yaml differ in a bit, or a point of a curve is there twice."""
    constant = ["dataset=sample", *SMALL, "optim.schedule=constant", "trainer.tracker=[tensorboard,csv]"]
    done("train", *constant, "trainer.max_epochs=4", "run_dir=whole")
    done("train", *constant, "trainer.max_epochs=2", "run_dir=run")
    assert "continuing from step" not in done("train", "resume=run", "trainer.max_epochs=4").out
    assert_same_run(Path("whole"), Path("run"))
    for name in ("best.safetensors", "last.safetensors"):
        assert checkpoint.load(Path("run") / name).config["trainer"]["max_epochs"] == 4
    assert "is finished" in call("train", "resume=run").out
    assert json.loads(Path("run/run.json").read_text())["digests"]


@pytest.mark.slow
def test_after_an_early_stop_patience_is_named(folder: Path) -> None:
    """Red if the patience of the checkpoint wins over the one given: the run would end at once."""
    early = [
        "dataset=sample", *SMALL, "optim.schedule=constant", "trainer.patience=1", "trainer.max_epochs=9",
        "optim.lr=0.5", "run_dir=run",
    ]  # fmt: skip
    done("train", *early)
    epochs = checkpoint.load(Path("run/last.safetensors")).progress.epoch
    assert epochs < 9
    line = refusal("train", "resume=run", "trainer.max_epochs=12")
    assert "trainer.patience=1, expected more than the 1 epochs since the lowest validation loss" in line
    done("train", "resume=run", "trainer.patience=2")
    assert checkpoint.load(Path("run/last.safetensors")).progress.epoch > epochs


@pytest.mark.slow
def test_a_schedule_over_the_whole_run_says_how_it_goes_on(folder: Path) -> None:
    """The rate of half a cosine: 0 at its end, half of lr in its middle."""
    arguments = ["dataset=sample", *SMALL, "optim.schedule=cosine", "optim.lr=0.001", "trainer.max_steps=3"]
    done("train", *arguments, "trainer.patience=9", "run_dir=run")
    outcome = done("train", "resume=run", "trainer.max_steps=6")
    said = " ".join(outcome.out.split())
    assert "optim.schedule=cosine, whose rate changes from 0 to 0.0005: depends on the total length" in said
    assert "now 6 steps; continuing from step 3" in said
