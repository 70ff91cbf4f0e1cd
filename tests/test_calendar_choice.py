"""Holidays and chosen calendar fields, from the configuration to forecasts, without a file at prediction."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import done, refusal

from informer import Forecaster, InputError, checkpoint
from informer.config.data import FIELDS, Calendar
from informer.data import Frequency
from informer.data.calendar import calendar_marks, mark_fields, mark_sizes

# from the calendars of 2024, of Germany and of Bavaria in addition
GERMAN = ["01-01", "03-29", "04-01", "05-01", "05-09", "05-20", "10-03", "12-25", "12-26"]
BAVARIAN = ["01-06", "05-30", "11-01"]
DAY, HOUR = Frequency.parse("D"), Frequency.parse("h")

RUN = [
    "dataset=csv", "dataset.path=closed.csv", "attn=full", "model=tiny", "model.d_model=16", "model.encoder_stacks=[1]",
    "seq_len=14", "label_len=7", "pred_len=7", "optim.lr=2e-2", "trainer.max_epochs=3", "dataset.holidays=DE",
    "trainer.tracker=[]",
]  # fmt: skip


def days(dates: list[str]) -> set[str]:
    return {f"2024-{date}" for date in dates}


def test_holidays_are_those_of_the_calendar() -> None:
    """Red if a part of a country has not its own days, or a mark of a table is not 0 or 1."""
    year = pd.date_range("2024-01-01", "2024-12-31")
    marks = calendar_marks(year, DAY, Calendar("learned", ("weekday",), ("DE", "DE-BY")))
    assert set(year[marks[:, 1] == 1].strftime("%Y-%m-%d")) == days(GERMAN)
    assert set(year[marks[:, 2] == 1].strftime("%Y-%m-%d")) == days(GERMAN + BAVARIAN)
    assert set(np.unique(marks[:, 1:])) == {0, 1}
    linear = calendar_marks(year, DAY, Calendar("timeF", ("weekday",), ("DE",)))
    np.testing.assert_array_equal(linear[:, 1], marks[:, 1] - 0.5)


def test_a_holiday_is_one_of_the_local_time() -> None:
    """New Year's Day of 2024 begins in Berlin at 23:00 of the last day of December in UTC."""
    times = pd.date_range("2023-12-31 20:00", periods=40, freq="h", tz="UTC")
    marks = calendar_marks(times.tz_convert("Europe/Berlin"), HOUR, Calendar("fixed", (), ("DE",)))
    assert np.flatnonzero(marks[:, -1]).tolist() == list(range(3, 27))


def test_chosen_fields_are_the_same_columns() -> None:
    """Red if the order is not that of the choice, or a field is written in another way than without one."""
    times = pd.date_range("2024-02-28 05:00", periods=60, freq="h")
    usual = calendar_marks(times, HOUR, Calendar("timeF"))
    chosen = Calendar("timeF", ("day", "hour"))
    assert mark_fields(HOUR, Calendar("timeF")) == ("hour", "weekday", "day", "dayofyear")
    np.testing.assert_array_equal(calendar_marks(times, HOUR, chosen), usual[:, [2, 0]])
    everything = Calendar("learned", FIELDS, ("FR",))
    edges = pd.DatetimeIndex(["2020-12-31 23:59:59", "2021-01-03", "2024-02-29 12:30"])
    marks = calendar_marks(edges, HOUR, everything)
    assert marks.shape == (3, len(mark_sizes(HOUR, everything)))
    assert (marks < mark_sizes(HOUR, everything)).all()


def test_without_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    line = refusal("train", "dataset=sample", "model=tiny", "dataset.holidays=DE", f"run_dir={tmp_path}/run")
    assert "pip install holidays" in line


def test_steps_longer_than_a_day_and_unknown_years() -> None:
    week = Calendar("timeF", (), ("DE",))
    with pytest.raises(InputError, match="a step of at most a day, found W-SUN"):
        mark_fields(Frequency.parse("W"), week)
    with pytest.raises(InputError, match="are known from 1991 to 2100, found times from 1950 to 1950"):
        calendar_marks(pd.date_range("1950-01-01", periods=3), DAY, week)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """Sales of two shops that close on holidays, which the past does not predict; a run with holidays."""
    from holidays import country_holidays

    folder = tmp_path_factory.mktemp("closed")
    times = pd.date_range("2021-01-01", "2023-12-22")
    shut = np.isin(times.date, list(country_holidays("DE", years=range(2021, 2025))))
    rng = np.random.default_rng(5)
    frame = pd.concat(
        pd.DataFrame({"shop": shop, "day": times, "sales": level - level * shut + rng.normal(size=len(times))})
        for shop, level in (("north", 40), ("south", 60))
    )
    frame.to_csv(folder / "closed.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done("train", *RUN, "dataset.series_col=shop", "scaler.per_series=true", "run_dir=run")
    return folder, frame


def test_forecasts_know_holidays_without_a_file(closed: tuple[Path, pd.DataFrame]) -> None:
    """Christmas is far lower than the days around it. Red if marks of the horizon lack holidays."""
    folder, frame = closed
    forecast = Forecaster.load(folder / "run").predict(frame)
    for _, shop in forecast.groupby("shop"):
        sales = shop.set_index("day")["sales"]
        shut = sales[["2023-12-25", "2023-12-26"]]
        assert shut.max() < sales.drop(shut.index).min() / 2


def test_an_exported_description_names_the_marks(
    closed: tuple[Path, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(closed[0])
    done("export", "checkpoint=run", "output=exported.safetensors", "format=safetensors")
    marks = json.loads(Path("exported.safetensors.json").read_text())["calendar"]["marks"]
    assert marks == ["weekday", "day", "dayofyear", "holiday_DE"]
    assert checkpoint.load(Path("run")).config["dataset"]["holidays"] == ["DE"]


def test_a_warm_start_on_other_fields_leaves_their_weights_fresh(
    closed: tuple[Path, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same number of other marks. Red if only their number is compared."""
    monkeypatch.chdir(closed[0])
    four = "dataset.calendar=[month,day,week,weekday]"
    again = [*RUN[:-1], "dataset.series_col=shop", "init_from=run", "trainer.max_steps=1"]
    for setting, fresh in ((["dataset.holidays=DE"], 0), ([four], 4)):
        assert f", {fresh} fresh" in done("train", *again, *setting, f"run_dir=again{fresh}").out
