"""File names with any characters work on the command line; the content of a file cannot control the terminal."""

import csv
import io
import logging
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT, SMALL, Trained, call, done
from rich.console import Console
from stores import read_written

from informer import InputError
from informer.base.console import logging_to, say
from informer.base.errors import MOST_SIGNS, ReportError, printable
from informer.base.files import remove_temporary, replacing
from informer.config.commands import PredictConfig
from informer.config.compose import split_positional
from informer.config.fields import facts_of, keys_of
from informer.inference.writing import _text
from informer.read.table import listed, shown

SAMPLE = ROOT / "data/sample.csv"
NAMES = [
    *("a,b.csv", "a\\'b.csv", "${x", "x" * 236 + ".csv", "ü" * 118 + ".csv", "a=b.csv", "[a,b].csv", "{a: b}.csv"),
    *("1e3", "true", "a b", " a", "a ", "'a'", '"a"', "a'b", "a\\", "\\'", "a#b"),
    *("key: value", "a\nb", "~a", "!a", "*"),
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


@pytest.mark.slow
@POSIX
@pytest.mark.parametrize("name", ["a\\'b.csv", *RARE])
def test_train_and_inspect_and_a_folder_of_that_name(name: str, folder: Path, trained: Trained) -> None:
    shutil.copy(SAMPLE, name)
    assert f"dataset.path={name}"[:14] in call("inspect", name).out
    run = ["train", "dataset=csv", f"dataset.path={name}", *SMALL, "trainer.max_steps=2", f"run_dir=runs/{name}"]
    done(*run)
    assert Path("runs", name, "best.safetensors").exists()
    done("eval", f"checkpoint=runs/{name}", f"output=eval of {name}")
    assert Path(f"eval of {name}", "metrics.json").exists()


@pytest.mark.slow
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
    paths = {key for key, field in keys_of(PredictConfig).items() if facts_of(field)["is_path"]}
    assert paths == {"input", "output", "checkpoint", "future", "log"}
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


ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\u202e\u2066"


def is_harmless(text: str) -> bool:
    return all(sign == "\n" or sign.isprintable() for sign in text)


def test_signs_of_a_file_are_written_as_escapes() -> None:
    assert printable("größe 温度 😀 \n") == "größe 温度 😀 \n"
    assert printable("\x1b[2Ja\tb\u202e") == r"\x1b[2Ja\tb\u202e"
    for error in (InputError(ESCAPES), ReportError([ESCAPES, "b"])):
        assert is_harmless(str(error))
    assert is_harmless("".join(ReportError([ESCAPES]).lines) + listed([ESCAPES, "a\nb"]))
    assert len(listed(["a\nb"]).splitlines()) == 1


def test_the_log_and_the_console(tmp_path: Path) -> None:
    """Red if a name is written to the terminal or the log file without escaping."""
    console = Console(file=io.StringIO(), force_terminal=False)
    with logging_to(console) as keep_in:
        keep_in(tmp_path / "run.log")
        logging.getLogger("informer.data").warning(ESCAPES)
        say(console, ESCAPES)
    assert isinstance(console.file, io.StringIO)
    for text in (console.file.getvalue(), (tmp_path / "run.log").read_text()):
        assert r"\x1b[2J" in text
        assert is_harmless(text)


@pytest.mark.parametrize("spoilt", [False, True])
def test_inspect_of_a_file_with_escapes_everywhere(spoilt: bool, tmp_path: Path) -> None:
    times = pd.date_range("2024-01-01", periods=300, freq="h").astype(str)
    frame = pd.DataFrame({"date": times, f"a{ESCAPES}": np.arange(300.0), f"t{ESCAPES}": ESCAPES})
    if spoilt:
        frame.iloc[7, 1] = np.nan
        frame.iloc[9, 0] = ESCAPES
    frame.to_csv(tmp_path / "f.csv", index=False, quoting=csv.QUOTE_ALL)
    outcome = call("inspect", str(tmp_path / "f.csv"))
    assert outcome.status == 2 * spoilt
    assert r"\x1b[2J" in outcome.out
    assert is_harmless(outcome.out + outcome.err)


def test_messages_are_bounded(tmp_path: Path) -> None:
    """Red if a cell or a name of a megabyte is printed."""
    long = "x" * 1_000_000
    assert len(shown(long)) < 200
    assert len(listed([long] * 50)) < 2000
    assert len(str(InputError(long))) == MOST_SIGNS
    frame = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=40).astype(str), long: 1.5, "b": 2.5})
    frame["b"] = frame["b"].astype(object)
    frame.loc[3, "b"] = long
    with pytest.raises(InputError) as error:
        read_written(frame, tmp_path)
    assert all(len(line) <= MOST_SIGNS for line in str(error.value).splitlines())


def test_a_carriage_return_stays_within_its_cell(tmp_path: Path) -> None:
    """Red if a name with one is written without quotes: pandas then reads two rows."""
    path = tmp_path / "long.csv"
    path.write_text(_text([["unique_id", "y"], ["a\rb", 1.5], ["c", 2.5]]), newline="")
    table = pd.read_csv(path)
    assert table["unique_id"].tolist() == ["a\rb", "c"]
    assert table["y"].tolist() == [1.5, 2.5]
    assert _text([["unique_id", "y"], ["c", 2.5]]) == "unique_id,y\nc,2.5\n"
