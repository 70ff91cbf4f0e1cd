"""M4 Hourly for scripts/reproduce.py table=m4: train on the competition's train file, score on its test file.

The horizon is the 48 rows after the end of each of the 414 series. model=linear_plus with 168 rows of history: the
shortest series do not have 720 and a horizon; 168 were chosen over 208 on validation.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from result_files import markdown_table, read_rows, write_rows
from rich.console import Console

from informer.base.errors import InputError

TRAIN, TEST = "m4_hourly_train.csv.gz", "m4_hourly_test.csv.gz"
KEYS = (
    "dataset=csv", f"dataset.path={TRAIN}", "dataset.series_col=unique_id", "model=linear_plus", "pred_len=48",
    "seq_len=168", "scaler.per_series=true", "model.floor=true", "trainer.refit=true", "trainer.calibration=0",
)  # fmt: skip
NAMES = {"forecast": "linear_plus", "ridge": "ridge", "seasonal naive": "seasonal naive", "naive2": "Naive2"}
"""Forecasters of informer score, and what the table calls them."""


@dataclass(kw_only=True, frozen=True, slots=True)
class M4Row:
    """Scores of one forecaster, averaged over the series."""

    model: str
    mase: float
    smape: float
    owa: float
    seconds: float = 0.0
    """Wall time of training, prediction and scores; 0 of baselines and published figures."""
    commit: str = ""
    command: str = ""


WINNER = M4Row(model="M4 winner", mase=0.893, smape=9.328, owa=0.440)
"""Smyl's hybrid: S. Makridakis, E. Spiliotis, V. Assimakopoulos, "The M4 Competition: 100,000 time series and 61
forecasting methods", 2020; Hourly."""


def run(folder: Path, extra: tuple[str, ...], console: Console) -> None:
    """Train, forecast and score, unless rows.csv exists.

    Raises:
        InputError: a file is missing, a step failed, or rows.csv is of other settings.
    """
    rows, command = folder / "rows.csv", shlex.join(["python", "-m", "informer.train", *KEYS, *extra])
    if finished := [row for row in read_rows(M4Row, rows) if row.command]:
        if finished[0].command != command:
            raise InputError(f"{rows}: expected `{command}`, found `{finished[0].command}`; take another --output")
        console.print("1 run, finished before")
        return
    data, folder = Path(os.environ.get("INFORMER_DATA_DIR", "data")).absolute(), folder.absolute()
    if missing := [name for name in (TRAIN, TEST) if not (data / name).exists()]:
        raise InputError(f"{data / missing[0]} does not exist; see data/README.md")
    began, log = time.perf_counter(), folder / "m4.log"
    forecasts = folder / "forecasts" / TRAIN.replace(".csv.gz", ".forecast.csv")
    for module, keys in (
        ("train", [*KEYS, *extra, f"run_dir={folder / 'run'}"]),
        ("predict", [f"checkpoint={folder / 'run'}", f"input={TRAIN}", f"output={forecasts.parent}", "plots=false"]),
        ("score", [f"forecasts={forecasts}", f"actuals={TEST}", f"history={TRAIN}", f"output={folder / 'scores'}"]),
    ):
        with log.open("a") as file:
            result = subprocess.run(
                [sys.executable, "-m", "informer", module, *keys], cwd=data, stdout=file, stderr=subprocess.STDOUT
            )
        if result.returncode != 0:
            raise InputError(f"informer.{module} failed, see {log}")
    commit = str(json.loads((folder / "run" / "run.json").read_text())["commit"])
    scores = json.loads((folder / "scores" / "scores.json").read_text())["overall"]
    write_rows(M4Row, rows_of(scores, time.perf_counter() - began, commit, command), rows)


def rows_of(scores: dict[str, dict[str, float]], seconds: float, commit: str, command: str) -> list[M4Row]:
    """Rows from the scores of informer score, the model first."""
    rows = [
        M4Row(model=called, mase=scores[name]["mase"], smape=scores[name]["smape"], owa=scores[name]["owa"])
        for name, called in NAMES.items()
        if name in scores
    ]
    return [replace(rows[0], seconds=seconds, commit=commit, command=command), *rows[1:]]


def as_markdown(rows: list[M4Row]) -> str:
    """One line per forecaster; the lowest value of each metric in bold."""
    every = [WINNER, *rows]
    lines = [[row.model, *(_text(every, row, name) for name in ("mase", "smape", "owa"))] for row in every]
    note = "Means over the 414 series of M4 Hourly, 48 steps, the competition's test file; winner: Makridakis et al.\n"
    return markdown_table(["", "MASE", "sMAPE %", "OWA"], lines) + "\n" + note


def _text(every: list[M4Row], row: M4Row, name: str) -> str:
    value, digits = getattr(row, name), 2 if name == "smape" else 3
    text = f"{value:.{digits}f}"
    return f"**{text}**" if value == min(getattr(other, name) for other in every) else text
