"""The adapter for fev."""

import sys

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT

from informer import Forecaster

fev = pytest.importorskip("fev", reason="needs fev (pip install fev), whose dependencies are not those of the tests")


def test_predictions_are_those_of_the_forecaster(tmp_path, monkeypatch):
    """Red if a window has other rows, another series or another quantile than the same forecast in Python."""
    import datasets

    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    from fev_model import InformerModel

    rng, times = np.random.default_rng(0), pd.date_range("2024-01-01", periods=200, freq="h")
    rows = [{"id": name, "timestamp": times.tolist(), "target": rng.normal(size=200).tolist()} for name in "ab"]
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "data.parquet")
    task = fev.Task(dataset_path=str(tmp_path / "data.parquet"), horizon=24, quantile_levels=[0.1, 0.5, 0.9])
    (window,) = InformerModel().fit_predict(task)
    parts = [pd.DataFrame({"id": r["id"], "timestamp": times, "target": r["target"]})[:-24] for r in rows]
    expected = Forecaster().predict(pd.concat(parts), horizon=24, intervals=[80])
    for row, found in zip(rows, window["target"], strict=True):
        path = expected[expected["id"] == row["id"]]
        np.testing.assert_allclose(found["predictions"], path["target"], rtol=1e-12)
        np.testing.assert_allclose(found["0.1"], path["target_lo80"], rtol=1e-12)
