"""Repairs compared with pandas on the valid table: made only on request, and reported."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dataset_cases import SIZES, made, write
from entry_points import call, done
from stores import read_series, series_from_frame

from informer.base.errors import InputError, Repair, ReportError
from informer.config.data import DatasetConfig, Duplicates, Fill, Outliers, repaired
from informer.data.columns import Roles
from informer.data.dataset import read_source
from informer.data.diagnosis import diagnose, in_words, survey_file
from informer.read.checks import outliers
from informer.read.series import inspect_table
from informer.read.table import table_of_frame

COLUMNS = ["a", "b", "c"]


def holed(frame: pd.DataFrame) -> pd.DataFrame:
    """Missing cells and whole rows, in runs of 1 to 4."""
    frame = frame.copy()
    frame.loc[3:4, "a"] = np.nan
    frame.loc[[9, 30], "c"] = np.nan
    return frame.drop(index=[10, 20, 21, 22, 23])


@pytest.mark.parametrize("fill", Fill)
@pytest.mark.parametrize("freq", ["h", "B", "MS", "W-WED", "15min"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_holes_are_filled_as_pandas_fills_them(freq: str, fill: Fill, zone: str | None, tmp_path: Path) -> None:
    frame = made(60, freq)
    frame["date"] = frame["date"].dt.tz_localize(zone)
    grid = holed(frame).set_index("date").reindex(frame["date"])
    fills = {Fill.ffill: grid.ffill, Fill.linear: grid.interpolate, Fill.zero: lambda: grid.fillna(0)}
    oracle = {**fills, Fill.mask: lambda: grid}[fill]()
    series = series_from_frame(holed(frame), DatasetConfig(fill=fill), "mine")
    assert (series.timestamps == pd.DatetimeIndex(frame["date"])).all()
    np.testing.assert_allclose(series.values, oracle, rtol=1e-12)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_rows_before_a_date_are_ignored_whatever_they_contain(zone: str | None, tmp_path: Path) -> None:
    """Against a file without these rows, also of series that end before; red if an old gap is a problem, or kept."""
    frame = made(60)
    frame["date"] = frame["date"].dt.tz_localize(zone)
    broken = holed(frame).drop(index=[40, 41])
    since = str(frame["date"].dt.tz_localize(None)[45])
    series = series_from_frame(broken, DatasetConfig(since=since), "mine")
    assert len(series) == 15
    np.testing.assert_array_equal(series.values, frame[COLUMNS][45:])
    two = pd.concat([broken.assign(name="a"), frame[:20].assign(name="b"), frame.assign(name="c")])
    path = write(two, tmp_path / "two.csv")
    survey = survey_file(path, DatasetConfig(series_col="name", since=since))
    assert [(one.name, len(one)) for one in survey.panel] == [("a", 15), ("c", 15)]
    late = DatasetConfig(since="2031-01-01")
    with pytest.raises(InputError, match=r"dataset\.since=2031-01-01: mine ends before, at 2020-01-03 11:00"):
        series_from_frame(frame, late, "mine")


def test_longer_holes_than_allowed_stay() -> None:
    frame = holed(made(60))
    with pytest.raises(ReportError) as error:
        series_from_frame(frame, DatasetConfig(fill=Fill.linear, max_gap=2), "mine")
    assert error.value.lines == (
        "mine, row 19, column 'date': expected 2020-01-01 20:00:00 (step h), found 2020-01-02 00:00:00: 4 rows are "
        "missing; dataset.fill=linear cannot fill it within dataset.max_gap=2: fix the file",
    )
    assert len(series_from_frame(frame, DatasetConfig(fill=Fill.linear, max_gap=4), "mine")) == 60
    # an empty cell and the missing row after it are one hole: rows 9 and 10 of column c
    with pytest.raises(ReportError, match=r"row 9, column 'c': .* within dataset.max_gap=1"):
        series_from_frame(frame.iloc[:17], DatasetConfig(fill=Fill.zero, max_gap=1), "mine")


def test_there_is_nothing_to_fill_from_at_the_ends() -> None:
    frame = made(60)
    frame.loc[[0, 1, 59], "b"] = np.nan
    assert series_from_frame(frame, DatasetConfig(fill=Fill.zero), "mine").values[[0, 1, 59], 1].tolist() == [0, 0, 0]
    for fill, left in ((Fill.ffill, 2), (Fill.linear, 3)):
        with pytest.raises(
            ReportError, match=rf"row 0, column 'b'.*\({left} such cells\); dataset.fill={fill.value} cannot"
        ):
            series_from_frame(frame, DatasetConfig(fill=fill), "mine")


@pytest.mark.parametrize("duplicates", Duplicates)
def test_rows_of_one_time_become_one(duplicates: Duplicates) -> None:
    frame = made(40)
    twice = pd.concat([frame, frame.iloc[[3, 17]].assign(a=100.0, b=np.nan)]).sort_values("date", kind="stable")
    fill = Fill.mask if duplicates is Duplicates.sum else None
    config = DatasetConfig(duplicates=duplicates, confirm=["duplicates"], fill=fill)
    series = series_from_frame(twice.reset_index(drop=True), config, "mine")
    groups = twice.groupby("date")[COLUMNS]
    oracle = getattr(groups, duplicates.value)()
    if duplicates is Duplicates.sum:
        oracle.loc[frame["date"].iloc[[3, 17]], "b"] = np.nan  # sums are missing where a cell is
    np.testing.assert_allclose(series.values, oracle)


def everything_wrong() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A valid table that can be interpolated, and its damaged copy."""
    sound = made(80).assign(a=np.arange(80.0), b=np.arange(80.0) * -2, c=7.0)
    broken = sound.drop(index=[30, 31, 60]).astype({"a": float})
    broken.loc[12, "b"] = np.nan
    broken = pd.concat([broken, broken.loc[[44, 70]]]).sample(frac=1, random_state=3)
    return sound, broken


