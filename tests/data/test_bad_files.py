"""Every kind of invalid file: one line for each problem, with its first place, their number and what to do."""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dataset_cases import made, write
from stores import read_series, read_written, series_from_frame

from informer import InputError
from informer.base.errors import ReportError
from informer.config.data import DatasetConfig
from informer.config.model import WindowSizes
from informer.data.panel import read_panel
from informer.read.checks import MOST_LINES

GOOD = "date,a,b\n2020-01-01 00:00,1,2\n2020-01-01 01:00,3,4\n2020-01-01 02:00,5,6\n2020-01-01 03:00,7,8\n"


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def zipped(files: dict[str, str]) -> bytes:
    """An archive of files, stored as they are."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


# what is wrong -> text of the file, part of the error
FILES: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "the file is empty"),
    "blank lines only": ("\n\n", "empty|header"),
    "header only": ("date,a\n", "a header without rows"),
    "binary": (b"PK\x03\x04\0\0\0", "a binary file, expected CSV text"),
    "a workbook": (b"PK\x03\x04without a zero byte", "save the sheet of another workbook as .xlsx or CSV"),
    "a workbook of an older program": (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0",
        "cannot be read as an Excel workbook",
    ),
    "an archive of two files": (zipped({"a.csv": GOOD, "b.csv": GOOD}), "unpack the archive"),
    "an archive cut short": (zipped({"a.csv": GOOD})[:-9], "unpack the archive"),
    "JSON": ('[{"date": "2024-01-01", "a": 1}]', r"expected CSV text, found JSON; pandas.read_json\(FILE\).to_csv"),
    "lines of JSON": ('{"date": "2024-01-01", "a": 1}\n', "expected CSV text, found JSON"),
    "a web page": ("<!DOCTYPE html>\n<html><h1>404</h1></html>\n", "found a web page or XML"),
    "a packed file cut short": (gzip.compress(GOOD.encode())[:40], "cannot be read"),
    "parquet cut short": (b"PAR1" + bytes(40), "cannot be read as parquet"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_bad_file_is_one_line(what: str, tmp_path: Path) -> None:
    content, message = FILES[what]
    path = tmp_path / "f.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message) as error:
        read_series(path, DatasetConfig())
    assert "\n" not in str(error.value)
    assert "f.csv" in str(error.value)


SIZES = WindowSizes(seq_len=24, label_len=5, pred_len=8)
NUMBER = "or exclude the column with dataset.exclude"
FILL = "set dataset.fill=ffill, linear or zero, or mask, which keeps gaps"


def told(path: Path, config: DatasetConfig | None = None, sizes: WindowSizes | None = None) -> list[str]:
    with pytest.raises(ReportError) as error:
        read_series(path, config or DatasetConfig(), sizes=sizes)
    assert str(error.value).splitlines() == list(error.value.lines)
    return list(error.value.lines)


def test_all_problems_at_once(tmp_path: Path) -> None:
    """Places by hand: the row is the line of the file, the header being line 1."""
    frame = made(60).astype({"date": str, "a": object}).assign(price=0.5)
    frame.loc[[5, 6], "a"] = ["x", "y"]
    frame.loc[9, "b"] = np.inf
    frame.loc[[11, 12, 30], "c"] = np.nan
    frame.loc[20, "date"] = "soon"
    frame.loc[40, "date"] = frame.loc[39, "date"]
    frame.loc[50:, "date"] = (pd.to_datetime(frame.loc[50:, "date"]) + pd.Timedelta("4h")).astype(str)
    frame.loc[55, "date"] = "2020-01-03 11:20:00"
    path = write(frame.iloc[[*range(45), 46, 45, *range(47, 60)]], tmp_path / "f.csv")
    path.write_text(path.read_text().replace("price", "c", 1))
    assert told(path, sizes=SIZES) == [
        "f.csv, row 1: column names repeat: 'c'; rename them",
        "f.csv, row 22, column 'date': expected a date, found 'soon'; fix the cell",
        "f.csv, row 42, column 'date': duplicate timestamp 2020-01-02 15:00:00 "
        "(1 of 59 rows repeat a time); keep one row per time, or, for a file of several series, set "
        "dataset.series_col; for times of day in another column, dataset.clock_col; to drop this row, "
        "dataset.duplicates=first dataset.confirm=[duplicates]",
        "f.csv, row 48, column 'date': expected a time after 2020-01-02 22:00:00, found 2020-01-02 21:00:00; "
        "sort the rows by time, or set dataset.sort=true",
        "f.csv, row 43, column 'date': expected 2020-01-02 16:00:00 (step h), found 2020-01-02 17:00:00: "
        f"5 rows are missing in 2 gaps; {FILL}",
        "f.csv, row 57, column 'date': expected 2020-01-03 11:00:00 (step h), found 2020-01-03 11:20:00 "
        "(2 steps of another length); write rows at equal steps",
        "f.csv, row 7, column 'a': expected a number, found 'x' (2 such cells); fix the cell, if it means a missing "
        f"value set dataset.missing_values=[x,y], {NUMBER}",
        f"f.csv, row 11, column 'b': expected a number, found 'inf'; fix the cell, {NUMBER}",
        f"f.csv, row 13, column 'c': expected a number, found an empty cell or NaN (3 such cells); {FILL}, {NUMBER}",
        "f: 60 rows are too few for seq_len=24, pred_len=8 and split ratio 0.7/0.1/0.2: "
        "val needs 8, has 6, at least 64 in all; shorten seq_len or pred_len, or change dataset.split, "
        "or, next to longer series, set dataset.short=skip or pad; or forecast without training: informer forecast "
        "FILE (in Python, Forecaster().predict)",
    ]


def test_constant_columns_are_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    frame = made(30).assign(flag=2.5)
    series = read_written(frame, tmp_path)
    assert len(series) == 30
    assert caplog.messages == [
        "f.csv, column 'flag': 2.5 in every row; exclude it with dataset.exclude unless it will change"
    ]
    caplog.clear()
    series_from_frame(frame, DatasetConfig(), "mine", history=5)
    assert caplog.messages == []


def test_more_problems_than_can_be_read_are_counted(tmp_path: Path) -> None:
    """Red if the same problem of many files is a line for each, or problems of different kinds have no end."""
    alike = [write(made(30).assign(a=np.nan), tmp_path / f"f{place:02}.csv") for place in range(57)]
    with pytest.raises(ReportError) as error:
        read_panel(alike, DatasetConfig(), None)
    first, others = error.value.lines
    assert first.startswith("f00.csv, row 2, column 'a': expected a number, found an empty cell or NaN (30 such cells)")
    assert others == "the same in 56 more series: f01.csv, f02.csv, f03.csv, f04.csv, f05.csv, f06.csv and 50 more"
    for place, path in enumerate(alike):
        path.write_text(f"date,{'x' * (place + 1)}\n2024-01-01,1\n")
    with pytest.raises(ReportError) as error:
        read_panel(alike, DatasetConfig(), None)
    assert len(error.value.lines) == MOST_LINES + 1
    assert error.value.lines[-1] == "and 7 more problems"


@pytest.mark.parametrize("as_panel", [False, True])
def test_many_columns_with_the_same_problem_are_two_lines(tmp_path: Path, as_panel: bool) -> None:
    """Red if each column is listed, or if the lines of a file are counted once more as those of a panel."""
    frame = pd.DataFrame(0.5, index=made(30)["date"], columns=[f"c{i}" for i in range(300)])
    frame.iloc[3] = np.nan
    path = write(frame.reset_index(), tmp_path / "f.csv")
    with pytest.raises(ReportError) as error:
        read_panel([path], DatasetConfig(), None) if as_panel else read_series(path, DatasetConfig())
    first, others = error.value.lines
    assert first.startswith("f.csv, row 5, column 'c0': ")
    assert others == "the same in 299 more columns: c1, c2, c3, c4, c5, c6 and 293 more"


def test_only_the_history_that_is_needed_is_checked(tmp_path: Path) -> None:
    """The same faults in values and steps before the last rows, where nobody looks, and in the first of them."""
    sound = made(60).astype({"date": str})
    for row, ends_well in ((39, True), (40, False)):
        for fault in ("text", "gap"):
            frame = sound.astype({"a": object})
            if fault == "text":
                frame.loc[row, "a"] = "x"
            else:
                frame = frame.drop(index=row + 1 if not ends_well else row)
            if ends_well:
                series = series_from_frame(frame, DatasetConfig(), "mine", history=20)
                np.testing.assert_array_equal(series.values, sound[["a", "b", "c"]].iloc[-20:])
                assert series.timestamps[0] == pd.Timestamp(sound["date"].iloc[-20])
            else:
                with pytest.raises(ReportError, match=r"mine, row 4[01], column"):
                    series_from_frame(frame, DatasetConfig(), "mine", history=20)


def test_too_little_history_is_told_with_the_rest() -> None:
    frame = made(7).astype({"a": object})
    frame.loc[2, "a"] = "x"
    with pytest.raises(ReportError) as error:
        series_from_frame(frame, DatasetConfig(), "mine", history=20)
    assert error.value.lines[1:] == ("mine: expected at least seq_len=20 rows of history, found 7",)
