"""Dates with names of months in several languages, with Asian marks, and in formats that must be set."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from stores import read_series, read_written

from informer.base.errors import InputError
from informer.config.data import DatasetConfig
from informer.inference.model import Forecast
from informer.inference.writing import stamps
from informer.read.series import Series

DAYS, MONTHS = pd.date_range("2023-02-28", periods=400), pd.date_range("2015-01-01", periods=60, freq="MS")
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


def read(cells: list[str], folder: Path, **settings: object) -> Series:
    frame = pd.DataFrame({"Tag": cells, "sales": np.arange(len(cells)) + 0.5})
    frame.to_csv(folder / "f.csv", index=False, sep=";")
    return read_series(folder / "f.csv", DatasetConfig(**settings))


@pytest.mark.parametrize("style", ["{0.day} {1} {0.year}", "{0.day:02}. {1} {0.year} 12:30", "{0.day}-{1}-{0.year}"])
@pytest.mark.parametrize("language", NAMES)
def test_names_of_months(language: str, style: str, tmp_path: Path) -> None:
    """Red if a name of some month is not known; the oracle is the index that the names are from."""
    names = NAMES[language].split()
    cells = [style.format(day, names[day.month - 1]) for day in DAYS]
    assert list(read(cells, tmp_path).timestamps.normalize()) == list(DAYS)
    cells = [f"{names[month.month - 1]} {month.year}" for month in MONTHS]
    assert list(read(cells, tmp_path).timestamps) == list(MONTHS)
    frame = pd.DataFrame({"Jahr": MONTHS.year, "Monat": [names[month.month - 1] for month in MONTHS], "sales": 1.5})
    assert list(read_written(frame, tmp_path).timestamps) == list(MONTHS)


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


@pytest.mark.parametrize(("freq", "style"), [(freq, style) for freq, styles in PERIODS.items() for style in styles])
def test_numbers_of_periods(freq: str, style: str, tmp_path: Path) -> None:
    """Red if a way in which statistics and firms write quarters, months and weeks is not read, or not written back."""
    times = pd.date_range("1986-06-30", periods=130, freq=freq)
    facts = [{"y": t.year, "yy": t.year % 100, "q": t.quarter, "m": t.month} for t in times]
    facts = [one | {"th": ("st", "nd", "rd", "th")[one["q"] - 1]} for one in facts]
    weeks = [{"g": iso.year, "w": iso.week} for iso in (time.isocalendar() for time in times)]
    cells = [style.format(**one, **week) for one, week in zip(facts, weeks, strict=True)]
    series = read(cells[:126], tmp_path)
    assert list(series.timestamps) == list(times[:126])
    assert stamps(Forecast(series=series, targets=("sales",), values=np.zeros((4, 1)), pred_len=4)) == cells[126:]


@pytest.mark.parametrize("written", ["%H:%M %d-%m-%Y", "%Y/%j", "%H:%M %d. %b %Y"])
def test_dates_in_another_format_name_it(written: str, tmp_path: Path) -> None:
    """Red if the advice is to invent dates, or the format that is named does not read the file."""
    times = pd.date_range("2023-12-01", periods=200, freq="D" if "j" in written else "h")
    with pytest.raises(InputError, match=r"row 2, column 'Tag': expected a date") as error:
        read([*times.strftime(written)], tmp_path)
    named = str(error.value).partition("dataset.time_format='")[2].partition("'")[0]
    assert list(read([*times.strftime(written)], tmp_path, time_format=named).timestamps) == list(times)


def test_dates_in_another_language_are_told_to_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"column 'Tag': expected a date such as .*found '1 мая 2024'; write such"):
        read([f"{day} мая 2024" for day in range(1, 32)], tmp_path)
    with pytest.raises(InputError, match=r"no time column found among Tag, sales"):  # names are no dates
        read([f"INV-2024-{number:03}" for number in range(300)], tmp_path)


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_counts_since_1970_need_one_setting(unit: str, tmp_path: Path) -> None:
    """Red if the column must be named too, or numbers of rows before it are taken instead."""
    times = pd.date_range("2023-01-01", periods=100, freq="h").as_unit(unit)
    frame = pd.DataFrame({"id": range(100), "logged": times.asi8, "load": np.arange(100.0) % 24})
    frame.to_csv(tmp_path / "f.csv", index=False)
    frame.drop(columns="id")[::-1].to_csv(tmp_path / "falls.csv", index=False)
    for name, first in (("f", times[0]), ("falls", times[-1])):
        named = rf"counts of {unit} since 1970, starting at {first} UTC, set dataset\.time_format={unit};"
        with pytest.raises(InputError, match=f"column 'logged': .*{named}"):
            read_series(tmp_path / f"{name}.csv", DatasetConfig())
    series = read_series(tmp_path / "f.csv", DatasetConfig(time_format=unit))
    assert (list(series.timestamps), series.columns) == (list(times), ("load",))
