"""Series stacked in one table: those without problems are read together, with the same result as one by one."""

import logging

import numpy as np
import pandas as pd
import pytest
from dataset_cases import SIZES

from informer.base.errors import InputError, ReportError
from informer.config.data import DatasetConfig, Short
from informer.data import panel
from informer.data.panel import LongTable, read_panel, series_codes
from informer.read.cells import dictionary_encoded
from informer.read.series import Series, series_from_table
from informer.read.table import Table, table_of_frame

CONFIG = DatasetConfig(series_col="id", short=Short.pad)


def frame_of(**starts: str) -> pd.DataFrame:
    random = np.random.default_rng(0)
    parts = [
        pd.DataFrame({"date": pd.date_range(start, periods=20 + k, freq="h"), "id": name}).assign(
            a=random.normal(size=20 + k), b=random.integers(0, 9, 20 + k)
        )
        for k, (name, start) in enumerate(starts.items())
    ]
    return pd.concat(parts, ignore_index=True)


FRAME = frame_of(z="2024-01-01", y="2024-01-01", x="2023-05-02 07:00", w="2024-01-01")


def read(frame: pd.DataFrame, config: DatasetConfig = CONFIG) -> list[Series]:
    return read_panel(table_of_frame(frame, "sales"), config, SIZES)


@pytest.mark.parametrize("order", ["together", "by time"])
def test_each_series_has_its_own_rows(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when rows go to another series, or every series is looked at by itself, which is slow."""
    frame = FRAME if order == "together" else FRAME.sort_values("date", kind="stable")
    looked_at = []

    def counted(table: Table, *given: object, **named: object) -> Series:
        looked_at.append(table.name)
        return series_from_table(table, *given, **named)

    monkeypatch.setattr(panel, "series_from_table", counted)
    tables = read(frame)
    names = list(dict.fromkeys(frame["id"]))
    assert [one.name for one in tables] == names
    for one in tables:
        rows = frame[frame["id"] == one.name]
        assert one.timestamps.equals(pd.DatetimeIndex(rows["date"]))
        np.testing.assert_array_equal(one.values, rows[["a", "b"]].to_numpy())
        assert (one.n_rows, one.columns, one.frequency.code) == (len(rows), ("a", "b"), "h")
    assert looked_at == [f"sales, id {names[0]}"]


def test_the_same_times_are_one_object() -> None:
    frame = frame_of(a="2024-01-01", b="2024-01-01").groupby("id").head(20)
    first, second = read(frame)
    assert first.timestamps is second.timestamps


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"a": np.nan}, "sales, id y, row 25, column 'a': expected a number, found an empty cell or NaN"),
        ({"a": 1e31}, "sales, id y, row 25, column 'a': expected a number of at most 1e\\+30"),
        ({"date": pd.Timestamp("2024-01-01 04:00")}, "sales, id y, row 25, column 'date': duplicate timestamp"),
        ({"date": pd.Timestamp("2024-01-01 05:30")}, "sales, id y, row 25, column 'date': expected 2024-01-01 05:00"),
    ],
)
def test_a_flaw_is_reported_with_its_row(change: dict[str, object], problem: str) -> None:
    """Fails when a series that has something to report is read together with the others."""
    frame = FRAME.copy()
    for column, value in change.items():
        frame.loc[25, column] = value
    with pytest.raises(ReportError, match=problem):
        read(frame)


def test_a_constant_column_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    frame = FRAME.assign(b=FRAME["b"].where(FRAME["id"] != "x", 3))
    with caplog.at_level(logging.WARNING):
        read(frame)
    assert [line for line in caplog.messages if "id x, column 'b': 3 in every row" in line]


def test_short_series_are_refused_by_name() -> None:
    with pytest.raises(ReportError, match="y: 21 rows are too few"):
        read(FRAME, DatasetConfig(series_col="id"))


@pytest.mark.parametrize(
    "codes", [[0, 0, 1, 2, 1], [1, 0, 2], [0, 2, 2], [0, 2, 1], [2, 2], [0, 1, 2, 0]], ids=lambda codes: str(codes)
)
def test_texts_kept_once_are_numbered_by_their_first_rows(codes: list[int]) -> None:
    """As pandas numbers them; red if the numbers of a whole file are taken for those of some of its rows."""
    cells = dictionary_encoded(np.array(codes, dtype=np.int32), ["b", "a", "c"])
    frame = pd.DataFrame({"id": cells, "y": 0.0})
    numbers, names = series_codes(Table("t.csv", frame, first_row=2), "id")
    expected, texts = pd.factorize(cells.astype(str))
    assert (numbers.tolist(), list(names)) == (expected.tolist(), list(texts))
    parts = [name for _, name in LongTable.of(Table("t.csv", frame, first_row=2), "id").tables()]
    assert parts == list(texts)


def test_a_text_kept_once_that_is_empty() -> None:
    """Red if the empty cell, whose number is -1, counts as a series."""
    cells = dictionary_encoded(np.array([0, -1, 1], dtype=np.int32), ["b", "a"])
    table = Table("t.csv", pd.DataFrame({"id": cells, "y": 0.0}), first_row=2)
    with pytest.raises(InputError, match="row 3, column 'id': expected the name of a series, found an empty cell"):
        series_codes(table, "id")
