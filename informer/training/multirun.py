"""Jobs of a `--multirun`: their differing settings, and a table of their scores at the end.

A launcher may run jobs in other processes, so each job writes its row to a file in a folder of the first process.
"""

import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from informer.base.console import main_console, say
from informer.base.errors import printable
from informer.config.hydra_compose import job_number, job_overrides
from informer.config.overrides import unquoted

if TYPE_CHECKING:
    from informer.scoring.scores import Evaluation

ROWS = "INFORMER_MULTIRUN_ROWS"
"""Environment variable with the folder of the rows; jobs on machines without this folder write none."""


@contextmanager
def closing_table() -> Iterator[None]:
    """Print a table of the finished jobs at the end of a `--multirun`, also if a job fails."""
    if not any(re.fullmatch(r"-m|--multirun", word) for word in sys.argv[1:]):
        yield
        return
    with TemporaryDirectory() as folder:
        os.environ[ROWS] = folder
        try:
            yield
        finally:
            del os.environ[ROWS]
            _print([json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).glob("*.json"))])


def announce() -> None:
    """Print the number and the swept settings of the job that starts; nothing outside of a `--multirun`."""
    if (number := job_number()) is not None:
        common = {unquoted(word) for word in sys.argv}
        overrides = [word for word in job_overrides() if word not in common]
        say(main_console(), f"job {number}: {' '.join(overrides)}")


def leave_row(run_dir: Path, evaluation: "Evaluation") -> None:
    """Write the scores of a finished job for the final table."""
    number, folder = job_number(), os.environ.get(ROWS)
    if number is None or folder is None or not Path(folder).is_dir():
        return
    from informer import checkpoint  # imports torch

    scores = evaluation.errors[evaluation.model].scaled.overall()
    row = {
        "overrides": job_overrides(),
        "val_loss": checkpoint.load(run_dir).val_loss,
        "mse": scores["mse"],
        "mae": scores["mae"],
        "skill": evaluation.skill,
        "run": str(run_dir),
    }
    (Path(folder) / f"{number:06d}.json").write_text(json.dumps(row), encoding="utf-8")


def _print(rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    common = set.intersection(*(set(row["overrides"]) for row in rows))
    table = Table(box=SIMPLE_HEAD, padding=0)
    table.add_column("what differs", overflow="fold")
    for name in ("val loss", "test MSE", "test MAE", "skill"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("run folder", overflow="fold")
    for row in sorted(rows, key=lambda row: (math.isnan(row["skill"]), -row["skill"])):
        numbers = [f"{row[name]:.4g}" for name in ("val_loss", "mse", "mae")]
        differs = " ".join(word for word in row["overrides"] if word not in common)
        first, last = Text(printable(differs)), Text(printable(row["run"]))
        table.add_row(first, *numbers, f"{100 * row['skill']:+.1f} %", last)
    main_console().print(table)
