"""Times in several columns are joined, and of several columns of times the one with the most detail is taken."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, call, done
from stores import panel_written, read_series, series_from_frame
from stores import read_written as read

from informer import Forecaster
from informer.base.errors import InputError
from informer.config.data import DatasetConfig, Fill
from informer.data.panel import read_panel
from informer.read.series import prepared, series_from_table, table_of_file
from informer.read.table import read_table, table_of_frame
from informer.read.time_columns import counts_rows, find_time_column

SIZES = ["seq_len=24", "label_len=12", "pred_len=3"]
HOURS = pd.date_range("2023-12-30", periods=400, freq="h")
LOAD = np.arange(400.0) % 24 + np.arange(400) / 100


def parts(times: pd.DatetimeIndex, *names: str) -> pd.DataFrame:
    """A table with the parts of each time, named `year` or `Year`, and a column of values."""
    return pd.DataFrame({name: getattr(times, name.lower()) for name in names} | {"load": np.arange(len(times)) + 0.5})


@pytest.mark.parametrize(
    ("freq", "names"),
    [
        ("h", ("year", "month", "day", "hour")),
        ("15min", ("Year", "Month", "Day", "Hour", "Minute")),
        ("D", ("YEAR", "MONTH", "DAY")),
        ("D", ("day", "month", "year")),
        ("MS", ("year", "month")),
        ("QS", ("year", "quarter")),
        ("YS", ("Year",)),
    ],
)
def test_parts_of_times_are_joined(freq: str, names: tuple[str, ...], tmp_path: Path) -> None:
    """Red if a part stays a value, or is read as another part: the oracle is the index that the parts are from."""
    times = pd.date_range("1999-01-01", periods=130, freq=freq)
    series = read(parts(times, *names), tmp_path)
    assert list(series.timestamps) == list(times)
    assert series.columns == ("load",)


@pytest.mark.parametrize(("year", "week"), [("year", "week"), ("Meldejahr", "KW")])
@pytest.mark.parametrize("style", ["{}", "W{:02d}", "KW {}"])
def test_years_and_iso_weeks(year: str, week: str, style: str, tmp_path: Path) -> None:
    """Red if week 1 begins on 1 January, or week 53 is left out; forecasts are written as 2030-W01."""
    times = pd.date_range("2009-12-28", periods=400, freq="W-MON")
    iso = times.isocalendar()
    frame = pd.DataFrame({year: iso["year"], week: [style.format(one) for one in iso["week"]], "cases": 7})
    series = read(frame, tmp_path)
    assert (list(series.timestamps), series.time_format) == (list(times), "%G-W%V")
    frame.loc[frame.index[60], week] = style.format(53)
    with pytest.raises(InputError, match=f"row 62, column '{week}': expected an ISO week of its year, found '.*53'"):
        read(frame, tmp_path)


@pytest.mark.parametrize(("style", "freq"), [("M{0.month:02d}", "MS"), ("Q{0.quarter}", "QS")])
def test_marked_numbers_next_to_years(style: str, freq: str, tmp_path: Path) -> None:
    """Red if a column of any name with M01 to M12 is text, as statistical offices write months."""
    times = pd.date_range("2015-01-01", periods=60, freq=freq)
    frame = pd.DataFrame({"id": "CUUR0000SA0", "Year": times.year, "Period": [*map(style.format, times)], "Value": 1.5})
    assert list(read(frame, tmp_path).timestamps) == list(times)


@pytest.mark.parametrize("name", ["SettlementPeriod", "settlement_period", "Trading Period"])
def test_half_hours_next_to_dates(name: str, tmp_path: Path) -> None:
    """Red if names are known in one spelling only, and each half hour becomes a series."""
    times = pd.date_range("2024-01-01", periods=480, freq="30min")
    numbers = 2 * times.hour + times.minute // 30 + 1
    frame = pd.DataFrame({"SettlementDate": times.date, "price": np.arange(480.0), name: numbers})
    assert list(read(frame, tmp_path).timestamps) == list(times)


def test_years_and_days_of_the_year(tmp_path: Path) -> None:
    """Red if day 60 of a leap year is in March."""
    days = pd.date_range("2023-06-01", periods=800)
    frame = pd.DataFrame({"year": days.year, "day of year": days.day_of_year, "load": np.arange(800)})
    assert list(read(frame, tmp_path).timestamps) == list(days)
    frame.loc[700, "year"] = 2023
    frame.loc[700, "day of year"] = 366
    with pytest.raises(InputError, match=r"row 702, column 'day of year': expected a day of its year, found '366'"):
        read(frame, tmp_path)


def test_numbers_after_a_year(tmp_path: Path) -> None:
    """Red if months are read as quarters or weeks, or weeks as months."""
    months = pd.date_range("1990-01-01", periods=40, freq="MS")
    for style in ("{0.year}-{0.month}", "{0:%Y-%m}", "{0.month}/{0.year}", "{0:%b %Y}", "{0:%B %Y}", "{0:%Y-%b}"):
        for times in (months, months[:4], months[:3], months[::12]):
            frame = pd.DataFrame({"period": map(style.format, times), "a": np.arange(len(times)) + 0.5})
            assert list(read(frame, tmp_path).timestamps) == list(times)
    weeks = pd.date_range("2019-12-30", periods=160, freq="W-MON")
    frame = pd.DataFrame({"period": weeks.strftime("%G-%V"), "a": np.arange(160) + 0.5})
    assert list(read(frame, tmp_path).timestamps) == list(weeks)
    quarters = pd.date_range("2000-01-01", periods=40, freq="QS")
    frame = pd.DataFrame({"period": [f"{time.year}-{time.quarter:02d}" for time in quarters], "a": 1.5})
    with pytest.raises(InputError, match=r"'2000-01' may be months or quarters.*dataset\.time_format='%Y-0%q'"):
        read(frame, tmp_path)
    assert list(read(frame, tmp_path, time_format="%Y-0%q").timestamps) == list(quarters)


def test_seasons_are_years(folder: Path) -> None:
    """Red if 2004/05, the fifth month by itself, is a month or week in a column of seasons; forecasts are seasons."""
    for first, style in ((1985, "{}/{:02}"), (2004, "{}/{:02}"), (2003, "{}-{:02}")):
        cells = [style.format(year, (year + 1) % 100) for year in range(first, first + 30)]
        for n in (2, 7, 30):
            frame = pd.DataFrame({"season": cells[:n], "members": np.arange(n) + 0.5})
            assert [*read(frame, folder).timestamps.year] == [*range(first, first + n)]
    frame = pd.DataFrame({"season": [f"{year}/{year + 1}" for year in range(1980, 2000)], "members": LOAD[:20]})
    assert [*read(frame, folder).timestamps.year] == [*range(1980, 2000)]
    frame["season"] = [f"{year}/{(year + 1) % 100:02}" for year in range(1980, 2000)]
    frame.to_csv("f.csv", index=False)
    done("forecast", "f.csv", "model=zero", "horizon=3", "output=o")
    (written,) = Path("o/forecasts").glob("*.csv")
    assert pd.read_csv(written, dtype=str)["season"].tolist() == ["2000/01", "2001/02", "2002/03"]


@pytest.mark.parametrize("style", ["%b", "%B"])
def test_names_of_months_and_quarters(style: str, tmp_path: Path) -> None:
    times = pd.date_range("1949-01-01", periods=40, freq="MS")
    frame = parts(times, "year", "month").assign(month=times.strftime(style))
    assert list(read(frame, tmp_path).timestamps) == list(times)
    frame.loc[5, "month"] = None
    with pytest.raises(InputError, match="row 7, column 'month': expected 1 to 12, found an empty cell"):
        read(frame, tmp_path)
    times = pd.date_range("1949-01-01", periods=40, freq="QS")
    frame = parts(times, "year", "quarter").assign(quarter=[f"Q{one}" for one in times.quarter])
    assert list(read(frame, tmp_path).timestamps) == list(times)


def test_a_time_column_wins_over_parts(tmp_path: Path) -> None:
    """Red if the parts of a local time replace the times of a column of dates; as values they stay as they are."""
    frame = parts(HOURS, "year", "month", "day", "hour").assign(time_hour=(HOURS + pd.Timedelta("5h")).astype(str))
    series = read(frame, tmp_path)
    assert series.time_col == "time_hour"
    assert series.timestamps[0] == HOURS[5]
    assert series.columns == ("year", "month", "day", "hour", "load")


@pytest.mark.parametrize(
    ("column", "row", "cell", "message"),
    [
        ("month", 3, 13, r"f.csv, row 5, column 'month': expected 1 to 12, found '13'"),
        ("hour", 0, 24, r"f.csv, row 2, column 'hour': expected 0 to 23, found '24'"),
        ("year", 7, 99, r"f.csv, row 9, column 'year': expected 1000 to 8999, found '99'"),
        ("day", 1, None, r"f.csv, row 3, column 'day': expected 1 to 31, found an empty cell"),
        ("day", 1, 1.5, r"f.csv, row 3, column 'day': expected 1 to 31, found '1.5'"),
    ],
)
def test_a_part_out_of_range_is_named(column: str, row: int, cell: object, message: str, tmp_path: Path) -> None:
    frame = parts(HOURS, "year", "month", "day", "hour").astype({column: object})
    frame.loc[row, column] = cell
    with pytest.raises(InputError, match=message):
        read(frame, tmp_path)


def test_a_day_that_a_month_lacks_is_named(tmp_path: Path) -> None:
    frame = parts(pd.date_range("2023-01-15", periods=60), "year", "month", "day")
    frame.loc[20, ["month", "day"]] = [2, 30]
    with pytest.raises(InputError, match=r"f.csv, row 22, column 'day': expected a day of its month, found '30'"):
        read(frame, tmp_path)


@pytest.mark.parametrize("names", [("month", "day"), ("year", "day"), ("year", "month", "hour")])
def test_incomplete_parts_are_no_time(names: tuple[str, ...], tmp_path: Path) -> None:
    """Red if day 1 to 31 without a month becomes a time; the line says what is missing."""
    with pytest.raises(InputError, match=r"no time column found.*may be parts of a time, which needs a year"):
        read(parts(pd.date_range("2023-01-01", periods=30), *names), tmp_path)


def test_a_model_of_joined_times_forecasts_and_scores_the_same_file(folder: Path) -> None:
    """Red if prediction reads other times than training, or a score compares other times. Hour 400 is the next one."""
    frame = parts(HOURS, "year", "month", "day", "hour").assign(load=LOAD)
    frame.insert(0, "No", np.arange(1, 401))
    frame.to_csv("f.csv", index=False)
    assert call("train", "dataset=csv", "dataset.path=f.csv", *SMALL, "trainer.max_steps=2", "run_dir=run").status == 0
    done("predict", "checkpoint=run", "input=f.csv", "output=out")
    (written,) = Path("out").glob("*.csv")
    forecast = pd.read_csv(written)
    following = pd.date_range(HOURS[-1] + pd.Timedelta("1h"), periods=6, freq="h")
    assert list(forecast.columns) == ["date", "load"]
    assert list(pd.to_datetime(forecast["date"])) == list(following)
    actual = parts(following, "year", "month", "day", "hour")
    actual.to_csv("actual.csv", index=False)
    scored = done("score", f"forecasts={written}", "actuals=actual.csv", "history=f.csv")
    error = (forecast["load"] - actual["load"]).abs().mean()
    assert f"{error:.4g}" in scored.out
    from_frame = Forecaster.load("run").predict(frame)
    np.testing.assert_allclose(from_frame["load"], forecast["load"], rtol=1e-5)


def test_years_are_written_as_years(folder: Path) -> None:
    years = pd.DataFrame({"YEAR": np.arange(1700, 2020), "spots": np.arange(320) % 11 + 0.5})
    years.to_csv("f.csv", index=False)
    done("train", "dataset=csv", "dataset.path=f.csv", *SMALL, "trainer.max_steps=2", "run_dir=run")
    done("predict", "checkpoint=run", "input=f.csv", "output=out")
    (written,) = Path("out").glob("*.csv")
    assert pd.read_csv(written)["YEAR"].tolist() == list(range(2020, 2026))


@pytest.mark.parametrize("order", [["date", "ts"], ["ts", "date"], ["Dates", "Date"], ["Date", "Dates"]])
def test_times_with_hours_are_preferred_to_their_dates(order: list[str], tmp_path: Path) -> None:
    """Red if every hour of a day has the time of its date. The column of dates is neither a value nor a category."""
    detailed = "ts" if "ts" in order else "Dates"
    columns = {name: HOURS.astype(str) if name == detailed else HOURS.strftime("%Y-%m-%d") for name in order}
    series = read(pd.DataFrame(columns | {"load": LOAD}), tmp_path)
    assert (series.time_col, series.columns) == (detailed, ("load",))
    assert list(series.timestamps) == list(HOURS)


def test_a_column_of_other_dates_is_no_time(tmp_path: Path) -> None:
    """Red if the unique times of a note replace dates that are named so but have a duplicate."""
    days = pd.date_range("2024-01-01", periods=60)
    frame = pd.DataFrame({"changed": (days + pd.Timedelta("40D7h")).astype(str), "date": days.astype(str), "a": 1.5})
    assert read(frame, tmp_path).time_col == "date"
    frame.loc[30, "date"] = frame.loc[29, "date"]
    with pytest.raises(InputError, match="row 32, column 'date': duplicate timestamp"):
        read(frame, tmp_path)


def test_two_columns_of_times_that_are_alike_are_named(tmp_path: Path) -> None:
    """Red if one is taken that is not the beginning of intervals that the other ends."""
    days = pd.date_range("2024-01-01", periods=60)
    shifted = days + pd.Timedelta("6h")
    frame = pd.DataFrame({"utc": days.astype(str), "local": shifted.astype(str), "a": 1.5})
    with pytest.raises(InputError, match=r"dataset\.time_col=utc or dataset\.time_col=local"):
        read(frame, tmp_path)
    assert list(read(frame, tmp_path, time_col="utc").timestamps) == list(days)
    assert read(frame.assign(local=frame["utc"]), tmp_path).time_col == "utc"
    ends = frame.assign(local=(days + pd.Timedelta("1D")).astype(str))
    intervals = ends.rename(columns={"utc": "valid_from", "local": "valid_to"})
    assert list(read(intervals, tmp_path).timestamps) == list(days)
    assert list(read(intervals[::-1], tmp_path, sort=True).timestamps) == list(days)
    table = table_of_frame(intervals.astype({"valid_from": "category", "valid_to": "category"}), "f")
    assert find_time_column(table, None) == "valid_from"
    # as times of issue and of what was forecast, and ends left of beginnings
    for doubtful in (
        ends,
        ends.rename(columns={"utc": "issued", "local": "valid"}),
        intervals[intervals.columns[[1, 0, 2]]],
    ):
        for rows in (doubtful, doubtful[::-1]):
            with pytest.raises(InputError, match=r"dataset\.time_col=.* or dataset\.time_col="):
                read(rows, tmp_path)


def test_dates_are_not_proposed_as_categories(folder: Path) -> None:
    frame = pd.DataFrame({"Dates": HOURS.astype(str), "Date": HOURS.strftime("%Y-%m-%d"), "kind": "a", "load": LOAD})
    frame.loc[::7, "kind"] = "b"
    frame.to_csv("f.csv", index=False)
    ended = done("inspect", "f.csv")
    assert "'dataset.categorical=[kind]'" in ended.out
    assert "categorical=[Date" not in ended.out
    assert "f.csv: times are those of 'Dates', not of Date; dataset.time_col names another" in ended.out


def test_whole_hours_next_to_dates(tmp_path: Path) -> None:
    """Red if hours that do not rise within a day become times."""
    opening = {"dteday": HOURS.strftime("%Y-%m-%d"), "hr": np.random.default_rng(0).integers(6, 10, 400), "load": LOAD}
    with pytest.raises(InputError, match="duplicate timestamp"):
        read(pd.DataFrame(opening), tmp_path)


DIGITS, HALVES = HOURS.strftime("%Y%m%d"), ("a. m.", "p. m.")
# who writes so -> columns of the time; the last is in another zone
CLOCKS = {
    "years, months and days next to text": {
        "year": HOURS.year, "month": HOURS.month, "day": HOURS.day, "time": HOURS.strftime("%H:%M")
    },
    "years and days of the year": {"Year": HOURS.year, "DOY": HOURS.day_of_year, "Hour": HOURS.hour},
    "dates and hours": {"dteday": HOURS.strftime("%Y-%m-%d"), "hr": HOURS.hour},
    "digits and hours": {"YYYYMMDD": DIGITS, "hour": HOURS.hour},
    "the Netherlands, hours 1 to 24": {"YYYYMMDD": DIGITS, "HH": HOURS.hour + 1},
    "the USA, hours 0 to 2300": {"YYYYMMDD": DIGITS, "time": HOURS.hour * 100},
    "weather stations, 12:00a": {
        "Date": HOURS.strftime("%d/%m/%Y"),
        "Time": HOURS.strftime("%I:%M").str.lstrip("0") + np.where(HOURS.hour < 12, "a", "p"),
    },
    "Spain": {"fecha": HOURS.strftime("%d/%m/%Y %I:%M:%S ") + np.where(HOURS.hour < 12, *HALVES)},
    "energy statistics of the USA": {
        "time": HOURS.strftime("%d/%m/%Y %I ") + np.where(HOURS.hour < 12, "a.m. EST", "p.m. EST")
    },
}  # fmt: skip


@pytest.mark.parametrize("who", CLOCKS)
def test_times_of_day_are_read_with_their_dates(who: str, tmp_path: Path) -> None:
    """Red if an hour is a value, is left out, or is that of another day."""
    series = read(pd.DataFrame(CLOCKS[who] | {"load": LOAD}), tmp_path)
    expected = (HOURS + pd.Timedelta("5h")).tz_localize("UTC") if series.timestamps.tz is not None else HOURS
    assert list(series.timestamps) == list(expected)
    assert (series.timestamps.tz is not None) == (who == "energy statistics of the USA")
    assert series.columns == ("load",)


def test_row_numbers_in_a_named_first_column(folder: Path) -> None:
    """Red if `No` is forecast; a column of another name that rises in the same way stays."""
    frame = pd.DataFrame({"No": np.arange(1, 401), "date": HOURS.astype(str), "load": LOAD})
    frame.to_csv("f.csv", index=False)
    ended = call("inspect", "f.csv")
    assert "f.csv: column 'No' numbers the rows, and is not used" in ended.out
    assert "columns:  load\n" in ended.out
    assert read(frame.rename(columns={"No": "trend"}), folder).columns == ("trend", "load")
    assert read(frame.assign(No=LOAD), folder).columns == ("No", "load")
    assert read(frame, folder, columns=["No"]).columns == ("No",)
    assert read(frame[:2], folder).columns == ("load",)


def test_row_numbers_of_a_file_of_several_series(tmp_path: Path) -> None:
    """Red if the number of the row is left out of some series only: in a the steps are equal, in b they are not."""
    names = ["a", "b"] * 30 + ["b"] * 60 + ["a", "b", "b"]
    frame = pd.DataFrame({"id": np.arange(len(names)), "shop": names, "sold": 1.5})
    frame["date"] = HOURS[frame.groupby("shop").cumcount()].astype(str)
    panel = panel_written(frame[["id", "shop", "date", "sold"]], tmp_path, series_col="shop")
    assert [(one.name, one.columns) for one in panel] == [("a", ("sold",)), ("b", ("sold",))]


MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]


def test_months_in_columns(folder: Path) -> None:
    """Red if a value goes to another month, the mean of a year is a column, or predict reads another table."""
    times, values = pd.date_range("1950-01-01", periods=600, freq="MS"), np.arange(600) % 12 + 0.5
    wide = pd.DataFrame(values.reshape(50, 12), columns=MONTHS)
    wide.insert(0, "Year", range(1950, 2000))
    wide.iloc[-1, 11:] = np.nan
    turned = wide.set_index("Year")[MONTHS].T.rename_axis("Month").rename(columns=str).reset_index()
    for table in (wide.assign(Annual=wide[MONTHS].mean(axis=1)), turned):
        series = read(table, Path())
        assert series.columns == ("value",)
        assert list(series.timestamps) == list(times[:-2])
        np.testing.assert_array_equal(series.values[:, 0], values[:-2])
    stations = pd.concat([wide.assign(Station=name) for name in "ab"])[["Station", "Year", *MONTHS]]
    stations.to_csv("f.csv", index=False)
    done(
        "train", "dataset=csv", "dataset.path=f.csv", "dataset.series_col=Station", "model=linear", *SIZES, "run_dir=r"
    )
    done("predict", "checkpoint=r", "input=f.csv", "output=o")
    found = pd.read_csv("o/f.forecast.csv").query("Station == 'b'")
    assert found["date"].tolist() == ["1999-11-01", "1999-12-01", "2000-01-01"]
    np.testing.assert_allclose(found["value"], [10.5, 11.5, 0.5], atol=0.2)


@pytest.mark.parametrize("names", ["H{}", "Hour {:02}", "{}", "HE{:02}", "{:02}:00", "{}:00", "half"])
def test_hours_in_columns(names: str, tmp_path: Path) -> None:
    """Red if a value goes to another hour, or the hour of a clock change is lost."""
    zone, begins_at_0 = "Europe/Madrid", names.endswith(":00")
    freq, per_day = ("30min", 48) if names == "half" else ("1h", 24)
    is_local = not begins_at_0 and per_day == 24
    times = pd.date_range("2023-10-01", "2024-04-10", freq=freq, inclusive="left", tz=zone if is_local else None)
    numbers = (times - times.normalize()) // pd.Timedelta(freq) + (not begins_at_0)
    clocks = [f"{n // 2:02}:{n % 2 * 30:02}" for n in range(48)]
    columns = [clocks[n - 1] if per_day == 48 else names.format(n) for n in numbers]
    frame = pd.DataFrame({"day": times.strftime("%Y-%m-%d"), "column": columns, "load": np.arange(len(times)) + 0.5})
    wide = frame.pivot(index="day", columns="column", values="load")[[*dict.fromkeys(columns)][:per_day]]
    if is_local:
        wide[names.format(25)] = frame[numbers == 25].set_index("day")["load"]
    series = read(wide.reset_index(), tmp_path, **({"timezone": zone} if is_local else {}))
    assert list(series.timestamps) == list(times)
    np.testing.assert_array_equal(series.values[:, 0], frame["load"])
    name = wide.columns[1]
    assert read(wide.reset_index(), tmp_path, columns=[name], fill=Fill.mask).columns == (name,)


def test_parts_of_times_next_to_a_blank_row(tmp_path: Path) -> None:
    """Red if the rows after it get the times of others."""
    frame = parts(pd.date_range("2020-01-01", periods=40, freq="MS"), "year", "month")
    lines = frame.to_csv(index=False).splitlines(keepends=True)
    series = read("".join([*lines[:9], "\n", *lines[9:]]), tmp_path)
    assert list(series.timestamps) == list(pd.date_range("2020-01-01", periods=40, freq="MS"))


def test_what_has_no_time_is_told_what_to_do(tmp_path: Path) -> None:
    """The added column can be read."""
    with pytest.raises(InputError, match=r"'1-01' in column 'Month' have no year of four digits: write 2001-01"):
        read(pd.DataFrame({"Month": ["1-01", "1-02", "1-03"], "sales": 1.5}), tmp_path)
    with pytest.raises(InputError, match=r"frame\.insert\(0, 'date', pandas\.date_range\('2024-01-01'"):
        read(pd.DataFrame({"a": [1, 2, 3], "b": 1.5}), tmp_path)
    frame = pd.DataFrame({"a": [1, 2, 3], "b": 1.5})
    frame.insert(0, "date", pd.date_range("2024-01-01", periods=len(frame), freq="D"))
    assert len(read(frame, tmp_path)) == 3


@pytest.mark.parametrize(
    ("written", "step"), [("%Y%m%d", "7D"), ("%Y%m%d%H", "h"), ("%Y%m%d%H%M", "15min"), ("%Y%m%d%H%M%S", "12h")]
)
def test_whole_numbers_are_dates_with_the_year_first(written: str, step: str, tmp_path: Path) -> None:
    """Red if a column of such numbers is overlooked, read as counts, or with another order of its digits."""
    times = pd.date_range("1958-03-29", periods=800, freq=step)
    frame = pd.DataFrame({"mess_datum": times.strftime(written), "co2": np.resize(LOAD, 800)})
    series = read(frame, tmp_path)
    assert (series.time_col, series.time_format) == ("mess_datum", written)
    assert list(series.timestamps) == list(times)
    frame.loc[5, "mess_datum"] = ""
    with pytest.raises(InputError, match=r"row 7, column 'mess_datum': expected a date like .*, found an empty cell"):
        read(frame, tmp_path)
    numbers = pd.DataFrame({"a": 20_240_101 + np.arange(60), "b": 1.5})  # there is no 32nd of January
    with pytest.raises(InputError, match="no time column found among a, b"):
        read(numbers, tmp_path)
    with pytest.raises(InputError, match="no time column found among a, b"):  # may count rows
        read(numbers[:28], tmp_path)


def test_other_times_come_before_numbers_that_are_dates(tmp_path: Path) -> None:
    """Red if numbers are taken instead of times of text, years or counts, or the first of two columns of them."""
    days = pd.date_range("2023-12-01", periods=40)
    digits, later = days.strftime("%Y%m%d").astype(int), (days + pd.Timedelta("3D")).strftime("%Y%m%d").astype(int)
    frame = pd.DataFrame({"ds": later, "timestamp": days.strftime("%d/%m/%Y"), "a": 1.5})
    assert list(read(frame, tmp_path).timestamps) == list(days)
    frame = pd.DataFrame({"Datum": HOURS, "period": HOURS.strftime("%Y%m"), "ds": HOURS.strftime("%Y%m%d"), "a": LOAD})
    assert list(read(frame, tmp_path).timestamps) == list(HOURS)
    frame = pd.DataFrame(
        {"published": [f"{year}0315" for year in range(1991, 2021)], "year": range(1990, 2020), "a": 1}
    )
    assert read(frame, tmp_path).time_col == "year"
    frame = pd.DataFrame({"time": range(40), "batch": digits, "a": 1.5})
    assert read(frame, tmp_path).time_format == "step"
    seconds = days.astype("datetime64[s]").astype("int64")
    with pytest.raises(InputError, match=r"column 'time': .* counts of s since 1970"):
        read(frame.assign(time=seconds), tmp_path)
    for names in ("issue", "valid"), ("valid", "issue"):
        frame = pd.DataFrame({names[0]: digits, names[1]: later, "a": 1.5})
        with pytest.raises(InputError, match=f"dataset.time_col={names[0]} or dataset.time_col={names[1]}"):
            read(frame, tmp_path)
    huge = table_of_frame(pd.DataFrame({"date": digits, "a": 1e300}), "f")
    assert find_time_column(huge, None) == "date"


def test_a_december_may_be_missing(tmp_path: Path) -> None:
    """Red if numbers of months are no times where the only step to another year is longer."""
    months = pd.date_range("2022-01", periods=24, freq="MS")
    frame = pd.DataFrame({"month": months.strftime("%Y%m"), "a": LOAD[:24]}).drop(index=11)
    assert list(read(frame, tmp_path, fill=Fill.linear).timestamps) == list(months)


def test_a_format_that_is_set_reads_dates_of_eight_digits_and_hours(tmp_path: Path) -> None:
    """Red if the dates are written in another way before the format reads them."""
    frame = pd.DataFrame({"day": HOURS.strftime("%Y%m%d"), "hour": HOURS.strftime("%H:%M"), "load": LOAD})
    for written in ("%Y%m%d %H:%M", "ISO8601"):
        series = read(frame, tmp_path, time_col="day", clock_col="hour", time_format=written)
        assert list(series.timestamps) == list(HOURS)


@pytest.mark.parametrize("written", ["%y%m%d", "%d%m%Y", "%Y%j"])
def test_numbers_in_another_order_name_their_format(written: str, tmp_path: Path) -> None:
    """Red if they are read as weeks or counts, or the format that is named does not read them."""
    days = pd.date_range("2023-01-01", periods=400)
    frame = pd.DataFrame({"date": days.strftime(written), "load": LOAD})
    for rows in (frame, frame[:25]):
        with pytest.raises(InputError, match=f"found numbers such as .*; set dataset.time_format={written}.*, or name"):
            read(rows, tmp_path)
    assert list(read(frame, tmp_path, time_format=written).timestamps) == list(days)


def test_years_with_fractions_have_a_cure(tmp_path: Path) -> None:
    """Red if the line of Python that is named does not give the months."""
    frame = pd.DataFrame({"decimal": (1958 + 2 / 12 + (np.arange(120) + 0.5) / 12).round(4), "co2": LOAD[:120]})
    with pytest.raises(InputError, match=r"years such as .* need months: frame") as caught:
        read(frame, tmp_path)
    exec(str(caught.value).partition("need months: ")[2], {"frame": frame, "pandas": pd})
    assert list(read(frame, tmp_path).timestamps) == list(pd.date_range("1958-03", periods=120, freq="MS"))


def test_half_hours_as_columns_named_after_their_ends(tmp_path: Path) -> None:
    """Red if they stay columns, or the first is not the one after midnight."""
    ends = [f"{minute // 60 % 24}:{minute % 60:02d}" for minute in range(30, 1441, 30)]
    days = pd.date_range("2024-01-01", periods=40)
    values = np.arange(40 * 48.0)
    frame = pd.DataFrame(values.reshape(40, 48), columns=ends)
    frame.insert(0, "date", days.strftime("%d/%m/%Y"))
    series = read(frame, tmp_path)
    assert list(series.timestamps) == list(pd.date_range("2024-01-01", periods=40 * 48, freq="30min"))
    np.testing.assert_array_equal(series.values[:, 0], values)


def test_labels_in_the_first_row_of_a_group(tmp_path: Path) -> None:
    """As pivot tables write them. Red if other rows have none; cells of a column next to unique times stay empty."""
    months = pd.date_range("2000-01", periods=60, freq="MS")
    firsts = np.arange(60) % 12 == 0
    names = months.strftime("%b")
    frame = pd.DataFrame({"Year": np.where(firsts, months.year.astype(str), ""), "Month": names, "load": LOAD[:60]})
    series = read(frame, tmp_path)
    assert list(series.timestamps) == list(months)
    assert "cells of Year in the first row of a group" in series.dialect.uncommon()
    days = pd.DataFrame({"Day": HOURS.strftime("%d/%m/%Y"), "Hour": HOURS.hour, "load": LOAD})
    days.loc[HOURS.hour > 0, "Day"] = ""
    assert list(read(days, tmp_path).timestamps) == list(HOURS)
    shops = pd.concat([pd.DataFrame({"shop": shop, "date": months, "load": LOAD[:60]}) for shop in ("a", "b")])
    shops = shops.reset_index(drop=True)
    shops.loc[shops.index % 60 > 0, "shop"] = ""
    panel = panel_written(shops, tmp_path, series_col="shop")
    assert [(series.name, len(series)) for series in panel] == [("a", 60), ("b", 60)]
    notes = pd.DataFrame({"event": np.where(firsts, "sale", ""), "date": months, "load": LOAD[:60]})
    notes.to_csv(tmp_path / "f.csv", index=False)
    assert table_of_file(tmp_path / "f.csv", DatasetConfig()).frame["event"].notna().sum() == 5


def test_text_in_columns_of_months_is_named(tmp_path: Path) -> None:
    """Red if the program fails where a table of months has text in a cell."""
    frame = pd.DataFrame(LOAD[:360].reshape(30, 12), columns=MONTHS).astype(object)
    frame.insert(0, "Year", np.arange(1990, 2020))
    frame.loc[29, "DEC"] = "***"
    with pytest.raises(InputError, match=r"column 'value': expected a number, found '\*\*\*'; .*missing_values=\["):
        read(frame, tmp_path)
    frame.loc[29, "NOV"] = "***"
    with pytest.raises(InputError, match=r"found '\*\*\*' \(2 such cells\); .*missing_values=\["):
        read(frame, tmp_path)
    frame.loc[29, "NOV"] = LOAD[358]
    np.testing.assert_allclose(read(frame, tmp_path, missing_values=["***"]).values[:, 0], LOAD[:359], rtol=1e-15)


def test_one_time_in_all_rows_is_a_duplicate() -> None:
    """Red if the search for clock changes fails on a single distinct time."""
    with pytest.raises(InputError, match=r"duplicate timestamp 2024-01-01 00:00:00 \(2 of 3 rows repeat a time\)"):
        series_from_frame(pd.DataFrame({"date": ["2024-01-01"] * 3, "a": [1.0, 2, 3]}), DatasetConfig(), "f")


def test_times_at_which_rows_were_written_are_not_taken(tmp_path: Path) -> None:
    """Red if `loaded` replaces dates that two shops share: it has their days and is unique, but no time repeats."""
    days = pd.date_range("2024-01-01", periods=60).repeat(2)
    loaded = days + pd.to_timedelta(np.random.default_rng(0).integers(0, 86_400, 120), unit="s")
    frame = pd.DataFrame({"date": days.astype(str), "shop": ["a", "b"] * 60, "a": 1.5, "loaded": loaded.astype(str)})
    panel = panel_written(frame, tmp_path, series_col="shop")
    assert [(one.time_col, one.columns, len(one)) for one in panel] == [("date", ("a",), 60)] * 2


def test_numbers_that_look_like_months_are_still_an_error(tmp_path: Path) -> None:
    """Red if a column of numbers with another decimal mark is left out as one of dates (12.2015 may be 122,015)."""
    with pytest.raises(InputError, match=r"column 'b': expected a number, found '12\.2015'"):
        read("date;a;b\n" + "".join(f"{day:%Y-%m-%d};1,5;12.2015\n" for day in HOURS[::24]), tmp_path)


def test_late_rows_are_on_their_grid(folder: Path) -> None:
    """Red if times of a sensor are refused, rounded without a note, or if rounding hides missing and double rows."""
    grid = pd.date_range("2024-01-01 10:00", periods=400, freq="10min")
    late = grid + pd.to_timedelta(np.random.default_rng(0).integers(0, 9, 400), unit="s")
    frame = pd.DataFrame({"time": late.astype(str), "load": LOAD})
    assert list(read(frame, folder).timestamps) == list(grid)
    ended = call("inspect", "f.csv")
    assert "times rounded to steps of 10min, from which they are up to 8 s off" in ended.out
    assert "problems: none" in ended.out
    with pytest.raises(
        InputError, match=r"expected 2024-01-01 11:10:00 .*, found 2024-01-01 11:20:00: 1 row is missing"
    ):
        read(frame.drop(index=7), folder)
    again = pd.concat([frame[:8], frame[7:8].assign(time=str(late[7] + pd.Timedelta("2s"))), frame[8:]])
    with pytest.raises(InputError, match=r"row 10, column 'time': duplicate timestamp 2024-01-01 11:10:00"):
        read(again, folder)
    frame[300:].to_csv("actual.csv", index=False)
    forecast = pd.DataFrame({"time": grid[300:306].astype(str), "load": LOAD[300:306] + 0.25})
    forecast.to_csv("forecast.csv", index=False)
    frame[:300].to_csv("history.csv", index=False)
    scored = call("score", "forecasts=forecast.csv", "actuals=actual.csv", "history=history.csv")
    assert "0.25" in scored.out, scored.err


@pytest.mark.parametrize("mark", [" - ", "-", " \u2013 ", " to ", "/"])
@pytest.mark.parametrize("end", ["%H:%M", "%Y-%m-%d %H:%M"])
def test_intervals_in_one_cell_begin_at_their_start(mark: str, end: str, tmp_path: Path) -> None:
    """Red if the end of an interval is read as an offset from UTC, or an offset as an end."""
    if mark in ("-", "/") and (mark == "/") != (len(end) > 5):
        return  # 2024-01-01/01:00 and 10:00-2024-01-01 are not written
    hours = HOURS[:60]
    cells = hours.strftime("%Y-%m-%d %H:%M") + mark + (hours + pd.Timedelta("1h")).strftime(end)
    assert list(read(pd.DataFrame({"MTU": cells, "load": LOAD[:60]}), tmp_path).timestamps) == list(hours)
    local = HOURS.tz_localize("Etc/GMT+5")
    cells = local.strftime("%Y-%m-%d %H:%M") + "-05:00"
    assert list(read(pd.DataFrame({"MTU": cells, "load": LOAD}), tmp_path).timestamps) == list(local)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "UTC"])
@pytest.mark.parametrize("style", ["%Y-%m-%d %H:%M %Z", "%d.%m.%Y %H:%M:%S %Z"])
def test_names_of_offsets(zone: str, style: str, tmp_path: Path) -> None:
    """Red if CEST is read as CET, or the hours of a clock change are doubled or left out."""
    times = pd.date_range("2023-10-20", periods=400, freq="h", tz=zone)
    frame = pd.DataFrame({"time": times.strftime(style), "load": LOAD})
    series = read(frame, tmp_path)
    assert (list(series.timestamps), str(series.timestamps.tz)) == (list(times), zone)
    frame.loc[5, "time"] = frame.loc[5, "time"].rpartition(" ")[0] + " IST"
    with pytest.raises(InputError, match="row 7, column 'time': expected the name of a time zone such as CET"):
        read(frame, tmp_path)


def test_one_name_of_an_offset_all_year_has_no_clock_changes(tmp_path: Path) -> None:
    times = pd.date_range("2024-01-01", periods=8000, freq="h", tz="Etc/GMT-1")
    frame = pd.DataFrame({"time": times.strftime("%Y-%m-%d %H:%M CET"), "load": 1.5 + np.arange(8000) % 7})
    assert list(read(frame, tmp_path).timestamps) == list(times)


def _label(hour: int, style: str) -> str | int:
    return {
        "range": f"{hour:02d}:00-{(hour + 1) % 24:02d}:00",
        "range to": f"{hour}:00 to {hour + 1}:00",
        "H01": f"H{hour + 1:02d}",
        "HE": f"HE {hour + 1}",
        "01h": f"{hour + 1:02d}h",
        "0h": f"{hour}h",
        "AM": f"{(hour + 11) % 12 + 1} {'AM' if hour < 12 else 'PM'}",
        "am": f"{(hour + 11) % 12 + 1}:00 {'am' if hour < 12 else 'pm'}",
        "dots": f"{hour:02d}.00.00",
        "1 to 24": hour + 1,
        "100 to 2400": 100 * (hour + 1),
        "0 to 2300": 100 * hour,
    }[style]


@pytest.mark.parametrize("style", ["range", "range to", "H01", "HE", "01h", "0h", "AM", "am", "dots", "1 to 24",
                                   "100 to 2400", "0 to 2300"])  # fmt: skip
def test_hours_of_a_day_are_not_series(style: str, tmp_path: Path) -> None:
    """Red if the hour of a row is taken for the name of its series, or for another hour."""
    times = pd.date_range("2024-01-01", periods=480, freq="h")
    labels = [_label(hour, style) for hour in times.hour]
    frame = pd.DataFrame({"date": times.strftime("%d/%m/%Y"), "hour": labels, "load": LOAD[0] + np.arange(480.0)})
    assert list(read(frame, tmp_path).timestamps) == list(times)


def test_hours_that_are_not_understood_are_no_series_either(folder: Path) -> None:
    """Red if a column of hours with an hour 25 separates 25 daily series."""
    times = pd.date_range("2024-01-01", periods=480, freq="h")
    labels = [*(f"H{hour + 1}" for hour in times.hour[:-1]), "H25"]
    frame = pd.DataFrame({"date": times.date, "hour": labels, "load": np.arange(480.0)})
    frame.to_csv("f.csv", index=False)
    outcome = call("inspect", "f.csv")
    assert outcome.status == 2
    assert "series_col=hour" not in outcome.out
    assert "for times of day in another column, dataset.clock_col" in outcome.out


@pytest.mark.parametrize("kind", ["objects", "timestamps", "workbook"])
def test_cells_of_dates_and_of_times_of_day(kind: str, tmp_path: Path) -> None:
    """Red if a frame or workbook with date cells and time cells is read as daily series."""
    times = pd.date_range("2024-01-01", periods=72, freq="h")
    dates = times.normalize() if kind == "timestamps" else times.date
    frame = pd.DataFrame({"Date": dates, "Time": times.time, "load": np.arange(72.0)})
    if kind == "workbook":
        frame.to_excel(tmp_path / "f.xlsx", index=False)
        series = read_series(tmp_path / "f.xlsx", DatasetConfig())
    else:
        table = prepared(table_of_frame(frame, "f"), DatasetConfig())
        series = series_from_table(table, DatasetConfig(), "f")
    assert list(series.timestamps) == list(times)


@pytest.mark.parametrize("written", ["%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y %H:%M", "%d/%m/%Y %H.%M"])
def test_midnight_as_the_end_of_a_day(written: str, tmp_path: Path) -> None:
    """Red if 24:00 is not 00:00 of the next day."""
    times = pd.date_range("2024-01-30 01:00", periods=400, freq="h")
    previous = (times - pd.Timedelta("1D")).strftime(written)
    mark = "T" if "T" in written else " "
    midnight = [f"{before.split(mark)[0]}{mark}{before.split(mark)[1].replace('00', '24', 1)}" for before in previous]
    cells = np.where(times.hour == 0, midnight, times.strftime(written))
    assert list(read(pd.DataFrame({"time": cells, "load": LOAD}), tmp_path).timestamps) == list(times)


@pytest.mark.parametrize("written", ["%d%m%Y", "%m%d%Y", "%d%m%y"])
def test_digits_keep_their_leading_zeros(written: str, tmp_path: Path) -> None:
    """Red if 01021990 is read as the number 1021990, which is another date."""
    times = pd.date_range("1990-01-01", periods=100, freq="D")
    frame = pd.DataFrame({"date": times.strftime(written), "load": np.arange(100.0)})
    assert list(read(frame, tmp_path, time_format=written).timestamps) == list(times)


@pytest.mark.parametrize("line", ["sep=;\n", '"sep=;"\r\n', "\ufeffsep=;\n"])
def test_the_line_with_the_separator_is_no_header(line: str, tmp_path: Path) -> None:
    """Red if the line that spreadsheets write is the header, or if rows are counted without it."""
    rows = [f"{time:%d.%m.%Y};{place},5" for place, time in enumerate(pd.date_range("2024-01-01", periods=40))]
    path = tmp_path / "f.csv"
    path.write_text(line + "\n".join(["Datum;Wert", *rows]), encoding="utf-8", newline="")
    assert read_series(path, DatasetConfig()).values[:, 0].tolist() == [place + 0.5 for place in range(40)]
    assert len(read_table(path).frame) == 40
    path.write_text(line + "\n".join(["Datum;Wert", *rows[:5], "06.01.2024;?", *rows[6:]]), encoding="utf-8")
    with pytest.raises(InputError, match=r"f.csv, row 8, column 'Wert'"):
        read_series(path, DatasetConfig())
    path.write_text(line + "\n".join(["Datum;Wert", *rows[:5], "06.01.2024;1;2", *rows[6:]]), encoding="utf-8")
    with pytest.raises(InputError, match=r"f\.csv, row 8: expected 2 cells"):
        read_series(path, DatasetConfig())


WIDE = {
    "days": ("2023-01-{:02d}", range(1, 29), "2023-01-01", "D"),
    "days of Americans": ("1/{}/23", range(1, 29), "2023-01-01", "D"),
    "months": ("2019-{:02d}", range(1, 13), "2019-01-01", "MS"),
    "months of Spaniards": ("{:02d}/2019", range(1, 13), "2019-01-01", "MS"),
    "years": ("{}", range(1990, 2018), "1990-01-01", "YS"),
    "years of the World Bank": ("{0} [YR{0}]", range(1990, 2018), "1990-01-01", "YS"),
    "years of R": ("X{}", range(1990, 2018), "1990-01-01", "YS"),
}


@pytest.mark.parametrize("what", WIDE)
def test_dates_as_names_of_columns(what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A row is a series from its first value on; red if a value is lost or gets another time."""
    pattern, numbers, first, step = WIDE[what]
    values = np.arange(3.0 * len(numbers)).reshape(3, -1)
    values[1, :3] = np.nan
    frame = pd.DataFrame(values, columns=[pattern.format(number) for number in numbers])
    frame.insert(0, "page", ["a", "b", "c"])
    frame.loc[0.5, "page"] = "without values"
    caplog.set_level("INFO", "informer")
    panel = panel_written(frame.sort_index(), tmp_path, series_col="page")
    assert [series.name for series in panel] == ["a", "b", "c"]
    times = pd.date_range(first, periods=len(numbers), freq=step)
    for k, series in enumerate(panel):
        begin = 3 * (k == 1)
        assert series.timestamps.equals(times[begin:])
        np.testing.assert_array_equal(series.values[:, 0], values[k, begin:])
    assert f"{len(numbers)} columns named after dates are read as rows" in caplog.text
    assert "without rows 3, which have no value" in caplog.text


