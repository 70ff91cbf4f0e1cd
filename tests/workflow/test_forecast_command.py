"""`informer forecast` from a file or a folder to forecasts, a report and closing lines; what its plan chooses."""

import json
import re
import shlex
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
from entry_points import Outcome, call, done, refusal

HOURS = pd.date_range("2024-01-01", periods=600, freq="h")


def hourly(n: int = 600, shift: float = 0.0, seed: int = 0) -> pd.DataFrame:
    """A day's season with noise in two columns."""
    rng = np.random.default_rng(seed)
    wave = np.sin(2 * np.pi * np.arange(n) / 24)
    columns = {"heat": 20 + wave + rng.normal(0, 0.1, n), "load": 100 + shift + 10 * wave + rng.normal(0, 1, n)}
    return pd.DataFrame({"time": HOURS[:n].strftime("%Y-%m-%d %H:%M"), **columns})


def forecast(*arguments: str) -> Outcome:
    """With a model that is trained."""
    return call("forecast", *arguments, "model=linear")


def sound(outcome: Outcome) -> dict[str, str]:
    """The closing lines by their labels; the command must have succeeded."""
    assert (outcome.status, outcome.err) == (0, ""), outcome.err
    return {line[:11].strip(): line[11:] for line in outcome.out.splitlines() if line[:11].strip()}


def test_one_file_gives_forecasts_a_report_and_ten_lines(folder: Path) -> None:
    hourly().assign(place="north").to_csv("my.csv", index=False)
    outcome = forecast("my.csv", "target=load", "output=out")
    lines = sound(outcome)
    assert [*lines] == [
        *("Found", "Season", "Data", "Model", "Quality", "Intervals", "Forecast", "Report", "Repeat", "New rows")
    ]
    assert "600 hourly rows" in lines["Found"]
    assert lines["Season"] == "repeats every 24 hours"
    assert lines["Data"].endswith("column place not used (informer inspect my.csv says how)")
    assert all(name in lines["Quality"] for name in ("seasonal naive", "ridge"))
    own = json.loads(Path("out/metrics.json").read_text())["scores"]["linear"]["original"]["overall"]["mae"]
    assert f"; mean absolute error {own:.4g} (" in lines["Quality"]
    assert lines["Forecast"].startswith("out/forecasts/my.forecast.csv (48 ")
    assert lines["Model"].startswith("linear, ")
    table = pd.read_csv("out/forecasts/my.forecast.csv")
    assert (
        list(table.columns)
        == ["time", "load", "load_lo80", "load_hi80", "load_lo95", "load_hi95"][: len(table.columns)]
    )
    assert len(table) == 48
    assert pd.Timestamp(table["time"][0]) == HOURS[-1] + pd.Timedelta(hours=1)
    page = Path("out/report.html").read_text()
    assert f"Expect {table['load'].mean():.4g} as load on average over the next" in page
    done("report", "out", "output=again.html")
    assert Path("again.html").read_text() == page
    # what the last two lines say can be typed
    repeat, new_rows = (shlex.split(lines[label]) for label in ("Repeat", "New rows"))
    done(repeat[1], *repeat[2:], "output=again")
    again = Path("again/forecasts/my.forecast.csv").read_bytes()
    assert again == Path("out/forecasts/my.forecast.csv").read_bytes()
    done(new_rows[1], *new_rows[2:], "output=later")
    assert Path("later/my.forecast.csv").read_bytes() == Path("out/forecasts/my.forecast.csv").read_bytes()


def test_errors_of_several_columns_are_in_their_units(folder: Path) -> None:
    """The seasonal naive's against pandas over the test forecasts that start at these rows, the model's against the
    saved scores; red if they are scaled, or those of another column or forecaster."""
    table = hourly()
    table.to_csv("my.csv", index=False)
    lines = sound(call("forecast", "my.csv", "horizon=24", "output=out"))
    assert "; scaled M" in lines["Quality"]
    line = lines["By column"]
    assert line.startswith("mean absolute error (seasonal naive, ")
    scores = json.loads(Path("out/metrics.json").read_text())
    for name in ("heat", "load"):
        changes = table[name].diff(24).abs()
        naive = np.mean([changes[start : start + 24].mean() for start in range(120, 577, 24)])
        mean = scores["scores"][scores["model"]]["original"]["by_column"][name]["mae"]
        assert f" {name} {mean:.4g} ({naive:.4g}, " in line


