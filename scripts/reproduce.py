"""Run the cells of published tables; scripts/reproduce_table.py writes the table of finished runs.

    python scripts/reproduce.py table=M --models informer_ridge --seeds 0 1 2
    python scripts/reproduce.py table=M device=cuda --models informer informer2020 --datasets ETTh1 --horizons 24 48
    python scripts/reproduce_table.py table=M

table=M forecasts all columns, table=S only the target; their cells, settings and the paper's numbers are in
conf/experiment/paper_tables.csv. table=long has the horizons 96 to 720 on which later models are compared, and the
numbers of PatchTST and DUET (conf/experiment/long_horizons.csv); the paper has no settings for them. Models:
informer2020 (the paper's settings, as in the authors' code), informer_full (the same with full attention, the paper's
"Informer†"), informer (the same sizes, our defaults), informer_ridge (a small one on the residuals of ridge, one
configuration per dataset for all horizons), linear (one configuration for all; in closed form, so seeds do not
matter: --seeds 0). Ridge
and the seasonal naive are scored within every run. Other key=value are passed to informer.train.

Before a cell starts here, the time of its training is reported, from a few timed steps of its network. Every cell and
seed is a separate process under OUTPUT/TABLE; finished ones are not run again, stopped ones continue.
rows.csv has a row per finished run. Datasets without a file are reported and skipped.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock

import torch
from reproduce_cells import ANY_HORIZON, MODELS, PLUS, Cell, cells, split_settings
from result_files import write_rows
from rich.console import Console

from informer import checkpoint
from informer.base.errors import InputError
from informer.base.files import write_atomic
from informer.base.runtime import pick_device, seed_everything
from informer.base.start import StopRequest
from informer.checkpoint.network import resolve_decoder
from informer.config.hydra_compose import composed, train_words
from informer.data.dataset import build_data
from informer.training.curves import Tracker
from informer.training.loop import Session, train_step, window_order
from informer.training.start import new_network
from informer.training.state import State

ROWS = "rows.csv"
WARM_UP, TIMED = 1, 3
"""Steps before the clock starts, and steps that are timed."""


@dataclass(kw_only=True, frozen=True, slots=True)
class Row:
    """One finished run; errors are those of the test part in scaled units."""

    model: str
    dataset: str
    features: str
    pred_len: int
    seed: int
    seq_len: int
    mse: float
    mae: float
    ridge_mse: float
    ridge_mae: float
    naive_mse: float
    naive_mae: float
    val_loss: float
    best_epoch: int
    seconds: float
    """Wall time; of its last part where it was stopped and went on."""
    device: str
    commit: str
    command: str


@dataclass(kw_only=True, frozen=True, slots=True)
class Job:
    """One cell, one model, one seed."""

    cell: Cell
    model: str
    seed: int
    extra: tuple[str, ...]
    folder: Path

    @property
    def run_dir(self) -> Path:
        """Its run directory."""
        return self.folder / f"{self.cell.dataset}_{self.cell.pred_len}_{self.model}_{self.seed}"

    @property
    def row_file(self) -> Path:
        """Path of its row, written when it is finished."""
        return self.run_dir.with_suffix(".json")

    @property
    def keys(self) -> list[str]:
        """Keys of informer.train, except the run directory."""
        return [*self.cell.overrides(self.model), *self.extra, f"seed={self.seed}"]

    @property
    def command(self) -> str:
        """The command that runs it."""
        return training_command(self.keys)

    def check(self) -> None:
        """Check that it was not run, or started, with other settings.

        Raises:
            InputError: there is such a run.
        """
        command = self.command
        if self.row_file.exists():
            command = json.loads(self.row_file.read_text())["command"]
        elif (self.run_dir / "run.json").exists():
            began = json.loads((self.run_dir / "run.json").read_text())["command"][1:]
            command = training_command([key for key in began if not key.startswith("run_dir=")])
        if command != self.command:
            raise InputError(
                f"{self.run_dir}: expected a run of `{self.command}`, found `{command}`; take another --output"
            )

    def run(self) -> str:
        """Train or continue it; returns an empty string, or the reason of a failure."""
        command = [sys.executable, "-m", "informer.train"]
        goes_on = (self.run_dir / "config.yaml").exists()
        started = time.perf_counter()
        with self.run_dir.with_suffix(".log").open("a") as log:
            settings = [f"resume={self.run_dir}"] if goes_on else [*self.keys, f"run_dir={self.run_dir}"]
            result = subprocess.run([*command, *settings], stdout=log, stderr=subprocess.STDOUT)
        if result.returncode != 0:
            lines = self.run_dir.with_suffix(".log").read_text().strip().splitlines()
            return lines[-1] if lines else f"ended with status {result.returncode}"
        row = self._measured(time.perf_counter() - started)
        write_atomic(self.row_file, json.dumps(asdict(row)) + "\n")
        for name in (checkpoint.BEST, checkpoint.LAST):  # they would take gigabytes for a whole table
            (self.run_dir / name).unlink()
        return ""

    def _measured(self, seconds: float) -> Row:
        report = json.loads((self.run_dir / "metrics.json").read_text())
        scores = {name: score["scaled"]["overall"] for name, score in report["scores"].items()}
        model_scores, ridge = scores[report["model"]], scores["ridge"]
        naive = next(score for name, score in scores.items() if name.endswith("naive"))
        facts = json.loads((self.run_dir / "run.json").read_text())
        best = checkpoint.load(self.run_dir)
        return Row(
            model=self.model, dataset=self.cell.dataset, features=self.cell.features, pred_len=self.cell.pred_len,
            seed=self.seed, seq_len=best.config["seq_len"], mse=model_scores["mse"], mae=model_scores["mae"],
            ridge_mse=ridge["mse"], ridge_mae=ridge["mae"], naive_mse=naive["mse"], naive_mae=naive["mae"],
            val_loss=best.progress.best_loss, best_epoch=best.progress.epoch, seconds=seconds,
            device=device_name(best.config["device"]), commit=str(facts["commit"]), command=self.command,
        )  # fmt: skip


def training_command(keys: list[str]) -> str:
    """The command of a run with these keys, as text."""
    return shlex.join(["python", "-m", "informer.train", *keys])


def expected(keys: Sequence[str]) -> str:
    """The training time of a run with these keys of informer.train if it is not stopped early, in words.

    Raises:
        InputError: as in training.
    """
    settings = composed(train_words(keys))
    decoder_attn, _ = resolve_decoder(settings.attn, settings.decoder_attn)
    scaler = replace(settings.scaler, transform="none")  # whose choice does not change the time of a step
    settings, device = replace(settings, decoder_attn=decoder_attn, scaler=scaler), pick_device(settings.device)
    data = build_data(settings, device)
    n_windows, trainer = len(data.train), settings.trainer
    if not (n_steps := trainer.n_steps(n_windows)):
        return "fitted in closed form, without steps"
    seed_everything(settings.seed)
    model = new_network(settings, data).to(device).train()
    with Tracker([], n_steps=n_steps, console=Console(quiet=True)) as tracker:
        session = Session(settings, State(settings, model), data, tracker=tracker, stop=StopRequest())
        for step, indices in enumerate(window_order(data.train, seed=0, epoch=0).split(trainer.batch_size)):
            if step == WARM_UP:
                began = time.perf_counter()
            if step == WARM_UP + TIMED:
                break
            float(train_step(session, indices)[0])  # waits for a GPU
        seconds = (time.perf_counter() - began) / TIMED
    epochs = -(-n_steps // trainer.epoch_steps(n_windows))
    return (
        f"at most {seconds * n_steps / 60:.1f} minutes of training: {n_steps:,} steps of {seconds:.2g} s in "
        f"{epochs} epochs, fewer if validation stops it"
    )


def device_name(configured: str) -> str:
    """The device of a run; for a GPU its name."""
    device = pick_device(configured)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def finished_rows(folder: Path) -> list[Row]:
    """Rows of all finished runs."""
    return [Row(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]


def run_all(jobs: list[Job], n_parallel: int, console: Console) -> int:
    """Run the unfinished jobs, `n_parallel` processes at a time; returns the number of failures.

    Raises:
        InputError: there is a run with other settings.
    """
    for job in jobs:
        job.check()
    n_failed, one_at_a_time = 0, Lock()

    def run(job: Job) -> str:
        try:
            with one_at_a_time:
                report(f"{job.run_dir.name}: {expected(job.keys)}")
        except InputError as error:
            return str(error)
        return job.run()

    report = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    unfinished = [job for job in jobs if not job.row_file.exists()]
    console.print(f"{len(jobs)} runs, {len(jobs) - len(unfinished)} of them finished before")
    with ThreadPoolExecutor(n_parallel) as pool:
        running = {pool.submit(run, job): job for job in unfinished}
        for number, future in enumerate(as_completed(running), start=1):
            job = running[future]
            failure = future.result()
            n_failed += bool(failure)
            write_rows(Row, finished_rows(job.folder), job.folder / ROWS)
            errors = "" if failure else "MSE {mse:.4f}, MAE {mae:.4f}".format_map(json.loads(job.row_file.read_text()))
            report(f"{number}/{len(unfinished)} {job.run_dir.name}: {errors or f'failed: {failure}'}")
    return n_failed


def has_data(dataset: str) -> bool:
    """Whether the file of a dataset exists."""
    return (Path(os.environ.get("INFORMER_DATA_DIR", "data")) / f"{dataset}.csv").exists()


def main() -> None:
    """Run the requested cells that are not finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="key=value", help="table=M|S|long; keys of informer.train")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--datasets", nargs="+", choices=list(PLUS), default=list(PLUS))
    parser.add_argument("--horizons", nargs="+", type=int, help="default: all of the table")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--output", type=Path, default=Path("runs/reproduce"))
    options, console = parser.parse_intermixed_args(), Console()
    try:
        table, extra = split_settings(options.settings)
    except InputError as error:
        sys.exit(f"error: {error}")
    folder = options.output / table
    folder.mkdir(parents=True, exist_ok=True)
    datasets = [name for name in options.datasets if has_data(name)]
    for name in sorted(set(options.datasets) - set(datasets)):
        console.print(f"{name}: no file in INFORMER_DATA_DIR; left out (scripts/download_data.py)")
    if table == "long" and not set(options.models) & set(ANY_HORIZON):
        names = " or ".join(ANY_HORIZON)
        sys.exit(f"error: table=long: expected --models {names}, the paper has no settings for these horizons")
    jobs = [
        Job(cell=cell, model=model, seed=seed, extra=extra, folder=folder)
        for seed in options.seeds
        for cell in cells(table)
        if cell.dataset in datasets and (options.horizons is None or cell.pred_len in options.horizons)
        for model in options.models
        if model in ANY_HORIZON or cell.sizes is not None
    ]
    try:
        sys.exit(1 if run_all(jobs, options.jobs, console) else 0)
    except InputError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
