"""What is proposed for times, and how they are written again; `tests/corpus` has the ways in which files write them."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, call, done

from informer import Forecaster, InputError, data
from informer.data import Series

DAYS = pd.date_range("2023-02-28", periods=400)
HOURS = pd.date_range("2023-12-30", periods=400, freq="h")


def numbered(times: object, name: str = "Tag") -> pd.DataFrame:
    """A table of times as text, and the number of each row."""
    return pd.DataFrame({name: times}).assign(load=lambda frame: np.arange(len(frame)) + 0.5)


def read(frame: pd.DataFrame, folder: Path, **settings: object) -> list[Series]:
    """The series of a file with these rows."""
    frame.to_csv(folder / "f.csv", index=False)
    return data.read(folder / "f.csv", **settings)


@pytest.mark.parametrize(
    ("freq", "style"),
    [("QS", "%Y-Q{}"), ("2QS", "%Y-H{1}"), ("2QS", "{1}H%Y"), ("MS", "%YM%m"), ("W-MON", "%G-W%V")],
)
def test_periods_are_written_as_they_were_read(freq: str, style: str, folder: Path) -> None:
    """Red if the rows of a forecast have dates in the place of numbers of halves, quarters, months or weeks."""
    times = pd.date_range("1986-06-30", periods=130, freq=freq)
    cells = [time.strftime(style.format(time.quarter, (time.quarter + 1) // 2)) for time in times]
    numbered(cells[:126]).to_csv("f.csv", index=False)
    done("forecast", "f.csv", "horizon=4", "output=out")
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
        read(frame, tmp_path)
    named = re.search(r"dataset\.time_format='?([^';,]*[^';, ])", str(error.value))
    assert named is not None
    (series,) = read(frame, tmp_path, time_format=named[1])
    assert list(series.timestamps) == list(times)


def test_lines_of_python_that_are_named_give_times(tmp_path: Path) -> None:
    """The command is run, and what it makes is read."""
    frame = pd.DataFrame({"decimal": (1958 + 2 / 12 + (np.arange(120) + 0.5) / 12).round(4), "co2": np.arange(120.0)})
    with pytest.raises(InputError, match=r"years such as .* need months: frame") as caught:
        read(frame, tmp_path)
    exec(str(caught.value).partition("need months: ")[2], {"frame": frame, "pandas": pd})
    assert list(read(frame, tmp_path)[0].timestamps) == list(pd.date_range("1958-03", periods=120, freq="MS"))
    values = np.arange(80.0).reshape(2, -1)
    wide = pd.DataFrame(values, columns=[f"d_{i}" for i in range(1, 41)])
    wide.insert(0, "x", ["a", "b"])
    with pytest.raises(InputError, match="no time column found") as caught:
        read(wide, tmp_path)
    command = str(caught.value).partition("such as pandas")[2].removesuffix(" with your first day")
    written = command.split("to_csv('")[1].split("'")[0]
    code = f"pandas{command}".replace("'f.csv'", repr(str(tmp_path / "f.csv")))
    exec(code.replace(repr(written), repr(str(tmp_path / written))), {"pandas": pd})
    panel = data.read(tmp_path / written, series_col="x")
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
