"""What a forecast takes besides computing: the start of commands, and forecasts in a running process.

    python scripts/benchmark_start.py [--rounds 7] [--many 4000]

CPU seconds of whole processes, as multiples of `import torch, pandas` in the same rounds: processes take turns, medians
are reported. Modules are compiled in a first round that is not measured, as they are once after an installation, also
where PYTHONDONTWRITEBYTECODE is set. Then CPU seconds of `predict` in a process that has forecast before, and by how
much its peak of memory grows.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from result_files import resident

from informer.base.runtime import resource

BASE = "import torch, pandas"
HORIZON = 48
ROWS, SERIES_ROWS = 6000, 200
"""Rows of a single series, and of each of many."""


def cpu_seconds(command: list[str], cwd: str) -> float:
    """User and system time of a process and its children."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=quiet, stderr=quiet)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # Popen need not wait for it again
    return usage.ru_utime + usage.ru_stime


def medians(commands: dict[str, list[str]], rounds: int, cwd: str) -> dict[str, float]:
    """CPU seconds of each command, after one round to compile modules and warm the file cache."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            seconds = cpu_seconds(command, cwd)
            if number:
                times[name].append(seconds)
    return {name: statistics.median(values) for name, values in times.items()}


def commands() -> dict[str, list[str]]:
    """Every timed process, by its name in the table."""
    sample, python, own = str(resource("data/sample.csv").resolve()), [sys.executable, "-c"], [sys.executable, "-m"]
    forecast = [*own, "informer", "forecast"]
    return {
        BASE: [*python, BASE],
        "from informer import Forecaster": [*python, "from informer import Forecaster"],
        f"informer forecast sample.csv horizon={HORIZON}": [*forecast, sample, f"horizon={HORIZON}"],
        "informer forecast --help": [*forecast, "--help"],
        "informer forecast missing.csv": [*forecast, "missing.csv"],
    }


def table(series: int, rows: int) -> pd.DataFrame:
    """Hourly series with a daily season, one below the other."""
    random, times = np.random.default_rng(0), pd.date_range("2024-01-01", periods=rows, freq="h")
    wave = 10 + np.sin(2 * np.pi * np.arange(rows) / 24)
    return pd.DataFrame(
        {
            "series": np.repeat([f"s{number:05d}" for number in range(series)], rows),
            "date": np.tile(times, series),
            "y": np.tile(wave, series) + random.normal(size=series * rows),
        }
    )


def measure_running(many: int) -> None:
    """Print CPU seconds and memory of forecasts in this process."""
    from informer import Forecaster

    forecaster = Forecaster()
    forecaster.predict(table(1, 100), horizon=HORIZON)
    print(f"\n{'in a running process':48}{'CPU s':>8}{'MiB':>8}")
    for series, rows in ((1, ROWS), (1000, SERIES_ROWS), (many, SERIES_ROWS)):
        frame = table(series, rows)
        began, memory = time.process_time(), resident("VmHWM")
        forecaster.predict(frame, horizon=HORIZON)
        seconds, peak = time.process_time() - began, (resident("VmHWM") - memory) / 2**20
        print(f"predict, {series:,} series of {rows:,} rows{'':22}"[:48] + f"{seconds:8.2f}{peak:8.0f}")


def main() -> None:
    """Print a line for each process, then one for each forecast in a running one."""
    parser = argparse.ArgumentParser(description="CPU time of commands and forecasts, next to `import torch, pandas`.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--many", type=int, default=4000, help="series of the largest table")
    options = parser.parse_args()
    with TemporaryDirectory() as scratch:
        seconds = medians(commands(), options.rounds, scratch)
    print(f"{'':48}{'CPU s':>8}{'ratio':>8}")
    for name, value in seconds.items():
        print(f"{name:48}{value:8.2f}{value / seconds[BASE]:8.2f}")
    measure_running(options.many)


if __name__ == "__main__":
    main()
