"""Times however they are written: in words of several languages, in several columns, across clock changes.

Each test writes times that pandas made, and reads them back; `tests/corpus` has files as they occur.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, call, done
from stores import panel_written, read_written

from informer import Forecaster, InputError

DAYS, MONTHS = pd.date_range("2023-02-28", periods=400), pd.date_range("2015-01-01", periods=60, freq="MS")
HOURS = pd.date_range("2023-12-30", periods=400, freq="h")
YEAR = pd.date_range("2023-01-01", "2024-01-01", freq="15min", tz="Europe/Berlin", inclusive="left")
NAMES = {
    "fr": "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.",
    "fr long": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "de": "Jan. Feb. Mrz. Apr. Mai Jun. Jul. Aug. Sept. Okt. Nov. Dez.",
    "de long": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "es": "ENE FEB MAR ABR MAY JUN JUL AGO SEPT OCT NOV DIC",
    "it": "gen feb mar apr mag giu lug ago set ott nov dic",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "nl": "jan. feb. mrt. apr. mei jun. jul. aug. sep. okt. nov. dec.",
    "en": "Jan. Feb. March April May June July Aug. Sept. Oct. Nov. Dec.",
}


def numbered(times: object, name: str = "Tag") -> pd.DataFrame:
    """A table of times as text, and the number of each row."""
    return pd.DataFrame({name: times}).assign(load=lambda frame: np.arange(len(frame)) + 0.5)


def same(frame: pd.DataFrame, times: pd.DatetimeIndex, folder: Path, **settings: object) -> None:
    """Check that the rows of a table have these times and its numbers in its last column."""
    series = read_written(frame, folder, **settings)
    assert list(series.timestamps) == list(times)
    np.testing.assert_array_equal(series.values[:, -1], frame[frame.columns[-1]])


@pytest.mark.parametrize("style", ["{0.day} {1} {0.year}", "{0.day:02}. {1} {0.year} 12:30", "{0.day}-{1}-{0.year}"])
@pytest.mark.parametrize("language", NAMES)
def test_names_of_months(language: str, style: str, tmp_path: Path) -> None:
    """Red if a name of some month is not known."""
    names = NAMES[language].split()
    noon = DAYS + pd.Timedelta("12:30:00" if "30" in style else 0)
    same(numbered([style.format(day, names[day.month - 1]) for day in DAYS]), noon, tmp_path)
    in_months = [names[month.month - 1] for month in MONTHS]
    same(numbered([f"{name} {month.year}" for name, month in zip(in_months, MONTHS, strict=True)]), MONTHS, tmp_path)
    same(pd.DataFrame({"Jahr": MONTHS.year, "Monat": in_months, "sales": range(60)}), MONTHS, tmp_path)


PERIODS = {
    "QS": [
        *("{y}T{q}", "T{q} {y}", "Q{q} FY{y}", "FY{y}-Q{q}", "{y}:{q}", "{q}T{yy:02}", "Q{q}'{yy:02}", "{y}Q{q}"),
        *("{y}-Q{q}", "{y} Q{q}", "Q{q} {y}", "Q{q}/{y}", "Q{q}{y}", "{y}-{q}", "{q}/{y}", "{y}q{q}", "{y}:Q{q}"),
        *("{y}-{q}{th} Quarter", "{q}{th} quarter {y}", "{q}. Quartal {y}", "Q{q}-{yy:02}", "{q}Q{yy:02}", "{q}Q{y}"),
        "{yy:02}Q{q}",
    ],
    "MS": ["{y}M{m:02}", "M{m:02}/{y}", "{y}{m:02}", "{y}.{m:02}", "{y}:{m:02}"],
    "W-MON": ["{g}{w:02}", "S{w:02}-{g}", "semana {w:02} {g}", "{g}W{w:02}", "{g}-W{w:02}"],
}


def periods(freq: str, style: str) -> tuple[pd.DatetimeIndex, list[str]]:
    """130 times, and how they are written."""
    times = pd.date_range("1986-06-30", periods=130, freq=freq)
    facts = [{"y": t.year, "yy": t.year % 100, "q": t.quarter, "m": t.month} for t in times]
    facts = [one | {"th": ("st", "nd", "rd", "th")[one["q"] - 1]} for one in facts]
    weeks = [{"g": iso.year, "w": iso.week} for iso in (time.isocalendar() for time in times)]
    cells = [style.format(**one, **week) for one, week in zip(facts, weeks, strict=True)]
    return times, cells


@pytest.mark.parametrize(("freq", "style"), [(freq, style) for freq, styles in PERIODS.items() for style in styles])
def test_numbers_of_periods(freq: str, style: str, tmp_path: Path) -> None:
    """Red if a way in which statistics and firms write quarters, months and weeks is not read."""
    times, cells = periods(freq, style)
    same(numbered(cells), times, tmp_path)


@pytest.mark.parametrize(("freq", "style"), [("QS", "Q{q}-{yy:02}"), ("MS", "{y}M{m:02}"), ("W-MON", "{g}-W{w:02}")])
def test_periods_are_written_as_they_were_read(freq: str, style: str, folder: Path) -> None:
    """Red if the rows of a forecast have dates in the place of numbers of quarters, months or weeks."""
    _, cells = periods(freq, style)
    numbered(cells[:126]).to_csv("f.csv", index=False)
    done("forecast", "f.csv", "model=linear", "horizon=4", "output=out")
    assert pd.read_csv("out/forecasts/f.forecast.csv", dtype=str)["Tag"].tolist() == cells[126:]


NO_DATE, NUMBERS = r"row 2, column 'Tag': expected a date", r"found numbers such as .*, or name"
REFUSED = {
    "a day of the year": (DAYS, DAYS.strftime("%Y/%j"), NO_DATE),
    "clock first": (HOURS, HOURS.strftime("%H:%M %d-%m-%Y"), NO_DATE),
    "clock and name": (HOURS, HOURS.strftime("%H:%M %d. %b %Y"), NO_DATE),
    "six digits": (DAYS, DAYS.strftime("%y%m%d"), NUMBERS),
    "day first": (DAYS, DAYS.strftime("%d%m%Y"), NUMBERS),
    "seven digits": (DAYS, DAYS.strftime("%Y%j"), NUMBERS),
    "seconds": (HOURS, HOURS.as_unit("s").asi8, "counts of s since 1970, starting at 2023-12-30 00:00:00 UTC"),
    "milliseconds": (HOURS, HOURS.as_unit("ms").asi8, "counts of ms since 1970, starting at 2023-12-30 00:00:00 UTC"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_format_that_must_be_set_is_named(case: str, tmp_path: Path) -> None:
    """Red if the advice is to invent dates, or the format that is named does not read the file."""
    times, cells, message = REFUSED[case]
    name = "date" if message == NUMBERS else "Tag"
    frame = numbered(cells, name).assign(id=range(len(cells)))[["id", name, "load"]]
    with pytest.raises(InputError, match=message) as error:
        read_written(frame, tmp_path)
    named = re.search(r"dataset\.time_format='?([^';,]*[^';, ])", str(error.value))
    assert named is not None
    same(frame, times, tmp_path, time_format=named[1])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (numbered([f"{day} мая 2024" for day in range(1, 32)]), "expected a date such as .*found '1 мая 2024'; write"),
        (numbered([f"INV-2024-{number:03}" for number in range(300)]), "no time column found among Tag, load"),
        (pd.DataFrame({"Month": ["1-01", "1-02", "1-03"], "sales": 1.5}), "no year of four digits: write 2001-01"),
        (pd.DataFrame({"a": [1, 2, 3], "b": 1.5}), r"frame\.insert\(0, 'date', pandas\.date_range\('2024-01-01'"),
        (pd.DataFrame({"year": 2023, "day": range(1, 31), "load": 1.5}), "may be parts of a time, which needs a year"),
    ],
)
def test_what_has_no_time_is_told_what_to_do(frame: pd.DataFrame, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_written(frame, tmp_path)


def test_lines_of_python_that_are_named_give_times(tmp_path: Path) -> None:
    """The command is run, and what it makes is read."""
    frame = pd.DataFrame({"decimal": (1958 + 2 / 12 + (np.arange(120) + 0.5) / 12).round(4), "co2": np.arange(120.0)})
    with pytest.raises(InputError, match=r"years such as .* need months: frame") as caught:
        read_written(frame, tmp_path)
    exec(str(caught.value).partition("need months: ")[2], {"frame": frame, "pandas": pd})
    assert list(read_written(frame, tmp_path).timestamps) == list(pd.date_range("1958-03", periods=120, freq="MS"))
    values = np.arange(80.0).reshape(2, -1)
    wide = pd.DataFrame(values, columns=[f"d_{i}" for i in range(1, 41)])
    wide.insert(0, "x", ["a", "b"])
    with pytest.raises(InputError, match="no time column found") as caught:
        panel_written(wide, tmp_path)
    command = str(caught.value).partition("such as pandas")[2].removesuffix(" with your first day")
    written = command.split("to_csv('")[1].split("'")[0]
    code = f"pandas{command}".replace("'f.csv'", repr(str(tmp_path / "f.csv")))
    exec(code.replace(repr(written), repr(str(tmp_path / written))), {"pandas": pd})
    panel = panel_written((tmp_path / written).read_text(), tmp_path, series_col="x")
    np.testing.assert_array_equal([series.values[:, 0] for series in panel], values)


def test_a_model_of_joined_times_forecasts_and_scores_the_same_file(folder: Path) -> None:
    """Red if prediction reads other times than training, or a score compares other times. Hour 400 is the next one."""
    following = pd.date_range(HOURS[-1] + pd.Timedelta("1h"), periods=6, freq="h")
    parts = [
        pd.DataFrame({name: getattr(times, name) for name in ("year", "month", "day", "hour")})
        for times in (HOURS, following)
    ]
    frame = parts[0].assign(load=np.arange(400.0) % 24 + np.arange(400) / 100)
    frame.insert(0, "No", np.arange(1, 401))
    frame.to_csv("f.csv", index=False)
    assert call("train", "dataset=csv", "dataset.path=f.csv", *SMALL, "trainer.max_steps=2", "run_dir=run").status == 0
    done("predict", "checkpoint=run", "input=f.csv", "output=out")
    (written,) = Path("out").glob("*.csv")
    forecast = pd.read_csv(written)
    assert list(forecast.columns) == ["date", "load"]
    assert list(pd.to_datetime(forecast["date"])) == list(following)
    actual = parts[1].assign(load=np.arange(6) + 0.5)
    actual.to_csv("actual.csv", index=False)
    scored = done("score", f"forecasts={written}", "actuals=actual.csv", "history=f.csv")
    assert f"{(forecast['load'] - actual['load']).abs().mean():.4g}" in scored.out
    np.testing.assert_allclose(Forecaster.load("run").predict(frame)["load"], forecast["load"], rtol=1e-5)


def test_what_is_said_of_columns_of_times(folder: Path) -> None:
    """Red if a number of a row or a date is proposed as a value or category."""
    frame = pd.DataFrame({"No": range(1, 401), "Dates": HOURS.astype(str), "Date": HOURS.strftime("%Y-%m-%d")})
    frame = frame.assign(kind=np.where(np.arange(400) % 7, "a", "b"), load=np.arange(400) % 24 + 0.5)
    frame.to_csv("f.csv", index=False)
    told = done("inspect", "f.csv").out
    assert "'dataset.categorical=[kind]'" in told
    assert "f.csv: times are those of 'Dates', not of Date; dataset.time_col names another" in told
    assert "f.csv: column 'No' numbers the rows, and is not used" in told
    for changed, columns in (({"No": "trend"}, ("trend", "load")), ({"load": "x"}, ("x",))):
        assert read_written(frame.rename(columns=changed), folder).columns == columns
    assert read_written(frame, folder, columns=["No"]).columns == ("No",)


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
    frame = numbered(times.strftime("%Y-%m-%d"), "day").assign(column=columns)
    wide = frame.pivot(index="day", columns="column", values="load")[[*dict.fromkeys(columns)][:per_day]]
    if is_local:
        wide[names.format(25)] = frame[numbers == 25].set_index("day")["load"]
    series = read_written(wide.reset_index(), tmp_path, **({"timezone": zone} if is_local else {}))
    assert list(series.timestamps) == list(times)
    np.testing.assert_array_equal(series.values[:, 0], frame["load"])


@pytest.mark.parametrize("written", ["iso", "%d.%m.%Y %H:%M%z", "%d.%m.%Y %H:%M", "newest first", "two series"])
def test_a_year_with_both_clock_changes(written: str, tmp_path: Path) -> None:
    """Red if an hour that occurs twice is taken in the wrong order, or the zone of offsets is another one."""
    times = YEAR[::-1] if written == "newest first" else YEAR
    how = written if "%" in written else "%Y-%m-%d %H:%M"
    frame = numbered([time.isoformat() for time in times] if written == "iso" else times.strftime(how))
    has_offsets = written == "iso" or written.endswith("%z")
    settings: dict[str, object] = {} if has_offsets else {"timezone": "Europe/Berlin"}
    if written == "two series":
        both = pd.concat([frame.assign(store="x"), frame.assign(store="y")]).sort_index(kind="stable")
        panel = panel_written(both, tmp_path, series_col="store", **settings)
    else:
        panel = [read_written(frame, tmp_path, sort=written == "newest first", **settings)]
    for series in panel:
        assert (series.timestamps == YEAR).all()
        assert (str(series.timestamps.tz), series.frequency.code) == ("Europe/Berlin", "15min")


AUTUMN, SPRING, BOTH = ("2023-10-20", "2023-11-12"), ("2024-03-01", "2024-04-12"), ("2023-09-20", "2024-04-20")
WAYS = [
    ("Europe/Berlin", how, ends) for how in ("{}", "H{:02}", "parts", "30min", "15min") for ends in (AUTUMN, SPRING)
]
WAYS += [("Europe/Berlin", "{}", BOTH), ("America/New_York", "parts", BOTH), ("Australia/Sydney", "30min", BOTH)]


@pytest.mark.parametrize(("zone", "how", "ends"), WAYS)
def test_numbers_of_the_hours_of_a_day(zone: str, how: str, ends: tuple[str, str], tmp_path: Path) -> None:
    """Red if the 25th hour of a day is the first of the next one, or the last of 23 is an hour too early."""
    freq = how if how.endswith("min") else "1h"
    times = pd.date_range(*ends, freq=freq, tz=zone, inclusive="left")
    hours = ((times - times.normalize()) // pd.Timedelta(freq)).to_numpy() + 1
    frame = pd.DataFrame({"Fecha": times.strftime("%d/%m/%Y"), "Settlement Period": hours})
    if how == "parts":
        frame = pd.DataFrame({"year": times.year, "month": times.month, "day": times.day, "hour": hours})
    elif "{" in how:
        frame = frame.assign(**{"Settlement Period": [how.format(hour) for hour in hours]})
        frame = frame.rename(columns={"Settlement Period": "Hora"})
    same(frame.assign(load=np.arange(len(times)) + 0.5), times, tmp_path, timezone=zone)
