"""Train every attention mechanism with the same budget and compare the results.

    python scripts/compare_attention.py dataset=ETTh1 model=small optim.lr=1e-3
    python scripts/compare_attention.py dataset=sample model=tiny attn=[full,prob] --output runs/compare_two

Takes the keys of informer.train; `attn=[a,b]` chooses mechanisms, without it all are trained, one after another, each
in its own process. A failure is reported, and the others continue. Finished runs are not repeated: the same command
continues where it stopped.

Under --output: NAME/ (the run), NAME.log (its output), NAME.json (its row), and the table of all rows, table.csv and
table.md. MSE and MAE are those of the test part in scaled units. Seconds are the median time of a training epoch
without validation; CPU seconds are those of the whole run, which do not depend on other users of the machine. Memory
is the maximum resident size of the process, libraries included.
"""

import argparse
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from result_files import markdown_table, open_folder, write_rows
from rich.console import Console
from rich.table import Table
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from informer import checkpoint
from informer.build import attention_names
from informer.checkpoint.restore import restore_model
from informer.errors import InputError, one_of
from informer.files import write_atomic

KIB = 1 if sys.platform == "darwin" else 1024
"""Bytes in the unit of ru_maxrss."""


@dataclass(kw_only=True, slots=True)
class Row:
    """Results of one mechanism; NaN if it failed."""

    attn: str
    mse: float = math.nan
    mae: float = math.nan
    epochs: int = 0
    seconds_an_epoch: float = math.nan
    cpu_seconds: float = math.nan
    peak_bytes: float = math.nan
    parameters: int = 0
    remark: str = ""
    """Why it failed, or what serves in its place in the decoder."""


