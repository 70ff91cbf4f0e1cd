"""Long CSV files are read in chunks and put together: the same cells as pandas reads at once, numbers never twice."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from informer.data.read import assemble, memory
from informer.data.read.cells import is_kept_once, written
from informer.data.read.numeric import has_numbers, has_words, numbers
from informer.data.read.table import Table, read_table
from informer.data.read.timestamps import parse_timestamps

N = 40


@pytest.fixture(autouse=True)
def _short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "ROWS", 7)
    monkeypatch.setattr(assemble, "REPEATED", 2)


def table_of(columns: dict[str, list[object]], path: Path, as_text: tuple[str, ...] = ()) -> Table:
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (path / "long.csv").write_text("\n".join(lines) + "\n")
    return read_table(path / "long.csv", as_text=as_text)


DATES = [str(day) for day in pd.date_range("2024-01-01", periods=N)]
CASES = {
    "decimals": [i / 8 for i in range(N)],
    "integers": list(range(N)),
    "decimals late": [*range(30), *(i / 8 for i in range(10))],
    "integers late": [*(i / 8 for i in range(10)), *range(30)],
    "integers beyond double precision, then decimals": [2**53 + 1, *(i / 8 for i in range(N - 1))],
    "text that repeats": ["spring", "autumn"] * 20,
    "text that does not": [f"no. {i}" for i in range(N)],
    "text late": [*range(39), "none"],
    "empty cells late": [*range(39), ""],
    "no cell at first": [*[""] * 20, *range(20)],
    "text with empty cells": ["a", "", "b", "a"] * 10,
    "truth values": ["True", "False"] * 20,
    "numbers as text at the end": ["x"] * 30 + ["1"] * 10,
}


@pytest.mark.parametrize("case", CASES)
def test_the_cells_are_those_of_the_whole_file(case: str, tmp_path: Path) -> None:
    """Red when the type of a column, or a cell, depends on where a chunk ends."""
    table = table_of({"date": DATES, "x": CASES[case], "y": [i / 4 for i in range(N)]}, tmp_path)
    expected = pd.read_csv(tmp_path / "long.csv", low_memory=False)
    for column in expected:
        pd.testing.assert_series_equal(written(table.frame[column]), expected[column])
    assert list(table.columns) == list(expected.columns)


def test_names_keep_their_spelling(tmp_path: Path) -> None:
    names = ["001", "001", "NA", "2"] * 10
    table = table_of({"id": names, "date": DATES, "y": list(range(N))}, tmp_path, as_text=("id",))
    assert is_kept_once(table.frame["id"])
    assert table.frame["id"].tolist() == names


def test_decimals_stay_in_one_array(tmp_path: Path) -> None:
    """Red when the numbers of a long file are copied on their way to a series."""
    columns = {name: [i / 8 + place for i in range(N)] for place, name in enumerate("abc")}
    table = table_of({"a": columns["a"], "date": DATES, "b": columns["b"], "c": columns["c"]}, tmp_path)
    values, _ = numbers(table, ["a", "b", "c"])
    np.testing.assert_array_equal(values, np.stack([columns[name] for name in "abc"], axis=1))
    assert np.shares_memory(values, numbers(table.without(["date"]), ["a", "b", "c"])[0])


def test_blank_rows_at_the_end_are_left_out(tmp_path: Path) -> None:
    table_of({"date": DATES, "y": list(range(N))}, tmp_path)
    with (tmp_path / "long.csv").open("a") as file:
        file.write(",\n" * 30)
    assert len(read_table(tmp_path / "long.csv").frame) == N


def test_times_that_repeat_are_read_once(tmp_path: Path) -> None:
    """Red when a text kept once is read as another time, or an empty or unreadable cell as one."""
    times = [*(["2024-01-31 13:00", "2024-01-31 14:00"] * 19), "", "soon"]
    table = table_of({"date": times, "y": list(range(N))}, tmp_path)
    assert is_kept_once(table.frame["date"])
    expected = pd.to_datetime(pd.Series(times), format="%Y-%m-%d %H:%M", errors="coerce")
    assert parse_timestamps(table, "date", "ISO8601").equals(pd.DatetimeIndex(expected))


def test_text_kept_once_is_looked_at_like_other_text(tmp_path: Path) -> None:
    cells = ["1,5", "2,5", "n/a?"] * 13 + ["1,5"]
    (tmp_path / "a.csv").write_text("date;y\n" + "\n".join(f"{d};{c}" for d, c in zip(DATES, cells, strict=True)))
    table = read_table(tmp_path / "a.csv")
    assert is_kept_once(table.frame["y"])
    assert has_numbers(table, "y")
    assert has_words(table, "y")
    values, text = numbers(table, ["y"])
    np.testing.assert_array_equal(values[:, 0], [1.5, 2.5, np.nan] * 13 + [1.5])
    np.testing.assert_array_equal(text["y"], np.arange(2, N, 3))


def test_only_much_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if each of many small files costs the milliseconds of a call, or a large one leaves its memory in use."""
    calls: list[int] = []
    monkeypatch.setattr(memory, "_c_library", lambda: SimpleNamespace(malloc_trim=calls.append))
    memory.give_back(memory.LARGE - 1)
    assert calls == []
    memory.give_back(memory.LARGE)
    assert calls == [0]
