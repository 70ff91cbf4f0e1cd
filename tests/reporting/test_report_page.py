"""`informer report`: its numbers are those of the run, with data or without, and of forecasts."""

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import COLUMN, HOSTILE
from entry_points import call, done, refusal

from informer.config.conversion import with_nan
from informer.config.data import InputFormat
from informer.config.overrides import to_hydra, unquoted
from informer.data.dataset import Data
from informer.inference.model import TrainedModel
from informer.inference.rescore import trained_data
from informer.networks.forecast_model import forecast_without_network, model_forecast
from informer.report.forecasts import forecast_content
from informer.report.page import Content, Tone, to_html
from informer.report.run import IDLE, _shown, add_scores, command_of, run_content
from informer.scoring.evaluate import adds_to_a_start
from informer.scoring.scores import EDGES


def page_data(page: Path) -> dict:
    """Data of the charts."""
    match = re.search(r'id="report-data">(.*?)</script>', page.read_text(), re.S)
    assert match is not None
    return json.loads(match[1])


@pytest.fixture(scope="module")
def content(panel_run: Path):
    return run_content(panel_run)


def test_scores_in_the_report_are_those_of_the_run(panel_run: Path, content) -> None:
    table = pd.read_csv(panel_run / "metrics.csv")
    own = table[(table["model"] == "informer") & (table["units"] == "scaled") & (table["metric"] == "mse")]
    steps = own[own["step"] != "all"]["value"].tolist()
    (by_step,) = (each for each in content.profiles if each.key == "step")
    assert by_step.mse["informer"] == pytest.approx(steps)
    assert content.title == "data: 6 hours ahead"
    assert content.subtitle.startswith("2 columns: hourly forecast from the last 48 hours of history. Model: ")


def test_quantile_losses_in_the_report_are_those_of_the_run(panel_run: Path, content) -> None:
    """In both tables of the page, the last score before the skill; a run that saved none has no such column."""
    saved = json.loads((panel_run / "metrics.json").read_text())
    for rows, units in ((content.scaled, "scaled"), (content.original, "original")):
        by_name = {name: row["wql"] for name, row in rows.items()}
        assert by_name == {name: scores[units]["overall"]["wql"] for name, scores in saved["scores"].items()}
    page = to_html(content)
    assert page.count('<th scope="col">WQL</th><th scope="col">Skill</th>') == 2
    assert f'<td data-label="WQL">{by_name["ridge"]:.4g}</td>' in page

    for scores in saved["scores"].values():
        for units in scores.values():
            for values in (units["overall"], units["by_step"], *units["by_column"].values()):
                del values["wql"]
    older = Content(title="", verdict="")
    add_scores(older, with_nan(saved))
    assert ">WQL<" not in to_html(older)
    assert to_html(older).count('<th scope="col">MASE</th>') == 2


@pytest.mark.parametrize(
    "verdict", ["better than ridge, the best baseline: scaled MSE 4.6 % lower", "as good as ridge"]
)
def test_the_verdict_is_that_of_the_scores(verdict: str, panel_run: Path) -> None:
    saved = json.loads((panel_run / "metrics.json").read_text()) | {"verdict": verdict, "warning": ""}
    content = Content(title="", verdict="")
    add_scores(content, with_nan(saved))
    assert content.verdict == f"{verdict[0].upper()}{verdict[1:]}."


def test_certainty_in_the_report_is_that_of_the_run(panel_run: Path, folder: Path) -> None:
    """Red if the page computes a separate bootstrap."""
    shutil.copytree(panel_run, "run")
    saved = json.loads(Path("run/metrics.json").read_text()) | {"skill": 0.1, "skill_interval": [-0.021, 0.314]}
    Path("run/metrics.json").write_text(json.dumps(saved))
    content = run_content(Path("run"))
    ((_, value, hint),) = (card for card in content.cards if card[0] == "Skill")
    assert value == "+10.0 %"
    assert hint.endswith("95 % interval \u22122.1 % to +31.4 %")
    assert content.tone is Tone.level


@pytest.mark.parametrize(
    ("skill", "interval", "tone"),
    [
        (0.1, [0.02, 0.2], Tone.good),
        (0.1, [-0.02, 0.2], Tone.level),
        (-0.1, [-0.3, 0.01], Tone.level),
        (-0.1, [-0.3, -0.01], Tone.bad),
        (0.0004, [0.0003, 0.0005], Tone.level),
        (0.1, [None, None], Tone.level),
        (0.6, [None, None], Tone.good),
        (None, [None, None], Tone.neutral),
    ],
)
def test_the_colour_follows_the_interval_of_the_skill(panel_run: Path, skill, interval, tone) -> None:
    saved = json.loads((panel_run / "metrics.json").read_text())
    page = Content(title="", verdict="")
    add_scores(page, with_nan(saved | {"skill": skill, "skill_interval": interval}))
    assert page.tone is tone