def test_a_forecast_of_many_steps_has_a_page(folder: Path) -> None:
    """Scores of 1,100 steps are more than 1 MiB; red if the page is not made of a file that the command writes, or if
    an interval of the mean, which takes long, is computed unasked."""
    days = pd.date_range("1990-01-01", periods=2300, freq="D")
    pd.DataFrame({"day": days, "load": np.sin(np.arange(2300) / 7 * 2 * np.pi)}).to_csv("my.csv", index=False)
    sound(call("forecast", "my.csv", "horizon=1100", "output=out"))
    assert "%" not in json.loads(Path("out/forecast_page.json").read_text())["expected"]
    assert Path("out/metrics.json").stat().st_size > 1 << 20
    assert "Error by step ahead" in Path("out/report.html").read_text()


def test_the_page_of_a_short_series_says_what_was_before(folder: Path) -> None:
    """Red if it tells of five days where there were three, or compares sums of five and three days."""
    Path("my.csv").write_text("day,load\n2024-01-01,1\n2024-01-02,3\n2024-01-03,2\n")
    said = []
    for number, words in enumerate(([], ["total=true"])):
        outcome = done("forecast", "my.csv", "horizon=5", f"output={number}", *words)
        assert "too short for a test forecast" in outcome.out
        said.append(json.loads(Path(f"{number}/forecast_page.json").read_text())["expected"])
    assert said[0].endswith("; the last 3 days 2.")
    assert (said[1].startswith("Expect "), ";" in said[1]) == (True, False)


def test_what_a_page_is_made_of_may_be_damaged(folder: Path) -> None:
    """Red if the error has several lines, or its cure does not work."""
    hourly().to_csv("my.csv", index=False)
    done("forecast", "my.csv", "horizon=6", "output=out")
    saved = json.loads(Path("out/forecast_page.json").read_text())
    Path("out/forecast_page.json").write_text(json.dumps(saved | {"title": 5}))
    assert refusal("report", "out").startswith("error: out/forecast_page.json: title: found 5, which ")
    Path("out/forecast_page.json").unlink()
    done("report", "out")


def promoted() -> pd.DataFrame:
    """A day's season, and 30 more in the hours of a promotion; of the last 24 hours only the promotions are known."""
    table = hourly(600).drop(columns="heat")
    times = pd.date_range(HOURS[0], periods=624, freq="h")
    promo = (np.random.default_rng(5).random(624) < 0.3).astype(float)
    table["load"] += 30 * promo[:600]
    rows = pd.DataFrame({"time": times.strftime("%Y-%m-%d %H:%M"), "promo": promo})
    return rows.merge(table, on="time", how="left")


