"""Test errors of closed-form linear forecasts, one change at a time.

    python scripts/linear_table.py ETTh1:96,192,336,720 WTH:24,48 [--seq-len 672] [--data-dir data] [--both]

Strengths and lookback are chosen on blocks of training and validation for every row of the table; all windows of the
test part are scored, in scaled units. With --both, maps are fitted on training and validation rows
instead of training rows.
"""

import argparse
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from omegaconf import OmegaConf

from informer.config.dataset import DatasetConfig, ScalerConfig
from informer.config.lengths import WindowSizes
from informer.config.model import CalendarEmbed
from informer.data.columns import Roles
from informer.data.pipeline import Data, load_data
from informer.data.windows import Batch
from informer.inference.baselines import fit_ridge
from informer.inference.evaluate import ForecastFunction, evaluate, training_scale
from informer.linear.fold import fit_linear
from informer.linear.offered import FitOn, LinearConfig

CONF = Path(__file__).parents[1] / "conf" / "dataset"
ROWS: dict[str, dict[str, Any]] = {
    "shared map": {"own_maps": False, "other_columns": False, "calendar": False, "level": False, "average": 1},
    "+ own maps": {"other_columns": False, "calendar": False, "level": False, "average": 1},
    "+ calendar, level": {"other_columns": False, "average": 1},
    "+ other columns": {"average": 1},
    "+ three lookbacks": {},
}


def load(name: str, *, seq_len: int, pred_len: int, folder: Path) -> Data:
    """A dataset with the split of its configuration."""
    config = OmegaConf.merge(OmegaConf.structured(DatasetConfig), OmegaConf.load(CONF / f"{name}.yaml"))
    return load_data(
        cast(DatasetConfig, OmegaConf.to_object(config)),
        sizes=WindowSizes(seq_len=seq_len, label_len=0, pred_len=pred_len),
        roles=Roles(),
        scaler=ScalerConfig(),
        calendar=CalendarEmbed.timeF,
        data_dir=folder,
        device="cpu",
    )


def forecasts(data: Data, fit_on: FitOn, only_last: bool) -> dict[str, Callable[[], ForecastFunction]]:
    """The rows of the table; each is fitted when called."""
    positions = data.columns.positions(data.targets)

    def linear(changes: dict[str, Any]) -> ForecastFunction:
        config = LinearConfig(fit_on=fit_on, **changes)
        calendar, frequency = data.calendar, data.frequency
        fitted = fit_linear(data.train, data.val, positions, frequency=frequency, calendar=calendar, config=config)
        print(f"  {fitted.note}", flush=True)

        def forecast(batch: Batch) -> torch.Tensor:
            return fitted(batch.enc_x, batch.enc_mark[:, -1])

        return forecast

    rows = list(ROWS.items())[-1:] if only_last else ROWS.items()
    linear_rows: dict[str, Callable[[], ForecastFunction]] = {name: partial(linear, changes) for name, changes in rows}
    return linear_rows if only_last else {"ridge": partial(fit_ridge, data.train, data.val, positions)} | linear_rows


def main() -> None:
    """Print a line for each dataset, horizon and change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+", help="DATASET:HORIZON,HORIZON,...")
    parser.add_argument("--seq-len", type=int, default=672, help="longest lookback")
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--both", action="store_true", help="fit on training and validation rows")
    parser.add_argument("--last", action="store_true", help="the last row of the table only")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    for task in options.tasks:
        name, _, horizons = task.partition(":")
        for pred_len in map(int, horizons.split(",")):
            data = load(name, seq_len=options.seq_len, pred_len=pred_len, folder=options.data_dir)
            scale = training_scale(data)
            for row, make in forecasts(data, FitOn.both if options.both else FitOn.train, options.last).items():
                begin = time.process_time()
                errors = evaluate(make(), data.test, mase_scale=scale)
                seconds = time.process_time() - begin
                scores = errors.scaled.overall()
                print(
                    f"{name} {pred_len:4d} {row:20s} {scores['mse']:.4f} {scores['mae']:.4f} {seconds:6.1f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