@pytest.mark.parametrize(("name", "kept"), [("Total", 3), ("total energy", 4), ("Gesamt", 3), ("d", 4)])
def test_a_row_of_sums_next_to_dates_as_columns_is_no_series(name: str, kept: int, tmp_path: Path) -> None:
    """Red if totals are counted twice, or a series is left out for its name or its values alone."""
    values = np.random.default_rng(0).normal(1000, 100, (3, 24))
    last = values.sum(axis=0) + (70.0 if name == "total energy" else 0.0)
    names = [str(month)[:7] for month in pd.date_range("2019-01-01", periods=24, freq="MS")]
    frame = pd.DataFrame(np.vstack([values.round(), last.round()]), columns=names)
    frame.insert(0, "region", ["a", "b", "c", name])
    panel = panel_written(frame, tmp_path, series_col="region")
    assert [series.name for series in panel] == ["a", "b", "c", name][:kept]
    assert ("not read: row 5, the sum of the others" in panel[0].dialect.note) == (kept == 3)


def test_the_command_for_steps_as_names_of_columns_works(tmp_path: Path) -> None:
    """The proposed command is run, and the file that it writes is read."""
    values = np.arange(80.0).reshape(2, -1)
    wide = pd.DataFrame(values, columns=[f"d_{i}" for i in range(1, 41)])
    wide.insert(0, "x", ["a", "b"])
    with pytest.raises(InputError, match="no time column found") as error:
        panel_written(wide, tmp_path)
    command = str(error.value).partition("such as pandas")[2].removesuffix(" with your first day")
    written = command.split("to_csv('")[1].split("'")[0]
    code = f"pandas{command}".replace("'f.csv'", repr(str(tmp_path / "f.csv")))
    exec(code.replace(repr(written), repr(str(tmp_path / written))), {"pandas": pd})
    panel = read_panel([tmp_path / written], DatasetConfig(series_col="x"), None)
    np.testing.assert_array_equal([series.values[:, 0] for series in panel], values)