@pytest.mark.slow
def test_a_file_that_continues_is_forecast_like_one_with_a_file_of_what_is_ahead(folder: Path) -> None:
    """Against the same rows in two files; red if rows without a target are filled. What to type is said
    without a target, and beyond the rows. Without training: tests/workflow/test_effects.py."""
    one = promoted()
    one.to_csv("one.csv", index=False)
    two = pd.concat([one.assign(shop="a"), one.assign(shop="b", load=one["load"] + 5)]).sort_values(["time", "shop"])
    two.to_csv("two.csv", index=False)
    Path("before").mkdir()
    two[two["load"].notna()].to_csv("before/two.csv", index=False)
    two[two["load"].isna()].drop(columns="load").to_csv("before/next.csv", index=False)
    lines = sound(forecast("two.csv", "target=load", "output=out"))
    words = ["before/two.csv", "future=before/next.csv", "horizon=24", "target=load", "dataset.series_col=shop"]
    sound(forecast(*words, "output=as_two"))
    found = Path("out/forecasts/two.forecast.csv").read_bytes()
    assert found == Path("as_two/forecasts/two.forecast.csv").read_bytes()
    for label, place in (("Repeat", "Repeat/forecasts/two.forecast.csv"), ("New rows", "New rows/two.forecast.csv")):
        command = shlex.split(lines[label])
        done(command[1], *command[2:], f"output={label}")
        assert Path(place).read_bytes() == found
    far = call("forecast", "one.csv", "target=load", "horizon=30", "model=linear")
    assert far.err.endswith("; horizon=24 needs only what is there\n")
    shops = [one[:600].assign(shop=name) for name in "abc"]
    shops[0].loc[599, "load"] = np.nan
    pd.concat(shops).to_csv("late.csv", index=False)  # the newest value of one shop is missing, which is no plan
    done("forecast", "late.csv", "target=load", "dataset.series_col=shop", "output=late")
    first = pd.read_csv("late/forecasts/late.forecast.csv").groupby("shop")["time"].min()
    assert pd.to_datetime(first).tolist() == pd.to_datetime(one["time"][[599, 600, 600]]).tolist()
    two[(two["shop"] == "a") | (two["time"] < one["time"][620])].to_csv("uneven.csv", index=False)
    lines = sound(call("forecast", "uneven.csv", "target=load", "output=uneven"))
    assert "the horizon is 20 rows, since b has no more (promo), another series has 24" in lines["Data"]
    unnamed = call("forecast", "one.csv", "model=linear")
    assert unnamed.err.endswith("the last rows, which have no load, are to be forecast with promo, add target=load\n")


def test_problems_are_reported_with_their_repair_and_nothing_is_written(folder: Path) -> None:
    broken = hourly().drop(index=[100, 101])
    broken.loc[50, "load"] = np.nan
    broken.to_csv("my.csv", index=False)
    outcome = forecast("my.csv")
    assert outcome.status == 2
    assert "2 rows are missing" in outcome.err
    assert "row 52, column 'load'" in outcome.err
    assert outcome.err.endswith("add repair=auto, which sets dataset.fill=linear\n")
    assert [path.name for path in folder.iterdir()] == ["my.csv"]
    lines = sound(forecast("my.csv", "repair=auto", "output=out"))
    assert "dataset.fill=linear" in lines["Data"]
    assert "dataset.fill=linear" in lines["Repeat"]
    assert "fill=linear" in Path("out/train.log").read_text()


def test_a_gap_in_the_last_row_of_a_table_with_dates_as_columns(folder: Path) -> None:
    """Red if the column of a date is taken for a target that is to be forecast from the others."""
    table = pd.DataFrame(np.arange(3 * 60.0).reshape(3, 60), columns=pd.date_range("2020-01-01", periods=60, freq="MS"))
    table.iloc[2, 10] = np.nan
    table.set_axis([*"abc"]).to_csv("my.csv", index_label="shop")
    outcome = forecast("my.csv", "dataset.series_col=shop")
    assert outcome.status == 2
    assert outcome.err.endswith("add repair=auto, which sets dataset.fill=linear\n")


def test_a_target_is_never_repaired_by_leaving_it_out(folder: Path) -> None:
    broken = hourly().astype({"load": object})
    broken.loc[50, "load"] = "12 kW"
    broken.to_csv("my.csv", index=False)
    outcome = forecast("my.csv")
    assert outcome.err.endswith("add repair=auto, which sets dataset.columns=[heat] and leaves out load\n")
    outcome = forecast("my.csv", "repair=auto", "target=load")
    assert outcome.status == 2
    assert "row 52, column 'load'" in outcome.err
    assert "repair=auto cannot fix all of this" in outcome.err


def test_a_short_series_is_padded_and_named(folder: Path) -> None:
    rows = {"a": 600, "b": 600, "late": 60}
    pd.concat([hourly(n, seed=n).assign(store=name) for name, n in rows.items()]).to_csv("long.csv", index=False)
    lines = sound(forecast("long.csv", "target=load", "horizon=12", "output=out", "dataset.series_col=store"))
    assert "short=pad for late" in lines["Data"]
    assert set(pd.read_csv("out/forecasts/long.forecast.csv")["store"]) == {"a", "b", "late"}


