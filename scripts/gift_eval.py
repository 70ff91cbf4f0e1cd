"""Score a pretrained network on configurations of GIFT-Eval, in the format of its results.

    python scripts/gift_eval.py [--weights pretraining] [--parts development test] [--output runs/gift_eval]

The configurations are those that ETTm1 and M4 Hourly make, and M4 Weekly where INFORMER_DATA_DIR has its files.
GIFT-Eval's ETT1 is ETTm1 and means of its rows over hours, days and weeks; each column is a series. Windows do not
overlap and end with the last row: a tenth of the rows, 1 to 20 windows, one of M4 (Aksu et al. 2024,
https://arxiv.org/abs/2410.10393; https://github.com/SalesforceAIResearch/gift-eval).

The part `test` has the benchmark's windows. The part `development` has the windows that the same rules make of the rows
before: only these serve to choose a network. The seasonal naive forecast is scored next to the network. On `test` its
errors must equal the published ones to three digits, or the script stops: histories, windows and errors are then those
of the benchmark. Relative errors are divided by those of the seasonal naive forecast.

`--output` receives `PART_results.csv`, with the columns of the benchmark's file of results.
"""

import argparse
import math
import os
from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
import torch
from pretrain import load

from informer.inference.zero import ZeroModel
from informer.members.zero import pretrained
from informer.read.frequency import Frequency
from informer.read.series import Series

DECILES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
LEVELS = [0.025, *DECILES, 0.975]
BANDS = {p: f"{'lo' if p < 0.5 else 'hi'}{round(200 * abs(p - 0.5))}" for p in LEVELS if p != 0.5}
PUBLISHED = {
    "ett1/H/short": (0.97732, 0.24037), "ett1/H/medium": (1.56780, 0.43491), "ett1/H/long": (1.47870, 0.47106),
    "ett1/15T/short": (0.93415, 0.24136), "ett1/15T/medium": (1.18831, 0.32155), "ett1/15T/long": (1.19089, 0.34018),
    "ett1/D/short": (1.77837, 0.40843), "ett1/W/short": (1.76892, 0.31183),
    "m4_hourly/H/short": (1.19321, 0.03757), "m4_weekly/W/short": (2.77730, 0.06087),
}  # fmt: skip
"""MASE and WQL of the benchmark's seasonal naive forecast (August 2026)."""
TIMES = {"short": 1, "medium": 10, "long": 15}
STEPS = {"15T": ("15min", 96, 48), "H": ("h", 24, 48), "D": ("D", 1, 30), "W": ("W-THU", 1, 8)}
"""pandas' name of each step, rows of the benchmark's season, and of the shortest horizon."""


def panels(data: Path) -> Iterator[tuple[str, list[Series]]]:
    """Name of each configuration and its series."""
    ett = pd.read_csv(data / "ETTm1.csv", parse_dates=["date"], index_col="date")
    for name in PUBLISHED:
        dataset, code, _ = name.split("/")
        if dataset == "ett1":
            steps = ett.resample(STEPS[code][0])
            rows = steps.mean()[(steps.size() == steps.size().max()).to_numpy()]  # the last day and week are partial
            times = pd.DatetimeIndex(rows.index)
            yield name, [_series(column, rows[column].to_numpy(), times, code) for column in rows]
        else:
            files = [data / f"{dataset}_{part}.csv.gz" for part in ("train", "test")]
            if all(file.exists() for file in files):
                groups = pd.concat(map(pd.read_csv, files)).groupby("unique_id", sort=False)
                yield name, [_series(key, own.y.to_numpy(float), pd.DatetimeIndex(own.ds), code) for key, own in groups]


def _series(name: object, values: np.ndarray, times: pd.DatetimeIndex, code: str) -> Series:
    return Series(str(name), times, values[:, None], ("y",), Frequency.parse(STEPS[code][0]), "time")


def windows(name: str, panel: list[Series], part: str) -> tuple[int, list[int]]:
    """Horizon, and how many rows each window's history leaves out at the end."""
    dataset, code, term = name.split("/")
    horizon = 13 if dataset == "m4_weekly" else STEPS[code][2] * TIMES[term]
    shortest, left_out = min(map(len, panel)), list[int]()
    for _ in ("test", "development")[: 1 + (part == "development")]:
        after = left_out[0] if left_out else 0
        n = 1 if dataset.startswith("m4") else min(max(math.ceil(0.1 * (shortest - after) / horizon), 1), 20)
        left_out = [after + horizon * k for k in range(n, 0, -1)]
    return horizon, left_out