@pytest.mark.parametrize(
    ("minutes", "clocks"),
    [
        ([0], ["{hour}.00"]),
        ([0, 30], ["{hour}.00", "{hour}.30"]),
        ([0, 30], ["{hour}.0", "{hour}.5"]),
        ([0, 15, 30, 45], ["{hour:02}.00", "{hour:02}.15", "{hour:02}.30", "{hour:02}.45"]),
        ([0, 15, 30, 45], ["{hour}", "{hour}.25", "{hour}.5", "{hour}.75"]),
    ],
)
def test_times_of_day_with_a_point_in_a_column(minutes: list[int], clocks: list[str], folder: Path) -> None:
    """Red if 13.30 is taken for 13:18, or 13.5 for 13:50."""
    times = [f"{hour:02}:{minute:02}" for hour in range(24) for minute in minutes]
    cells = [clock.format(hour=hour) for hour in range(24) for clock in clocks]
    rows = [f"{day},{cell},{k}" for day in ("2024-05-13", "2024-05-14") for k, cell in enumerate(cells)]
    (folder / "f.csv").write_text("\n".join(["date,time,load", *rows]))
    (read,) = read_panel([folder / "f.csv"], DatasetConfig(), None)
    assert read.timestamps.strftime("%H:%M").tolist() == 2 * times