GOOD, OTHER, SHORT = (
    hourly(400),
    hourly(400).rename(columns={"load": "power"}),
    hourly(40).rename(columns={"load": "y"}),
)
BAD = pd.DataFrame({"nothing": ["here"]})
GAPS = GOOD.assign(load=GOOD["load"].where(GOOD.index != 5), heat=GOOD["heat"].where(GOOD.index != 7))


@pytest.mark.parametrize(
    ("files", "words", "status", "said", "written"),
    [
        ({"a": GOOD, "c": hourly(400, 50, 1)}, ["target=load"], 0, ["2 series"], ["out/a", "out/c"]),
        ({"a": GOOD, "b": OTHER}, [], 0, ["Report     out/b/report.html"], ["out/a/a", "out/b/b"]),
        (
            {"a": GOOD, "b": BAD, "c": GOOD},
            ["target=load"],
            1,
            ["Failed     b.csv: no time column found", "2 files forecast, 1 failed\n"],
            ["out/a", "out/c"],
        ),
        ({"a": GOOD, "b": SHORT}, ["horizon=24"], 1, ["horizon=24: expected at most 10 for b"], ["out/a/a"]),
        (
            {"a": GOOD, "b": GAPS},
            ["target=load"],
            1,
            [" (and 1 more problem: informer inspect in/b.csv)"],
            ["out/a"],
        ),
    ],
    ids=["one dataset", "a model each", "a bad file", "a short one", "two gaps"],
)
def test_a_folder(
    files: dict[str, pd.DataFrame], words: list[str], status: int, said: list[str], written: list[str], folder: Path
) -> None:
    """Files of the same columns are one dataset, others have a model each, and one that fails is a line. Red if the
    model of the others reads it, or if a line of advice counts as a problem."""
    Path("in").mkdir()
    for name, table in files.items():
        table.to_csv(f"in/{name}.csv", index=False)
    outcome = forecast("in", "output=out", *words)
    assert outcome.status == status, outcome.err
    assert [part for part in said if part not in outcome.out] == []
    assert ("more problem" in outcome.out) == ("more problem" in said[0])
    paths = [str(path).removesuffix(".forecast.csv") for path in Path().rglob("*.forecast.csv")]
    assert {path.replace("/forecasts/", "/") for path in paths} == {*written}
    if outcome.out.endswith("2 files forecast, 1 failed\n"):
        (repeat,) = (line[11:] for line in outcome.out.splitlines() if line.startswith("Repeat"))
        done(*shlex.split(repeat)[1:], "model=linear", "output=again")


def test_a_pattern_without_errors_has_no_intervals_and_says_why(folder: Path) -> None:
    """Red if more rows are asked for: no held-out forecast had an error, however many there are."""
    days = pd.date_range("2023-01-01", periods=300)
    pd.DataFrame({"date": days, "y": days.day_of_week + 1.0}).to_csv("my.csv", index=False)
    lines = sound(forecast("my.csv", "horizon=7"))
    assert (
        lines["Intervals"]
        == "none: no calibration window with a varying history had an error, so the widths are not known"
    )
    written = pd.read_csv(next(Path(".").rglob("my.forecast.csv")), parse_dates=["date"])
    np.testing.assert_allclose(written["y"], written["date"].dt.day_of_week + 1, atol=1e-3)


@pytest.mark.parametrize(
    ("table", "settings"),
    [(hourly(1), []), (hourly(31).iloc[[0, 1, 2, 3, 30]], ["dataset.fill=mask"])],
    ids=["one row", "few among gaps"],
)
def test_the_cure_for_too_few_rows_works(table: pd.DataFrame, settings: list[str], folder: Path) -> None:
    """What is named, by each command, is the model that needs no training; red if the command that is printed fails."""
    table.to_csv("my.csv", index=False)
    for outcome in (forecast("my.csv", *settings), call("train", "dataset=csv", "dataset.path=my.csv", *settings)):
        assert outcome.status == 2
        assert "informer forecast FILE" in outcome.err
    said = call("inspect", "my.csv").out
    if len(table) > 1:
        words = shlex.split(
            next(line for line in said.splitlines() if "informer forecast my.csv" in line and line.startswith("  "))
        )
    else:
        assert "informer forecast FILE dataset.frequency=h" in said
        words = ["informer", "forecast", "my.csv", "dataset.frequency=h"]
    done(words[1], *words[2:], "output=out")
    assert np.isfinite(pd.read_csv("out/forecasts/my.forecast.csv")["load"]).all()


