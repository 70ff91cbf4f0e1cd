"""`informer report`: its numbers are those of the run, with data or without, and of forecasts."""

import json
import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import COLUMN, HOSTILE
from entry_points import done, refusal

IDLE = "the network adds nothing to the forecast that it starts from"


def page_data(page: Path) -> dict:
    """Data of the charts, with profiles by key, and the rest of the page as `html`."""
    text = page.read_text()
    match = re.search(r'id="report-data">(.*?)</script>', text, re.S)
    assert match is not None
    data = json.loads(match[1])
    profiles = {each["key"]: each for each in data["profiles"]}
    return data | {"profiles": profiles, "html": unescape(text.replace(match[1], ""))}


def reported(source: str | Path, *words: str) -> dict:
    done("report", str(source), "output=page.html", "overwrite=true", *words)
    return page_data(Path("page.html"))


@pytest.fixture(scope="module")
def page(panel_run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict:
    path = tmp_path_factory.mktemp("page") / "page.html"
    done("report", str(panel_run), f"output={path}")
    return page_data(path)


def test_scores_in_the_report_are_those_of_the_run(panel_run: Path, page: dict) -> None:
    """Of every step, of both tables with the quantile loss as the last score before the skill; each test window is
    counted once for its series."""
    table = pd.read_csv(panel_run / "metrics.csv")
    own = table[(table["model"] == "informer") & (table["units"] == "scaled") & (table["metric"] == "mse")]
    assert page["profiles"]["step"]["mse"]["informer"] == pytest.approx(own[own["step"] != "all"]["value"], rel=1e-5)
    assert "<title>data: 6 hours ahead</title>" in page["html"]
    assert "2 columns: hourly forecast from the last 48 hours of history. Model: " in page["html"]
    assert "The page shows all 6 pairs of series and column." in page["html"]
    saved = json.loads((panel_run / "metrics.json").read_text())
    assert page["html"].count('<th scope="col">WQL</th><th scope="col">Skill</th>') == 2
    for scores in saved["scores"].values():
        for units in ("scaled", "original"):
            assert f'<td data-label="WQL">{scores[units]["overall"]["wql"]:.4g}</td>' in page["html"]
    weights = [row["windows"] for row in page["series"]]
    mean = np.average([row["mse"] for row in page["series"]], weights=weights)
    assert mean == pytest.approx(saved["scores"]["informer"]["scaled"]["overall"]["mse"], rel=1e-5)
    assert {row["series"] for row in page["series"]} == {"north", HOSTILE, "south"}
    assert page["profiles"]["hour"]["labels"] == list(range(24))
    losses = pd.read_csv(panel_run / "losses.csv").set_index("epoch")
    for name, column in (("training", "train_loss"), ("validation", "val_loss")):
        own = losses[column].dropna()  # epoch 0 is the linear map before the first step, without a training loss
        assert page["losses"][name] == [own.index.tolist(), pytest.approx(own.tolist(), rel=1e-5)]


@pytest.mark.parametrize(
    ("skill", "interval", "tone"),
    [
        (0.1, [-0.021, 0.314], "level"),
        (-0.1, [-0.3, -0.01], "bad"),
        (0.6, [None, None], "good"),
        (None, [None, None], "neutral"),
    ],
)
def test_verdict_colour_and_certainty_are_those_of_the_scores(
    panel_run: Path, folder: Path, skill: float | None, interval: list[float], tone: str
) -> None:
    """Red if the page computes a separate bootstrap, or judges in another way."""
    shutil.copytree(panel_run, "run")
    changed = {"skill": skill, "skill_interval": interval, "verdict": "as good as ridge", "warning": ""}
    Path("run/metrics.json").write_text(json.dumps(json.loads(Path("run/metrics.json").read_text()) | changed))
    html = reported("run")["html"]
    assert f'<section class="verdict {tone}"' in html
    assert "<p>As good as ridge.</p>" in html
    assert ("<dd>+10.0 %</dd>" in html) == (skill == 0.1)
    assert ("95 % interval \u22122.1 % to +31.4 %" in html) == (interval == [-0.021, 0.314])


def test_forecasts_in_the_report_are_those_of_predict(panel_run: Path, page: dict, folder: Path) -> None:
    """The same windows by way of another command, in data units, with intervals and actual values; the last one is what
    follows the data. Red when the page shows forecasts of held-out rows only."""
    levels = [name.removesuffix(" %") for name in page["tracks"][0]["origins"][0]["bands"]]
    data, intervals = panel_run.parent / "data.csv", f"intervals=[{','.join(levels)}]"
    done("predict", f"checkpoint={panel_run}", f"input={data}", "mode=rolling", "stride=1", intervals)
    done("predict", f"checkpoint={panel_run}", f"input={data}", intervals, "output=ahead")
    rolled, ahead = pd.read_csv("forecasts/data.rolling.csv"), pd.read_csv("ahead/data.forecast.csv")
    for track in page["tracks"]:
        own = rolled[(rolled["store"] == track["series"]) & (rolled["column"] == track["column"])]
        *origins, last = track["origins"]
        for origin in origins:
            first = origin["row"]
            actual = track["actual"][first : first + 6]
            (rows,) = (
                rows for _, rows in own.groupby("origin") if rows["actual"].tolist() == pytest.approx(actual, rel=1e-5)
            )
            check(origin, rows["forecast"], {name: rows[name] for name in rows if name[:2] in ("lo", "hi")})
        rows = ahead[ahead["store"] == track["series"]]
        assert last["row"] == len(track["actual"])
        assert pd.DatetimeIndex(last["times"]).equals(pd.DatetimeIndex(rows["when"]))
        own = rows.filter(regex=f"^{re.escape(track['column'])}_(lo|hi)")
        check(last, rows[track["column"]], {name.rpartition("_")[2]: own[name] for name in own})


def check(origin: dict, forecast: pd.Series, ends: dict[str, Any]) -> None:
    """The forecast and the intervals of an origin."""
    assert origin["lines"]["informer"] == pytest.approx(forecast.tolist(), rel=1e-4, abs=1e-4)
    assert len(origin["bands"]) == len(ends) / 2
    for name, both in origin["bands"].items():
        for end, values in zip(("lo", "hi"), both, strict=True):
            expected = ends[f"{end}{name.removesuffix(' %')}"].tolist()
            assert values == pytest.approx(expected, rel=1e-4, abs=1e-4, nan_ok=True)


def test_a_network_that_adds_nothing_is_named_and_has_no_maps(panel_run: Path, page: dict, folder: Path) -> None:
    """Red if the maps of a network whose output is not used are shown, or the page does not say so."""
    assert page["attention"]
    assert IDLE not in page["html"]
    done(
        "train", "dataset=csv", f"dataset.path={panel_run.parent / 'data.csv'}", "dataset.series_col=store",
        "model=tiny", "model.skip=ridge", "seq_len=48", "pred_len=6", "trainer.max_steps=0", "run_dir=start",
    )  # fmt: skip
    start = reported("start")
    assert start["attention"] == []
    assert IDLE in start["html"]
    assert "contribution" not in start["profiles"]


def test_of_an_evaluation_and_without_scores(panel_run: Path, folder: Path) -> None:
    """Red if a page reads the data, which are not there, or does not say how to get scores."""
    shutil.copytree(panel_run, "run")
    done("eval", "checkpoint=run", "plots=none")
    assert reported("run/eval")["tracks"]
    Path("run/metrics.json").unlink()
    page = reported("run")
    assert page["tracks"] == []
    assert "informer eval checkpoint=run" in page["html"]


def test_forecasts_with_history_and_actual_values(panel_run: Path, folder: Path) -> None:
    whole = pd.read_csv(panel_run.parent / "data.csv")
    times = sorted(whole["when"].unique())
    whole[whole["when"] < times[-6]].to_csv("history.csv", index=False)
    whole[whole["when"] >= times[-6]].to_csv("later.csv", index=False)
    done("predict", f"checkpoint={panel_run}", "input=history.csv", "output=out")
    page = reported("out", "history=history.csv", "actuals=later.csv")
    forecast = pd.read_csv("out/history.forecast.csv")
    assert {(each["series"], each["column"]) for each in page["tracks"]} == {
        (series, column) for series in ("north", HOSTILE, "south") for column in ("visits", COLUMN)
    }
    for track in page["tracks"]:
        expected = forecast[forecast["store"] == track["series"]][track["column"]]
        actual = whole[whole["store"] == track["series"]][track["column"]].tolist()
        (origin,) = track["origins"]
        assert origin["lines"]["forecast"] == pytest.approx(expected.tolist(), rel=1e-5)
        assert track["actual"][origin["row"] :] == pytest.approx(actual[-6:], rel=1e-5)
        assert track["actual"][: origin["row"]] == pytest.approx(actual[-6 - origin["row"] : -6], rel=1e-5)


def write_rolling(path: str, n_origins: int, spacing: int, n_steps: int) -> pd.DataFrame:
    """Forecasts, `spacing` rows apart, of values that count the hours of 2024; each is too high by its step."""
    at = (spacing * np.arange(n_origins)[:, None] + np.arange(1, n_steps + 1)).ravel()
    step = np.tile(np.arange(1, n_steps + 1), n_origins)
    hours = pd.Timestamp("2024-01-01") + pd.to_timedelta(at, unit="h")
    origins = hours - pd.to_timedelta(step, unit="h")
    table = pd.DataFrame(
        {"origin": origins, "step": step, "date": hours, "column": "load", "forecast": at + step, "actual": 1.0 * at}
    )
    table.to_csv(path, index=False)
    return table


@pytest.mark.parametrize(("n_origins", "spacing"), [(3, 1), (90, 4)])
def test_every_origin_of_the_slider_is_within_the_rows_and_the_newest_is_one(
    n_origins: int, spacing: int, folder: Path
) -> None:
    """Red if origins that are thinned out reach back beyond the actual values that the page holds."""
    table = write_rolling("load.rolling.csv", n_origins, spacing, n_steps=6)
    page = reported("load.rolling.csv")
    (track,) = page["tracks"]
    for origin in track["origins"]:
        assert origin["times"] == []  # all its rows are in the track
        rows = slice(origin["row"], origin["row"] + 6)
        assert (np.array(origin["lines"]["forecast"]) - track["actual"][rows]).tolist() == [1, 2, 3, 4, 5, 6]
    assert track["actual"][track["origins"][-1]["row"] + 5] == table["actual"].max()
    shown = len(track["origins"])
    moves = f"The slider moves through {shown} of {n_origins:,} forecasts, evenly spaced."
    assert (moves in page["html"]) == (shown < n_origins)
    assert page["profiles"]["step"]["mae"]["forecast"] == [1, 2, 3, 4, 5, 6]


def test_local_times_of_forecasts_over_a_clock_change(folder: Path) -> None:
    """Red if an hour that occurs twice is two series, or its rows are drawn at one time."""
    times = pd.date_range("2024-10-26 20:00", periods=24, freq="h", tz="Europe/Berlin")
    before = pd.date_range(end=times[0] - pd.Timedelta("1h"), periods=100, freq="h", tz="Europe/Berlin")
    for name, rows in (("a.forecast.csv", times), ("a.csv", before)):
        local = rows.strftime("%d.%m.%Y %H:%M")
        pd.DataFrame({"Zeit": local, "Last": np.arange(len(rows)) + 0.5}).to_csv(name, index=False)
    error = refusal("report", "a.forecast.csv", "output=page.html")
    assert "local time 2024-10-27 02:00:00 occurs twice" in error
    assert "set dataset.timezone=Europe/Berlin" in error
    zone = "dataset.timezone=Europe/Berlin"
    page = reported("a.forecast.csv", "history=a.csv", zone)
    grid = page["times"][0]
    before_times = pd.date_range(grid["first"], periods=grid["n"], freq=f"{grid['step']}s")
    expected = before.append(times).tz_convert("UTC").tz_localize(None)
    assert [*before_times, *pd.DatetimeIndex(page["tracks"][0]["origins"][0]["times"])] == list(expected)
    assert "Times are shown in UTC." in page["html"]


N, TRAIN, STEPS = 400, 240, 6


def counts() -> pd.DataFrame:
    """Hourly counts whose fluctuations grow with their level."""
    hours, rng = np.arange(N), np.random.default_rng(4)
    level = np.exp(2 + hours / N + np.sin(2 * np.pi * hours / 24))
    values = rng.poisson(level * rng.gamma(8, 1 / 8, N))
    return pd.DataFrame({"date": pd.date_range("2024-01-01", periods=N, freq="h"), "sold": values})


def test_errors_and_intervals_on_the_page_are_those_of_the_values(folder: Path) -> None:
    """Red if the page compares roots: its errors would not be those of the forecasts, nor of the scores above them."""
    table = counts()
    table.to_csv("data.csv", index=False)
    parts = (("kind", "rows"), ("train", TRAIN), ("val", 80), ("test", 80))
    outcome = done(
        "train", "dataset=csv", "dataset.path=data.csv", "model=tiny", "model.skip=ridge", "target=sold", "features=S",
        "seq_len=24", "label_len=12", f"pred_len={STEPS}", "trainer.max_steps=20", "optim.lr=0.01", "run_dir=run",
        "scaler.transform=sqrt", *(f"dataset.split.{key}={value}" for key, value in parts),
    )  # fmt: skip
    assert "fitted to the square root of sold" in " ".join(outcome.out.split())
    page = reported("run")
    assert page["html"].count("the square root of sold") == 1
    assert "scaled square roots" in page["losses"]["note"]

    done("predict", "checkpoint=run", "input=data.csv", "mode=rolling", "stride=1", "intervals=[80]")
    rolled = pd.read_csv("forecasts/data.rolling.csv").sort_values(["origin", "step"])
    rolled = rolled.tail(STEPS * json.loads(Path("run/metrics.json").read_text())["windows"])
    errors = ((rolled["forecast"] - rolled["actual"]) / table["sold"].head(TRAIN).std(ddof=0)).to_numpy()
    by_step = (errors.reshape(-1, STEPS) ** 2).mean(axis=0)
    for axis in ("step", "contribution"):
        assert page["profiles"][axis]["mse"]["informer"] == pytest.approx(by_step, rel=1e-4)
    by_hour = pd.Series(errors**2).groupby(pd.to_datetime(rolled["date"]).dt.hour.to_numpy()).mean()
    assert page["profiles"]["hour"]["labels"] == by_hour.index.tolist()
    assert page["profiles"]["hour"]["mse"]["informer"] == pytest.approx(by_hour.tolist(), rel=1e-4)
    edges = np.linspace(-3, 3, 61).round(10)
    assert page["residuals"]["counts"] == np.histogram(np.clip(errors, -3, 3), bins=edges)[0].tolist()
