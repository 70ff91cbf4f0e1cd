"""Run the cells of the paper's tables; scripts/reproduce_table.py draws the table of what has been run.

    python scripts/reproduce.py table=M --models informer_plus --seeds 0 1 2
    python scripts/reproduce.py table=M --models informer informer2020 --datasets ETTh1 --horizons 24 48 device=cuda
    python scripts/reproduce_table.py table=M

table=M forecasts all columns, table=S the target alone. Cells, settings and the paper's numbers stand in
conf/experiment/paper_tables.csv. Models: informer2020 (the paper's settings, what the authors' code computes), informer
(the same sizes with this project's defaults), informer_plus (one configuration a dataset, the same at all horizons).
Ridge and the seasonal naive are scored within every run. Other key=value go to informer.train.

Every cell and seed is a process of its own under OUTPUT/TABLE; one that is finished is not run again, one that was
stopped goes on. rows.csv has a row a finished run. Datasets without a file are told and left out.
"""

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from rich.console import Console

from informer import checkpoint
from informer.errors import InputError
from informer.files import write_atomic
from informer.runtime import pick_device, resource

MODELS = ("informer2020", "informer", "informer_plus")
PLUS_TRAINING = ["optim.lr=5e-4", "optim.schedule=cosine", "trainer.max_epochs=3", "label_len=48"]
PLUS = {
    "ETTh1": ["seq_len=336", "model.patch_len=8", "model.channel_independent=true", "model.d_model=32"],
    "ETTh2": ["seq_len=336", "model.patch_len=8", "model.channel_independent=true", "model.d_model=32"],
    "ETTm1": ["seq_len=384", "model.patch_len=8", "model.channel_independent=true", "model.d_model=32"],
    "WTH": ["seq_len=336"],
}
"""One configuration of informer_plus for each dataset, the same at all horizons."""