def seasonal_naive(history: np.ndarray, season: int, horizon: int) -> np.ndarray:
    """Quantiles at LEVELS [h q] of a normal distribution, whose variance grows by that of the residuals each season."""
    step = np.arange(horizon)
    change = history[season:] - history[:-season]
    size = np.sqrt(np.mean(change**2)) * np.sqrt(step // season + 1)
    z = np.array([NormalDist().inv_cdf(p) for p in LEVELS])
    return history[len(history) - season + step % season][:, None] + size[:, None] * z


def network(model: ZeroModel, panel: list[Series], horizon: int) -> np.ndarray:
    """Quantiles at LEVELS of each series [n h q]."""
    found = model.forecast(horizon, levels=[20, 40, 60, 80, 95], panel=panel)
    bands = {p: found.bands[band] for p, band in BANDS.items()}
    quantiles = np.stack([bands.get(p, found.mean) for p in LEVELS], axis=-1)
    return np.where(np.isnan(quantiles), found.mean[:, :, None], quantiles)  # a constant has no intervals


def metrics(quantiles: np.ndarray, actual: np.ndarray, unit: np.ndarray) -> dict[str, float]:
    """The benchmark's errors of forecasts [n h q]; `unit` is the mean change over a season [n]."""
    middle = quantiles[:, :, LEVELS.index(0.5)]
    error, size = np.abs(middle - actual), np.abs(actual)
    low, high = quantiles[:, :, 0], quantiles[:, :, -1]
    outside = np.maximum(low - actual, 0) + np.maximum(actual - high, 0)
    off = actual[:, :, None] - quantiles[:, :, 1:-1]
    pinball = np.maximum(np.array(DECILES) * off, (np.array(DECILES) - 1) * off)
    squares = float(np.mean(error**2))
    with np.errstate(divide="ignore", invalid="ignore"):
        percent, symmetric = error / size, 2 * error / (size + np.abs(middle))
    return {
        "MSE[mean]": squares,
        "MSE[0.5]": squares,
        "MAE[0.5]": float(error.mean()),
        "MASE[0.5]": float(np.mean(error / unit[:, None])),
        "MAPE[0.5]": float(percent[size > 0].mean()),
        "sMAPE[0.5]": float(np.nanmean(symmetric)),
        "MSIS": float(np.mean((high - low + 2 / 0.05 * outside) / unit[:, None])),
        "RMSE[mean]": math.sqrt(squares),
        "NRMSE[mean]": math.sqrt(squares) / float(size.mean()),
        "ND[0.5]": float(error.sum() / size.sum()),
        "mean_weighted_sum_quantile_loss": float(np.mean(2 * pinball.sum((0, 1)) / size.sum())),
    }


def score(name: str, panel: list[Series], part: str) -> dict[str, dict[str, float]]:
    """Errors of the network and of the seasonal naive forecast."""
    horizon, left_out = windows(name, panel, part)
    season = STEPS[name.split("/")[1]][1]
    model = ZeroModel([series.part(slice(-left_out[0])) for series in panel], ["y"])
    own, naive, actual, unit = list[np.ndarray](), list[np.ndarray](), list[np.ndarray](), list[float]()
    for end in left_out:
        past = [series.part(slice(len(series) - end)) for series in panel]
        own.append(network(model, past, horizon))
        for series, before in zip(panel, past, strict=True):
            history = before.values[:, 0]
            naive.append(seasonal_naive(history, season, horizon))
            actual.append(series.values[len(history) : len(history) + horizon, 0])
            unit.append(float(np.mean(np.abs(history[season:] - history[:-season]))))
    both = {"network": np.concatenate(own), "seasonal_naive": np.stack(naive)}
    return {method: metrics(each, np.stack(actual), np.array(unit)) for method, each in both.items()}


def main() -> None:
    """Print a table for each part and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("INFORMER_DATA_DIR", "data")))
    parser.add_argument("--weights", type=Path, help="folder of pretrain.py; default: those in the package")
    parser.add_argument("--parts", nargs="+", choices=["development", "test"], default=["development", "test"])
    parser.add_argument("--output", type=Path, default=Path("runs/gift_eval"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    member = pretrained("auto")  # the one of each ZeroModel
    if options.weights:
        network = load(options.weights)[0].eval().to(member.device)
        member.network, member.version = network, str(options.weights)
    options.output.mkdir(parents=True, exist_ok=True)
    every = list(panels(options.data))
    for part in options.parts:
        rows, relative = list[dict[str, object]](), dict[str, tuple[float, float]]()
        for name, panel in every:
            found = score(name, panel, part)
            keys = "MASE[0.5]", "mean_weighted_sum_quantile_loss"
            naive = [found["seasonal_naive"][key] for key in keys]
            if part == "test" and not np.allclose(naive, PUBLISHED[name], rtol=5e-4):
                raise SystemExit(f"{name}: the seasonal naive has {naive}, published are {PUBLISHED[name]}")
            own = found["network"]
            relative[name] = own[keys[0]] / naive[0], own[keys[1]] / naive[1]
            about = ("Energy", 7) if name.startswith("ett1") else ("Econ/Fin", 1)
            named = {f"eval_metrics/{key}": value for key, value in own.items()}
            rows.append(
                {"dataset": name, "model": member.version, **named, "domain": about[0], "num_variates": about[1]}
            )
        pd.DataFrame(rows).to_csv(options.output / f"{part}_results.csv", index=False)
        table = pd.DataFrame.from_dict(relative, orient="index", columns=["MASE", "WQL"])
        table.loc["geometric mean"] = np.exp(np.log(table).mean())
        print(f"{part}: {member.version}, relative to the seasonal naive\n{table.round(3).to_string()}\n", flush=True)


if __name__ == "__main__":
    main()
