"""The contract of every model of `conf/model`: it trains, is scored again alike, forecasts, and is exported."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT, SMALL, done, refusal

from informer import Forecaster

MODELS = sorted(path.stem for path in (ROOT / "conf/model").glob("*.yaml") if "schema" not in path.stem)


LARGE = [pytest.mark.slow]
"""Of the models with the sizes of the paper, of which a run takes ten seconds."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LARGE if name.startswith("informer") else []) for name in MODELS]
)
def test_a_model_keeps_its_contract(name: str, folder: Path) -> None:
    """Red if a command needs more of a model than its files say, if scores of the same weights differ, or if the
    forecasts of a file are not those of its table, or all the same."""
    done("train", "dataset=sample", f"model={name}", *SMALL[1:], "trainer.max_epochs=1", "run_dir=run")
    done("eval", "checkpoint=run", "plots=none")
    assert Path("run/eval/metrics.csv").read_bytes() == Path("run/metrics.csv").read_bytes()
    if name == "linear":
        assert "expected model.family=informer" in refusal("eval", "checkpoint=run", "model.decoding=step", "output=x")
    scores = json.loads(Path("run/metrics.json").read_text())["scores"]
    assert all(np.isfinite(each["scaled"]["overall"]["mse"]) for each in scores.values())
    frame = pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"]).tail(300)
    frame.to_csv("f.csv", index=False)
    done("predict", "checkpoint=run", "input=f.csv", "digits=null", "plots=false")
    written = pd.read_csv("forecasts/f.forecast.csv", parse_dates=["date"])
    forecast = Forecaster.load("run", device="cpu").predict(frame)
    pd.testing.assert_frame_equal(written, forecast, check_dtype=False, rtol=1e-4)
    values = written.drop(columns="date").to_numpy()
    assert len(np.unique(values)) > values.size / 2
    done("export", "checkpoint=run", "format=safetensors")
