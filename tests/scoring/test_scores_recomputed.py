"""Scores that commands write are those that pandas makes of the forecasts, to 1e-6."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import done

from informer import Forecaster

ROWS, HORIZON, ORIGINS = 400, 6, 20


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hours of two columns, and linear maps that forecast them."""
    path, rng = tmp_path_factory.mktemp("scores") / "d.csv", np.random.default_rng(0)
    wave = 10 + 3 * np.sin(np.arange(ROWS) * 2 * np.pi / 24)
    columns = {name: level * wave + rng.normal(size=ROWS) for name, level in (("y", 1), ("z", 20))}
    pd.DataFrame({"date": pd.date_range("2024", periods=ROWS, freq="h"), **columns}).to_csv(path, index=False)
    done("train", "dataset=csv", f"dataset.path={path}", "model=linear", "seq_len=48", f"pred_len={HORIZON}",
         "trainer.tracker=[]", f"run_dir={path.parent / 'run'}")  # fmt: skip
    return path


def written(path: Path, model: str, units: str = "original") -> pd.Series:
    """A table of scores in long form by column, step and metric."""
    rows = pd.read_csv(path)
    rows = rows[(rows["model"] == model) & (rows["units"] == units)]
    return rows.set_index(["column", "step", "metric"])["value"].sort_index()


def compare(scores: pd.Series, forecasts: pd.DataFrame) -> None:
    """Scores over everything, by column and by step, are those of these rows of forecasts."""
    error = forecasts["forecast"] - forecasts["actual"]
    size = 100 * error.abs() / forecasts["actual"].abs()
    both = (forecasts["forecast"].abs() + forecasts["actual"].abs()) / 2
    rows = forecasts.assign(bias=error, mse=error**2, mae=error.abs(), mape=size, smape=100 * error.abs() / both)
    names = ["bias", "mse", "mae", "mape", "smape"]
    for column, part in [("all", rows), *rows.groupby("column")]:
        means = part[names].mean()
        assert dict(scores[column, "all"][names]) == pytest.approx(dict(means), rel=1e-6, abs=1e-6 * means["mae"])
        assert scores[column, "all", "rmse"] == pytest.approx(means["mse"] ** 0.5, rel=1e-6)
    for step, part in rows.groupby("step"):
        means = part[names].mean()
        assert dict(scores["all", str(step)][names]) == pytest.approx(dict(means), rel=1e-6, abs=1e-6 * means["mae"])


def test_eval_and_rolling_forecasts_of_the_test_part(table: Path, folder: Path) -> None:
    """Red if windows, steps or columns are left out of a score, or counted twice, by either of two roads."""
    run = f"checkpoint={table.parent / 'run'}"
    done("eval", run, "output=scored")
    done("predict", run, f"input={table}", "mode=rolling", "stride=1", "output=rolled", "digits=null", "intervals=[80]")
    forecasts = pd.read_csv("rolled/d.rolling.csv").dropna(subset=["actual"])
    # the last origins have fewer steps, which are no windows of eval
    whole = forecasts.groupby(["origin", "column"])["step"].transform("size") == HORIZON
    for scores in (Path("scored/metrics.csv"), Path("rolled/d.rolling.metrics.csv"), table.parent / "run/metrics.csv"):
        compare(written(scores, "linear"), forecasts[whole])
    rolled, of_run = (
        written(path, "ridge")["all", "all", "mse"]
        for path in (Path("rolled/d.rolling.metrics.csv"), table.parent / "run/metrics.csv")
    )
    assert rolled == pytest.approx(of_run, rel=0.2)  # fitted to the rows before the first origin
    assert forecasts[whole]["origin"].nunique() == ROWS // 5 - HORIZON + 1


def test_forecast_scores_what_backtest_gives(table: Path, folder: Path) -> None:
    """Red if the scores of the pretrained network are those of other origins, or of other forecasts, than it makes."""
    done("forecast", str(table), f"horizon={HORIZON}", "output=out")
    frame = pd.read_csv(table, parse_dates=["date"])
    start = str(frame["date"].iloc[ROWS - HORIZON * ORIGINS])
    found = Forecaster().backtest(frame, horizon=HORIZON, stride=HORIZON, start=start, intervals=[80, 95])
    assert found["origin"].nunique() == ORIGINS
    compare(written(Path("out/metrics.csv"), "zero-3"), found)
    scaled = written(Path("out/metrics.csv"), "zero-3", "scaled")
    inside = found["actual"].between(found["lo80"], found["hi80"])
    assert scaled["all", "all", "coverage80"] == pytest.approx(100 * inside.mean(), rel=1e-6)
