"""Times of a forecast are written as those of the file were; `tests/corpus` has the ways in which files write them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import done

from informer import Forecaster


@pytest.mark.parametrize(("freq", "style"), [("QS", "%Y-Q{}"), ("2QS", "{1}H%Y"), ("W-MON", "%G-W%V")])
def test_periods_are_written_as_they_were_read(freq: str, style: str, folder: Path) -> None:
    """Red if the rows of a forecast have dates in the place of numbers of halves, quarters or weeks."""
    times = pd.date_range("1986-06-30", periods=130, freq=freq)
    cells = [time.strftime(style.format(time.quarter, (time.quarter + 1) // 2)) for time in times]
    pd.DataFrame({"Tag": cells[:126], "load": np.arange(126) + 0.5}).to_csv("f.csv", index=False)
    done("forecast", "f.csv", "horizon=4", "output=out")
    assert pd.read_csv("out/forecasts/f.forecast.csv", dtype=str)["Tag"].tolist() == cells[126:]


def test_a_model_of_joined_times_forecasts_and_scores_the_same_file(folder: Path) -> None:
    """Red if prediction reads other times than training, or a score compares other times. Hour 400 is the next one."""
    times = pd.date_range("2023-12-30", periods=406, freq="h")
    frame = pd.DataFrame({name: getattr(times, name) for name in ("year", "month", "day", "hour")})
    frame = frame.assign(load=np.arange(406.0) % 24 + np.arange(406) / 100)
    frame[:400].to_csv("f.csv", index=False)
    frame[400:].to_csv("actual.csv", index=False)
    done("train", "f.csv", "model=linear", "seq_len=24", "pred_len=6", "run_dir=run")
    done("predict", "checkpoint=run", "input=f.csv", "output=out", "plots=false")
    forecast = pd.read_csv("out/f.forecast.csv")
    assert list(forecast.columns) == ["date", "load"]
    assert list(pd.to_datetime(forecast["date"])) == list(times[400:])
    scored = done("score", "forecasts=out/f.forecast.csv", "actuals=actual.csv", "history=f.csv")
    assert f"{(forecast['load'] - frame['load'][400:].to_numpy()).abs().mean():.4g}" in scored.out
    np.testing.assert_allclose(Forecaster.load("run").predict(frame[:400])["load"], forecast["load"], rtol=1e-5)
