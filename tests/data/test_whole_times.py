"""Times in several columns are joined, and of several columns of times the one with the most detail is taken."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, call, done
from stores import panel_written
from stores import read_written as read

from informer import Forecaster
from informer.base.errors import InputError
from informer.config.data import DatasetConfig, Fill
from informer.data.panel import read_panel

SIZES = ["seq_len=24", "label_len=12", "pred_len=3"]
HOURS = pd.date_range("2023-12-30", periods=400, freq="h")
LOAD = np.arange(400.0) % 24 + np.arange(400) / 100


def parts(times: pd.DatetimeIndex, *names: str) -> pd.DataFrame:
    """A table with the parts of each time, named `year` or `Year`, and a column of values."""
    return pd.DataFrame({name: getattr(times, name.lower()) for name in names} | {"load": np.arange(len(times)) + 0.5})


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


def test_dates_are_not_proposed_as_categories(folder: Path) -> None:
    frame = pd.DataFrame({"Dates": HOURS.astype(str), "Date": HOURS.strftime("%Y-%m-%d"), "kind": "a", "load": LOAD})
    frame.loc[::7, "kind"] = "b"
    frame.to_csv("f.csv", index=False)
    ended = done("inspect", "f.csv")
    assert "'dataset.categorical=[kind]'" in ended.out
    assert "categorical=[Date" not in ended.out
    assert "f.csv: times are those of 'Dates', not of Date; dataset.time_col names another" in ended.out


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


def test_what_has_no_time_is_told_what_to_do(tmp_path: Path) -> None:
    """The added column can be read."""
    with pytest.raises(InputError, match=r"'1-01' in column 'Month' have no year of four digits: write 2001-01"):
        read(pd.DataFrame({"Month": ["1-01", "1-02", "1-03"], "sales": 1.5}), tmp_path)
    with pytest.raises(InputError, match=r"frame\.insert\(0, 'date', pandas\.date_range\('2024-01-01'"):
        read(pd.DataFrame({"a": [1, 2, 3], "b": 1.5}), tmp_path)
    frame = pd.DataFrame({"a": [1, 2, 3], "b": 1.5})
    frame.insert(0, "date", pd.date_range("2024-01-01", periods=len(frame), freq="D"))
    assert len(read(frame, tmp_path)) == 3


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