def test_errors_by_hour_weekday_and_series_average_to_the_overall_error(content) -> None:
    """All test windows are counted once along each axis; red when a row is given to another hour or series."""
    overall = {name: metrics["mse"] for name, metrics in content.scaled.items()}
    weights = {row["series"]: row["windows"] for row in content.series}
    assert set(weights) == {"north", HOSTILE, "south"}
    n = sum(row["windows"] for row in content.series)
    mean = sum(row["mse"] * row["windows"] for row in content.series) / n
    assert mean == pytest.approx(overall["informer"], rel=1e-5)
    (by_hour,) = (each for each in content.profiles if each.key == "hour")
    assert list(by_hour.labels) == list(range(24))


def data_of(model: TrainedModel, run: Path) -> Data:
    return trained_data(model.checkpoint, model.device)


def test_error_by_hour_window_by_window(panel_run: Path, content) -> None:
    model = TrainedModel.load(panel_run)
    data = data_of(model, panel_run)
    sums, counts = [0.0] * 24, [0] * 24
    for i in range(len(data.test)):
        batch = data.test.batch(torch.tensor([i]))
        with torch.inference_mode():
            error = (model_forecast(model.model, batch) - batch.target)[0].double() ** 2
        s = int(data.test.series(torch.tensor([i]))[0])
        first = int(data.test.starts[i] - data.test.store.first_rows[s]) + 48
        for step in range(6):
            hour = data.panel[s].timestamps[first + step].hour
            sums[hour] += float(error[step].mean())
            counts[hour] += 1
    (by_hour,) = (each for each in content.profiles if each.key == "hour")
    assert by_hour.mse["informer"] == pytest.approx([a / b for a, b in zip(sums, counts, strict=True)], rel=1e-4)


def test_forecasts_in_the_report_are_those_of_rolling_mode(panel_run: Path, content, folder: Path) -> None:
    """The same windows by way of another command, in data units, with intervals and actual values."""
    levels = [name.removesuffix(" %") for name in content.tracks[0].origins[0]["bands"]]
    intervals = f"intervals=[{','.join(levels)}]"
    data = panel_run.parent / "data.csv"
    done("predict", f"checkpoint={panel_run}", f"input={data}", "mode=rolling", "stride=1", intervals)
    rolled = pd.read_csv("forecasts/data.rolling.csv")
    for track in content.tracks:
        own = rolled[(rolled["store"] == track.series) & (rolled["column"] == track.column)]
        times = content.times[track.times]
        for origin in track.origins[:-1]:  # the last one is what follows the data
            rows = own[own["origin"] == times[origin["row"] - 1]].sort_values("step")
            assert origin["lines"]["informer"] == pytest.approx(rows["forecast"].tolist(), rel=1e-4, abs=1e-4)
            assert track.actual[origin["row"] : origin["row"] + 6] == pytest.approx(rows["actual"].tolist())
            for name, (low, high) in origin["bands"].items():
                level = name.removesuffix(" %")
                assert low == pytest.approx(rows[f"lo{level}"].tolist(), rel=1e-4, abs=1e-4)
                assert high == pytest.approx(rows[f"hi{level}"].tolist(), rel=1e-4, abs=1e-4)


def test_the_last_forecast_in_the_report_is_the_one_that_predict_writes(panel_run: Path, content, folder: Path) -> None:
    """Red when the page shows forecasts of held-out rows only, or other ones than the file beyond the data."""
    levels = [name.removesuffix(" %") for name in content.tracks[0].origins[-1]["bands"]]
    data = panel_run.parent / "data.csv"
    done("predict", f"checkpoint={panel_run}", f"input={data}", f"intervals=[{','.join(levels)}]")
    ahead = pd.read_csv("forecasts/data.forecast.csv")
    for track in content.tracks:
        rows, origin = ahead[ahead["store"] == track.series], track.origins[-1]
        assert origin["row"] == len(track.actual)
        assert pd.DatetimeIndex(origin["times"]).equals(pd.DatetimeIndex(rows["when"]))
        assert origin["lines"]["informer"] == pytest.approx(rows[track.column].tolist(), rel=1e-4, abs=1e-4)
        for level in levels:
            ends = [rows[f"{track.column}_{end}{level}"].tolist() for end in ("lo", "hi")]
            for drawn, expected in zip(origin["bands"][f"{level} %"], ends, strict=True):
                assert drawn == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_without_the_network_the_linear_start_is_left(panel_run: Path) -> None:
    model = TrainedModel.load(panel_run)
    data = data_of(model, panel_run)
    batch = data.test.batch(torch.arange(3))
    assert model.model.skip is not None
    with torch.inference_mode():
        expected = model.model.skip(batch.enc_x[..., list(data.columns.positions(data.targets))])
        torch.nn.init.normal_(model.model.network.head.weight)  # a few steps of training may not change it
        assert not torch.allclose(model_forecast(model.model, batch), expected, atol=1e-3)
    assert torch.allclose(forecast_without_network(model.model, batch), expected, atol=1e-6)
    assert adds_to_a_start(model.model, data.test)
    for weight in model.model.network.head.parameters():
        torch.nn.init.zeros_(weight)  # as in a run without steps: a curve of its contribution would show nothing
    assert not adds_to_a_start(model.model, data.test)


