"""Repairs compared with pandas on the valid table: made only on request, and reported."""

from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from entry_points import call, done
from stores import checked, series_from_frame

from informer.base.errors import Repair, ReportError
from informer.config.data import DatasetConfig, Fill, repaired
from informer.data.columns import Roles
from informer.data.dataset import read_source
from informer.data.diagnosis import Examined, in_words, survey_file
from informer.read.outliers import outliers

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


def holed(frame: pd.DataFrame) -> pd.DataFrame:
    """Missing cells and whole rows, in runs of 1 to 4."""
    frame = frame.copy()
    frame.loc[3:4, "a"] = np.nan
    frame.loc[[9, 30], "c"] = np.nan
    return frame.drop(index=[10, 20, 21, 22, 23])


def everything_wrong() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A valid table that can be interpolated, and its damaged copy."""
    sound = made(80).assign(a=np.arange(80.0), b=np.arange(80.0) * -2, c=7.0)
    broken = sound.drop(index=[30, 31, 60]).astype({"a": float})
    broken.loc[12, "b"] = np.nan
    broken = pd.concat([broken, broken.loc[[44, 70]]]).sample(frac=1, random_state=3)
    return sound, broken


def test_prediction_repairs_before_it_takes_the_last_rows() -> None:
    sound, broken = everything_wrong()
    config = DatasetConfig(sort=True, duplicates="first", confirm=["duplicates"], fill="linear", columns=["a", "b"])
    series = series_from_frame(broken, config, "mine", history=30)
    np.testing.assert_allclose(series.values, sound[["a", "b"]].iloc[-30:])
    # what is older may be beyond repair
    broken = broken.astype({"a": object})
    broken.loc[[2, 5], "a"] = ["x", np.inf]
    series_from_frame(broken, config, "mine", history=30)
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
    """Fails if a setting that the problem of a file proposes is unknown to `repair=auto`."""
    path = tmp_path / "days.csv"
    frame = made(60, "D")
    frame.assign(date=frame["date"].dt.strftime("%d|%m|%Y")).to_csv(path, index=False)
    survey = survey_file(path, DatasetConfig(time_col="date", separator=","))
    assert "dataset.time_format='%d|%m|%Y'" in "".join(survey.problems)
    assert survey.dataset.time_format == "%d|%m|%Y"
    assert list(survey.panel[0].timestamps) == list(frame["date"])


def test_a_number_among_names_is_a_category(tmp_path: Path) -> None:
    """Red if holidays of the kinds a and b become missing values, or words among counts become categories."""
    path = tmp_path / "shop.csv"
    frame = made(60, "D")
    kinds = np.where(np.arange(60) % 20 == 7, "a", np.where(np.arange(60) % 30 == 9, "b", "0"))
    frame.assign(holiday=kinds, sold=np.where(np.arange(60) == 5, "closed", np.arange(60) % 3)).to_csv(
        path, index=False
    )
    survey = survey_file(path, DatasetConfig())
    assert survey.dataset.categorical == ["holiday"]
    assert survey.dataset.missing_values == ["closed"]
    assert "dataset.categorical=[holiday]" in in_words(survey.repairs)
    (series,) = survey.panel
    assert np.isnan(series.values[:, series.columns.index("holiday")]).sum() == 0
    assert len(np.unique(series.values[:, series.columns.index("holiday")])) == 3


@pytest.mark.parametrize(("n_wrong", "step"), [(1, 1), (6, -1)])
@pytest.mark.parametrize(("freq", "n"), [("D", 500), ("h", 1500), ("W", 120), ("MS", 60), ("B", 300)])
@pytest.mark.parametrize("shift", [pd.DateOffset(years=1), pd.DateOffset(years=-1)])
def test_no_repair_loses_rows_with_a_wrong_year(
    shift: pd.DateOffset, freq: str, n: int, n_wrong: int, step: int, tmp_path: Path
) -> None:
    """Fails if the newest rows, written with another year, are dropped, moved to the past or left a year ahead."""
    frame = made(n, freq, start="2020-03-01").astype({"date": "datetime64[s]"})
    frame.loc[n - n_wrong :, "date"] += shift
    frame = frame[::step].reset_index(drop=True)
    (diagnosis,) = Examined(write(frame, tmp_path / "mine.csv"), DatasetConfig()).diagnoses
    assert diagnosis.repairs is None
    assert any("wrong year" in str(problem) for problem in diagnosis.report.problems) or freq in ("W", "B")
    asked = DatasetConfig(sort=True, duplicates="mean", confirm=["duplicates"])
    _, report = checked(frame, asked, "mine")
    assert report.problems
    if shift.years < 0:
        assert not report.repairs


@pytest.mark.parametrize("rows", [[*range(400), 7], [*range(400), *range(398, 400)], [*range(200, 400), *range(200)],
                                  [*range(300), *range(301, 400), 300]])  # fmt: skip
def test_copies_and_late_rows_at_the_end_are_repaired(rows: list[int], tmp_path: Path) -> None:
    """Fails if every row that goes back in time is taken for one with a wrong year."""
    frame = made(400)
    (diagnosis,) = Examined(write(frame.iloc[rows], tmp_path / "mine.csv"), DatasetConfig()).diagnoses
    assert diagnosis.repaired is not None
    np.testing.assert_array_equal(diagnosis.repaired.values, frame[COLUMNS])


def test_a_repair_that_drops_more_rows_asks(folder: Path) -> None:
    """Fails if more than 0.5 % of the rows are dropped unasked, or if the printed argument does not allow it."""
    for n, status in ((2, 0), (3, 2)):
        frame = made(400)
        again = frame.iloc[5 : 5 + n].assign(a=7.0)
        write(pd.concat([frame, again]).sort_values("date", kind="stable"), folder / "f.csv")
        assert bool(survey_file(folder / "f.csv", DatasetConfig()).asks) == bool(status)
    refused = call("forecast", "f.csv", "repair=auto")
    assert refused.status == 2
    printed = "repair=auto dataset.confirm=[duplicates], which sets dataset.duplicates=first"
    assert printed in refused.err.splitlines()[-1]
    survey = survey_file(folder / "f.csv", DatasetConfig(confirm=["duplicates"]))
    assert not survey.asks
    np.testing.assert_array_equal(survey.panel[0].values, frame[COLUMNS])
    assert call("inspect", "f.csv", "dataset.duplicates=first").status == 2
    done("inspect", "f.csv", "dataset.duplicates=first", "dataset.confirm=[duplicates]")


def ailing() -> dict[str, pd.DataFrame]:
    """Tables with all kinds of problems."""
    frame, text = made(400), made(400).astype({"a": object})
    text.loc[[5, 9], "a"] = ["closed", "-"]
    early, late = frame.copy(), frame.copy()
    early.loc[390:, "b"], late.loc[:4, "c"] = np.nan, np.nan
    return {
        "empty": frame.assign(a=np.nan),
        "only an empty column": frame[["date"]].assign(a=np.nan),
        "ends early": early,
        "begins late": late,
        "mostly empty": frame.assign(a=np.where(np.arange(400) < 300, np.nan, 1.0)),
        "words": text,
        "holes": holed(frame),
        "one row": frame[:1],
        "far date": frame.assign(date=[*frame["date"][:-1].astype("datetime64[s]"), pd.Timestamp("2999-01-01")]),
        "uneven": frame.assign(date=[*frame["date"][:-1], frame["date"].iloc[-1] + pd.Timedelta("20min")]),
        "twice": pd.concat([frame[:9], frame[8:]]),
        "unsorted": frame.sample(frac=1, random_state=0),
        "no date": frame.astype({"date": str}).replace({"date": {str(frame["date"][3]): "soon"}}),
        "infinite": frame.assign(a=np.where(np.arange(400) == 3, np.inf, 1.0)),
    }


@pytest.mark.parametrize("kind", ailing())
def test_a_proposed_cure_cures(kind: str) -> None:
    """Fails if a problem remains with the settings that its line proposes; each value of `fill` is tried."""
    frame = ailing()[kind].reset_index(drop=True)
    problems = checked(frame, DatasetConfig(), "mine")[1].problems
    assert problems
    for problem in problems:
        cause, _, advice = str(problem).partition("; ")
        cures = [repaired(DatasetConfig(), problem.repairs)] if problem.repairs else []
        if "dataset.fill=" in advice:
            words = advice.partition("dataset.fill=")[2].partition(", which keeps gaps")[0]
            cures += [DatasetConfig(fill=fill) for fill in get_args(Fill) if fill in words]
        for cure in cures:
            remaining = [str(other).partition("; ")[0] for other in checked(frame, cure, "mine")[1].problems]
            assert cause not in remaining
    if kind in ("one row", "only an empty column", "uneven", "far date"):
        assert not any(problem.repairs for problem in problems)
        assert not any("set dataset.f" in str(problem) for problem in problems)


RNG = np.random.default_rng(0)
WAVE = 40 + 8 * np.sin(np.arange(400) / 4) + RNG.normal(0, 1, 400)


def test_an_outlier_may_be_next_to_a_larger_one_or_among_zeros() -> None:
    values = WAVE.copy()
    values[[100, 399]] = 1e12, -5e4
    assert outliers(values).tolist() == [100, 399]
    rare = RNG.poisson(0.3, 400).astype(float)
    rare[200] = 1e9
    assert outliers(rare).tolist() == [200]


@pytest.mark.parametrize(
    "values",
    [
        RNG.standard_t(3, 5000),
        RNG.lognormal(0, 1, 5000),
        RNG.poisson(0.1, 500),
        np.where(RNG.random(500) < 0.9, 0, RNG.negative_binomial(1, 0.05, 500)),
        2.0 ** np.arange(60),
        np.r_[np.zeros(50), 5],
        np.r_[np.full(50, 7.0), 70],
        np.r_[WAVE, 1000 * WAVE[:3]],
        np.r_[-WAVE, -1e6 * WAVE[:5]],
        np.full(50, np.nan),
        np.full(50, np.inf),
        np.r_[WAVE[:8], 1e9],
    ],
    ids=[
        *("t3", "lognormal", "counts", "bulk orders", "doubling", "first sale", "constant", "level", "negative level"),
        *("empty", "infinite", "nine values"),
    ],
)
def test_heavy_tails_growth_counts_and_new_levels_are_no_outliers(values: np.ndarray) -> None:
    assert outliers(values.astype(float)).tolist() == []


def test_outliers_are_named_and_read_as_missing_in_their_own_column(tmp_path: Path) -> None:
    """The clean column has the same value twice, where it is usual. Red if it is changed."""
    frame = pd.DataFrame(
        {"date": pd.date_range("2024-01-01", periods=400, freq="h"), "a": WAVE, "b": 9000 + 100 * WAVE}
    )
    frame.loc[[200, 399], ["a", "b"]] = 9999.0
    path = write(frame, tmp_path / "mine.csv")
    survey = survey_file(path, DatasetConfig())
    line = f"mine.csv, row 202, column 'a': 9999 is far from all others ({frame['a'].drop([200, 399]).min():.6g} to "
    assert len(survey.problems) == 1
    assert survey.problems[0].startswith(line)
    assert "(2 such cells)" in survey.problems[0]
    assert Repair("outliers", "missing") in survey.repairs
    kept, missing = survey.panel[0].values.T[::-1]
    np.testing.assert_allclose(kept, frame["b"], rtol=1e-15)  # pandas 2 reads text to the last bit but one
    np.testing.assert_allclose(missing, frame["a"].mask(frame["a"] == 9999), rtol=1e-15)
    assert any("row 202, column 'a': outliers=missing: 9999" in line for line in survey.log)
    assert not survey_file(path, DatasetConfig(outliers="keep")).problems


def test_outliers_of_one_of_many_series(tmp_path: Path) -> None:
    """Red if the series of a long table, which are read together, keep one, or if another series changes."""
    times = pd.date_range("2024-01-01", periods=400, freq="h")
    parts = [pd.DataFrame({"name": f"s{i}", "date": times, "y": WAVE + 100 * i}) for i in range(4)]
    expected = np.stack([part["y"].to_numpy() for part in parts])
    expected[2, 399] = np.nan
    parts[2].loc[399, "y"] = 1e9
    path = write(pd.concat(parts, ignore_index=True), tmp_path / "long.csv")
    dataset = DatasetConfig(path=str(path), series_col="name", outliers="missing", fill="mask")
    panel = read_source(dataset, roles=Roles(), data_dir=tmp_path).panel
    np.testing.assert_allclose([series.values[:, 0] for series in panel], expected, rtol=1e-15)
    assert [len(series.repairs) for series in panel] == [0, 0, 2, 0]
