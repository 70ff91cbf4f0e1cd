"""Write the table of finished runs of scripts/reproduce.py, with published numbers.

    python scripts/reproduce_table.py table=M [--output runs/reproduce]

Reads OUTPUT/TABLE/rows.csv and writes table.md to the same folder. Ridge and
seasonal naive are from the runs of informer_ridge, which reads the same history at all horizons. Lines and columns
without a run are left out. Runs of informer_ridge whose best epoch is 0 are marked: they forecast as ridge does.
"""

import argparse
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path

from reproduce import ROWS, Row
from reproduce_cells import ANY_HORIZON, MODELS, Cell, cells, split_settings
from result_files import markdown_table, read_rows
from rich.console import Console

from informer.base.errors import InputError
from informer.base.files import write_atomic

PAPER, PAPER_FULL, PATCHTST, DUET = "paper", "paper, full attention", "PatchTST", "DUET"
RIDGE, NAIVE = "ridge", "seasonal naive"
ZHOU = ((PAPER, PAPER_FULL), "paper: Zhou et al. 2021, tables 1 and 2, Informer and Informer†")
PUBLISHED = {
    "M": ZHOU,
    "S": ZHOU,
    "long": ((PATCHTST, DUET), "PatchTST: the better of the two in Nie et al. 2023, MSE; DUET: Qiu et al. 2024, MSE"),
}
"""The first columns of each table, and where their numbers are from."""
NOT_RUN = "–"
Pair = tuple[float, float | None]


def columns(table: str) -> tuple[str, ...]:
    """Columns of a table."""
    models = [model for model in MODELS if model in ANY_HORIZON or all(cell.sizes for cell in cells(table))]
    return (*PUBLISHED[table][0], *models, RIDGE, NAIVE)


def scores_of(rows: Iterable[Row], cell: Cell, column: str) -> list[Pair]:
    """MSE and MAE of a column of the table in this cell, one per seed."""
    if column in (PAPER, PATCHTST):
        return [(cell.mse, cell.mae)]
    if column == DUET:
        return [(cell.duet, None)] if cell.duet is not None else []
    if column == PAPER_FULL:
        return [cell.full] if cell.full is not None else []
    cell_rows = [row for row in rows if (row.dataset, row.pred_len) == (cell.dataset, cell.pred_len)]
    plus = [row for row in cell_rows if row.model == "informer_ridge"][:1]
    if column == RIDGE:
        return [(row.ridge_mse, row.ridge_mae) for row in plus]
    if column == NAIVE:
        return [(row.naive_mse, row.naive_mae) for row in plus]
    return [(row.mse, row.mae) for row in cell_rows if row.model == column]


def as_text(pairs: list[Pair]) -> str:
    """Mean MSE with its standard deviation over seeds, and mean MAE."""
    if not pairs:
        return NOT_RUN
    mse, mae = [pair[0] for pair in pairs], [pair[1] for pair in pairs if pair[1] is not None]
    spread = f" ± {statistics.stdev(mse):.3f}" if len(mse) > 1 else ""
    return f"{statistics.mean(mse):.3f}{spread}" + (f" / {statistics.mean(mae):.3f}" if mae else "")


def stayed_ridge(rows: Iterable[Row], cell: Cell) -> str:
    """How many runs of informer_ridge in this cell had no epoch better than the ridge regression they start from."""
    key = ("informer_ridge", cell.dataset, cell.pred_len)
    epochs = [row.best_epoch for row in rows if (row.model, row.dataset, row.pred_len) == key]
    count = epochs.count(0)
    return "" if not count else " = ridge" if count == len(epochs) else f", {count} of {len(epochs)} = ridge"


def as_markdown(table: str, rows: list[Row]) -> str:
    """One line per cell with a run; the lowest mean MSE in bold."""
    run = [
        cell
        for cell in cells(table)
        if any((row.dataset, row.pred_len) == (cell.dataset, cell.pred_len) for row in rows)
    ]
    names = [name for name in columns(table) if any(scores_of(rows, cell, name) for cell in run)]
    lines = []
    for cell in run:
        pairs = [scores_of(rows, cell, column) for column in names]
        means = [f"{statistics.mean(mse for mse, _ in scores):.3f}" if scores else "" for scores in pairs]
        texts = [as_text(scores) for scores in pairs]
        best = min(filter(None, means), key=float)
        texts = [f"**{text}**" if mean == best else text for text, mean in zip(texts, means, strict=True)]
        if "informer_ridge" in names:
            texts[names.index("informer_ridge")] += stayed_ridge(rows, cell)
        lines.append([cell.dataset, str(cell.pred_len), *texts])
    seeds = sorted({row.seed for row in rows})
    note = f"MSE ± standard deviation over seeds {seeds} / MAE, test part, scaled units; {PUBLISHED[table][1]}.\n"
    note += "Without ±: one seed; linear is in closed form: every seed gives the same. = ridge: no epoch was "
    note += "better on validation than the ridge regression that informer_ridge starts from, which is its forecast.\n"
    done = {cell.dataset for cell in run}
    whole = [name for name in dict.fromkeys(cell.dataset for cell in cells(table)) if name not in done]
    marked = [f"cells with {NOT_RUN}"] if any(NOT_RUN in line for line in lines) else []
    if left_out := [*whole, *(name for name in columns(table) if name not in names), *marked]:
        note += f"Not run: {', '.join(left_out)}.\n"
    return markdown_table(["dataset", "horizon", *names], lines) + "\n" + note


def main() -> None:
    """Read the rows, write and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="table=M|S|long")
    parser.add_argument("--output", type=Path, default=Path("runs/reproduce"))
    options = parser.parse_intermixed_args()
    try:
        table, _ = split_settings(options.settings)
    except InputError as error:
        sys.exit(f"error: {error}")
    folder = options.output / table
    text = as_markdown(table, read_rows(Row, folder / ROWS))
    write_atomic(folder / "table.md", text)
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
