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

from informer.base.errors import InputError, ReportError
from informer.config.data import DatasetConfig
from informer.config.fields import check
from informer.config.model import WindowSizes
from informer.data.panel import read_panel
from informer.read.checks import MOST_LINES
from informer.read.frequency import Frequency

GOOD = "date,a,b\n2020-01-01 00:00,1,2\n2020-01-01 01:00,3,4\n2020-01-01 02:00,5,6\n2020-01-01 03:00,7,8\n"
AMBIGUOUS = "date,a\n01/02/2010,1\n02/02/2010,2\n03/02/2010,3\n"


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
    "no time column": (
        "x,y\n1,2\n3,4\n",
        r"no time column found among x, y; name it with dataset.time_col \(=x if it numbers the rows\); if",
    ),
    "text in a number column": (changed("5", "n-a"), "f.csv, row 4, column 'a': expected a number, found 'n-a'"),
    "not available": (changed("5", "n/a"), "f.csv, row 4, column 'a': expected a number, found an empty cell or NaN"),
    "empty cell": (changed("5", ""), "f.csv, row 4, column 'a': expected a number, found an empty cell"),
    "nan": (
        changed("5", "nan"),
        "f.csv, row 4, column 'a': expected a number, found an empty cell or NaN; set dataset.fi",
    ),
    "inf": (changed("8", "inf"), "f.csv, row 5, column 'b': expected a number, found 'inf'"),
    "overflow": (changed("8", "1e999"), "f.csv, row 5, column 'b': expected a number, found '(inf|1e999)'"),
    "decimal comma": (
        changed("5,6", '"5,5",6'),
        "row 4, column 'a': .* found '5,5'; if the comma is its decimal mark, set",
    ),
    "decimal commas": (
        'date,a,b\n2020-01-01,"1,5",1\n2020-01-02,"2,5",2\n',
        "row 2, column 'a': .* set dataset.decimal=','",
    ),
    "empty column": (
        "date,a,b\n2020-01-01,1,\n2020-01-02,2,\n",
        "row 2, column 'b': expected a number, found an empty",
    ),
    "short row": (changed("5,6", "5"), "f.csv, row 4, column 'b': expected a number, found an empty cell"),
    "long row": (
        changed("5,6", "5,6,7"),
        "row 4: expected 3 cells as in the header, found 4 in '2020-01-01 02:00,5,6,7'",
    ),
    "all rows long": ("date,a\n2020-01-01,1,2\n2020-01-02,3,4\n", "row 2: expected 2 cells as in the header, found 3"),
    "open quotation": (changed("5,6", '"5,6'), "row 4: a quotation mark has no partner"),
    "impossible date": (changed("2020-01-01 02:00", "2020-02-30 02:00"), "row 4, column 'date': .*'2020-02-30 02:00'"),
    "no date": (changed("2020-01-01 02:00", "later"), "row 4, column 'date': expected a date, found 'later'"),
    "first date is none": (changed("2020-01-01 00:00", "first"), "row 2, column 'date': expected a date.*'first'"),
    "twice": (
        GOOD + "2020-01-01 03:00,9,9\n",
        "row 6, column 'date': duplicate timestamp 2020-01-01 03:00:00 .1 of 5 rows repeat a time.; keep one row",
    ),
    "back": (
        GOOD + "2019-12-31 23:00,9,9\n",
        "row 6, column 'date': expected a time after .*03:00:00, found .*23:00:00; sort the rows",
    ),
    "gap": (
        changed("03:00", "04:00"),
        r"row 5, column 'date': expected 2020-01-01 03:00:00 \(step h\), found .* 04:00:00: 1 row is missing; set",
    ),
    "no numbers": ("date,a\n2020-01-01,x\n2020-01-02,y\n", "no numeric column next to 'date', found a"),
    "time only": ("date\n2020-01-01\n2020-01-02\n", "no numeric column next to 'date', found none"),
    "repeated names": (changed("date,a,b", "date,a,a"), "row 1: column names repeat: 'a'"),
    "unnamed numbers": (",date,a\n0,2020-01-01,1\n2,2020-01-02,2\n1,2020-01-03,2\n", "row 1: a column has no name"),
    "unnamed at the end": ("date,a,\n2020-01-01,1,0\n2020-01-02,2,1\n", "row 1: a column has no name"),
    "units": ("date,a\n2020-01-01,3 kW\n2020-01-02,4 MW\n", r"found a \(text such as '3 kW'\); write plain numbers"),
    "ambiguous day": (
        AMBIGUOUS,
        r"year is ambiguous in all rows, such as '01/02/2010'; set dataset.time_format='%d/%m/%Y' or '%m/%d/%Y'",
    ),
    "mixed day and month": (
        "date,a\n13/01/2010,1\n01/14/2010,2\n",
        "row 3, column 'date': day and month are swapped, '01/14/2010' against '13/01/2010' in row 2; use one order",
    ),
    "two-digit year": ("date,a\n13/01/10,1\n14/01/10,2\n", "year is ambiguous in all rows, such as '13/01/10'"),
    "years as numbers": ("date,a\n2010,1\n2011,2\n", "expected dates, found numbers such as 2010; set dataset.time_f"),
    "zones that change": (
        "date,a\n2020-03-29 01:00+01:00,1\n2020-03-29 03:00,2\n2020-03-29 04:00+02:00,2\n",
        "row 3, column 'date': expected an offset from UTC as in other rows, found '2020-03-29 03:00'",
    ),
    "one row": ("date,a\n2020-01-01,1\n", "one row does not determine a step; add rows, or forecast without training"),
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


