"""Score `model=zero` on real series that it has never seen, relative to the seasonal naive.

    python scripts/score_zero.py [--files runs/real_files/files.csv] [--weights pretraining]

The files are those of `real_files.py`, each with up to 20 origins in its last rows; besides, where INFORMER_DATA_DIR
has them, M3 (series of the development set) and M4 Hourly with their test rows, one origin each. MASE: mean absolute
error in units of the mean change over a season. WQL: quantile loss over the deciles; of a point forecast, half its
absolute error. Both are divided by those of the seasonal naive; groups and total are geometric means over tasks.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file

from informer.config.data import DatasetConfig
from informer.data.diagnosis import survey_file
from informer.inference.zero import MOST_ORIGINS, ZeroModel, ZeroScores, network_seasons
from informer.networks.models.zero import LEVELS, pinball
from informer.read.frequency import Frequency
from informer.read.series import Series

DECILES = [round(0.1 * i, 1) for i in range(1, 10)]
HOURLY, DAILY, SHORT = "hourly and finer", "daily and weekly", "monthly to yearly"
Task = tuple[str, list[Series], int, int]
"""Name, series, horizon, origins of each series."""


def files(path: Path) -> Iterator[Task]:
    """The tasks of a list of files."""
    for _, row in pd.read_csv(path).iterrows():
        dataset = DatasetConfig(series_col=row.series_col if isinstance(row.series_col, str) else None)
        panel = list(survey_file(path.parent / row.path, dataset).panel)
        if panel:
            yield f"{Path(row.path).stem} {row.horizon}", panel, int(row.horizon), MOST_ORIGINS
        else:
            print(f"{row.path}: cannot be read")


def competitions(data: Path) -> Iterator[Task]:
    """M3 and M4 Hourly: the rows before the test part, and the test part."""
    for name, key, value, horizons in (
        ("m3_dev", "series", "value", {"yearly": 6, "quarterly": 8, "monthly": 18}),
        ("m4_hourly", "unique_id", "y", {"hourly": 48}),
    ):
        parts = [data / f"{name}_{part}.csv.gz" for part in ("train", "test")]
        if not all(part.exists() for part in parts):
            continue
        rows = pd.concat([pd.read_csv(part) for part in parts])
        codes = {"yearly": "YS", "quarterly": "QS", "monthly": "MS", "hourly": "h"}
        for kind, horizon in horizons.items():
            chosen = rows[rows.frequency == kind] if "frequency" in rows else rows
            yield f"{name} {kind}", list(_series(chosen, key, value, codes[kind])), horizon, 1


def _series(rows: pd.DataFrame, key: str, value: str, code: str) -> Iterator[Series]:
    for name, group in rows.groupby(key, sort=False):
        times = pd.date_range("1900-01-01", periods=len(group), freq=code)
        yield Series(str(name), times, group[[value]].to_numpy(float), (value,), Frequency.parse(code), "time")


def relative(scores: ZeroScores) -> tuple[float, float]:
    """MASE and WQL relative to the seasonal naive."""
    naive = next(name for name in scores.scaled if "naive" in name)
    quantiles = torch.from_numpy(scores.quantiles[:, :, [LEVELS.index(level) for level in DECILES]])
    losses = pinball(quantiles, torch.from_numpy(scores.actual), DECILES).numpy()
    return (
        float(scores.scaled["forecast"].mean() / scores.scaled[naive].mean()),
        float(np.nansum(losses) / np.nansum(0.5 * np.abs(scores.baselines[naive] - scores.actual))),
    )


def group_of(series: Series) -> str:
    """The group of a step."""
    per_day = series.frequency.per_day
    if per_day is not None:
        return HOURLY if per_day > 1 else DAILY
    return DAILY if series.frequency.season == 52 else SHORT


def main() -> None:
    """Print a line for each task, and means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=Path, help="list of real_files.py")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("INFORMER_DATA_DIR", "data")))
    parser.add_argument("--weights", type=Path, help="folder of pretrain.py; default: the weights in the package")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = ZeroModel()
    if arguments.weights:
        model.network.load_state_dict(load_file(arguments.weights / "weights.safetensors"))
    tasks = [*(files(arguments.files) if arguments.files else ()), *competitions(arguments.data)]
    found: dict[str, list[tuple[float, float]]] = {}
    for name, panel, horizon, origins in tasks:
        columns = list(panel[0].columns)
        seasons = network_seasons(panel, columns)
        scores = model.backtest(panel, columns, seasons, horizon=horizon, origins=origins)
        if scores is None:
            print(f"{name}: too short")
            continue
        errors = relative(scores)
        found.setdefault(group_of(panel[0]), []).append(errors)
        line = f"{name:32} {len(scores.actual):5} windows  MASE {errors[0]:.3f}  WQL {errors[1]:.3f}"
        print(f"{line}  80 % intervals cover {scores.coverage(80):.0f} %")
    for name, pairs in {**found, "all": [pair for group in found.values() for pair in group]}.items():
        mase, wql = np.exp(np.log(np.array(pairs)).mean(axis=0))
        print(f"{name:32} {len(pairs):5} tasks    MASE {mase:.3f}  WQL {wql:.3f}")


if __name__ == "__main__":
    main()
