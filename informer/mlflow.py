"""Forecasters in MLflow: `log_model(forecaster)`, `load_model(uri)`, and MLflow's own function of a table (`pyfunc`).

Needs `mlflow` or `mlflow-skinny`. A model is one file of safetensors, of which nothing is executed.
"""

import sys
from pathlib import Path
from typing import Any, final

import pandas as pd
from mlflow import pyfunc
from mlflow.artifacts import download_artifacts
from mlflow.models import Model, ModelSignature
from mlflow.models.model import ModelInfo
from mlflow.types import ParamSchema, ParamSpec

import informer
from informer.forecaster import Forecaster

FILE = "model.safetensors"
PARAMETERS = ParamSchema([ParamSpec("horizon", "long", 0), ParamSpec("interval", "long", 0)])
"""Of MLflow's function: rows to forecast, and the level of intervals in percent; 0: the model's own, and none."""


def log_model(forecaster: Forecaster, name: str = "model", **kwargs: Any) -> ModelInfo:
    """Log a forecaster to the current run; other arguments as of `mlflow.models.Model.log`."""
    return Model.log(None, sys.modules[__name__], name=name, forecaster=forecaster, **kwargs)


def save_model(forecaster: Forecaster, path: str | Path, mlflow_model: Model | None = None) -> None:
    """Write a forecaster as a model of MLflow into a new folder."""
    folder = Path(path)
    folder.mkdir(parents=True)
    forecaster.save(folder / FILE)
    model = mlflow_model or Model()
    model.signature = ModelSignature(params=PARAMETERS)
    requirement = f"informer-forecasting=={informer.__version__}"
    pyfunc.add_to_model(model, loader_module=__name__, data=FILE)
    model.add_flavor("informer", data=FILE, version=informer.__version__, requirement=requirement)
    (folder / "requirements.txt").write_text(f"{requirement}\n")
    model.save(folder / "MLmodel")


def load_model(model_uri: str) -> Forecaster:
    """The forecaster of a model: an address of MLflow or a folder.

    Raises:
        InputError: the file is damaged, or of another program.
    """
    return Forecaster.load(Path(download_artifacts(model_uri)) / FILE)


def _load_pyfunc(path: str) -> "Function":
    return Function(Forecaster.load(path))


@final
class Function:
    """What `mlflow.pyfunc.load_model` calls: a table of history to the rows after it."""

    def __init__(self, forecaster: Forecaster) -> None:
        self.forecaster = forecaster

    def predict(self, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """See `Forecaster.predict` and `PARAMETERS`."""
        asked = params or {}
        horizon, level = asked.get("horizon", 0), asked.get("interval", 0)
        return self.forecaster.predict(model_input, horizon=horizon or None, intervals=[level] if level else [])
