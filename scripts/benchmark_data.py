"""Reading large data and starting to train: CPU time compared with pandas, memory compared with the float32 values.

    python scripts/benchmark_data.py [--series 5000 --length 2000] [--rows 5000000 --columns 10] [--wide 1000]
    python scripts/benchmark_data.py --forecast linear --series 50000 --length 200 --long-columns 1 --rows 0 --wide 0

Three generated CSV files: many series one below the other, one long series, and one with many columns (`--wide-rows`
rows). For each file new processes take turns: `pandas.read_csv` with the pyarrow engine; the reader of this package,
with all its checks; and `informer.train model=small` from its start to the end of the first step. Seconds are CPU time,
the median of the rounds, without imports except for the first step, whose wall time is also reported. Memory is the
peak of the process above that after imports. Ratios compare figures of one run.

With `--forecast`, only whole `informer forecast` commands are measured, with these models: time and memory include
imports, reading, scores on the test part, forecasts and the report. One that takes 15 minutes is stopped.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from result_files import resident

MIB = 1 << 20
WAYS = {
    "pandas": "pandas.read_csv, pyarrow",
    "read": "read",
    "step": "first step of training",
    "linear": "informer forecast model=linear",
    "zero": "informer forecast model=zero",
}
FORECASTS, LIMIT = ("linear", "zero"), 900
"""Ways that are whole commands, and the seconds after which one is stopped."""
SETTINGS = ["model=small", "seq_len=96", "pred_len=24", "trainer.batch_size=32"]


@dataclass(frozen=True, slots=True)
class File:
    """A CSV file and its settings."""

    name: str
    path: Path
    values: int
    ways: tuple[str, ...]
    overrides: tuple[str, ...] = ()


def write_long(path: Path, *, series: int, length: int, columns: int) -> None:
    """Hourly series one below the other (`series` of 1: one series of minutes), written by pyarrow."""
    import pyarrow
    import pyarrow.csv

    random = np.random.default_rng(0)
    step = np.timedelta64(1, "h" if series > 1 else "m")
    times = (np.datetime64("2010-01-01T00:00", "s") + np.arange(length) * step).astype("datetime64[s]")
    cells: dict[str, Any] = {"date": np.tile(times, series)}
    if series > 1:
        cells["id"] = pyarrow.array(np.repeat([f"store {number:05d}" for number in range(series)], length))
    for column in range(columns):
        wave = np.sin(2 * np.pi * (np.arange(length) / 24 + column / columns))
        cells[f"x{column}"] = np.round(np.tile(wave, series) + random.normal(size=series * length), 3)
    pyarrow.csv.write_csv(pyarrow.table(cells), path)


def made_files(options: argparse.Namespace, folder: Path) -> list[File]:
    """The requested files."""
    files, ways = [], ("pandas", "read", "step")
    for name, series, length, columns in (
        ("series", options.series, options.length, options.long_columns),
        ("rows", 1, options.rows, options.columns),
        ("wide", 1, options.wide_rows, options.wide),
    ):
        if series * length * columns:
            path = folder / f"{name}.csv"
            write_long(path, series=series, length=length, columns=columns)
            many = f"{series:,} series of " if series > 1 else ""
            named = ("dataset.series_col=id",) if series > 1 else ()
            title = f"{many}{length:,} rows, {columns:,} columns"
            files.append(File(title, path, series * length * columns, tuple(options.forecast or ways), named))
    return files


def measure(way: str, path: str, overrides: list[str]) -> None:
    """Measure one way of reading in a separate process, and print the result."""
    if way in FORECASTS:
        began, run = time.perf_counter(), Path(path).parent / f"run {os.getpid()}"
        from informer.commands import cli

        sys.argv = ["forecast", path, f"model={way}", f"output={run}"]
        cli.run("forecast")
        print(
            json.dumps(
                {"seconds": time.process_time(), "bytes": resident("VmHWM"), "wall": time.perf_counter() - began}
            )
        )
    elif way == "pandas":
        import pandas as pd
        import pyarrow.csv  # noqa: F401 (not part of the reading)

        before, start_bytes = time.process_time(), resident("VmRSS")
        pd.read_csv(path, engine="pyarrow")
        print(json.dumps({"seconds": time.process_time() - before, "bytes": resident("VmHWM") - start_bytes}))
    elif way == "step":
        _measure_step(path, overrides)
    else:
        _measure_reading(path, overrides)


def _measure_reading(path: str, overrides: list[str]) -> None:
    import sklearn.preprocessing  # noqa: F401 (not part of the reading)

    from informer.config.data import DatasetConfig
    from informer.data.columns import Roles
    from informer.data.dataset import read_source

    named = dict(override.removeprefix("dataset.").split("=") for override in overrides)
    config = DatasetConfig(path=path, series_col=named.get("series_col"))
    before, start_bytes = time.process_time(), resident("VmRSS")
    read_source(config, roles=Roles(), data_dir=Path(path))
    print(json.dumps({"seconds": time.process_time() - before, "bytes": resident("VmHWM") - start_bytes}))


def _measure_step(path: str, overrides: list[str]) -> None:
    began = time.perf_counter()
    import sklearn.preprocessing  # noqa: F401 (used by every run)

    import informer.training.run  # noqa: F401 (which imports torch)
    from informer.commands import cli
    from informer.training import loop

    start_bytes, step = resident("VmRSS"), loop.train_step

    def first(*arguments: Any, **named: Any) -> Any:
        step(*arguments, **named)
        costs = {
            "seconds": time.process_time(),
            "bytes": resident("VmHWM") - start_bytes,
            "wall": time.perf_counter() - began,
        }
        print(json.dumps(costs), flush=True)
        os._exit(0)  # the rest of the run is not measured

    loop.train_step = first
    run_dir = Path(path).parent / f"run {os.getpid()}"
    sys.argv = ["train", path, *SETTINGS, *overrides, f"run_dir='{run_dir}'"]
    cli.run("train")


def measured(file: File, rounds: int) -> dict[str, dict[str, float]]:
    """Medians for each way of reading."""
    runs: dict[str, list[dict[str, float]]] = {way: [] for way in file.ways}
    for _ in range(rounds):
        for way in file.ways:
            command = [sys.executable, __file__, "--measure", way, str(file.path), *file.overrides]
            limit = LIMIT if way in FORECASTS else None
            result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
            if result.returncode:
                raise SystemExit(f"{WAYS[way]}: {result.stderr}")
            runs[way].append(json.loads(result.stdout.splitlines()[-1]))
    return {way: {key: statistics.median(run[key] for run in all_) for key in all_[0]} for way, all_ in runs.items()}


def report(file: File, rounds: int) -> None:
    """Table for one file."""
    medians = measured(file, rounds)
    text, floats = file.path.stat().st_size / MIB, 4 * file.values / MIB
    print(f"\n{file.name}: {text:.0f} MiB of text, {floats:.0f} MiB as float32\n")
    print("| | CPU s | times pandas | wall s | peak MiB | times float32 |")
    print("|---|---|---|---|---|---|")
    for way, row in medians.items():
        wall = f"{row['wall']:.1f}" if "wall" in row else ""
        ratio = f"{row['seconds'] / medians['pandas']['seconds']:.2f}" if way in ("pandas", "read") else ""
        size = f"{row['bytes'] / MIB:.0f} | {row['bytes'] / (4 * file.values):.1f}"
        print(f"| {WAYS[way]} | {row['seconds']:.2f} | {ratio} | {wall} | {size} |", flush=True)


def main() -> None:
    """Write the files, and print a table for each."""
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], sys.argv[3], sys.argv[4:])
        return
    parser = argparse.ArgumentParser(description="CPU time and memory of reading large files. 0 skips a file.")
    parser.add_argument("--series", type=int, default=5000)
    parser.add_argument("--length", type=int, default=2000, help="rows of each series")
    parser.add_argument("--long-columns", type=int, default=4, help="columns of the many series")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--columns", type=int, default=10, help="columns of the long series")
    parser.add_argument("--wide", type=int, default=1000, help="columns of the wide file")
    parser.add_argument("--wide-rows", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--forecast", nargs="+", choices=FORECASTS, help="measure whole forecasts with these models")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        for file in made_files(options, Path(folder)):
            report(file, options.rounds)


if __name__ == "__main__":
    main()
