"""Forecasters as models of MLflow: logged, loaded, and called as its function of a table."""

from pathlib import Path

import pandas as pd
import pytest
from entry_points import ROOT

from informer import Forecaster

mlflow = pytest.importorskip("mlflow")
models = pytest.importorskip("informer.mlflow")

TABLE = pd.read_csv(ROOT / "data" / "sample.csv", parse_dates=["date"])[["date", "demand"]][-300:]


@pytest.mark.filterwarnings("ignore:.*Any type hint is inferred:UserWarning")  # of mlflow's own types, at its import
def test_what_is_loaded_forecasts_as_what_was_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if the file, its place or a parameter of the function is lost on the way."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    forecaster = Forecaster("linear", seq_len=48, pred_len=12).fit(TABLE)
    expected = forecaster.predict(TABLE, horizon=12)
    with mlflow.start_run():
        logged = models.log_model(forecaster, "demand")
    pd.testing.assert_frame_equal(models.load_model(logged.model_uri).predict(TABLE, horizon=12), expected)
    function = mlflow.pyfunc.load_model(logged.model_uri)
    pd.testing.assert_frame_equal(function.predict(TABLE, params={"horizon": 12}), expected)
