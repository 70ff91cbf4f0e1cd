"""Repairs compared with pandas on the valid table: made only on request, and reported."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import call
from stores import checked, series_from_frame

from informer.base.errors import Repair, ReportError
from informer.config.data import DatasetConfig, repaired
from informer.data.diagnosis import Examined, in_words, survey_file

COLUMNS = ["a", "b", "c"]


def made(n: int = 300, freq: str = "h", start: str = "2020-01-01") -> pd.DataFrame:
    """n rows, three columns of numbers; the target of most tests, `b`, is in the middle."""
    random = np.random.default_rng(7)
    dates = pd.date_range(start, periods=n, freq=freq)
    columns = {"a": random.normal(3, 2, n), "b": random.normal(-9, 0.1, n), "c": random.random(n)}
    # few digits, so that every parser reads back what was written
    return pd.DataFrame({"date": dates, **{name: column.round(6) for name, column in columns.items()}})


def write(frame: pd.DataFrame, path: Path) -> Path:
    """A CSV file from which the same numbers are read back."""
    frame.to_csv(path, index=False)
    return path


def test_prediction_repairs_before_it_takes_the_last_rows() -> None:
    """Fails if what is older than the last rows, and beyond repair, is a problem."""
    sound = made(80).assign(a=np.arange(80.0), b=np.arange(80.0) * -2)
    broken = sound.drop(index=[30, 31, 60]).astype({"a": object})
    broken.loc[12, "b"] = np.nan
    broken.loc[[2, 5], "a"] = ["x", np.inf]
    broken = pd.concat([broken, broken.loc[[44, 70]]]).sample(frac=1, random_state=3)
    config = DatasetConfig(sort=True, duplicates="first", confirm=["duplicates"], fill="linear", columns=["a", "b"])
    series = series_from_frame(broken, config, "mine", history=30)
    np.testing.assert_allclose(series.values, sound[["a", "b"]].iloc[-30:])
    with pytest.raises(ReportError, match="'x'"):
        series_from_frame(broken, config, "mine", history=79)


def test_one_setting_repairs_all_series() -> None:
    """Fails if a repair that some series needs is lost where those of several are joined, or replaces a setting."""
    needed = [
        *(Repair("columns", ["a", "b", "c"]), Repair("missing_values", ["-9"]), Repair("columns", ["b", "a"])),
        *(Repair("fill", "linear"), Repair("sort", True), Repair("missing_values", ["x", "-9"])),
        *(Repair("fill", "mask"), Repair("duplicates", "first"), Repair("confirm", ["duplicates"])),
        *(Repair("timezone", "Europe/Berlin"), Repair("time_format", "%Y%m%d"), Repair("fill", "linear")),
    ]
    expected = DatasetConfig(
        columns=["a", "b"], missing_values=["-9", "x"], fill="mask", sort=True, duplicates="mean",
        confirm=["duplicates"], timezone="Europe/Berlin", time_format="%Y%m%d",
    )  # fmt: skip
    assert repaired(DatasetConfig(duplicates="mean"), needed) == expected
    assert repaired(DatasetConfig(), []) == DatasetConfig()


def test_what_is_proposed_is_what_repairs(tmp_path: Path) -> None:
    """Fails if a setting that the problem of a file proposes is unknown to `repair=auto`, holidays of the kinds a and b
    become missing values, or words among counts become categories."""
    frame, path = made(60, "D"), tmp_path / "days.csv"
    kinds = np.where(np.arange(60) % 20 == 7, "a", np.where(np.arange(60) % 30 == 9, "b", "0"))
    frame = frame.assign(holiday=kinds, sold=np.where(np.arange(60) == 5, "closed", np.arange(60) % 3))
    frame.assign(date=frame["date"].dt.strftime("%d|%m|%Y")).to_csv(path, index=False)
    survey = survey_file(path, DatasetConfig(time_col="date", separator=","))
    assert survey.dataset.time_format == "%d|%m|%Y"
    assert survey.dataset.categorical == ["holiday"]
    assert survey.dataset.missing_values == ["closed"]
    assert "dataset.categorical=[holiday]" in in_words(survey.repairs)
    (series,) = survey.panel
    assert list(series.timestamps) == list(frame["date"])
    assert set(series.values[:, series.columns.index("holiday")]) == {1, 2, 3}


@pytest.mark.parametrize(
    ("freq", "n_wrong", "step", "years"),
    [("D", 1, 1, 1), ("D", 6, -1, -1), ("h", 6, -1, 1), ("W", 6, 1, -1), ("MS", 1, 1, -1), ("B", 6, 1, 1)],
)
def test_no_repair_loses_rows_with_a_wrong_year(freq: str, n_wrong: int, step: int, years: int, tmp_path: Path) -> None:
    """Fails if the newest rows, written with another year, are dropped, moved to the past or left a year ahead."""
    frame = made(300, freq, start="2020-03-01").astype({"date": "datetime64[s]"})
    frame.loc[300 - n_wrong :, "date"] += pd.DateOffset(years=years)
    frame = frame[::step].reset_index(drop=True)
    (diagnosis,) = Examined(write(frame, tmp_path / "mine.csv"), DatasetConfig()).diagnoses
    assert diagnosis.repairs is None
    _, report = checked(frame, DatasetConfig(sort=True, duplicates="mean", confirm=["duplicates"]), "mine")
    assert report.problems
    assert years > 0 or not report.repairs


@pytest.mark.parametrize("rows", [[*range(400), 7], [*range(400), *range(398, 400)], [*range(200, 400), *range(200)]])
def test_copies_and_late_rows_at_the_end_are_repaired(rows: list[int], tmp_path: Path) -> None:
    """Fails if every row that goes back in time is taken for one with a wrong year."""
    frame = made(400)
    (diagnosis,) = Examined(write(frame.iloc[rows], tmp_path / "mine.csv"), DatasetConfig()).diagnoses
    assert diagnosis.repaired is not None
    np.testing.assert_array_equal(diagnosis.repaired.values, frame[COLUMNS])


def test_a_repair_that_needs_a_word_asks(folder: Path) -> None:
    """Fails if more than 0.5 % of the rows are dropped, or numbers read as missing, unasked, or if the printed argument
    does not allow it."""
    frame = made(400)
    for n in (2, 3):
        again = frame.iloc[5 : 5 + n].assign(a=7.0)
        write(pd.concat([frame, again]).sort_values("date", kind="stable"), folder / "f.csv")
        assert bool(survey_file(folder / "f.csv", DatasetConfig()).asks) == (n > 2)
    printed = "repair=auto dataset.confirm=[duplicates], which sets dataset.duplicates=first"
    assert printed in call("forecast", "f.csv", "repair=auto").err
    survey = survey_file(folder / "f.csv", DatasetConfig(confirm=["duplicates"]))
    assert not survey.asks
    np.testing.assert_array_equal(survey.panel[0].values, frame[COLUMNS])
    assert call("inspect", "f.csv", "dataset.duplicates=first").status == 2
    frame.loc[40:44, "b"] = -999
    write(frame, folder / "g.csv")
    assert "add repair=auto dataset.missing_values=[-999]" in call("forecast", "g.csv", "repair=auto").err
