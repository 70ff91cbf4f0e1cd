"""Every kind of invalid file: one line that names the place, what was expected and what was found."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from stores import read_series, series_from_frame

from informer.base.errors import InputError
from informer.config.data import DatasetConfig
from informer.config.training import check
from informer.read.frequency import Frequency

GOOD = "date,a,b\n2020-01-01 00:00,1,2\n2020-01-01 01:00,3,4\n2020-01-01 02:00,5,6\n2020-01-01 03:00,7,8\n"
AMBIGUOUS = "date,a\n01/02/2010,1\n02/02/2010,2\n03/02/2010,3\n"


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


# what is wrong -> text of the file, part of the error
FILES: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "the file is empty"),
    "blank lines only": ("\n\n", "empty|header"),
    "header only": ("date,a\n", "a header without rows"),
    "binary": (b"PK\x03\x04\0\0\0", "a binary file, expected CSV text"),
    "a workbook": (b"PK\x03\x04without a zero byte", "save the sheet of an older workbook as .xlsx or CSV"),
    "a workbook of an older program": (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0",
        "save the sheet of an older workbook as .xlsx or CSV",
    ),
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
        "row 3, column 'date': day and month are swapped, '01/14/2010' against '13/01/2010' in row 2",
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


def test_a_point_is_no_decimal_mark_where_the_comma_is(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("date;a\n2020-01-01;1.250\n2020-01-02;2,5\n")
    with pytest.raises(InputError, match=r"f.csv, row 2, column 'a': expected a number, found '1.250'"):
        read_series(path, DatasetConfig(separator=";", decimal=","))


def test_many_columns_are_not_all_listed() -> None:
    frame = pd.DataFrame(1.0, index=pd.date_range("2020-01-01", periods=3), columns=[f"c{i}" for i in range(99)])
    with pytest.raises(InputError, match=r"columns missing: x; its value columns are c0, .*, c11 and 87 more$"):
        series_from_frame(frame, DatasetConfig(columns=["x"]), "mine")


def test_decimal_commas_are_read_before_a_cell_is_called_bad(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("date;a\n2020-01-01;1,5\n2020-01-02;x\n2020-01-03;2,5\n")
    with pytest.raises(InputError, match=r"f.csv, row 3, column 'a': expected a number, found 'x'; fix the cell"):
        read_series(path, DatasetConfig(separator=";", decimal=","))


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent.csv: no such file"):
        read_series(tmp_path / "absent.csv", DatasetConfig())
    with pytest.raises(InputError, match="cannot be read"):
        read_series(tmp_path, DatasetConfig())


def test_months_missing_and_business_days_missing_are_seen_in_their_own_step(tmp_path: Path) -> None:
    for code, missing in (("MS", "2020-06-01 00:00:00"), ("B", "2020-01-08 00:00:00"), ("ME", "2020-06-30 00:00:00")):
        dates = pd.date_range("2020-01-01", periods=24, freq=code)
        frame = pd.DataFrame({"date": dates, "a": 1.0})[dates != missing]
        frame.to_csv(tmp_path / "f.csv", index=False)
        with pytest.raises(InputError, match=rf"row 7, .*expected {missing} \(step {code}\)"):
            read_series(tmp_path / "f.csv", DatasetConfig())


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