# settings -> part of the error, for the good file
SETTINGS: list[tuple[DatasetConfig, str]] = [
    (DatasetConfig(time_col="when"), "dataset.time_col=when: f.csv has no such column, its columns are date, a, b"),
    (DatasetConfig(columns=["b", "x", "y"]), "f.csv: columns missing: x, y; its value columns are a, b"),
    (DatasetConfig(columns=[]), "columns missing: dataset.columns lists none"),
    (
        DatasetConfig(time_format="%d.%m.%Y"),
        "row 2, column 'date': expected a date like %d.%m.%Y, found '2020-01-01 00:00'",
    ),
    (DatasetConfig(frequency="D"), "expected steps of D, found steps of h"),
    (DatasetConfig(frequency="30min"), "expected steps of 30min, found steps of h"),
    (DatasetConfig(frequency="hourly"), "frequency 'hourly': expected a pandas offset"),
    (DatasetConfig(encoding="no-such"), "dataset.encoding: expected a text encoding"),
    (DatasetConfig(encoding="utf-16"), "not utf-16 text.*set dataset.encoding"),
    (DatasetConfig(separator=";"), "no numeric column|no time column"),
    (DatasetConfig(separator="\\s+"), "dataset.separator: expected one character"),
    (DatasetConfig(decimal=""), "dataset.decimal: expected one of"),
    (DatasetConfig(columns=["a", "b", "a"]), "dataset.columns: a is given twice"),
]


