"""Draw generated series: `python -m pretraining.pictures [FOLDER]` writes a PNG of each family, runs/pictures first.

Each has twelve series with the lengths of the two seasons that a forecaster is given; what is ahead is red.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from pretraining.families import FAMILIES
from pretraining.generate import generate

HISTORY, HORIZON, EACH = 1024, 192, 12


def main() -> None:
    """Write the pictures."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/pictures")
    folder.mkdir(parents=True, exist_ok=True)
    made = generate(EACH * len(FAMILIES), HISTORY, HORIZON, np.random.default_rng(0))
    for index, name in enumerate(FAMILIES):
        figure = Figure(figsize=(16, 9), layout="constrained")
        for axes, i in zip(figure.subplots(4, 3).flat, np.flatnonzero(made.family == index), strict=True):
            values = np.where(made.observed[i], made.values[i], np.nan)
            first = max(int(made.observed[i].argmax()), HISTORY - 6 * max(int(made.season[i]), 60))
            axes.plot(range(first - HISTORY, 0), values[first:HISTORY], color="black", linewidth=0.7)
            axes.plot(range(HORIZON), values[HISTORY:], color="red", linewidth=0.7)
            axes.set_title(f"{made.season[i]}, {made.second[i]}", fontsize=8)
            axes.tick_params(labelsize=6)
        figure.savefig(folder / f"{name}.png", dpi=70)


if __name__ == "__main__":
    matplotlib.use("agg")
    main()
