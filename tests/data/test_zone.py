"""Times across clock changes: with offsets, and local ones of a named zone; the instants come from pandas."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from stores import read_series, read_written

from informer.base.errors import InputError
from informer.config.data import DatasetConfig, Short, SplitConfig
from informer.config.fields import check
from informer.config.model import WindowSizes
from informer.data.diagnosis import survey_file
from informer.data.panel import read_panel

YEAR = pd.date_range("2022-12-31 23:00", periods=8760 * 4, freq="15min", tz="UTC").tz_convert("Europe/Berlin")
"""A year in Germany, with both clock changes."""

CONFIG = DatasetConfig(timezone="Europe/Berlin")


def text(times: pd.DatetimeIndex, written: str) -> list[str]:
    return [time.isoformat() for time in times] if written == "iso" else list(times.strftime(written))


def german(path: Path, times: pd.DatetimeIndex, written: str = "%Y-%m-%d %H:%M") -> Path:
    values = np.round(np.sin(np.arange(len(times)) / 96 * 2 * np.pi), 3)
    pd.DataFrame({"time": text(times, written), "load": values}).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    "written", ["iso", "%d.%m.%Y %H:%M%z", pytest.param("%Y-%m-%d %H:%M:%S%z", marks=pytest.mark.slow)]
)
def test_offsets_that_change(written: str, tmp_path: Path) -> None:
    """The zone is the one with these offsets, so that days remain local days."""
    series = read_series(german(tmp_path / "f.csv", YEAR, written), DatasetConfig())
    assert (series.timestamps == YEAR).all()
    assert str(series.timestamps.tz) == "Europe/Berlin"
    assert series.frequency.code == "15min"


def test_offsets_of_no_known_rule(tmp_path: Path) -> None:
    """Fails if an instant is lost; no zone has these offsets."""
    (tmp_path / "f.csv").write_text(
        "time,a\n2020-01-01 00:00+05:00,1\n2020-01-01 00:00+04:00,2\n2020-01-01 00:00+03:00,3\n"
    )
    series = read_series(tmp_path / "f.csv", DatasetConfig())
    assert list(series.timestamps) == list(pd.date_range("2019-12-31 19:00", periods=3, freq="h", tz="UTC"))


@pytest.mark.parametrize("written", ["%d.%m.%Y %H:%M", pytest.param("%Y-%m-%d %H:%M", marks=pytest.mark.slow)])
def test_local_times(written: str, tmp_path: Path) -> None:
    series = read_series(german(tmp_path / "f.csv", YEAR, written), CONFIG)
    assert (series.timestamps == YEAR).all()


def test_local_times_newest_first(tmp_path: Path) -> None:
    """Red if the first of two equal times in the file is always the earlier."""
    config = DatasetConfig(timezone="Europe/Berlin", sort=True)
    assert (read_series(german(tmp_path / "f.csv", YEAR[::-1]), config).timestamps == YEAR).all()


@pytest.mark.parametrize("order", ["time", "store"])
def test_local_times_of_many_series(order: str, tmp_path: Path) -> None:
    """Red if equal times of two series are taken for an hour that occurs twice; hours in 2023 include both changes."""
    times = YEAR[::4]
    frame = pd.concat(
        pd.DataFrame({"time": text(times, "%Y-%m-%d %H:%M"), "store": store, "a": np.arange(len(times)), "t": times})
        for store in ("x", "y")
    )
    frame = frame.sort_values(["t", "store"]) if order == "time" else frame
    frame.drop(columns="t").to_csv(tmp_path / "f.csv", index=False)
    config = DatasetConfig(timezone="Europe/Berlin", series_col="store")
    panel = read_panel([tmp_path / "f.csv"], config, WindowSizes(seq_len=24, label_len=12, pred_len=12))
    assert [series.name for series in panel] == ["x", "y"]
    assert all((series.timestamps == times).all() for series in panel)
    assert all((series.values[:, 0] == np.arange(len(times))).all() for series in panel)


@pytest.mark.parametrize("step", ["15min", "h"])
def test_an_hour_left_out_in_spring_is_no_gap(step: str, tmp_path: Path) -> None:
    """Rows from January to August; red if values are proposed for an hour that never was."""
    times = pd.date_range("2023-01-01", "2023-08-01", freq=step, tz="Europe/Berlin")
    path = german(tmp_path / "f.csv", times)
    survey = survey_file(path, DatasetConfig())
    (line,) = survey.problems[:1]
    assert "no time between 2023-03-26 01:" in line
    assert "as when clocks are set forward; set dataset.timezone=Europe/Berlin" in line
    assert survey.dataset.timezone == "Europe/Berlin"
    assert survey.dataset.fill is None
    assert (survey.panel[0].timestamps == times).all()


@pytest.mark.parametrize("day", ["2023-03-25 02", "2023-03-26 05"])
def test_another_missing_hour_is_a_gap(day: str, tmp_path: Path) -> None:
    """Red if every hour that is missing once counts as a change of clocks."""
    times = pd.date_range("2023-03-01", "2023-05-01", freq="h")
    survey = survey_file(german(tmp_path / "f.csv", times[times != pd.Timestamp(f"{day}:00")]), DatasetConfig())
    assert "1 row is missing" in survey.problems[0]
    assert survey.dataset.timezone is None


def test_the_zone_is_proposed_and_not_a_repair_that_drops_rows(tmp_path: Path) -> None:
    path = german(tmp_path / "f.csv", YEAR)
    with pytest.raises(InputError) as error:
        read_series(path, DatasetConfig())
    assert str(error.value) == (
        "f.csv, row 28906, column 'time': local time 2023-10-29 02:00:00 occurs twice, as when clocks are set back; "
        "set dataset.timezone=Europe/Berlin, or another zone with the same clock changes"
    )
    survey = survey_file(path, DatasetConfig())
    assert (survey.dataset.timezone, survey.dataset.duplicates, survey.dataset.fill) == ("Europe/Berlin", None, None)
    assert len(survey.panel[0]) == len(YEAR)


@pytest.mark.parametrize("zone", ["Europe/London", "America/New_York"])
def test_other_rules_of_clock_changes(zone: str, tmp_path: Path) -> None:
    times = YEAR.tz_convert(zone)
    assert survey_file(german(tmp_path / "f.csv", times), DatasetConfig()).dataset.timezone == zone


def test_repeated_times_without_a_clock_change(tmp_path: Path) -> None:
    """Fails if every repeated time is explained by a clock change."""
    with pytest.raises(InputError, match="duplicate timestamp 2023-06-01 02:45:00"):
        read_series(german(tmp_path / "f.csv", YEAR[14500:14600].insert(4, YEAR[14503])), DatasetConfig())


def test_a_time_that_was_left_out(tmp_path: Path) -> None:
    times = pd.date_range("2023-03-26", periods=30, freq="h")
    with pytest.raises(InputError, match="row 4, column 'time': 2023-03-26 02:00:00 does not exist in Europe/Berlin"):
        read_series(german(tmp_path / "f.csv", times), CONFIG)


def test_a_zone_that_does_not_exist() -> None:
    with pytest.raises(InputError, match=r"dataset.timezone: expected the name of a time zone such as .*'Berlin'"):
        check(DatasetConfig(timezone="Berlin", short=Short.error, split=SplitConfig()))


AUTUMN, SPRING, BOTH = ("2023-10-20", "2023-11-12"), ("2024-03-01", "2024-04-12"), ("2023-09-20", "2024-04-20")


@pytest.mark.parametrize(
    ("zone", "how", "ends"),
    [
        *(
            ("Europe/Berlin", how, ends)
            for how in ("{}", "H{:02}", "parts", "30min", "15min")
            for ends in (AUTUMN, SPRING)
        ),
        ("Europe/Berlin", "{}", BOTH),
        ("America/New_York", "parts", BOTH),
        ("Australia/Sydney", "H{:02}", BOTH),
        ("Australia/Sydney", "30min", BOTH),
    ],
)
def test_numbers_of_the_hours_of_a_day(zone: str, how: str, ends: tuple[str, str], tmp_path: Path) -> None:
    """Red if the 25th hour of a day is the first of the next one, or the last of 23 is an hour too early."""
    freq = how if how.endswith("min") else "1h"
    times = pd.date_range(*ends, freq=freq, tz=zone, inclusive="left")
    hours = ((times - times.normalize()) // pd.Timedelta(freq)).to_numpy() + 1
    frame = pd.DataFrame({"Fecha": times.strftime("%d/%m/%Y"), "Hora": hours, "load": np.arange(len(times)) + 0.5})
    if freq != "1h":
        frame = frame.rename(columns={"Hora": "Settlement Period"})
    elif how == "parts":
        frame = frame.drop(columns="Fecha").assign(year=times.year, month=times.month, day=times.day)
    else:
        frame["Hora"] = frame["Hora"].map(how.format)
    frame.to_csv(tmp_path / "f.csv", index=False, sep=";")
    series = read_series(tmp_path / "f.csv", DatasetConfig(timezone=zone))
    assert list(series.timestamps) == list(times)
    changes = freq == "1h" and (
        hours.max() == 25 or (np.bincount(times.day_of_year + 366 * times.year)[1:] == 23).any()
    )
    if changes:
        with pytest.raises(InputError, match=r"set dataset\.timezone="):
            read_series(tmp_path / "f.csv", DatasetConfig())


def test_an_hour_written_twice_beside_its_date(tmp_path: Path) -> None:
    """Red if hours from 0 to 23 are no times of day where clocks are set back."""
    times = pd.date_range("2023-10-20", "2023-11-12", freq="h", tz="Europe/Berlin", inclusive="left")
    frame = pd.DataFrame({"date": times.strftime("%Y-%m-%d"), "hour": times.hour, "load": np.arange(len(times)) + 0.5})
    for first in (0, 1):
        series = read_written(frame.assign(hour=frame["hour"] + first), tmp_path, timezone="Europe/Berlin")
        assert list(series.timestamps) == list(times)
