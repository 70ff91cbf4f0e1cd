"""Score forecasts without training on real series: the rule around the pretrained network, the network, theta.

    python scripts/real_files.py runs/real_files
    python scripts/score_methods.py --files runs/real_files/files.csv [--methods rule network] [--weights pretraining]

The tasks are the files of `real_files.py`, each with up to `--origins` origins in its last rows, and, where
INFORMER_DATA_DIR has them, M3 (series of the development set) and M4 Hourly with their test rows, one origin each.
`rule` is what `informer forecast` does, see `informer.members.zero`; `network` and `theta` are its parts.

MASE: mean absolute error in units of the mean change over a season. WQL: quantile loss over the deciles; of a point
forecast, half its absolute error. Both are divided by those of the seasonal naive; groups and total are geometric means
over tasks. Errors of every task are kept in `--output` and not computed again.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from pretrain import load

from informer.config.data import DatasetConfig
from informer.data.diagnosis import survey_file
from informer.members.theta import theta
from informer.members.zero import Histories, Pretrained, network_seasons
from informer.networks.models.zero import at_level, pinball
from informer.networks.ops.zero_inputs import DECILES
from informer.read.frequency import Frequency
from informer.read.series import Series, column_values
from informer.scoring.metrics import seasonal_scale

METHODS = ("rule", "network", "theta")
LEAST_ROWS = 8
HOURLY, DAILY, SHORT = "hourly and finer", "daily and weekly", "monthly to yearly"


@dataclass(frozen=True, eq=False)
class Task:
    """Series to forecast, and where.

    Args:
        name, horizon: name of the file, and rows to forecast.
        panel: all series; scored are some of them, evenly spaced.
        origins: largest number of origins of a series.
        most: largest number of scored forecasts; 0: of all series and columns.
    """

    name: str
    panel: Sequence[Series]
    horizon: int
    origins: int
    most: int = 0

    @cached_property
    def columns(self) -> list[str]:
        """The columns that are forecast and scored."""
        return list(self.panel[0].columns)

    @cached_property
    def seasons(self) -> tuple[int, int]:
        """Rows of the two seasons, 1 for none."""
        return network_seasons(self.panel, self.columns)

    @cached_property
    def left_out(self) -> list[int]:
        """Number of last rows that are left out at each origin, the first origin first."""
        shortest = min(map(len, self.panel)) if self.origins > 1 else 0
        least = max(LEAST_ROWS, self.seasons[0] + 1, 2 * self.horizon)
        stride = min(max((shortest - self.horizon - least) // self.origins, 1), self.horizon)
        n = min(self.origins, max((shortest - self.horizon - least) // stride, 1))
        return [self.horizon + stride * place for place in reversed(range(n))]

    @cached_property
    def scored(self) -> list[tuple[int, int]]:
        """Index of the series and of the column of each forecast from an origin."""
        every = [(i, column) for i in range(len(self.panel)) for column in range(len(self.columns))]
        most = max(self.most // len(self.left_out), 1) if self.most else len(every)
        return every[:: -(-len(every) // most)]

    @property
    def group(self) -> str:
        """The group of its step."""
        frequency = self.panel[0].frequency
        if frequency.per_day is not None:
            return HOURLY if frequency.per_day > 1 else DAILY
        return DAILY if frequency.season == 52 else SHORT

    def before(self, left_out: int) -> list[Series]:
        """The series without their last rows."""
        return [
            replace(series, timestamps=series.timestamps[:-left_out], values=series.values[:-left_out])
            for series in self.panel
        ]

    def histories(self, left_out: int) -> list[np.ndarray]:
        """The scored histories before an origin."""
        values = {i: column_values(self.panel[i], self.columns) for i in {i for i, _ in self.scored}}
        return [values[i][: len(values[i]) - left_out, column] for i, column in self.scored]

    def actual(self, left_out: int) -> np.ndarray:
        """The values that followed, [w h]."""
        every = self.histories(0)
        return np.stack([values[len(values) - left_out :][: self.horizon] for values in every])


def pretrained(weights: Path | None) -> Pretrained:
    """The pretrained network, with the weights in the package or those of a folder of `pretrain.py`."""
    model = Pretrained(device="cpu")
    if weights:
        model.network = load(weights)[0].eval()
    return model


def forecast(past: Histories, frequency: Frequency, horizon: int, method: str, model: Pretrained) -> np.ndarray:
    """Quantiles at DECILES, [w h q]."""
    values, observed = torch.from_numpy(past.values), torch.from_numpy(past.observed)
    if method == "theta":
        return np.repeat(theta(values, observed, past.seasons[0], horizon).numpy()[:, :, None], len(DECILES), axis=2)
    if method == "network":
        first, second = (torch.full((len(values),), season) for season in past.seasons)
        found = past.bounded(model.network.predict(values, observed, first, second, horizon).numpy())
    else:
        found = model.quantiles(past, frequency, horizon)
    return np.stack([at_level(found, level) for level in DECILES], axis=2)


def errors(task: Task, method: str, model: Pretrained) -> tuple[float, float, float]:
    """MASE and WQL relative to the seasonal naive, and the share of values within 80 % intervals."""
    sums = np.zeros(4)
    covered, scaled = [], []
    for left_out in task.left_out:
        actual = task.actual(left_out)
        past = Histories.of(task.histories(left_out), task.seasons)
        quantiles = forecast(past, task.panel[0].frequency, task.horizon, method, model)
        naive = past.repeated(task.horizon, 1)
        scale = seasonal_scale([np.where(past.observed, past.values, np.nan).T], past.seasons[0])
        losses = pinball(torch.from_numpy(quantiles), torch.from_numpy(actual), DECILES).numpy()
        sums[2:] += np.nansum(losses), np.nansum(0.5 * np.abs(naive - actual))
        usable = scale > 0
        mean = [np.nanmean(np.abs(f - actual)[usable], axis=1) / scale[usable] for f in (quantiles[:, :, 4], naive)]
        scaled.append(np.stack(mean))
        known = np.isfinite(actual)
        covered.append(((quantiles[:, :, 0] <= actual) & (actual <= quantiles[:, :, -1]))[known])
    own, naive_errors = np.nanmean(np.concatenate(scaled, axis=1), axis=1)
    return float(own / naive_errors), float(sums[2] / sums[3]), float(100 * np.concatenate(covered).mean())


def files(path: Path, origins: int, most: int) -> Iterator[Task]:
    """The tasks of a list of files."""
    for _, row in pd.read_csv(path).iterrows():
        dataset = DatasetConfig(series_col=row.series_col if isinstance(row.series_col, str) else None)
        panel = list(survey_file(path.parent / row.path, dataset).panel)
        if panel:
            yield Task(f"{Path(row.path).stem} {row.horizon}", panel, int(row.horizon), origins, most)
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
            yield Task(f"{name} {kind}", list(_series(chosen, key, value, codes[kind])), horizon, 1)


def _series(rows: pd.DataFrame, key: str, value: str, code: str) -> Iterator[Series]:
    for name, group in rows.groupby(key, sort=False):
        times = pd.date_range("1900-01-01", periods=len(group), freq=code)
        yield Series(str(name), times, group[[value]].to_numpy(float), (value,), Frequency.parse(code), "time")


def main() -> None:
    """Print a line for each task and method, and means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=Path, help="list of real_files.py")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("INFORMER_DATA_DIR", "data")))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--origins", type=int, default=5, help="largest number of origins of a series of the files")
    parser.add_argument("--windows", type=int, default=60, help="largest number of scored forecasts of a file")
    parser.add_argument("--weights", type=Path, help="folder of pretrain.py; default: those in the package")
    parser.add_argument("--output", type=Path, default=Path("runs/score_methods"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.output.mkdir(parents=True, exist_ok=True)
    model = pretrained(options.weights)
    kept = options.output / "errors.csv"
    table = pd.read_csv(kept) if kept.exists() else pd.DataFrame(columns=["group", "task", "method"])
    listed = files(options.files, options.origins, options.windows) if options.files else ()
    for task in [*listed, *competitions(options.data)]:
        for name in options.methods:
            if not ((table.task == task.name) & (table.method == name)).any():
                found = dict(zip(("MASE", "WQL", "80 %"), errors(task, name, model), strict=True))
                row = {"group": task.group, "task": task.name, "method": name, **found}
                table = pd.concat([table, pd.DataFrame([row])], ignore_index=True)
                table.to_csv(kept, index=False)
    chosen = table[table.method.isin(options.methods)]
    print(chosen.pivot_table(index=["group", "task"], columns="method", values=["MASE", "WQL"]).round(3).to_string())
    logs = chosen.assign(MASE=np.log(chosen.MASE), WQL=np.log(chosen.WQL))
    means = pd.concat([logs, logs.assign(group="all")]).groupby(["group", "method"])[["MASE", "WQL", "80 %"]].mean()
    means[["MASE", "WQL"]] = np.exp(means[["MASE", "WQL"]])
    print(means.round(3).to_string())


if __name__ == "__main__":
    main()