@pytest.mark.parametrize(("config", "message"), SETTINGS)
def test_a_setting_that_does_not_fit(config: DatasetConfig, message: str, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(GOOD)
    with pytest.raises(InputError, match=message):
        read_series(path, check(config))


@pytest.mark.parametrize(
    ("cells", "found"), [("1.250 2,5", r"row 2, .* found '1.250'"), ("1,5 x 2,5", r"row 3, .* found 'x'; fix the cell")]
)
def test_with_decimal_commas_neither_a_point_nor_text_is_a_number(cells: str, found: str, tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("date;a\n" + "".join(f"2020-01-0{day};{cell}\n" for day, cell in enumerate(cells.split(), 1)))
    with pytest.raises(InputError, match=f"f.csv, {found}"):
        read_series(path, DatasetConfig(separator=";", decimal=","))


def test_many_columns_are_not_all_listed() -> None:
    frame = pd.DataFrame(1.0, index=pd.date_range("2020-01-01", periods=3), columns=[f"c{i}" for i in range(99)])
    with pytest.raises(InputError, match=r"columns missing: x; its value columns are c0, .*, c11 and 87 more$"):
        series_from_frame(frame, DatasetConfig(columns=["x"]), "mine")


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent.csv: no such file"):
        read_series(tmp_path / "absent.csv", DatasetConfig())
    with pytest.raises(InputError, match="cannot be read"):
        read_series(tmp_path, DatasetConfig())


def test_months_missing_and_business_days_missing_are_seen_in_their_own_step(tmp_path: Path) -> None:
    for code, missing in (("MS", "2020-06-01 00:00:00"), ("B", "2020-01-08 00:00:00"), ("ME", "2020-06-30 00:00:00")):
        dates = pd.date_range("2020-01-01", periods=24, freq=code)
        frame = pd.DataFrame({"date": dates, "a": 1.0})[dates != missing]
        with pytest.raises(InputError, match=rf"row 7, .*expected {missing} \(step {code}\)"):
            read_written(frame, tmp_path)


def test_a_frame_is_checked_as_a_file_is() -> None:
    dates = pd.date_range("2020-01-01", periods=5, freq="D")
    for values, found in (([1, 2, np.nan, 4, 5], "an empty cell"), ([1, 2, -np.inf, 4, 5], "'-inf'")):
        with pytest.raises(InputError, match=f"mine, row 2, column 'a': expected a number, found {found}"):
            series_from_frame(pd.DataFrame({"date": dates, "a": values}), DatasetConfig(), "mine")
    with pytest.raises(InputError, match="mine: column names repeat: 'a'"):
        series_from_frame(pd.DataFrame([[1, 2]] * 5, index=dates, columns=["a", "a"]), DatasetConfig(), "mine")
    with pytest.raises(InputError, match=r"mine, row 3, column 'date': duplicate timestamp"):
        series_from_frame(pd.DataFrame({"a": 1.0}, index=dates[[0, 1, 2, 2]]), DatasetConfig(), "mine")
    broken = dates.to_series().reset_index(drop=True).where(lambda date: date != dates[1])
    with pytest.raises(InputError, match="mine, row 1, column 'date': expected a date, found an empty cell"):
        series_from_frame(pd.DataFrame({"date": broken, "a": 1.0}), DatasetConfig(), "mine")


@pytest.mark.parametrize(("wanted", "found"), [("h", "2h"), ("W", "SMS")])
def test_another_step_of_the_same_unit_is_another_step(wanted: str, found: str) -> None:
    """Fails if office hours are accepted as hourly data, or half-months as weeks."""
    frame = pd.DataFrame({"date": pd.date_range("2021-01-04", periods=60, freq=found), "a": range(60)})
    with pytest.raises(InputError, match=f"expected steps of {wanted}.*, found steps of {Frequency.parse(found).code}"):
        series_from_frame(frame, DatasetConfig(frequency=wanted), "mine")


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


def test_values_are_checked_where_dates_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("date,a\n01/02/2010,1\n02/02/2010,x\n03/02/2010,\n")
    places = [line.partition(":")[0] for line in told(path)]
    assert places == ["f.csv, column 'date'", "f.csv, row 3, column 'a'", "f.csv, row 4, column 'a'"]


def test_a_gap_around_a_time_that_cannot_be_read_is_no_second_problem(tmp_path: Path) -> None:
    frame = made(40).astype({"date": str})
    frame.loc[[10, 11], "date"] = "?"
    frame = frame.drop(index=20)
    first, second = told(write(frame, tmp_path / "f.csv"))
    assert "row 12, column 'date': expected a date, found '?' (2 such cells)" in first
    assert "row 22, column 'date': expected 2020-01-01 20:00:00" in second
    assert "1 row is missing;" in second


def test_repeated_names_matter_where_they_are_used(tmp_path: Path) -> None:
    path = write(made(30), tmp_path / "f.csv")
    path.write_text(path.read_text().replace("a,b,c", "a,b,b", 1))
    assert told(path) == ["f.csv, row 1: column names repeat: 'b'; rename them"]
    assert read_series(path, DatasetConfig(columns=["a"])).columns == ("a",)


def test_columns_without_a_name_and_without_cells_are_nothing(tmp_path: Path) -> None:
    path = write(made(30), tmp_path / "f.csv")
    path.write_text("".join(f"{line},,\n" for line in path.read_text().splitlines()))
    assert read_series(path, DatasetConfig()).columns == ("a", "b", "c")


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
    paths = [write(made(30).assign(a=np.nan), tmp_path / f"f{place:02}.csv") for place in range(MOST_LINES + 7)]
    with pytest.raises(ReportError) as error:
        read_panel(paths, DatasetConfig(), None)
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


def test_the_order_of_day_and_month_comes_from_the_whole_file() -> None:
    """Fifteen days, so that only rows before the last ones decide the order of day and month."""
    frame = made(15, "D", start="2020-01-25")
    written = frame.assign(date=frame["date"].dt.strftime("%d/%m/%Y"))
    series = series_from_frame(written, DatasetConfig(), "mine", history=6)
    assert list(series.timestamps) == list(frame["date"].iloc[-6:])


def test_too_little_history_is_told_with_the_rest() -> None:
    frame = made(7).astype({"a": object})
    frame.loc[2, "a"] = "x"
    with pytest.raises(ReportError) as error:
        series_from_frame(frame, DatasetConfig(), "mine", history=20)
    assert error.value.lines[1:] == ("mine: expected at least seq_len=20 rows of history, found 7",)
