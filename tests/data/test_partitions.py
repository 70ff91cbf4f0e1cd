"""Partitioned parquet folders in commands, against the same rows in one CSV file; `tests/corpus` has their faults."""

from pathlib import Path

import pandas as pd
import pytest
from entry_points import call, done, refusal

from informer import Forecaster

SIZES = ["seq_len=14", "label_len=7", "pred_len=7"]
LINEAR = ["model=linear", "seq_len=14", "pred_len=7", "dataset.series_col=store"]


def written(folder: Path) -> pd.DataFrame:
    """Two stores, whose names are numbers with a zero in front, in twelve files each."""
    days = pd.date_range("2024-01-01", periods=120)
    parts = []
    for store, level in (("001", 10.0), ("002", 20.0)):
        (folder / f"store={store}").mkdir(parents=True)
        (folder / f"store={store}" / "_SUCCESS").write_text("")
        part = pd.DataFrame({"date": days, "sales": level + days.day_of_year % 7})
        for k in range(12):
            part[10 * k : 10 * k + 10].to_parquet(folder / f"store={store}" / f"part-{k}.parquet")
        parts.append(part.assign(store=store))
    return pd.concat(parts)


def test_every_command_reads_it(folder: Path) -> None:
    """The forecasts of the same rows in one CSV file; the run finds its data again by their checksum."""
    written(folder / "sales").to_csv("rows.csv", index=False)
    for path, run in (("sales", "parts"), ("rows.csv", "whole")):
        done("train", "dataset=csv", f"dataset.path={path}", *LINEAR, f"run_dir={run}")
        done("predict", f"checkpoint={run}", f"input={path}", f"output=out_{run}", "plots=false")
    assert Path("out_parts/sales.forecast.csv").read_text() == Path("out_whole/rows.forecast.csv").read_text()
    pd.testing.assert_frame_equal(pd.read_csv("parts/metrics.csv"), pd.read_csv("whole/metrics.csv"))
    done("eval", "checkpoint=parts", "plots=none")
    forecast = Forecaster.load("parts").predict("sales")
    pd.testing.assert_frame_equal(forecast, Forecaster.load("whole").predict("rows.csv"))
    line = refusal("predict", "checkpoint=parts", "input=sales", "output=sales/out", "plots=false")
    assert "expected a folder outside the input sales" in line
    Path("sales/store=002/part-0.parquet").rename("sales/store=002/part-99.parquet")
    assert "has changed since training" in call("eval", "checkpoint=parts", "plots=none").err


def test_a_store_with_partitions(folder: Path) -> None:
    """Red if only the files next to the partitions are copied."""
    store = pytest.importorskip("fsspec").filesystem("memory")
    written(folder / "sales")
    try:
        store.put("sales", "/partitioned", recursive=True)
        said = done("inspect", "memory://partitioned", "dataset.series_col=store", *SIZES).out
    finally:
        store.rm("/partitioned", recursive=True)
    assert "2 sound" in said
