"""A forecast from the command line: its rows, its timestamps, its units, and what in the file does not matter."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT, SMALL, Trained, done, refusal
from forgery import content_of, write_forged

SAMPLE = ROOT / "data/sample.csv"


def forecast(trained: Trained, source: Path | str, *arguments: str) -> bytes:
    """The CSV that predict writes for a file."""
    words = f"checkpoint={trained.run_dir}", f"input={source}", "output=out", "overwrite=true"
    outcome = done("predict", *words, *arguments)
    assert all(sign == "\n" or sign.isprintable() for sign in outcome.out)
    return Path("out", f"{Path(source).stem}.forecast.csv").read_bytes()


def sample(**columns: object) -> pd.DataFrame:
    return pd.read_csv(SAMPLE).assign(**columns)


def test_only_the_last_rows_of_its_columns_matter(trained: Trained, folder: Path) -> None:
    plain = forecast(trained, SAMPLE, "plots=false")
    extra = sample(broken=np.nan, remark="x, y", half=[1.5, None] * 3000, huge=np.inf)
    extra[["remark", "demand", "broken", "price", "date", "half", "temperature", "visitors", "huge"]].to_csv(
        "extra.csv", index=False
    )
    assert forecast(trained, "extra.csv", "plots=false") == plain
    sample().iloc[-24:].to_csv("short.csv", index=False)
    assert forecast(trained, "short.csv", "plots=false") == plain


def test_a_forecast_is_written_as_its_file_is(trained: Trained, folder: Path) -> None:
    plain = pd.read_csv(pd.io.common.BytesIO(forecast(trained, SAMPLE, "plots=false")))
    frame = sample()
    frame["date"] = pd.to_datetime(frame["date"]).dt.strftime("%d/%m/%y %H.%M")
    frame = frame.rename(columns={"date": "März"})
    frame.to_csv("other.csv", index=False, sep=";", decimal=",", encoding="latin-1")
    forecast(trained, "other.csv", "plots=false", "dataset.time_col=März", "dataset.time_format=%d/%m/%y %H.%M")
    predicted = pd.read_csv("out/other.forecast.csv", sep=";", decimal=",", encoding="latin-1")
    assert list(predicted["März"]) == list(pd.to_datetime(plain["date"]).dt.strftime("%d/%m/%y %H.%M"))
    pd.testing.assert_frame_equal(predicted.drop(columns="März"), plain.drop(columns="date"))


def test_an_hour_at_midnight_keeps_its_time_of_day(trained: Trained, folder: Path) -> None:
    """pred_len=1 would give a column of midnights, which pandas writes without hours by default."""
    cut = sample().iloc[: 24 * 30 + 18]
    cut.to_csv("cut.csv", index=False)
    forecast(trained, "cut.csv", "plots=false")
    assert Path("out/cut.forecast.csv").read_text().splitlines()[-1].startswith("2023-02-01 23:00:00,")


def test_dates_without_hours_stay_so(folder: Path) -> None:
    frame = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=320, freq="D"), "a": np.arange(320.0) % 7})
    frame.to_csv("daily.csv", index=False)
    done("forecast", "daily.csv", "horizon=6", "output=out")
    stamps = [line.partition(",")[0] for line in Path("out/forecasts/daily.forecast.csv").read_text().splitlines()]
    assert stamps == ["day", *(f"2020-11-{day}" for day in range(16, 22))]


def test_another_step_with_the_same_calendar_is_forecast(trained: Trained, folder: Path) -> None:
    sample(date=pd.date_range("2020-01-01", periods=6000, freq="2h")).to_csv("slow.csv", index=False)
    forecast(trained, "slow.csv", "plots=false", "dataset.frequency=2h")
    stamps = pd.to_datetime(pd.read_csv("out/slow.forecast.csv")["date"])
    assert set(stamps.diff().dropna()) == {pd.Timedelta(hours=2)}


def test_names_with_signs_that_mean_something_elsewhere(trained: Trained, folder: Path) -> None:
    name = "a [bold] (1)=x$y$.csv"
    sample().to_csv(name, index=False)
    outcome = done("predict", f"checkpoint={trained.run_dir}", f"input={name}", "output=out", "plots=true")
    assert "forecast: out/a [bold] (1)=x$y$.forecast.csv\n" in outcome.out
    assert Path("out/a [bold] (1)=x$y$.forecast.png").exists()


@pytest.mark.parametrize("mode", [[], ["mode=rolling", "stride=900"]])
def test_a_forecast_that_is_no_number_is_not_written(mode: list[str], trained: Trained, folder: Path) -> None:
    """Red if weights that have gone wrong give a file and status 0."""
    content = content_of(trained.run_dir / "best.safetensors")
    content["weights"]["network.head.weight"].fill_(3e38)  # the largest that float32 has
    write_forged(Path("wrong.safetensors"), content)
    line = refusal("predict", "checkpoint=wrong.safetensors", f"input={SAMPLE}", "output=out", *mode)
    assert "forecast is not finite" in line
    assert not list(Path("out").glob("sample*"))


def test_numbers_have_sensible_digits(trained: Trained, folder: Path) -> None:
    """Four digits of the spread of a column's history, by hand; digits=null writes all."""
    table = pd.read_csv(ROOT / "data/sample.csv")
    table.to_csv("f.csv", index=False)
    run = [f"checkpoint={trained.run_dir}", "input=f.csv", "intervals=[80]", "plots=false"]
    for name, setting in (("short", "digits=4"), ("long", "digits=null")):
        done("predict", *run, f"output={name}", setting)
    short, long = (pd.read_csv(f"{name}/f.forecast.csv", dtype=str) for name in ("short", "long"))
    for column in ("temperature", "visitors", "price", "demand"):
        places = 3 - int(np.floor(np.log10(table[column].iloc[-24:].std())))
        for own in (column, f"{column}_lo80", f"{column}_hi80"):
            assert short[own].str.partition(".")[2].str.len().max() <= max(places, 1) + 1
            np.testing.assert_allclose(
                short[own].astype(float), long[own].astype(float), atol=0.6 * 10.0 ** (1 - places)
            )
    assert short["demand"].str.len().max() < long["demand"].str.len().max()


