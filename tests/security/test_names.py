"""File names with any characters work on the command line."""

import os
import shutil
from pathlib import Path

import pytest
from entry_points import SMALL, Trained, call, done

from informer.base.files import remove_temporary, replacing
from informer.base.runtime import resource
from informer.config.commands import PredictConfig
from informer.config.compose import split_positional
from informer.config.conversion import text_keys

SAMPLE = resource("data/sample.csv")
NAMES = [
    *("a,b.csv", "a\\'b.csv", "${x", "x" * 236 + ".csv", "ü" * 118 + ".csv", "a=b.csv", "[a,b].csv", "{a: b}.csv"),
    *(
        "1e3",
        "true",
        "a b",
        " a",
        "a ",
        "'a'",
        '"a"',
        "a'b",
        "a\\",
        "\\'",
        "a#b",
        "key: value",
        "a\nb",
        "~a",
        "!a",
        "*",
    ),
]
POSIX = pytest.mark.skipif(os.name == "nt", reason="no such names there")


@POSIX
@pytest.mark.parametrize("name", NAMES)
def test_predict_reads_and_writes_below_any_name(name: str, folder: Path, trained: Trained) -> None:
    """Red if Hydra's grammar sees the name; the long ones leave no room for the name of a temporary file."""
    shutil.copy(SAMPLE, name)
    outcome = call("predict", f"checkpoint={trained.run_dir}", f"input={name}", f"output={name}.out", "plots=false")
    if len(name) > 100:  # a folder of a longer name cannot be
        outcome = call("predict", f"checkpoint={trained.run_dir}", f"input={name}", "output=out", "plots=false")
    assert outcome.status == 0, outcome.err
    (forecast,) = Path("out" if len(name) > 100 else f"{name}.out").iterdir()
    assert forecast.name == f"{Path(name).stem}.forecast.csv"


RARE = [pytest.param(name, marks=pytest.mark.slow) for name in ("a,b.csv", "'a'", "1e3")]


@POSIX
@pytest.mark.parametrize("name", ["a\\'b.csv", *RARE])
def test_train_and_inspect_and_a_folder_of_that_name(name: str, folder: Path, trained: Trained) -> None:
    shutil.copy(SAMPLE, name)
    assert f"dataset.path={name}"[:14] in call("inspect", name).out
    run = ["train", "dataset=csv", f"dataset.path={name}", *SMALL, "trainer.max_steps=2", f"run_dir=runs/{name}"]
    done(*run)
    assert Path("runs", name, "best.pt").exists()
    done("eval", f"checkpoint=runs/{name}", f"output=eval of {name}")
    assert Path(f"eval of {name}", "metrics.json").exists()


def test_quotes_of_hydra_and_sweeps_stay_what_they_are(folder: Path) -> None:
    """Where there is no file of that name."""
    shutil.copy(SAMPLE, "a,b.csv")
    done("inspect", "input='a,b.csv'")
    sweep = ["--multirun", "dataset=csv", *SMALL, "trainer.max_steps=1"]
    shutil.copy(SAMPLE, "a.csv")
    shutil.copy(SAMPLE, "b.csv")
    done("train", *sweep, "dataset.path=a.csv,b.csv")
    assert len([path for path in Path("runs").iterdir() if path.is_dir()]) == 2
    done("train", *sweep, "dataset.path=a,b.csv", "run_dir=one")


def test_null_is_no_name(folder: Path, trained: Trained) -> None:
    shutil.copy(SAMPLE, "in.csv")
    done("predict", f"checkpoint={trained.run_dir}", "input=in.csv", "future=null", "output=out")


def test_every_path_of_predict_is_known() -> None:
    """Red for a new key that takes a path and is not read as one."""
    paths = {key for key, text in text_keys(PredictConfig).items() if text.is_path}
    assert paths == {"input", "output", "checkpoint", "future", "log", "dataset.attributes"}
    assert split_positional(["a,b"])[0] == ["a,b"]


@pytest.mark.parametrize("name", ["x" * 255, "ü" * 127, "x" * 241, "x" * 240])
def test_what_is_left_below_a_long_name_goes(name: str, folder: Path) -> None:
    with replacing(Path(name)) as temporary:
        temporary.write_text("whole")
    assert Path(name).read_text() == "whole"
    Path(name).rename(temporary)  # as a killed process would have left it
    Path(".x.deadbeef.tmp").touch()
    remove_temporary([Path(name)])
    assert [path.name for path in folder.iterdir()] == [".x.deadbeef.tmp"]
