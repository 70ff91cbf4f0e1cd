"""Holidays and chosen calendar fields, from the configuration to forecasts, without a file at prediction."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import done, refusal

from informer import Forecaster, checkpoint

RUN = [
    "dataset=csv", "dataset.path=closed.csv", "dataset.series_col=shop", "seq_len=14", "label_len=7", "pred_len=7",
    "trainer.tracker=[]",
]  # fmt: skip


def test_without_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    line = refusal("train", "dataset=sample", "model=tiny", "dataset.holidays=DE", f"run_dir={tmp_path}/run")
    assert "pip install holidays" in line


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """Sales of two shops that close on holidays, which the past does not predict; a run with holidays."""
    from holidays import country_holidays

    folder = tmp_path_factory.mktemp("closed")
    times = pd.date_range("2021-01-01", "2023-12-22")
    shut = np.isin(times.date, list(country_holidays("DE", years=range(2021, 2025))))
    rng = np.random.default_rng(5)
    frame = pd.concat(
        pd.DataFrame({"shop": shop, "day": times, "sales": level - level * shut + rng.normal(size=len(times))})
        for shop, level in (("north", 40), ("south", 60))
    )
    frame.to_csv(folder / "closed.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done("train", *RUN, "model=linear", "dataset.holidays=DE", "run_dir=run")
    return folder, frame


def test_forecasts_know_holidays_without_a_file(closed: tuple[Path, pd.DataFrame]) -> None:
    """Christmas is far lower than the days around it. Red if marks of the horizon lack holidays."""
    folder, frame = closed
    forecast = Forecaster.load(folder / "run").predict(frame)
    for _, shop in forecast.groupby("shop"):
        sales = shop.set_index("day")["sales"]
        shut = sales[["2023-12-25", "2023-12-26"]]
        assert shut.max() < sales.drop(shut.index).min() / 2


def test_an_exported_description_names_the_marks(
    closed: tuple[Path, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(closed[0])
    done("export", "checkpoint=run", "output=exported.safetensors", "format=safetensors")
    marks = json.loads(Path("exported.safetensors.json").read_text())["calendar"]["marks"]
    assert marks == ["weekday", "day", "dayofyear", "holiday_DE"]
    assert checkpoint.load(Path("run")).config["dataset"]["holidays"] == ["DE"]


def test_a_warm_start_on_other_fields_leaves_their_weights_fresh(
    closed: tuple[Path, pd.DataFrame], folder: Path
) -> None:
    """The same number of other marks. Red if only their number is compared."""
    closed[1].groupby("shop").tail(200).to_csv("closed.csv", index=False)
    begin = [*RUN, "model=tiny", "model.d_model=16", "model.encoder_stacks=[1]", "attn=full", "trainer.max_steps=1"]
    done("train", *begin, "dataset.holidays=DE", "run_dir=run")
    four = "dataset.calendar=[month,day,week,weekday]"
    for setting, fresh in (("dataset.holidays=DE", 0), (four, 4)):
        assert f", {fresh} fresh" in done("train", *begin, "init_from=run", setting, f"run_dir=again{fresh}").out
