"""Targets that are never negative: found in training rows, kept in the checkpoint, in forecasts and intervals."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import done

from informer import checkpoint


def write(path: str) -> pd.DataFrame:
    """Sales with closed days, a temperature above zero, and its negative."""
    rng, days = np.random.default_rng(0), np.arange(500)
    sales = rng.poisson(np.where(days % 7 == 6, 0.02, 3 + 2 * np.sin(days)))
    table = pd.DataFrame({"date": pd.date_range("2022-01-01", periods=500, freq="D"), "sales": sales})
    table["heat"] = np.round(5 + np.sin(days / 9) + rng.random(500), 2)
    table["cold"] = -table["heat"]
    table.to_csv(path, index=False)
    return table


RUN = ["dataset=csv", "dataset.path=f.csv", "model=linear", "seq_len=28", "pred_len=14", "run_dir=run"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sales")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write("f.csv")
        assert "forecasts of sales are at least zero" in done("train", *RUN).out
    return folder


@pytest.fixture
def run(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return Path("run")


def test_counts_and_columns_with_zeros_are_found(run: Path) -> None:
    """Red if a temperature that was never below zero is cut off too."""
    assert checkpoint.load(run).data.non_negative == ["sales"]
    done("predict", "checkpoint=run", "input=f.csv", "intervals=[80,95]", "output=out", "plots=false")
    forecast = pd.read_csv("out/f.forecast.csv")
    assert forecast[["sales", "sales_lo80", "sales_lo95"]].to_numpy().min() == 0.0
    assert (forecast["sales"] <= forecast["sales_hi80"]).all()
    assert forecast["cold_lo80"].max() < 0


def test_a_forecast_is_the_larger_of_that_of_the_network_and_zero(run: Path) -> None:
    """Red if anything but the forecast below zero changes."""
    saved = checkpoint.load(run)
    data = saved.data.model_copy(update={"non_negative": []})
    checkpoint.save(Path("free.safetensors"), saved.model_copy(update={"data": data}))
    for name in ("run", "free.safetensors"):
        arguments = [f"checkpoint={name}", "input=f.csv", f"output=out_{name}", "intervals=[95]", "plots=false"]
        done("predict", *arguments)
    new, old = (pd.read_csv(f"out_{name}/f.forecast.csv") for name in ("run", "free.safetensors"))
    assert old["sales_lo95"].min() < 0
    np.testing.assert_allclose(new["sales_lo95"], old["sales_lo95"].clip(lower=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(new["sales"], old["sales"].clip(lower=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(new[["heat", "cold"]], old[["heat", "cold"]], rtol=1e-12)


def test_the_user_decides(folder: Path) -> None:
    write("f.csv")
    done("train", *RUN, "targets=[heat,sales]", "non_negative=all")
    assert checkpoint.load(Path("run")).data.non_negative == ["sales", "heat"]
