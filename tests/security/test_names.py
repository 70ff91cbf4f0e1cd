"""File names with any characters work on the command line; the content of a file cannot control the terminal."""

import csv
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT, SMALL, Trained, call, done

SAMPLE = ROOT / "data/sample.csv"
NAMES = ["${x", "x" * 236 + ".csv", "ü" * 118 + ".csv", "a=b.csv", "[a,b].csv", "{a: b}.csv", "1e3", " a ", "'a'"]
NAMES += ["a\\'", "a#b", "key: value", "a\nb", "~a", "*"]
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


ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\u202e\u2066"


def is_harmless(text: str) -> bool:
    return all(sign == "\n" or sign.isprintable() for sign in text)


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


def test_the_log_of_a_run_and_its_errors(folder: Path) -> None:
    """Red if a name is written to the terminal or the log file without escaping."""
    times = pd.date_range("2024-01-01", periods=320, freq="h").astype(str)
    frame = pd.DataFrame({"date": times, f"a{ESCAPES}": np.arange(320.0) % 7, f"t{ESCAPES}": ESCAPES})
    frame.to_csv("f.csv", index=False, quoting=csv.QUOTE_ALL)
    outcome = done("train", "dataset=csv", "dataset.path=f.csv", *SMALL, "trainer.max_steps=1", "run_dir=run")
    for text in (outcome.out, Path("run/train.log").read_text()):
        assert r"\x1b[2J" in text
        assert is_harmless(text)
    assert is_harmless(call("train", "dataset=csv", "dataset.path=f.csv", f"target={ESCAPES}", *SMALL).err)


def test_messages_are_bounded(folder: Path) -> None:
    """Red if a cell or a name of a megabyte is printed."""
    long = "x" * 100_000
    frame = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=40).astype(str), long: 1.5, "b": 2.5})
    frame["b"] = frame["b"].astype(object)
    frame.loc[3, "b"] = long
    frame.to_csv("f.csv", index=False)
    error = call("train", "dataset=csv", "dataset.path=f.csv", *SMALL).err
    assert "row 5, column 'b'" in error
    assert all(len(line) <= 2010 for line in error.splitlines())


def test_a_carriage_return_stays_within_its_cell(folder: Path) -> None:
    """Red if a name with one is written without quotes: pandas then reads two rows."""
    days = pd.date_range("2024-01-01", periods=60).astype(str)
    parts = [pd.DataFrame({"name": name, "day": days, "y": np.arange(60) % 7.0}) for name in ("a\rb", "c")]
    pd.concat(parts).to_csv("f.csv", index=False, quoting=csv.QUOTE_ALL)
    done("forecast", "f.csv", "dataset.series_col=name", "horizon=2", "output=o")
    assert pd.read_csv("o/forecasts/f.forecast.csv")["name"].tolist() == ["a\rb"] * 2 + ["c"] * 2
