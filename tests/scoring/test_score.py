"""`informer score`: layouts of files, what is refused, what is written."""

import json
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
        (lambda rows: rows.assign(ds=rows["ds"].str.replace("2024", "2001")), "and the same times"),
        (lambda rows: rows.assign(unique_id="c" + rows["unique_id"]), "expected the same names"),
        (lambda rows: pd.concat([rows, rows.head(1)]), "duplicate row for a"),
        (lambda rows: rows.assign(y=np.where(rows["y"] > 30, np.nan, rows["y"])), "expected a finite forecast"),
        (lambda rows: rows.assign(y="many"), "row 2, column 'y': expected a number, found 'many' (12 such cells); fix"),
        (lambda rows: rows.assign(lo80=np.inf), "row 2, column 'lo80': expected a number, found 'inf'"),
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
SHARES = (0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9)

# what another program writes, from `days`; the interval of 80 % holds every other actual value
OTHERS = {
    "nixtla": lambda d, lo, hi: {"unique_id": "a", "ds": d.ds, "NHITS": d.f, "NHITS-lo-80": lo, "NHITS-hi-80": hi},
    "nixtla, median": lambda d, lo, hi: {
        "unique_id": "a", "ds": d.ds, "MQ-median": d.f, "MQ-lo-80.0": lo, "MQ-hi-80.0": hi
    },
    "nixtla, origins": lambda d, lo, hi: {
        "unique_id": "a", "ds": d.ds, "cutoff": "2024-02-04", "TFT": d.f, "TFT-lo-80": lo, "TFT-hi-80": hi, "y": d.y
    },
    "own, merged": lambda d, lo, hi: {"unique_id": "a", "ds": d.ds, "y": d.f, "y-lo-80": lo, "y-hi-80": hi},
    "prophet": lambda d, lo, hi: {
        "ds": d.ds, "trend": 100.0, "yhat_lower": lo, "yhat_upper": hi, "yhat": d.f, "y": d.y
    },
    "statsmodels": lambda d, lo, hi: {
        "date": d.ds, "mean": d.f, "mean_se": 1.0, "mean_ci_lower": lo, "mean_ci_upper": hi
    },
    "autogluon": lambda d, lo, hi: {"item_id": "a", "timestamp": d.ds, "mean": d.f} | {
        f"{q}": {0.1: lo, 0.9: hi}.get(q, d.f + 4 * (q - 0.5)) for q in SHARES
    },
    "chronos": lambda d, lo, hi: {
        "item_id": "a", "timestamp": d.ds, "target_name": "y", "predictions": d.f, "0.1": lo, "0.5": d.f, "0.9": hi
    },
    "gluonts": lambda d, lo, hi: {"item_id": "a", "date": d.ds, "p10": lo, "p50": d.f, "p90": hi},
    "darts": lambda d, lo, hi: {"time": d.ds, "y_q0.1": lo, "y_q0.5": d.f, "y_q0.9": hi},
    "neuralprophet": lambda d, lo, hi: {"ds": d.ds, "yhat1": d.f, "yhat1 10.0%": lo, "yhat1 90.0%": hi},
    "R forecast": lambda d, lo, hi: {"date": d.ds, "Point Forecast": d.f, "Lo 80": lo, "Hi 80": hi},
    "R forecast, names checked": lambda d, lo, hi: {"date": d.ds, "Point.Forecast": d.f, "Lo.80": lo, "Hi.80": hi},
    "fable": lambda d, lo, hi: {"date": d.ds, ".mean": d.f, "80%_lower": lo, "80%_upper": hi},
}  # fmt: skip


@pytest.mark.parametrize("program", OTHERS)
def test_files_of_other_programs(folder: Path, days: pd.DataFrame, program: str) -> None:
    """Red if a band is another value or none, or if the actual values next to the forecasts are scored."""
    low = days["y"].where(np.arange(14) % 2 == 0, days["y"] + 1) - 0.5
    pd.DataFrame(OTHERS[program](days, low, days["f"] + 3)).to_csv("forecasts.csv", index=False)
    outcome = done("score", *GIVEN, "output=s")
    found = json.loads(Path("s/scores.json").read_text())
    level = 95 if program == "statsmodels" else 80
    assert found["overall"]["forecast"]["mae"] == pytest.approx(2.0)
    assert found["overall"]["forecast"][f"coverage{level}"] == pytest.approx(50.0)
    assert f"{level} % cover 50.0 %" in outcome.out
    notes = "\n".join(found["notes"])
    assert ("the default of" in notes) == (program in ("prophet", "statsmodels"))
    unused = {"prophet": "trend, y", "statsmodels": "mean_se", "nixtla, origins": "y", "chronos": "target_name"}.get(
        program
    )
    assert ("not scored" in notes) == (unused is not None)
    assert unused is None or f"forecasts.csv: columns that are not scored: {unused}" in notes


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


