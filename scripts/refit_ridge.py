"""Score ridge regression fitted on the training and validation rows, as a further column of table=long.

    python scripts/refit_ridge.py [--output runs/reproduce]
    python scripts/reproduce_table.py table=long

Everything else is as in the column `ridge`: one map for all columns, 504 rows of history of ETTh1 and 672 of ETTm1, the
penalty with the lowest error on validation, of maps fitted on the training rows alone. Published results are of models
that read training rows only. Writes OUTPUT/long/refitted.csv.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
from omegaconf import OmegaConf
from reproduce_cells import cells
from result_files import write_rows

from informer.build import build_data
from informer.config.hydra_compose import compose
from informer.scoring.baselines import fit_ridge
from informer.scoring.scores import evaluate, training_scale

ROWS = "refitted.csv"


@dataclass(kw_only=True, frozen=True, slots=True)
class Refitted:
    """MSE and MAE of the test part in scaled units."""

    dataset: str
    pred_len: int
    mse: float
    mae: float


def main() -> None:
    """Fit and score every cell of the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("runs/reproduce"))
    options = parser.parse_args()
    rows = []
    for cell in cells("long"):
        settings = {str(key): value for key, value in OmegaConf.from_dotlist(cell.overrides("informer_plus")).items()}
        data = build_data(compose(settings), torch.device("cpu"))
        positions = data.columns.positions(data.targets)
        penalty = fit_ridge(data.train, data.val, positions).penalty
        first, last = int(data.train.starts[0]), int(data.val.starts[-1])
        both = data.train.at(torch.arange(first, last + 1))
        ridge = fit_ridge(both, data.val, positions, penalties=[penalty])
        errors = evaluate(ridge, data.test, mase_scale=training_scale(data)).scaled.overall()
        rows.append(Refitted(dataset=cell.dataset, pred_len=cell.pred_len, mse=errors["mse"], mae=errors["mae"]))
        print(rows[-1], flush=True)
        write_rows(Refitted, rows, options.output / "long" / ROWS)


if __name__ == "__main__":
    main()