def test_a_network_that_adds_nothing_is_named_and_has_no_maps(panel_run: Path, folder: Path) -> None:
    """Red if the maps of a network whose output is not used are shown, or the page does not say so."""
    shutil.copytree(panel_run, "run")
    with_network = run_content(Path("run"))
    assert with_network.attention
    assert not any(line.startswith(IDLE) for line in with_network.remarks)
    done(
        "train", "dataset=csv", f"dataset.path={panel_run.parent / 'data.csv'}", "dataset.series_col=store",
        "model=tiny", "model.skip=ridge", "seq_len=48", "pred_len=6", "trainer.max_steps=0", "run_dir=start",
    )  # fmt: skip
    content = run_content(Path("start"))
    assert content.attention == []
    assert any(line.startswith(IDLE) for line in content.remarks)
    assert "contribution" not in {each.key for each in content.profiles}


def test_a_page_is_made_of_what_the_run_saved(panel_run: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if a page reads the data again, or its model forecasts; without scores it says how to get them."""
    shutil.copytree(panel_run, "run")
    with monkeypatch.context() as context:
        context.setattr("torch.nn.Module.__call__", None)
        context.setattr("informer.data.dataset.read_panel", None)
        outcome = call("report", "run")
    assert outcome.status == 0, outcome.err
    assert page_data(folder / "run" / "report.html")["tracks"]
    Path("run/metrics.json").unlink()
    content = run_content(Path("run"))
    assert content.tracks == []
    assert not content.scaled
    assert "informer eval checkpoint=run" in content.verdict


def test_the_folder_of_an_evaluation_is_a_report_too(panel_run: Path, folder: Path) -> None:
    shutil.copytree(panel_run, "run")
    done("eval", "checkpoint=run", "plots=none")
    done("report", "run/eval", "output=page.html")
    assert page_data(folder / "page.html")["tracks"]


def test_forecasts_with_history_and_actual_values(panel_run: Path, folder: Path) -> None:
    whole = pd.read_csv(panel_run.parent / "data.csv")
    times = sorted(whole["when"].unique())
    whole[whole["when"] < times[-6]].to_csv("history.csv", index=False)
    whole[whole["when"] >= times[-6]].to_csv("later.csv", index=False)
    done("predict", f"checkpoint={panel_run}", "input=history.csv", "output=out")
    done("report", "out", "history=history.csv", "actuals=later.csv")
    page = page_data(folder / "out" / "report.html")
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


@pytest.mark.parametrize(("n_origins", "spacing"), [(3, 1), (41, 24), (1000, 1), (90, 4)])
def test_every_origin_of_the_slider_is_within_the_rows_and_the_newest_is_one(
    n_origins: int, spacing: int, folder: Path
) -> None:
    """Red if origins that are thinned out reach back beyond the actual values that the page holds."""
    table = write_rolling("load.rolling.csv", n_origins, spacing, n_steps=6)
    content = forecast_content(Path("load.rolling.csv"))
    (track,), (times,) = content.tracks, content.times
    assert len(track.actual) == len(times)
    newest = table["date"].max()
    for place, origin in enumerate(track.origins, start=1):
        assert origin["times"] == []  # all its rows are in the track
        drawn = times[origin["row"] : origin["row"] + 6]
        steps = np.array(origin["lines"]["forecast"]) - np.array(track.actual[origin["row"] : origin["row"] + 6])
        assert steps.tolist() == [1, 2, 3, 4, 5, 6]
        assert (pd.Timestamp(drawn[-1]) == newest) == (place == len(track.origins))
    shown = len(track.origins)
    assert content.shown == (
        f"The slider moves through {shown} of {n_origins:,} forecasts, evenly spaced." if shown < n_origins else ""
    )


def test_origins_before_the_rows_that_fit_are_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rolling("load.rolling.csv", 41, 24, n_steps=6)
    monkeypatch.setattr("informer.report.forecasts.ROWS", 100)
    (track,) = forecast_content(Path("load.rolling.csv")).tracks
    assert len(track.actual) == 100
    assert 1 < len(track.origins) < 21
    assert all(origin["row"] > 0 and origin["times"] == [] for origin in track.origins)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no such file"),
        (["."], "expected a run directory"),
        (["a", "b"], "expected one file, folder or pattern, found 2"),
    ],
)
def test_what_is_no_run_is_one_line(folder: Path, arguments: list[str], message: str) -> None:
    assert message in refusal("report", *arguments)
    assert list(folder.iterdir()) == []


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
    done("report", "a.forecast.csv", "history=a.csv", "output=page.html", zone)
    content = forecast_content(
        Path("a.forecast.csv"), history="a.csv", input_format=InputFormat(timezone="Europe/Berlin")
    )
    drawn = [*content.times[0], *content.tracks[0].origins[0]["times"]]
    expected = before.append(times).tz_convert("UTC").tz_localize(None)
    assert list(pd.DatetimeIndex(drawn)) == list(expected)
    assert "Times are shown in UTC." in Path("page.html").read_text()


def test_series_that_are_not_on_the_page_are_named() -> None:
    scores = [{"series": name, "column": "y"} for name in "ac"]
    assert list(_shown(2, scores, "abc")) == ["The page shows all 2 series.", "Too short for a test window: b."]
    (line,) = _shown(6, scores * 4, "ac")
    assert line.startswith("The page shows 6 of 8 series, so that it stays small: the 2 with the largest error, the 2")


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        (["informer forecast", "horizon=8", "model=linear", "input='../a b.csv'"],
         "informer forecast '../a b.csv' horizon=8 model=linear"),
        (["informer train", r"dataset.path='it\'s.csv'"], """informer train "dataset.path=it's.csv\""""),
        (["informer train", "columns=['a b',c]"], """informer train "columns=['a b',c]\""""),
        (["python", "my fit.py", "x"], "python 'my fit.py' x"),
        (["train.py", "optim.lr=0.1"], "python -m informer.train optim.lr=0.1"),
        (["informer forecast", r"input='a\\'"], r"informer forecast 'a\'"),
        (["informer predict", "input='$HOME/a\"b.csv'"], "informer predict 'input=$HOME/a\"b.csv'"),
    ],
)  # fmt: skip
def test_the_command_on_the_page_is_as_typed(words: list[str], typed: str) -> None:
    """Red if quotes that are for Hydra are shown, or a shell would not read the words back."""
    command = command_of(words)
    assert command == typed
    assert shlex.split(command)


