"""Score `model=auto` on many files that no setting was chosen on, with one command each.

    python scripts/score_auto.py --budget 0.3
    python scripts/score_auto.py --files FILES.csv --budget 1
    python scripts/score_auto.py --output runs/without_zero trainer.combine=[naive]

Made-up weekly sales, months, days and random walks, and, where INFORMER_DATA_DIR has them, pieces and means of ETTh1,
ETTm1 and WTH; or the files that a CSV file lists, see `real_files.py`: path (relative to the list), horizon, and
series_col, which is empty for one series. Further arguments are settings of every run. Prints the squared error of
each file relative to ridge and to the seasonal naive, the absolute error relative to the latter, and the share of
values that the intervals cover; finished runs in OUTPUT are not repeated.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

LENGTHS = {"weekly": (120, 160, 208, 260, 312, 156), "monthly": (96, 144, 240, 180), "daily": (400, 730, 1100, 500)}
WALKS = (300, 600, 1500)
PIECES = {
    "ETTh1": ((0, 1000, 24), (5000, 6000, 24), (9000, 11000, 24), (9000, 11000, 96), (12000, 14000, 96)),
    "ETTm1": ((0, 3000, 96), (30000, 32000, 96)),
    "WTH": ((0, 1500, 24), (10000, 12000, 24), (20000, 20800, 24)),
}
MEANS = {"ETTh1": (("1D", 7), ("1D", 28)), "WTH": (("1D", 7), ("1D", 28), ("1D", 56), ("W-MON", 4), ("W-MON", 8))}


class Task(NamedTuple):
    """A file or its rows, the horizon, the only target (None: all columns), and the column that separates series."""

    name: str
    data: pd.DataFrame | Path
    horizon: int
    target: str | None = None
    series_col: str | None = None


def made_up() -> Iterator[Task]:
    """Files whose every column has a level, a trend, a season and noise of its own."""
    for seed, n in enumerate(LENGTHS["weekly"]):
        rng, t = np.random.default_rng(100 + seed), np.arange(n)
        columns = {}
        for place in range(6):
            season = 1 + rng.uniform(0.05, 0.4) * np.sin(2 * np.pi * (t / 52.18 + rng.uniform()))
            trend = 1 + rng.uniform(-0.3, 0.5) * t / n
            noise = pd.Series(rng.normal(0, 0.1, n)).ewm(alpha=0.5).mean().to_numpy()
            columns[f"sku_{place}"] = rng.poisson(np.maximum(rng.uniform(20, 200) * season * trend * (1 + noise), 0.1))
        frame = _frame(columns, "2019-01-07", "7D")
        yield Task(f"weekly_{seed}", frame, 8)
        yield Task(f"weekly_{seed}_sku_4", frame, 8, "sku_4")
    for seed, n in enumerate(LENGTHS["monthly"]):
        rng, t = np.random.default_rng(200 + seed), np.arange(n)
        columns = {}
        for place in range(3):
            season = 1 + 0.3 * rng.uniform() * np.sin(2 * np.pi * (t / 12 + rng.uniform()))
            level = rng.uniform(50, 500) * (season + rng.uniform(-0.2, 1) * t / n)
            columns[f"x{place}"] = level + rng.normal(0, 3, n).cumsum() + rng.normal(0, 8, n)
        yield Task(f"monthly_{seed}", _frame(columns, "1998-01-01", "MS"), 6)
    for seed, n in enumerate(LENGTHS["daily"]):
        rng, t = np.random.default_rng(300 + seed), np.arange(n)
        columns = {}
        for place in range(4):
            week, year = rng.normal(0, 1, 7) * rng.uniform(0, 2), 6 * rng.uniform()
            level = 20 + week[t % 7] + year * np.sin(2 * np.pi * (t / 365.25 + rng.uniform()))
            columns[f"d{place}"] = level + rng.normal(0, 0.15, n).cumsum() + rng.normal(0, 1, n)
        yield Task(f"daily_{seed}", _frame(columns, "2020-01-01", "D"), 14)
    for seed, n in enumerate(WALKS):
        rng = np.random.default_rng(400 + seed)
        columns = {f"w{place}": rng.normal(size=n).cumsum() for place in range(4)}
        yield Task(f"walk_{seed}", _frame(columns, "2020-01-01", "D"), 7)


def measured(folder: Path) -> Iterator[Task]:
    """Pieces and means of the datasets in a folder."""
    for name in PIECES:
        if not (folder / f"{name}.csv").is_file():
            print(f"{name}: no file in {folder}; left out")
            continue
        frame = pd.read_csv(folder / f"{name}.csv", parse_dates=["date"])
        for first, stop, horizon in PIECES[name]:
            yield Task(f"{name}_{first}_{horizon}", frame[first:stop], horizon)
        for step, horizon in MEANS.get(name, ()):
            means = frame.set_index("date").resample(step).mean().round(4).reset_index()
            yield Task(f"{name}_{step}_{horizon}", means, horizon)


def listed(path: Path) -> Iterator[Task]:
    """The files of a list."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            data = path.parent / row["path"]
            yield Task(f"{data.stem}_{row['horizon']}", data, int(row["horizon"]), series_col=row["series_col"] or None)


