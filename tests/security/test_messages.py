"""The content of a file cannot control the terminal, and messages have a limited length."""

import csv
import io
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import call
from rich.console import Console
from stores import read_series

from informer.base.console import logging_to, say
from informer.base.errors import MOST_SIGNS, InputError, ReportError, printable
from informer.config.data import DatasetConfig
from informer.inference.writing import _text
from informer.read.table import listed, shown

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
    frame.to_csv(tmp_path / "f.csv", index=False)
    with pytest.raises(InputError) as error:
        read_series(tmp_path / "f.csv", DatasetConfig())
    assert all(len(line) <= MOST_SIGNS for line in str(error.value).splitlines())


def test_a_carriage_return_stays_within_its_cell(tmp_path: Path) -> None:
    """Red if a name with one is written without quotes: pandas then reads two rows."""
    path = tmp_path / "long.csv"
    path.write_text(_text([["unique_id", "y"], ["a\rb", 1.5], ["c", 2.5]]), newline="")
    table = pd.read_csv(path)
    assert table["unique_id"].tolist() == ["a\rb", "c"]
    assert table["y"].tolist() == [1.5, 2.5]
    assert _text([["unique_id", "y"], ["c", 2.5]]) == "unique_id,y\nc,2.5\n"