@dataclass(kw_only=True, frozen=True, slots=True)
class Cell:
    """One horizon of one dataset in the paper."""

    dataset: str
    features: str
    pred_len: int
    seq_len: int
    label_len: int
    encoder_layers: int
    decoder_layers: int
    factor: int
    mse: float
    mae: float

    def overrides(self, model: str) -> list[str]:
        """Keys of informer.train for this cell."""
        shared = [f"dataset={self.dataset}", f"features={self.features}", f"pred_len={self.pred_len}"]
        shared.append("trainer.calibration=0")  # no intervals are asked for: all of validation chooses the epoch
        if model == "informer_plus":
            return [*shared, "model=informer_plus", *PLUS_TRAINING, *PLUS[self.dataset]]
        sizes = [
            f"seq_len={self.seq_len}",
            f"label_len={self.label_len}",
            f"model.encoder_stacks=[{self.encoder_layers}]",
            f"model.decoder_layers={self.decoder_layers}",
            f"attn.factor={self.factor}",
        ]
        return [*shared, *sizes, *(["experiment=informer2020"] if model == "informer2020" else [])]


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
        """Where it is kept."""
        return self.folder / f"{self.cell.dataset}_{self.cell.pred_len}_{self.model}_{self.seed}"

    @property
    def row_file(self) -> Path:
        """Its row, there once it is finished."""
        return self.run_dir.with_suffix(".json")

    def run(self) -> str:
        """Train it, or go on with it; an empty text, or why it failed."""
        command = [sys.executable, "-m", "informer.train"]
        keys = [*self.cell.overrides(self.model), *self.extra, f"seed={self.seed}", f"run_dir={self.run_dir}"]
        goes_on = (self.run_dir / "config.yaml").exists()
        started = time.perf_counter()
        with self.run_dir.with_suffix(".log").open("a") as log:
            given = [f"resume={self.run_dir}"] if goes_on else keys
            done = subprocess.run([*command, *given], stdout=log, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            lines = self.run_dir.with_suffix(".log").read_text().strip().splitlines()
            return lines[-1] if lines else f"ended with status {done.returncode}"
        row = self._measured(time.perf_counter() - started, shlex.join(["python", *command[1:], *keys]))
        write_atomic(self.row_file, json.dumps(asdict(row)) + "\n")
        for name in (checkpoint.BEST, checkpoint.LAST):  # gigabytes over a table
            (self.run_dir / name).unlink()
        return ""

    def _measured(self, seconds: float, command: str) -> Row:
        report = json.loads((self.run_dir / "metrics.json").read_text())
        scores = {name: score["scaled"]["overall"] for name, score in report["scores"].items()}
        own, ridge = scores[report["model"]], scores["ridge"]
        naive = next(score for name, score in scores.items() if name.endswith("naive"))
        facts = json.loads((self.run_dir / "run.json").read_text())
        best = checkpoint.load(self.run_dir)
        return Row(
            model=self.model, dataset=self.cell.dataset, features=self.cell.features, pred_len=self.cell.pred_len,
            seed=self.seed, seq_len=best.config["seq_len"], mse=own["mse"], mae=own["mae"], ridge_mse=ridge["mse"],
            ridge_mae=ridge["mae"], naive_mse=naive["mse"], naive_mae=naive["mae"], val_loss=best.val_loss,
            best_epoch=best.epoch, seconds=seconds, device=device_name(best.config["device"]),
            commit=str(facts["commit"]), command=command,
        )  # fmt: skip


def device_name(configured: str) -> str:
    """What the run ran on, by its own name where it is a GPU."""
    import torch

    device = pick_device(configured)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def cells(features: str) -> list[Cell]:
    """The cells of one table, as the paper orders them."""
    lines = [line for line in resource("conf/experiment/paper_tables.csv").read_text().splitlines() if line[:1] != "#"]
    kinds = {field.name: field.type for field in fields(Cell)}
    every = [Cell(**{name: kinds[name](value) for name, value in row.items()}) for row in csv.DictReader(lines)]  # type: ignore[operator]
    return [cell for cell in every if cell.features == features]


def read_row(path: Path) -> Row:
    """The row of a finished run."""
    return Row(**json.loads(path.read_text()))


def kept(folder: Path) -> list[Row]:
    """The rows of all finished runs."""
    return [read_row(path) for path in sorted(folder.glob("*.json"))]


def write_rows(folder: Path) -> None:
    """rows.csv, from the rows of all finished runs."""
    names = [field.name for field in fields(Row)]
    lines = [names, *([str(getattr(row, name)) for name in names] for row in kept(folder))]
    with (folder / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)


def run_all(jobs: list[Job], at_once: int, console: Console) -> None:
    """Run what is not finished, `at_once` processes at a time."""
    left = [job for job in jobs if not job.row_file.exists()]
    console.print(f"{len(jobs)} runs, {len(jobs) - len(left)} of them finished before")
    with ThreadPoolExecutor(at_once) as pool:
        running = {pool.submit(job.run): job for job in left}
        for place, done in enumerate(as_completed(running), start=1):
            job = running[done]
            failure = done.result()
            write_rows(job.folder)
            outcome = (
                f"failed: {failure}"
                if failure
                else "MSE {mse:.4f}, MAE {mae:.4f}".format_map(json.loads(job.row_file.read_text()))
            )
            console.print(
                f"{place}/{len(left)} {job.run_dir.name}: {outcome}", markup=False, highlight=False, soft_wrap=True
            )


def has_data(dataset: str) -> bool:
    """Its file is where informer.train would look."""
    return (Path(os.environ.get("INFORMER_DATA_DIR", "data")) / f"{dataset}.csv").exists()


def given_table(settings: list[str]) -> tuple[str, tuple[str, ...]]:
    """M or S, and the keys that go to informer.train.

    Raises:
        InputError: no table, or another.
    """
    tables = [setting.partition("=")[2] for setting in settings if setting.startswith("table=")]
    if len(tables) != 1 or tables[0] not in ("M", "S"):
        raise InputError(
            f"table: expected table=M (all columns) or table=S (the target alone), found {tables or 'none'}"
        )
    return tables[0], tuple(setting for setting in settings if not setting.startswith("table="))


def main() -> None:
    """Run what is asked for and not finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="key=value", help="table=M or S; keys of informer.train")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--datasets", nargs="+", choices=list(PLUS), default=list(PLUS))
    parser.add_argument("--horizons", nargs="+", type=int, help="all of the table where left out")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--output", type=Path, default=Path("runs/reproduce"))
    given, console = parser.parse_intermixed_args(), Console()
    try:
        table, extra = given_table(given.settings)
    except InputError as error:
        sys.exit(f"error: {error}")
    folder = given.output / table
    folder.mkdir(parents=True, exist_ok=True)
    datasets = [name for name in given.datasets if has_data(name)]
    for name in sorted(set(given.datasets) - set(datasets)):
        console.print(f"{name}: no file in INFORMER_DATA_DIR; left out (scripts/download_data.py)")
    jobs = [
        Job(cell=cell, model=model, seed=seed, extra=extra, folder=folder)
        for seed in given.seeds
        for cell in cells(table)
        if cell.dataset in datasets and (given.horizons is None or cell.pred_len in given.horizons)
        for model in given.models
    ]
    run_all(jobs, given.jobs, console)


if __name__ == "__main__":
    main()
