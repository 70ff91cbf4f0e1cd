"""Long CSV files are read in chunks and put together: the same cells as pandas reads at once, numbers never twice."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from informer.base.errors import InputError
from informer.config.data import DatasetConfig
from informer.read import table as assemble
from informer.read import table as memory
from informer.read import times as timestamps
from informer.read.cells import decoded, is_encoded
from informer.read.columns import has_numbers, has_words, numbers
from informer.read.table import Table, read_table
from informer.read.times import parse_timestamps

N = 40


@pytest.fixture(autouse=True)
def _short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "ROWS", 7)
    monkeypatch.setattr(assemble, "REPEATED", 2)


def table_of(columns: dict[str, list[object]], path: Path, as_text: tuple[str, ...] = ()) -> Table:
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (path / "long.csv").write_text("\n".join(lines) + "\n")
    return read_table(path / "long.csv", DatasetConfig(categorical=[*as_text]))


DATES = [str(day) for day in pd.date_range("2024-01-01", periods=N)]
CASES = {
    "decimals": [i / 8 for i in range(N)],
    "integers": list(range(N)),
    "decimals late": [*range(30), *(i / 8 for i in range(10))],
    "integers late": [*(i / 8 for i in range(10)), *range(30)],
    "integers beyond double precision, then decimals": [2**53 + 1, *(i / 8 for i in range(N - 1))],
    "text that repeats": ["spring", "autumn"] * 20,
    "text that does not": [f"no. {i}" for i in range(N)],
    "text of other lengths": [*(f"no. {i}" for i in range(20)), *(f"number {i}" for i in range(20))],
    "text that does not, with empty cells": ["" if i % 9 == 4 else f"no. {i:02d}" for i in range(N)],
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
        pd.testing.assert_series_equal(decoded(table.frame[column]), expected[column])
    assert list(table.columns) == list(expected.columns)


def test_more_texts_than_short_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the code of a text overflows 16 bits and becomes that of another text or of an empty cell."""
    monkeypatch.setattr(assemble, "ROWS", 10_000)
    names = ["", *np.repeat([f"store {i}" for i in range(33_000)], 3)]
    ids = [names[0], *(["a", "b"] * 5_000), *names[1:]]
    table = table_of({"id": ids, "y": list(range(len(ids)))}, tmp_path)
    assert is_encoded(table.frame["id"])
    assert decoded(table.frame["id"]).fillna("").tolist() == ids


def test_names_keep_their_spelling(tmp_path: Path) -> None:
    names = ["001", "001", "NA", "2"] * 10
    table = table_of({"id": names, "date": DATES, "y": list(range(N))}, tmp_path, as_text=("id",))
    assert is_encoded(table.frame["id"])
    assert table.frame["id"].tolist() == names


def test_decimals_stay_in_one_array(tmp_path: Path) -> None:
    """Red when the numbers of a long file are copied on their way to a series."""
    columns = {name: [i / 8 + place for i in range(N)] for place, name in enumerate("abc")}
    table = table_of({"a": columns["a"], "date": DATES, "b": columns["b"], "c": columns["c"]}, tmp_path)
    values, _ = numbers(table, ["a", "b", "c"])
    np.testing.assert_array_equal(values, np.stack([columns[name] for name in "abc"], axis=1))
    if np.shares_memory(table.frame["a"], table.frame[["a"]]):  # pandas 2 copies columns that are selected
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
    assert is_encoded(table.frame["date"])
    expected = pd.to_datetime(pd.Series(times), format="%Y-%m-%d %H:%M", errors="coerce")
    assert parse_timestamps(table, "date", "ISO8601").equals(pd.DatetimeIndex(expected))


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_times_of_some_rows(zone: str | None, tmp_path: Path) -> None:
    """Red when the rows of one series, which have only some of the file's times, get the times of others."""
    times = [*(["2024-01-31 13:00", "2024-01-31 14:00"] * 10), *(["2024-07-31 15:00", "soon"] * 10)]
    table = table_of({"date": times, "y": list(range(N))}, tmp_path)
    for rows in (slice(0, 20), slice(20, 40), slice(0, 40)):
        part = replace(table, frame=table.frame.iloc[rows])
        expected = pd.to_datetime(pd.Series(times[rows]), format="%Y-%m-%d %H:%M", errors="coerce")
        expected = expected.dt.tz_localize(zone)
        assert parse_timestamps(part, "date", "ISO8601", timezone=zone).equals(pd.DatetimeIndex(expected))


@pytest.mark.parametrize(
    "late", ["2024-02-01 00:00:00.5", "2024-02-01 00:00:00.123456789", "9999-01-01", "2024-02-01T00:00Z", "soon", ""]
)
def test_times_of_several_pieces(late: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when the times after a piece boundary are read in the unit or with the offset of those before."""
    monkeypatch.setattr(timestamps, "PIECE", 3)
    cells = ["2024-01-31 13:00", "2024-01-31 14:00", "2024-01-31 15:00", "2024-01-31 16:00", late, "2024-03-01"]
    table = Table("t", pd.DataFrame({"date": pd.Series(cells, dtype="str")}), first_row=0)
    if late.endswith("Z"):
        with pytest.raises(InputError, match="offset"):
            parse_timestamps(table, "date", "ISO8601")
        return
    expected = [pd.to_datetime(cell, format="ISO8601", errors="coerce") for cell in cells]
    expected = [pd.NaT if time.year == 9999 else time for time in expected]
    times = parse_timestamps(table, "date", "ISO8601")
    assert [str(time) for time in times] == [str(time) for time in expected]


def test_pieces_with_one_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when an offset is lost between pieces."""
    monkeypatch.setattr(timestamps, "PIECE", 3)
    cells = [f"2024-01-31T{hour}:00+01:00" for hour in range(10, 18)]
    table = Table("t", pd.DataFrame({"date": pd.Series(cells, dtype="str")}), first_row=0)
    assert parse_timestamps(table, "date", "ISO8601").tolist() == [pd.Timestamp(cell) for cell in cells]


def test_text_kept_once_is_looked_at_like_other_text(tmp_path: Path) -> None:
    cells = ["1,5", "2,5", "n/a?"] * 13 + ["1,5"]
    (tmp_path / "a.csv").write_text("date;y\n" + "\n".join(f"{d};{c}" for d, c in zip(DATES, cells, strict=True)))
    table = read_table(tmp_path / "a.csv")
    assert is_encoded(table.frame["y"])
    assert has_numbers(table, "y")
    assert has_words(table, "y")
    values, text = numbers(table, ["y"])
    np.testing.assert_array_equal(values[:, 0], [1.5, 2.5, np.nan] * 13 + [1.5])
    np.testing.assert_array_equal(text["y"], np.arange(2, N, 3))


def test_only_much_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if each of many small files costs the milliseconds of a call, or a large one leaves its memory in use."""
    calls: list[int] = []
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: SimpleNamespace(malloc_trim=calls.append))
    memory.release_free(memory.LARGE - 1)
    assert calls == []
    memory.release_free(memory.LARGE)
    assert calls == [0]