@pytest.mark.parametrize(
    ("rows", "step", "model", "horizon"),
    [
        (900, "D", "zero", 14),  # two weeks
        (48, "MS", "zero", 12),  # a year of four
        (5, "MS", "zero", 1),
        (48, "MS", "linear", 6),  # leaves rows for training
        (100, "D", "linear", 7),  # a tenth of the rows, and another split than usual
    ],
)
def test_the_usual_horizon_is_one_or_two_seasons_and_another_split_is_named(
    rows: int, step: str, model: str, horizon: int, folder: Path
) -> None:
    days, noise = pd.date_range("1990-01-01", periods=rows, freq=step), np.random.default_rng(0).normal(size=rows)
    pd.DataFrame({"date": days, "y": noise}).to_csv("my.csv", index=False)
    lines = sound(call("forecast", "my.csv", f"model={model}", "output=out"))
    assert len(pd.read_csv("out/forecasts/my.forecast.csv")) == horizon
    assert ("since 100 rows are too few for the default" in lines["Data"]) == (rows == 100)


def test_rows_without_a_target_at_the_end_are_named(tmp_path: Path) -> None:
    """Rows of the future with what is planned in them: forecasts begin after, which is not what was wanted."""
    days = pd.date_range("2024-01-01", periods=214, freq="D")
    sales = np.where(np.arange(214) < 200, np.random.default_rng(0).normal(size=214), np.nan)
    path = tmp_path / "file.csv"
    pd.DataFrame({"date": days, "sales": sales, "planned": range(214)}).to_csv(path, index=False)
    lines = sound(call("forecast", str(path), "repair=auto", f"output={tmp_path}/out", "horizon=7"))
    assert "the last 14 rows have no sales: " in lines["Data"]


def test_rows_of_the_test_part_choose_nothing(tmp_path: Path) -> None:
    """Red if a season of the whole file decides the history. What is fitted: tests/security/test_leakage.py."""
    values = np.random.default_rng(0).normal(size=400)
    settings = []
    for name, end in (("a", values[-80:]), ("b", 1e3 * np.sin(2 * np.pi * np.arange(80) / 10))):
        path = tmp_path / f"{name}.csv"
        pd.DataFrame({"date": HOURS[:400], "y": [*values[:-80], *end]}).to_csv(path, index=False)
        shares = [f"dataset.split.{part}={share}" for part, share in (("train", 0.6), ("val", 0.2), ("test", 0.2))]
        done("forecast", str(path), "model=linear", "horizon=6", f"output={tmp_path / name}", *shares)
        settings.append((tmp_path / name / "config.yaml").read_text().replace(str(tmp_path / name), ""))
    assert settings[0] == settings[1]


def test_a_folder_of_which_nothing_can_be_forecast(folder: Path) -> None:
    """Red if files that lack what is known ahead end in a traceback, or only in a table."""
    hours = pd.date_range("2024-01-01", periods=403, freq="h")
    for name in ("a", "b"):
        table = pd.DataFrame({"date": hours, "load": 10 + np.sin(np.arange(403) / 4), "price": np.arange(403) % 7})
        for part, rows in (("past", table[:400]), ("next", table[400:].drop(columns="load"))):
            Path(part).mkdir(exist_ok=True)
            rows.to_csv(f"{part}/{name}.csv", index=False)
    outcome = call("forecast", "past", "model=linear", "horizon=12", "target=load", "future=next", "output=out")
    lines = outcome.err.splitlines()
    assert (outcome.status, [line.split(":")[1] for line in lines]) == (2, [" a.csv", " b.csv"])
    assert all("expected future covariates for 12 times" in line for line in lines)


def page_of(folder: str) -> tuple[str, dict[str, Any]]:
    """The sentences at the top of a page, and its data."""
    page = Path(folder, "report.html").read_text()
    data = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', page)
    verdict = re.search(r'<section class="verdict.*?</section>', page)
    assert data
    assert verdict
    return re.sub("<[^>]*>", "|", verdict[0]), json.loads(data[1])


