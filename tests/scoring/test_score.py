"""`informer score`: layouts of files, what is refused, what is written."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import call, done, refusal


@pytest.fixture
def truth() -> pd.DataFrame:
    """Two series of 80 hours, long."""
    times = pd.date_range("2024-01-01", periods=80, freq="h").astype(str)
    rng = np.random.default_rng(0)
    parts = [
        pd.DataFrame(
            {"unique_id": name, "ds": times, "y": level + 3 * np.sin(np.arange(80) / 4) + rng.normal(0, 1, 80)}
        )
        for name, level in (("a", 10), ("b", 40))
    ]
    return pd.concat(parts, ignore_index=True)


def written(folder: Path, truth: pd.DataFrame, layout: str) -> list[str]:
    """Arguments of the command for files in a layout: the last 6 hours are forecast 0.5 too high, +- 1."""
    last = truth.groupby("unique_id").tail(6)
    forecast = last.assign(y=last["y"] + 0.5, lo80=last["y"] - 0.5, hi80=last["y"] + 1.5)
    frames = {"forecasts": forecast, "actuals": last, "history": truth.drop(last.index)}
    for name, frame in frames.items():
        if layout == "wide":
            wide = frame.pivot(index="ds", columns="unique_id")
            columns = {key: one if key[0] == "y" else f"{one}_{key[0]}" for key in wide.columns for one in [key[1]]}
            frame = pd.DataFrame({columns[key]: wide[key] for key in wide.columns}).rename_axis("time").reset_index()
        elif layout == "rows":
            values = {one: part["y"].tolist() for one, part in frame.groupby("unique_id")}
            frame = pd.DataFrame.from_dict(values, orient="index").rename_axis("id").reset_index()
        frame.to_csv(folder / f"{name}.csv", index=False)
    return [f"{name}={name}.csv" for name in frames]


@pytest.mark.parametrize("layout", ["long", "wide", "rows"])
def test_layouts_give_the_same_scores(folder: Path, truth: pd.DataFrame, layout: str) -> None:
    outcome = done("score", *written(folder, truth, layout), "season=24", "output=scores")
    content = json.loads((folder / "scores" / "scores.json").read_text())
    assert content["overall"]["forecast"]["mae"] == pytest.approx(0.5)
    assert content["overall"]["forecast"]["mse"] == pytest.approx(0.25)
    if layout != "rows":
        assert content["overall"]["forecast"]["coverage80"] == 100.0
    assert set(content["overall"]) == {"forecast", "seasonal naive", "ridge", "naive2"}
    table = pd.read_csv(folder / "scores" / "scores.csv")
    own = table[(table["forecaster"] == "forecast") & (table["metric"] == "mae")]
    assert own["value"].tolist() == pytest.approx([0.5] * (1 + 6 + 2))
    assert {"seasonal naive", "ridge"} == {each["baseline"] for each in content["differences"]}
    assert "forecast: better than ridge: MSE " in outcome.out


def test_a_table_with_ds_has_its_values_in_y(folder: Path, truth: pd.DataFrame) -> None:
    """Red if another column of numbers of the only series, such as its prices, is taken for one that is forecast."""
    one = truth.query("unique_id == 'a'").drop(columns="unique_id").assign(price=1.5)
    one[:70].to_csv("history.csv", index=False)
    one[70:].to_csv("actuals.csv", index=False)
    one[70:].assign(theta=one["y"] + 0.5)[["ds", "theta"]].to_csv("forecasts.csv", index=False)
    done("score", "forecasts=forecasts.csv", "actuals=actuals.csv", "history=history.csv", "output=scores")
    assert json.loads(Path("scores/scores.json").read_text())["overall"]["forecast"]["mae"] == pytest.approx(0.5)


def test_a_history_whose_times_are_seconds_late_is_on_a_grid(folder: Path, truth: pd.DataFrame) -> None:
    """Red if the seasonal naive is not that of the full hours, or the history is refused."""
    words = written(folder, truth, "wide")
    history = pd.read_csv("history.csv", parse_dates=["time"])
    done("score", *words, "output=exact")
    history["time"] += pd.to_timedelta(np.random.default_rng(1).integers(0, 4, len(history)), unit="s")
    history.to_csv("history.csv", index=False)
    done("score", *words, "output=late")
    exact, late = (json.loads(Path(name, "scores.json").read_text())["overall"] for name in ("exact", "late"))
    assert late == exact


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.assign(ds=rows["ds"].str.replace("2024", "2031")), "any forecast of forecasts.csv yet: "),
        (lambda rows: rows.assign(unique_id="c" + rows["unique_id"]), "expected the same names"),
        (lambda rows: pd.concat([rows, rows.head(1)]), "duplicate row for a"),
        (lambda rows: rows.assign(y=np.where(rows["y"] > 30, np.nan, rows["y"])), "expected a finite forecast"),
        (lambda rows: rows.assign(y="many"), "row 2, column 'y': expected a number, found 'many' (12 such cells); fix"),
        (lambda rows: rows.assign(ds=rows["ds"].where(rows.index != 3, "soon")), "row 5, column 'ds': expected a date"),
    ],
)
def test_files_that_do_not_fit_are_one_line(folder: Path, truth: pd.DataFrame, change, message: str) -> None:
    given = written(folder, truth, "long")
    change(pd.read_csv("forecasts.csv")).to_csv("forecasts.csv", index=False)
    assert message in refusal("score", *given)


@pytest.fixture
def days(folder: Path) -> pd.DataFrame:
    """Columns ds, y and f of 14 days, whose forecast f is 2 too high; with history.csv and actuals.csv as files."""
    times = pd.date_range("2023-01-01", periods=414, freq="D").astype(str)
    values = 100 + 20 * np.sin(np.arange(414) * 2 * np.pi / 7) + np.random.default_rng(0).normal(0, 1, 414)
    table = pd.DataFrame({"unique_id": "a", "ds": times, "y": values.round(2)})
    table[:400].to_csv("history.csv", index=False)
    table[400:].to_csv("actuals.csv", index=False)
    return table[400:].assign(f=table["y"] + 2)


GIVEN = ["forecasts=forecasts.csv", "actuals=actuals.csv", "history=history.csv"]
PROGRAMS = Path(__file__).with_name("programs")
NOTES = json.loads((PROGRAMS / "notes.json").read_text(encoding="utf-8"))
"""What is said, but for ridge, of the files in that folder, which other programs could have written of `days`: their
forecasts are 2 too high, and their interval holds every other actual value."""


@pytest.mark.parametrize("program", NOTES)
def test_files_of_other_programs(folder: Path, days: pd.DataFrame, program: str) -> None:
    """Red if a band is another value or none, or if the actual values next to the forecasts are scored."""
    shutil.copy(PROGRAMS / f"{program}.csv", "forecasts.csv")
    done("score", *GIVEN, "output=s")
    found = json.loads(Path("s/scores.json").read_text())
    assert found["overall"]["forecast"]["mae"] == pytest.approx(2.0)
    assert found["overall"]["forecast"][f"coverage{95 if program == 'statsmodels' else 80}"] == pytest.approx(50.0)
    assert [note for note in found["notes"] if not note.startswith("ridge")] == NOTES[program]


def test_several_models_of_another_program(folder: Path, days: pd.DataFrame) -> None:
    table = pd.DataFrame({"unique_id": "a", "ds": days["ds"], "NHITS": days["f"], "Theta": days["y"] - 1})
    table.assign(**{"NHITS-lo-80": days["y"], "NHITS-hi-80": days["f"]}).to_csv("forecasts.csv", index=False)
    outcome = done("score", *GIVEN, "output=s")
    overall = json.loads(Path("s/scores.json").read_text())["overall"]
    assert list(overall) == ["NHITS", "Theta", "seasonal naive", "ridge", "naive2"]
    assert [overall[name]["mae"] for name in ("NHITS", "Theta")] == pytest.approx([2.0, 1.0])
    assert overall["NHITS"]["coverage80"] == 100.0
    assert "coverage80" not in overall["Theta"]
    assert "wql" in overall["seasonal naive"]
    assert "Theta: cannot be told from ridge: MASE " in outcome.out


def test_models_with_forecasts_of_other_rows_are_scored_alone(folder: Path, days: pd.DataFrame) -> None:
    """Red if errors of fourteen days are compared with those of ten; the cure works."""
    parts = {name: pd.DataFrame({"unique_id": "a", "ds": days["ds"][:n], "column": name, "y": days["f"][:n]})
             for name, n in (("NHITS", 14), ("Theta", 10))}  # fmt: skip
    pd.concat(parts.values()).to_csv("forecasts.csv", index=False)
    assert "expected those of Theta at the times of NHITS; score a file of each alone" in refusal("score", *GIVEN)
    parts["Theta"].to_csv("forecasts.csv", index=False)
    assert "forecast: " in done("score", *GIVEN).out


def test_columns_that_are_not_understood(folder: Path, days: pd.DataFrame) -> None:
    """An interval without a level is named with a cure, which works; y next to a model may be either."""
    table = pd.DataFrame({"ds": days["ds"], "forecast": days["f"], "forecast_lower": 0.0, "forecast_upper": 300.0})
    table.to_csv("forecasts.csv", index=False)
    outcome = call("score", *GIVEN)
    assert "not scored: forecast_lower, forecast_upper" in outcome.out
    assert "such as forecast_lo95 and forecast_hi95" in outcome.out
    table.columns = ["ds", "forecast", "forecast_lo95", "forecast_hi95"]
    table.to_csv("forecasts.csv", index=False)
    assert "intervals of forecast: 95 % cover 100.0 %" in call("score", *GIVEN).out
    days[["unique_id", "ds", "y", "f"]].to_csv("forecasts.csv", index=False)
    assert "expected one forecast of y, found y and f; if y has actual values, remove it" in refusal("score", *GIVEN)


@pytest.mark.slow
def test_a_history_far_before_the_forecasts(folder: Path) -> None:
    """Red if an array with an element for each of two billion missing seconds is made, or a million are refused."""
    line = "history.csv: expected a history up to the forecast at 2087-05-18 00:00:00, found 200 rows and"
    near = pd.date_range("2024-01-01", periods=200, freq="s")
    for day in ("2024-01-12", "2087-05-18"):
        far = pd.date_range(day, periods=4, freq="s")
        for name, times in (("history", near), ("forecasts", far), ("actuals", far)):
            pd.DataFrame({"ds": times, "y": np.arange(len(times)) % 5.0}).to_csv(f"{name}.csv", index=False)
        if day < "2087":
            done("score", *GIVEN, "season=5")
    assert line in refusal("score", *GIVEN, "season=5")


def test_what_is_not_given_is_one_line(folder: Path, truth: pd.DataFrame) -> None:
    """Red if files without times have a season, or that of the step is another one than for `season=24`."""
    assert "set season=24" in refusal("score", *written(folder, truth, "rows"))
    given = written(folder, truth, "long")
    assert call("score", *given).out == call("score", *given, "season=24").out


@pytest.mark.parametrize(
    ("layout", "names"),
    [("long", ("store", "when")), ("rolling", ("unique_id", "ds")), ("rolling", ("series", "date"))],
)
def test_series_and_time_have_any_name(folder: Path, names: tuple[str, str], layout: str) -> None:
    """Numbers as names of series, which only the place of their column shows; red if it counts as values."""
    times = pd.date_range("2024-01-01", periods=20).astype(str)
    rows = pd.DataFrame({names[0]: [1] * 20 + [2] * 20, names[1]: [*times] * 2, "column": "load", "y": np.arange(40.0)})
    is_last = rows[names[1]] >= times[18]
    rows.to_csv("all.csv", index=False)
    last = rows[is_last].assign(y=[1.0, 2.0, 3.0, 4.0])
    if layout == "rolling":
        last = last.rename(columns={"y": "forecast"})
        last.insert(1, "origin", times[17])
        last.insert(2, "step", [1, 2, 1, 2])
    last.to_csv("f.csv", index=False)
    done("score", "forecasts=f.csv", "actuals=all.csv", "history=all.csv", "output=s", "season=2")
    table = pd.read_csv("s/scores.csv", dtype=str)
    own = table[(table["forecaster"] == "forecast") & (table["metric"] == "mae") & (table["series"] != "all")]
    assert own[["series", "column", "value"]].to_numpy().tolist() == [["1", "load", "17.0"], ["2", "load", "35.0"]]
