"""Partitioned parquet folders as one table, against the same rows in one CSV file."""

import re
from pathlib import Path

import pandas as pd
import pytest
from entry_points import call, done, refusal

from informer import Forecaster

LINEAR = ["model=linear", "seq_len=14", "pred_len=7", "dataset.series_col=store"]


SIZES = ["seq_len=14", "label_len=7", "pred_len=7"]


def rows(n: int = 120) -> pd.DataFrame:
    """Two stores, whose names are numbers with a zero in front."""
    parts = [
        pd.DataFrame(
            {"date": pd.date_range("2024-01-01", periods=n), "sales": [k * 10.0 + day % 7 for day in range(n)]}
        )
        for k in (1, 2)
    ]
    return pd.concat(part.assign(store=name) for part, name in zip(parts, ("001", "002"), strict=True))


def write(folder: Path, frame: pd.DataFrame, pieces: int = 12) -> None:
    """part-0 to part-11 of each store: part-10 comes before part-2 in the order of letters."""
    for store, part in frame.groupby("store"):
        place = folder / f"store={store}"
        place.mkdir(parents=True)
        length = -(-len(part) // pieces)
        for k in range(pieces):
            part[k * length : (k + 1) * length].drop(columns="store").to_parquet(place / f"part-{k}.parquet")
        (place / "_SUCCESS").write_text("")


def test_every_command_reads_it(folder: Path) -> None:
    """The forecasts of the same rows in one CSV file; the run finds its data again by their checksum."""
    frame = rows()
    write(folder / "sales", frame)
    frame.to_csv("rows.csv", index=False)
    for path, run in (("sales", "parts"), ("rows.csv", "whole")):
        done("train", "dataset=csv", f"dataset.path={path}", *LINEAR, f"run_dir={run}")
        done("predict", f"checkpoint={run}", f"input={path}", f"output=out_{run}", "plots=false")
    assert Path("out_parts/sales.forecast.csv").read_text() == Path("out_whole/rows.forecast.csv").read_text()
    pd.testing.assert_frame_equal(pd.read_csv("parts/metrics.csv"), pd.read_csv("whole/metrics.csv"))
    done("eval", "checkpoint=parts", "plots=none")
    assert "2 sound" in done("inspect", "sales", "dataset.series_col=store", *SIZES).out
    forecast = Forecaster.load("parts").predict("sales")
    pd.testing.assert_frame_equal(forecast, Forecaster.load("whole").predict("rows.csv"))
    line = refusal("predict", "checkpoint=parts", "input=sales", "output=sales/out", "plots=false")
    assert "expected a folder outside the input sales" in line
    frame[:-1].to_parquet("sales/store=002/part-99.parquet")
    assert "has changed since training" in call("eval", "checkpoint=parts", "plots=none").err


def test_rows_out_of_order_are_reported(tmp_path: Path) -> None:
    write(tmp_path / "sales", rows()[::-1])
    outcome = call("train", "dataset=csv", f"dataset.path={tmp_path}/sales", *LINEAR, f"run_dir={tmp_path}/run")
    assert outcome.status == 2
    assert "dataset.sort=true" in outcome.err


def test_a_store_with_partitions(tmp_path: Path) -> None:
    """Red if only the files next to the partitions are copied."""
    fsspec = pytest.importorskip("fsspec")
    write(tmp_path / "sales", rows())
    store = fsspec.filesystem("memory")
    try:
        store.put(str(tmp_path / "sales"), "/partitioned", recursive=True)
        outcome = call("inspect", "memory://partitioned", "dataset.series_col=store", *SIZES)
    finally:
        store.rm("/partitioned", recursive=True)
    assert outcome.status == 0, outcome.err
    assert "2 sound" in outcome.out


@pytest.mark.parametrize("fault", ["damaged", "keys", "doubled", "large", "kinds", "empty"])
def test_one_line_for_each_fault(fault: str, tmp_path: Path) -> None:
    folder = tmp_path / "sales"
    write(folder, rows(30), pieces=1)
    place = folder / "store=001" / "part-0.parquet"
    expected = {
        "damaged": "cannot be read as one partitioned table",
        "keys": "expected the same keys in all partitions",
        "doubled": "'store'|store: a column of its files and a key",
        "large": "more than 1,000 cells; .* dataset.max_cells",
        "kinds": "cannot be read as one partitioned table",
        "empty": "expected files ending in .parquet",
    }[fault]
    if fault == "damaged":
        place.write_bytes(place.read_bytes()[:-9])
    elif fault == "keys":
        (folder / "year=2024" / "store=1").mkdir(parents=True)
        place.rename(folder / "year=2024" / "store=1" / "part-0.parquet")
    elif fault == "doubled":
        rows(30).to_parquet(place)
    elif fault == "large":
        rows(4000).drop(columns="store").to_parquet(place)
    elif fault == "kinds":
        rows(30).assign(sales="many").drop(columns="store").to_parquet(place)
    else:
        for path in folder.rglob("*.parquet"):
            path.unlink()
    line = refusal("train", "dataset=csv", f"dataset.path={folder}", *LINEAR, "dataset.max_cells=1000")
    assert re.search(expected, line)