@dataclass(kw_only=True, frozen=True, slots=True)
class Comparison:
    """Settings shared by all runs.

    Args:
        overrides: keys of informer.train, without attn and run_dir.
        folder: folder of the runs and rows.
    """

    overrides: list[str]
    folder: Path

    def kept(self, name: str) -> Row | None:
        """The row of a finished mechanism; None for others."""
        path = self._row_file(name)
        return Row(**json.loads(path.read_text())) if path.exists() else None

    def train(self, name: str) -> Row:
        """Train a mechanism, and save its row unless it fails."""
        run_dir = self.folder / name
        shutil.rmtree(run_dir, ignore_errors=True)  # of a comparison that was stopped
        status, usage = self._run(name, run_dir)
        if status != 0:
            return Row(attn=name, remark=_last_line(self.folder / f"{name}.log") or f"ended with status {status}")
        row = _measured(name, run_dir, usage)
        write_atomic(self._row_file(name), json.dumps(asdict(row)) + "\n")
        return row

    def _row_file(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _run(self, name: str, run_dir: Path) -> tuple[int, resource.struct_rusage]:
        """Run a process; returns its exit status and resource usage."""
        command = [sys.executable, "-m", "informer.train", *self.overrides, f"attn={name}", f"run_dir={run_dir}"]
        with (self.folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)  # as wait, with the usage of this child only
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode == 130:
            raise KeyboardInterrupt
        return process.returncode, usage


def _last_line(path: Path) -> str:
    return next((line.strip() for line in reversed(path.read_text().splitlines()) if line.strip()), "")


def _measured(name: str, run_dir: Path, usage: resource.struct_rusage) -> Row:
    report = json.loads((run_dir / "metrics.json").read_text())
    scores = report["scores"][report["model"]]["scaled"]["overall"]
    events = EventAccumulator(str(run_dir)).Reload()
    rates = [event.value for event in events.Scalars("train/samples_per_second")]
    windows = json.loads((run_dir / "run.json").read_text())["data"]["windows"]["train"]
    best = checkpoint.load(run_dir)
    return Row(
        attn=name,
        mse=scores["mse"],
        mae=scores["mae"],
        epochs=len(rates),
        seconds_an_epoch=windows / statistics.median(rates),
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_bytes=KIB * usage.ru_maxrss,
        parameters=sum(parameter.numel() for parameter in restore_model(best).parameters()),
        remark="decoder: full" if best.config["decoder_attn_reason"] else "",
    )


def best_baseline(folder: Path, rows: list[Row]) -> str:
    """One line on the baseline of all runs."""
    finished = next((row.attn for row in rows if not math.isnan(row.mse)), None)
    if finished is None:
        return "no run has finished"
    report = json.loads((folder / finished / "metrics.json").read_text())
    scores = report["scores"][report["best_baseline"]]["scaled"]["overall"]
    return f"{report['best_baseline']}, the better baseline: MSE {scores['mse']:.4f}, MAE {scores['mae']:.4f}"


HEADINGS = ("attn", "MSE", "MAE", "epochs", "s/epoch", "CPU s", "peak MiB", "parameters", "remark")


def cells(row: Row) -> tuple[str, ...]:
    """Cells of a row as text, in the order of HEADINGS."""
    if math.isnan(row.mse):
        return (row.attn, *("-" for _ in HEADINGS[2:]), f"failed: {row.remark}")
    scores = (f"{row.mse:.4f}", f"{row.mae:.4f}", str(row.epochs))
    costs = (f"{row.seconds_an_epoch:.2f}", f"{row.cpu_seconds:.0f}", f"{row.peak_bytes / 2**20:.0f}")
    return (row.attn, *scores, *costs, f"{row.parameters:,}", row.remark)


def as_table(rows: list[Row], title: str) -> Table:
    """The table for the console."""
    table = Table(title=title, title_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in ("attn", "remark") else "right", no_wrap=True)
    for row in rows:
        table.add_row(*cells(row))
    return table


def selected(overrides: list[str]) -> tuple[list[str], list[str]]:
    """Mechanisms to train, and the overrides without `attn=`.

    Raises:
        InputError: an unknown mechanism, or a key that this script sets.
    """
    names, other_overrides = attention_names(), []
    for override in overrides:
        key, _, value = override.partition("=")
        if key == "run_dir":
            raise InputError("run_dir: every mechanism has its own here; use --output")
        if key == "attn":
            names = [name.strip() for name in value.strip("[]").split(",")]
        else:
            other_overrides.append(override)
    for name in names:
        if name not in attention_names():
            raise one_of("attention", name, attention_names())
    return names, other_overrides


def compare(comparison: Comparison, names: list[str], console: Console) -> list[Row]:
    """Train the mechanisms that are not finished; the tables are written after each."""
    rows = {name: row for name in attention_names() if (row := comparison.kept(name))}
    for place, name in enumerate(names, start=1):
        rows[name] = rows.get(name) or comparison.train(name)
        line = f"{place}/{len(names)} {'  '.join(cells(rows[name]))}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
        ranked = sorted(rows.values(), key=lambda row: (math.isnan(row.mse), row.mse))
        write_rows(Row, ranked, comparison.folder / "table.csv")
        baseline = best_baseline(comparison.folder, ranked)
        write_atomic(
            comparison.folder / "table.md", f"{markdown_table(HEADINGS, list(map(cells, ranked)))}\n{baseline}\n"
        )
    return ranked


def main() -> None:
    """Train, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="keys of informer.train; attn=[a,b]")
    parser.add_argument("--output", type=Path, default=Path("runs/compare_attention"), help="folder to write")
    options, console = parser.parse_intermixed_args(), Console()
    try:
        names, overrides = selected(options.overrides)
        open_folder(options.output, {"overrides": overrides})
        rows = compare(Comparison(overrides=overrides, folder=options.output), names, console)
    except InputError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped; the same command continues with what is missing")
    console.print(as_table(rows, " ".join(overrides)))
    console.print(f"{best_baseline(options.output, rows)}; written to {options.output}", highlight=False)


if __name__ == "__main__":
    main()