def test_a_day_of_a_clock_change_and_the_days_until_a_date(folder: Path) -> None:
    """Two columns of quarter-hours in Berlin. Red if tomorrow ends at another time than a quarter to twelve, or if
    columns known ahead are demanded of other rows."""
    times = pd.date_range("2024-03-24", "2024-04-02", freq="15min", tz="Europe/Berlin", inclusive="left")
    season = np.sin(2 * np.pi * (times.hour + times.minute / 60) / 24)
    rows = pd.DataFrame({"date": times.astype(str), "temp": season.round(3), "load": (5 + season).round(6)})
    ends = {day: int((times < pd.Timestamp(day, tz="Europe/Berlin")).sum()) for day in ("2024-03-31", "2024-04-01")}
    rows.head(ends["2024-03-31"]).to_csv("past.csv", index=False)
    rows.iloc[ends["2024-03-31"] : ends["2024-04-01"]][["date", "temp"]].to_csv("tomorrow.csv", index=False)
    known = ["features=MS", "target=load", "future_covariates=[temp]", "dataset.timezone=Europe/Berlin"]
    done("train", "dataset=csv", "dataset.path=past.csv", "model=linear", *SMALL[1:], *known, "run_dir=run")
    given = ["checkpoint=run", "input=past.csv", "future=tomorrow.csv", "overwrite=true"]
    for ahead in ("horizon=1day", "until=2024-03-31"):
        done("predict", *given, ahead)
        ahead_rows = pd.read_csv("forecasts/past.forecast.csv")
        assert len(ahead_rows) == 92
        assert ahead_rows["date"].iloc[-1] == "2024-03-31 23:45:00+02:00"
    assert "2024-04-01" in refusal("predict", *given, "horizon=2days")
    assert "until=2024-03-30: " in refusal("predict", *given, "until=2024-03-30")