def scores(folder: Path, given: list[str]) -> dict:
    done("score", *given, "season=24", f"output={folder}")
    return json.loads((folder / "scores.json").read_text())


def test_gaps_keep_their_places(folder: Path, truth: pd.DataFrame) -> None:
    """By pandas, with empty cells and the same rows left out. Red if values behind a gap move up: a step's error would
    then be another step's, and the seasonal naive forecast that of another hour."""
    rng = np.random.default_rng(3)
    times = truth["ds"].unique()
    holes = rng.random(len(truth)) < 0.15
    holes[truth["ds"].isin(times[:1])] = False
    holed = truth.assign(y=truth["y"].mask(holes))
    given = written(folder, truth, "long")
    last = truth["ds"].isin(times[-6:])
    by_file = []
    for name, rows in (("cells", holed), ("rows", holed.dropna())):
        rows[~rows["ds"].isin(times[-6:])].to_csv("history.csv", index=False)
        rows[rows["ds"].isin(times[-6:])].to_csv("actuals.csv", index=False)
        by_file.append(scores(folder / name, given))
    assert by_file[0]["overall"] == by_file[1]["overall"]
    assert by_file[0]["by_step"] == by_file[1]["by_step"]
    observed = holed[last].pivot(index="ds", columns="unique_id", values="y")
    whole = truth[last].pivot(index="ds", columns="unique_id", values="y")
    own = (whole + 0.5 - observed).abs().mean(axis=1)
    assert by_file[0]["by_step"]["forecast"]["mae"] == pytest.approx(own.tolist(), nan_ok=True)
    wide = holed.assign(y=holed["y"].mask(last)).pivot(index="ds", columns="unique_id", values="y")
    naive = wide.groupby(np.arange(80) % 24).ffill()
    expected = [(naive.shift(24).iloc[74 + step] - observed.iloc[step]).abs().mean() for step in range(6)]
    assert by_file[0]["by_step"]["seasonal naive"]["mae"] == pytest.approx(expected, nan_ok=True)


def test_what_is_not_given_is_one_line(folder: Path, truth: pd.DataFrame) -> None:
    """Red if files without times have a season, or that of the step is another one than for `season=24`."""
    assert "set season=24" in refusal("score", *written(folder, truth, "rows"))
    line = refusal("score", "forecasts=x.csv")
    assert "actuals: expected a file" in line
    assert "history: expected a file" in line
    given = written(folder, truth, "long")
    assert call("score", *given).out == call("score", *given, "season=24").out


@pytest.mark.parametrize("names", [("store", "when"), ("unique_id", "ds"), ("series", "date")])
@pytest.mark.parametrize("layout", ["long", "rolling"])
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


@pytest.mark.parametrize("layout", ["long", "wide"])
def test_intervals_in_files_of_predict_are_scored(folder: Path, layout: str) -> None:
    """`y_lo80` of a panel and `load_lo80` of a single series; the oracle joins the files by time."""
    rng, times = np.random.default_rng(3), pd.date_range("2024-01-01", periods=400, freq="h").astype(str)
    wave = 10 + np.sin(np.arange(400) / 4)
    if layout == "long":
        parts = [pd.DataFrame({"unique_id": one, "ds": times, "y": wave + rng.normal(0, 0.5, 400)}) for one in "ab"]
        table, keys, columns, setting = pd.concat(parts), ["unique_id", "ds"], ["y"], ["dataset.series_col=unique_id"]
    else:
        values = {name: wave + rng.normal(0, size, 400) for name, size in (("load", 0.5), ("hi5", 1.0))}
        table, keys, columns, setting = pd.DataFrame({"time": times, **values}), ["time"], ["load", "hi5"], []
    past, ahead = (table[table[keys[-1]].isin(part)] for part in (times[:388], times[388:]))
    past.to_csv("past.csv", index=False)
    ahead.to_csv("ahead.csv", index=False)
    settings = ["dataset=csv", "dataset.path=past.csv", *setting, "model=linear", "seq_len=24", "pred_len=12"]
    done("train", *settings, "run_dir=run")
    asked = ["checkpoint=run", "input=past.csv", "intervals=[50,80]", "output=out", "plots=false"]
    done("predict", *asked)
    done("score", "forecasts=out/past.forecast.csv", "actuals=ahead.csv", "history=past.csv", "output=s")
    scores = json.loads(Path("s/scores.json").read_text())["overall"]["forecast"]
    both = pd.read_csv("out/past.forecast.csv").merge(ahead, on=keys, suffixes=("", "_actual"))
    assert len(both) == len(ahead)
    for level in (50, 80):
        inside = [both[f"{one}_actual"].between(both[f"{one}_lo{level}"], both[f"{one}_hi{level}"]) for one in columns]
        assert scores[f"coverage{level}"] == pytest.approx(100 * np.mean(inside))
    assert scores["mae"] == pytest.approx(np.mean([(both[f"{one}_actual"] - both[one]).abs() for one in columns]))