def test_the_page_begins_with_the_forecast_and_has_every_series(folder: Path) -> None:
    """Against totals.csv and the history; red if the sentence has other numbers, if a series cannot be chosen, if
    problems of the series are a line each, or if `informer report` gives another page of the folder."""
    random, days = np.random.default_rng(1), pd.date_range("2022-01-01", periods=500, name="day")
    wide = pd.DataFrame({f"s{k}": random.poisson(20.0 + k, len(days)) for k in range(60)}, index=days)
    long = wide.rename_axis(columns="shop").stack().rename("sales").reset_index()
    long.drop(index=[*range(3000, 3012), 6000]).to_csv("shops.csv", index=False)
    outcome = done(
        *("forecast", "shops.csv", "horizon=10", "total=true", "output=out"),
        *("dataset.series_col=shop", "repair=auto"),
    )
    (repaired,) = (line for line in outcome.out.splitlines() if line.startswith("Repaired"))
    assert repaired.endswith("(and in 11 more, 13 in all)")
    whole = pd.read_csv("out/totals.csv").iloc[-1]
    figures = [f"{float(f'{whole[name]:.4g}'):,.0f}" for name in ("value", "lo80", "hi80")]
    first, data = page_of("out")
    assert (
        "Expect {} as the total of sales of 60 series over the next 10 days, 80 % between {} and {};".format(*figures)
        in first
    )
    before = wide.loc["2022-05-16":].iloc[:10].to_numpy().sum()
    assert f"a year earlier {float(f'{before:.4g}'):,.0f}." in first
    assert sorted({track["series"] for track in data["tracks"]}) == sorted(wide.columns)
    assert "(and in 11 more, 13 in all)" in Path("out/report.html").read_text()
    done("report", "out", "output=again.html")
    assert Path("again.html").read_bytes() == Path("out/report.html").read_bytes()


def test_a_workbook_has_the_forecast_and_a_chart(folder: Path) -> None:
    """Red if a cell differs from the table, or there is no chart."""
    pytest.importorskip("xlsxwriter")
    days = pd.date_range("2024-01-01", periods=90, name="day")
    pd.DataFrame({"sales": np.random.default_rng(1).poisson(20, 90)}, index=days).to_csv("a.csv")
    for form in ("csv", "xlsx"):
        done("forecast", "a.csv", "horizon=7", f"format={form}", f"output={form}")
    table = pd.read_csv("csv/forecasts/a.forecast.csv", parse_dates=["day"])
    found = pd.read_excel("xlsx/forecasts/a.forecast.xlsx", engine="openpyxl")
    pd.testing.assert_frame_equal(found, table, check_dtype=False, rtol=1e-5)
    with ZipFile("xlsx/forecasts/a.forecast.xlsx") as parts:
        assert "xl/charts/chart1.xml" in parts.namelist()


@pytest.mark.parametrize(("end", "rows"), [("2026-10-25", 49), ("2026-03-29", 47)])
def test_days_of_clock_changes(end: str, rows: int, folder: Path) -> None:
    """Red if an hour that the clock change of this or the last year repeats or leaves out ends the command, which
    compares with the year before, or if the command to repeat a forecast of two days asks for 48 hours."""
    hours = pd.date_range(end=end, periods=1000, freq="h", tz="Europe/Berlin", inclusive="left", name="time")
    load = 100 + 10 * np.sin(2 * np.pi * np.arange(len(hours)) / 24)
    pd.DataFrame({"load": load.round(2)}, index=hours.strftime("%Y-%m-%d %H:%M")).to_csv("load.csv")
    outcome = done("forecast", "load.csv", "horizon=2days", "dataset.timezone=Europe/Berlin", "output=a")
    assert "Expect " in Path("a/report.html").read_text()
    done(*shlex.split(sound(outcome)["Repeat"])[1:], "output=b")
    first, second = (Path(f"{name}/forecasts/load.forecast.csv").read_text() for name in "ab")
    assert first == second
    assert first.count("\n") == 1 + rows
