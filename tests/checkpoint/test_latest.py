"""`runs/latest`: a text file with the name of the newest run, which commands follow and TensorBoard does not."""

from pathlib import Path

import pytest
from entry_points import SMALL, TENSORBOARD, Trained, call, done, refusal
from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

from informer import checkpoint
from informer.checkpoint import locate

TRAIN = ["dataset=sample", *SMALL, "trainer.max_steps=1"]


@pytest.mark.slow
def test_tensorboard_shows_each_run_once(folder: Path) -> None:
    """Red if the newest run has two names below `runs`; the oracle is TensorBoard's own search."""
    for name in ("one", "two"):
        done("train", *TRAIN, TENSORBOARD, f"run_dir=runs/{name}")
    assert set(EventMultiplexer().AddRunsFromDirectory("runs").Reload().Runs()) == {"one", "two"}
    assert Path("runs/latest").read_text() == "two\n"


def test_every_command_follows_it(folder: Path, trained: Trained) -> None:
    Path("runs").mkdir()
    Path("runs/mine").symlink_to(trained.run_dir)
    Path("runs/latest").write_text("mine\n")
    sample = f"input={Path(__file__).parents[2] / 'data' / 'sample.csv'}"
    for command in (
        ["eval", "output=scores", "plots=none"], ["predict", sample], ["export", "output=model.safetensors"],
        ["report", "runs/latest", "output=report.html"], ["compare", "runs/latest"], ["train", "resume=runs/latest"],
        ["eval", "checkpoint=runs/latest/last.safetensors", "output=scores_of_last", "plots=none"],
    ):  # fmt: skip
        done(*command)
    assert checkpoint.load(Path("runs/latest")).progress.step == checkpoint.load(trained.run_dir).progress.step


def test_a_link_of_the_user_is_followed_and_stays(folder: Path, trained: Trained) -> None:
    Path("runs").mkdir()
    Path("runs/latest").symlink_to(trained.run_dir)
    assert locate("runs/latest") == Path("runs/latest/best.safetensors")
    done("train", *TRAIN, "run_dir=runs/new")
    assert Path("runs/latest").readlink() == trained.run_dir


def test_other_content_leads_nowhere(folder: Path) -> None:
    """Fails if a file called latest points out of its folder, or is overwritten although it does not name a run."""
    Path("runs").mkdir()
    for content in (b"/etc\n", b"a\nb\n", b"\xff\xfe", b"", b"..", b"x" * 300, b"../secret\n"):
        Path("runs/latest").write_bytes(content)
        assert locate("runs/latest") == Path("runs/latest")
    done("train", *TRAIN, "run_dir=runs/new")
    assert Path("runs/latest").read_bytes() == content


def test_a_run_that_is_gone_is_named(folder: Path) -> None:
    Path("runs").mkdir()
    Path("runs/latest").write_text("gone\n")
    outcome = call("eval")
    assert outcome == (2, "", "error: checkpoint: runs/gone does not exist; give a run directory or a model file\n")


def test_a_run_without_an_epoch_says_how_it_goes_on(folder: Path) -> None:
    Path("runs/one").mkdir(parents=True)
    Path("runs/one/config.yaml").write_text("seed: 0\n")
    Path("runs/latest").write_text("one\n")
    line = refusal("eval")
    expected = "interrupted before its first epoch ended; continue with: informer train resume=runs/one"
    assert f"runs/one was {expected}" in line
    assert call("report", "runs/latest").err == f"error: input=runs/one: {expected}\n"