def test_all_repairs_together_and_what_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "informer")
    sound, broken = everything_wrong()
    path = write(broken, tmp_path / "f.csv")
    config = DatasetConfig(
        sort=True, duplicates=Duplicates.mean, confirm=["duplicates"], fill=Fill.linear, max_gap=3, columns=["a", "b"]
    )
    np.testing.assert_allclose(read_series(path, config).values, sound[["a", "b"]])
    lines = path.read_text().splitlines()
    times = [line.partition(",")[0] for line in lines]
    back = next(i for i in range(2, len(times)) if times[i] < times[i - 1])
    again = next(i for i in range(1, len(times)) if times[i] in times[1:i] and times[i] == str(sound["date"][44]))
    row = {hour: times.index(str(sound["date"][hour])) + 1 for hour in (12, 32)}
    assert caplog.messages == [
        f"f.csv: sort=true moved rows, the first out of order is row {back + 1}",
        f"f.csv: duplicates=mean dropped 2 rows, first row {again + 1}",
        f"f.csv: fill=linear inserted 3 missing rows, first 2020-01-02 06:00:00 before row {row[32]}",
        f"f.csv: fill=linear filled 1 empty cells, first row {row[12]}, column 'b'",
    ]


def test_prediction_repairs_before_it_takes_the_last_rows() -> None:
    sound, broken = everything_wrong()
    config = DatasetConfig(
        sort=True, duplicates=Duplicates.first, confirm=["duplicates"], fill=Fill.linear, columns=["a", "b"]
    )
    series = series_from_frame(broken, config, "mine", history=30)
    np.testing.assert_allclose(series.values, sound[["a", "b"]].iloc[-30:])
    # what is older may be beyond repair
    broken = broken.astype({"a": object})
    broken.loc[[2, 5], "a"] = ["x", np.inf]
    series_from_frame(broken, config, "mine", history=30)
    with pytest.raises(ReportError, match="'x'"):
        series_from_frame(broken, config, "mine", history=79)


def test_a_date_in_another_age_is_not_filled_up_to() -> None:
    frame = made(40)
    frame["date"] = frame["date"].astype("datetime64[s]")
    frame.loc[39, "date"] = pd.Timestamp("2999-01-01")
    with pytest.raises(ReportError, match=r"rows are missing; dataset.fill=ffill cannot fill it: fix the file"):
        series_from_frame(frame, DatasetConfig(fill=Fill.ffill), "mine")


def test_the_longest_gap_is_at_least_a_row() -> None:
    with pytest.raises(InputError, match="max_gap: expected at least 1, found 0"):
        DatasetConfig(max_gap=0)