@pytest.mark.parametrize(("name", "first", "step"), [("t", 1, 1), ("time", 0, 1), ("Step", 100, 5), ("cycle", 1, 1)])
def test_rows_with_numbers_instead_of_times(
    name: str, first: int, step: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Red if they are refused, get dates, or have a calendar; the last needs `time_col`."""
    numbers = first + step * np.arange(200)
    pd.DataFrame({name: numbers, "load": LOAD[:200]}).to_csv("f.csv", index=False)
    named = [f"dataset.time_col={name}"] if name == "cycle" else []
    ended = done("forecast", "f.csv", *named, "model=zero", "horizon=6", "output=o")
    written = pd.read_csv(folder / "o" / "forecasts" / "f.forecast.csv")
    assert written[name].tolist() == (numbers[-1] + step * np.arange(1, 7)).tolist()
    assert f"200 numbered rows, {first} to {numbers[-1]}; columns load" in ended.out
    assert f"to {numbers[-1] + 6 * step})" in ended.out


def test_series_with_numbers_instead_of_times(folder: Path) -> None:
    """Each begins with 1; years, days since 1970 and a column next to dates are not numbers of rows."""
    frame = pd.DataFrame({"t": [*range(1, 41), *range(1, 51)], "shop": ["a"] * 40 + ["b"] * 50, "load": LOAD[:90]})
    frame.to_csv("f.csv", index=False)
    one, other = read_panel([folder / "f.csv"], DatasetConfig(series_col="shop"), None)
    assert (len(one), len(other), one.frequency.code, other.time_format) == (40, 50, "step", "step")
    with pytest.raises(InputError, match="expected dates, found numbers such as 1990"):
        read(pd.DataFrame({"time": range(1990, 2020), "load": LOAD[:30]}), folder)
    with pytest.raises(InputError, match=r"row 4, column 't': expected 3 \(step step\), found 5: 2 rows are missing"):
        read(pd.DataFrame({"t": [1, 2, 5, 6, 7], "load": LOAD[:5]}), folder, time_col="t", time_format="step")
    dated = pd.DataFrame({"t": range(1, 31), "date": pd.date_range("2024-01-01", periods=30), "load": LOAD[:30]})
    assert (read(dated, folder).columns, read(dated, folder).time_col) == (("load",), "date")


def test_numbers_of_rows_are_whole(folder: Path) -> None:
    frame = pd.DataFrame({"t": [0.5, 1.0, 1.5, 2.0], "load": LOAD[:4]})
    with pytest.raises(InputError, match=r"row 2, column 't': expected a whole number .*, found '0.5'"):
        read(frame, folder, time_col="t", time_format="step")


def test_opening_hours_that_differ_may_be_read_as_gaps(folder: Path) -> None:
    """Red if the step that is set is refused, or the proposed setting does not read the file."""
    times = pd.date_range("2024-02-26", periods=24 * 28, freq="h")
    parts = [times[(times.hour >= first) & (times.hour < 20)] for first in (10, 8)]
    frame = pd.concat(
        [pd.DataFrame({"date": part, "shop": name, "load": 1.5}) for name, part in zip("ab", parts, strict=True)]
    )
    frame.to_csv("shops.csv", index=False)
    alone = read(frame[frame["shop"] == "a"].drop(columns="shop"), folder, frequency="h", fill=Fill.mask)
    assert (alone.frequency.code, len(alone)) == ("h", 24 * 27 + 10)
    with pytest.raises(InputError, match=r"to read closed hours as gaps, set dataset\.frequency=h dataset\.fill=mask"):
        read_panel([folder / "shops.csv"], DatasetConfig(series_col="shop"), None)
    config = DatasetConfig(series_col="shop", frequency="h", fill=Fill.mask)
    one, other = read_panel([folder / "shops.csv"], config, None)
    assert [int(np.isfinite(series.values).sum()) for series in (one, other)] == [280, 336]


@pytest.mark.parametrize("first", [np.nan, np.inf])
def test_numbers_below_a_cell_without_one_are_told_apart(first: float, tmp_path: Path) -> None:
    """Red if the first cell of a column decides, or breaks, what its numbers are proposed to be."""
    seconds = [first, 1_577_836_800, 1_577_840_400]
    with pytest.raises(InputError, match=r"starting at 2020-01-01 00:00:00 UTC, set dataset.time_format=s"):
        read(pd.DataFrame({"time": seconds, "load": range(3)}), tmp_path)
    with pytest.raises(InputError, match=r"starting at 2020-01-01 00:00:00, set dataset.time_format=excel"):
        read(pd.DataFrame({"time": [first, 43_831, 43_832], "load": range(3)}), tmp_path)
    assert not counts_rows(pd.Series([pd.NA, 1, 2], dtype="Int64"))