@pytest.mark.parametrize("path", ["a.csv", "it's.csv", "a\\", "a\\'b", "b\\\\", "[x]", "a=b,c"])
def test_quotes_for_hydra_are_taken_off_again(path: str) -> None:
    assert unquoted(f"input={to_hydra(path)}") == f"input={path}"


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
    content = run_content(Path("run"))
    assert any("the square root of sold" in line for line in content.remarks)

    assert content.losses is not None
    assert "scaled square roots" in content.losses["note"]

    done("predict", "checkpoint=run", "input=data.csv", "mode=rolling", "stride=1", "intervals=[80]")
    rolled = pd.read_csv("forecasts/data.rolling.csv").sort_values(["origin", "step"])
    rolled = rolled.tail(STEPS * json.loads(Path("run/metrics.json").read_text())["windows"])
    errors = ((rolled["forecast"] - rolled["actual"]) / table["sold"].head(TRAIN).std(ddof=0)).to_numpy()
    by_step = (errors.reshape(-1, STEPS) ** 2).mean(axis=0)
    profiles = {profile.key: profile for profile in content.profiles}
    assert profiles["step"].mse["informer"] == pytest.approx(by_step, rel=1e-4)
    assert profiles["contribution"].mse["informer"] == pytest.approx(by_step, rel=1e-4)
    hours = pd.to_datetime(table["date"])[N - 80 :].dt.hour
    assert set(profiles["hour"].labels) == set(hours)
    assert content.residuals is not None
    assert content.residuals["counts"] == np.histogram(np.clip(errors, -3, 3), bins=EDGES)[0].tolist()
    (track,) = content.tracks
    for origin in track.origins[:-1]:
        rows = rolled[rolled["origin"] == content.times[0][origin["row"] - 1]]
        assert origin["lines"]["informer"] == pytest.approx(rows["forecast"].tolist(), rel=5e-4)  # rounded to 4 digits
        assert origin["bands"]["80 %"][0] == pytest.approx(rows["lo80"].tolist(), rel=5e-4, abs=5e-5)
        assert origin["bands"]["80 %"][1] == pytest.approx(rows["hi80"].tolist(), rel=5e-4)