def score(task: Task, folder: Path, budget: float, settings: Sequence[str] = ()) -> dict[str, float]:
    """Train on a file in a process of its own, and return the ratios and the coverage."""
    run = folder / task.name
    if not (run / "metrics.json").is_file():
        path = task.data if isinstance(task.data, Path) else folder / f"{task.name}.csv"
        if isinstance(task.data, pd.DataFrame):
            task.data.to_csv(path, index=False)
        command = [sys.executable, "-m", "informer.train", "dataset=csv", f"dataset.path={path}", "model=auto"]
        command += [f"pred_len={task.horizon}", f"trainer.time_budget_minutes={budget}", f"run_dir={run}"]
        command += [f"target={task.target}"] if task.target else []
        command += [f"dataset.series_col={task.series_col}"] if task.series_col else []
        subprocess.run([*command, *settings], check=True, stdout=subprocess.DEVNULL)
    metrics = json.loads((run / "metrics.json").read_text())
    errors = {name: scores["scaled"]["overall"] for name, scores in metrics["scores"].items()}
    model, naive = errors[metrics["model"]], next(errors[name] for name in errors if "naive" in name)
    covered = {level: interval["overall"]["coverage"] for level, interval in metrics["intervals"].items()}
    return {
        "to_ridge": model["mse"] / errors["ridge"]["mse"] if "ridge" in errors else np.nan,
        "to_naive": model["mse"] / naive["mse"],
        "mae_to_naive": model["mae"] / naive["mae"],
        **covered,
    }


def _frame(columns: dict[str, np.ndarray], start: str, step: str) -> pd.DataFrame:
    n = len(next(iter(columns.values())))
    rounded = {name: values.round(3) for name, values in columns.items()}
    return pd.DataFrame({"date": pd.date_range(start, periods=n, freq=step), **rounded})


def main() -> None:
    """Print a row per file and the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=0.3, help="minutes for each file")
    parser.add_argument("--output", type=Path, default=Path("runs/score_auto"))
    parser.add_argument("--files", type=Path, help="list of files to score instead of the default ones")
    parser.add_argument("settings", nargs="*", help="settings of every run, such as trainer.combine=[naive]")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    default_tasks = (
        [*made_up(), *measured(Path(os.environ.get("INFORMER_DATA_DIR", "data")))] if options.files is None else []
    )
    tasks = default_tasks if options.files is None else [*listed(options.files)]
    table = pd.DataFrame({task.name: score(task, options.output, options.budget, options.settings) for task in tasks}).T
    print(table.round(3).to_string())
    names = ["to_ridge", "to_naive", "mae_to_naive"]
    ratios, covered = table[names], table.drop(columns=names)
    summary = pd.DataFrame({"geometric mean": np.exp(np.log(ratios).mean()), "largest": ratios.max()})
    print(
        f"\n{len(table)} files, squared error relative to ridge and to the seasonal naive, absolute error to the latter"
    )
    print(summary.assign(lower=(ratios < 1).sum()).round(3).to_string())
    print("\nshare of values within intervals: mean, and quantiles over files")
    print(pd.concat([covered.mean().to_frame("mean").T, covered.quantile([0.05, 0.5, 0.95])]).round(1).to_string())


if __name__ == "__main__":
    main()