def test_one_setting_repairs_all_series() -> None:
    """Fails if a repair that some series needs is lost where those of several are joined, or replaces a setting."""
    needed = [
        *(Repair("columns", ["a", "b", "c"]), Repair("missing_values", ["-9"]), Repair("columns", ["b", "a"])),
        *(Repair("fill", Fill.linear), Repair("sort", True), Repair("missing_values", ["x", "-9"])),
        *(Repair("fill", Fill.mask), Repair("duplicates", Duplicates.first), Repair("confirm", ["duplicates"])),
        *(Repair("timezone", "Europe/Berlin"), Repair("time_format", "%Y%m%d"), Repair("fill", Fill.linear)),
    ]
    expected = DatasetConfig(
        columns=["a", "b"], missing_values=["-9", "x"], fill=Fill.mask, sort=True, duplicates=Duplicates.mean,
        confirm=["duplicates"], timezone="Europe/Berlin", time_format="%Y%m%d",
    )  # fmt: skip
    assert repaired(DatasetConfig(duplicates=Duplicates.mean), needed) == expected
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


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("n_wrong", [1, 6])
@pytest.mark.parametrize(("freq", "n"), [("D", 500), ("D", 200), ("h", 9000), ("W", 120), ("MS", 60), ("B", 300)])
@pytest.mark.parametrize("shift", [pd.DateOffset(years=1), pd.DateOffset(years=-1)])
def test_no_repair_loses_rows_with_a_wrong_year(
    shift: pd.DateOffset, freq: str, n: int, n_wrong: int, step: int
) -> None:
    """Fails if the newest rows, written with another year, are dropped, moved to the past or left a year ahead."""
    frame = made(n, freq, start="2020-03-01").astype({"date": "datetime64[s]"})
    frame.loc[n - n_wrong :, "date"] += shift
    table = table_of_frame(frame[::step].reset_index(drop=True), "mine")
    diagnosis = diagnose(table, DatasetConfig(), "mine")
    assert diagnosis.repairs is None
    assert any("wrong year" in str(problem) for problem in diagnosis.report.problems) or freq in ("W", "B")
    asked = DatasetConfig(sort=True, duplicates=Duplicates.mean, confirm=["duplicates"])
    _, report = inspect_table(table, asked, "mine")
    assert report.problems
    if shift.years < 0:
        assert not report.repairs


@pytest.mark.parametrize("rows", [[*range(400), 7], [*range(400), *range(398, 400)], [*range(200, 400), *range(200)],
                                  [*range(300), *range(301, 400), 300]])  # fmt: skip
def test_copies_and_late_rows_at_the_end_are_repaired(rows: list[int]) -> None:
    """Fails if every row that goes back in time is taken for one with a wrong year."""
    frame = made(400)
    diagnosis = diagnose(table_of_frame(frame.iloc[rows].reset_index(drop=True), "mine"), DatasetConfig(), "mine")
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
    table = table_of_frame(ailing()[kind].reset_index(drop=True), "mine")
    problems = inspect_table(table, DatasetConfig(), "mine")[1].problems
    assert problems
    for problem in problems:
        cause, _, advice = str(problem).partition("; ")
        cures = [repaired(DatasetConfig(), problem.repairs)] if problem.repairs else []
        if "dataset.fill=" in advice:
            words = advice.partition("dataset.fill=")[2].partition(", which keeps gaps")[0]
            cures += [DatasetConfig(fill=fill) for fill in Fill if fill.value in words]
        for cure in cures:
            remaining = [str(other).partition("; ")[0] for other in inspect_table(table, cure, "mine")[1].problems]
            assert cause not in remaining
    if kind in ("one row", "only an empty column", "uneven", "far date"):
        assert not any(problem.repairs for problem in problems)
        assert not any("set dataset.f" in str(problem) for problem in problems)


RNG = np.random.default_rng(0)
WAVE = 40 + 8 * np.sin(np.arange(400) / 4) + RNG.normal(0, 1, 400)


@pytest.mark.parametrize("rows", [(399,), (0,), (200,), (17, 18, 300)])
@pytest.mark.parametrize("value", [1e9, -1e9, 1e30, 9999.0, -999.0, 700.0])
def test_readings_far_from_all_others_are_found(rows: tuple[int, ...], value: float) -> None:
    values = WAVE.copy()
    values[list(rows)] = value
    values[5] = np.nan
    assert outliers(values).tolist() == list(rows)


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
    assert Repair("outliers", Outliers.missing) in survey.repairs
    kept, missing = survey.panel[0].values.T[::-1]
    np.testing.assert_allclose(kept, frame["b"], rtol=1e-15)  # pandas 2 reads text to the last bit but one
    np.testing.assert_allclose(missing, frame["a"].mask(frame["a"] == 9999), rtol=1e-15)
    assert any("row 202, column 'a': outliers=missing: 9999" in line for line in survey.log)
    assert not survey_file(path, DatasetConfig(outliers=Outliers.keep)).problems


def test_outliers_of_one_of_many_series(tmp_path: Path) -> None:
    """Red if the series of a long table, which are read together, keep one, or if another series changes."""
    times = pd.date_range("2024-01-01", periods=400, freq="h")
    parts = [pd.DataFrame({"name": f"s{i}", "date": times, "y": WAVE + 100 * i}) for i in range(4)]
    expected = np.stack([part["y"].to_numpy() for part in parts])
    expected[2, 399] = np.nan
    parts[2].loc[399, "y"] = 1e9
    path = write(pd.concat(parts, ignore_index=True), tmp_path / "long.csv")
    dataset = DatasetConfig(path=str(path), series_col="name", outliers=Outliers.missing, fill=Fill.mask)
    panel = read_source(dataset, sizes=SIZES, roles=Roles(), data_dir=tmp_path).panel
    np.testing.assert_allclose([series.values[:, 0] for series in panel], expected, rtol=1e-15)
    assert [len(series.repairs) for series in panel] == [0, 0, 2, 0]
