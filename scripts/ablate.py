"""Change one component of an Informer at a time: test error, time per step and peak memory of each change.

    python scripts/ablate.py [key=value ...] [--steps 120] [--seeds 0 1 2] [--axes attention stacks] [--output DIR]

The base is a small Informer on ETTh1 (`BASE`); `AXES` lists the changes. Other key=value of informer.train change the
base. Every network is trained for the same number of steps with a cosine schedule, and its last weights are scored on
the test part: enough to compare changes, not for good scores. Each configuration runs in a separate process, which
trains all seeds one after another. Finished seeds are not trained again: the same command continues where it stopped.

Time is CPU time, which does not depend on other users of the machine. Memory is the peak of the process during
training, above what it held before (libraries, data, network).

Under --output: CONFIGURATION_SEED.json (one row each), and for all of them ablations.csv and ablations.md.
"""

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from result_files import markdown_table, open_folder, resident, write_rows
from rich.console import Console

from informer.base.errors import InputError, counted, one_of
from informer.base.files import write_atomic
from informer.base.runtime import seed_everything
from informer.base.start import StopRequest
from informer.checkpoint.network import resolve_decoder
from informer.config.hydra_compose import compose
from informer.config.training import TrainConfig
from informer.data.dataset import Data, build_data
from informer.members.network import ForecastModel
from informer.scoring.backtest import Member
from informer.scoring.evaluate import evaluate
from informer.training.curves import Tracker
from informer.training.loop import Session, train_epoch
from informer.training.start import new_network
from informer.training.state import State

CPU = torch.device("cpu")

Change = dict[str, Any]
"""Keys of informer.train and their values."""

BASE: Change = {
    "dataset": "ETTh1", "model": "small", "attn": "prob", "seq_len": 96, "label_len": 48, "pred_len": 24,
    "optim.lr": 1e-3, "optim.schedule": "cosine", "trainer.calibration": 0,
}  # fmt: skip
LONG: Change = {"seq_len": 336}
BIGBIRD: Change = {"attn": "bigbird"}
AXES: dict[str, dict[str, Change]] = {
    "attention": {"prob": {}, "full": {"attn": "full"}},
    "distilling": {"conv": {}, "none": {"model.distil": "none"}},
    "stacks": {
        "[1]": {"model.encoder_stacks": [1]},
        "[2]": {},
        "[3, 1] of 1, 1/4": {"model.encoder_stacks": [3, 1], "model.stack_fractions": [1, 0.25]},
        "[3, 2, 1]": {"model.encoder_stacks": [3, 2, 1]},
    },
    "decoder layers": {"1": {}, "2": {"model.decoder_layers": 2}},
    "decoding": {"one_pass": {}, "step": {"model.decoding": "step"}},
    "label_len": {"24": {"label_len": 24}, "48": {}, "96": {"label_len": 96}},
    "factor": {str(c): {"attn.factor": c} if c != 5 else {} for c in (1, 5, 10)},
    "seq_len": {"48": {"seq_len": 48}, "96": {}, "192": {"seq_len": 192}, "336": LONG},
    "Big Bird": {
        "window, global, random": BIGBIRD,
        "window": BIGBIRD | {"attn.n_global": 0, "attn.n_random": 0},
        "global": BIGBIRD | {"attn.window": 0, "attn.n_random": 0},
        "random": BIGBIRD | {"attn.window": 0, "attn.n_global": 0},
        "window, global": BIGBIRD | {"attn.n_random": 0},
        "window, random": BIGBIRD | {"attn.n_global": 0},
    },
    "Longformer, window": {
        "16": {"attn": "longformer", "attn.window": 16},
        "16, 32": {"attn": "longformer", "attn.window": [16, 32]},
        "32": {"attn": "longformer"},
    },
    "attention, 336 rows": {"prob": LONG, "full": LONG | {"attn": "full"}},
    "distilling, 336 rows": {"conv": LONG, "none": LONG | {"model.distil": "none"}},
}
"""What is compared; no change: the base."""


@dataclass(kw_only=True, frozen=True, slots=True)
class Row:
    """One configuration and seed; errors are those of the test part in scaled units."""

    configuration: str
    seed: int
    mse: float
    mae: float
    ms_a_step: float
    """Milliseconds of the processor."""
    peak_mib: float


@dataclass(kw_only=True, frozen=True, slots=True)
class Job:
    """One configuration and its seeds."""

    base: Change
    change: Change
    seeds: list[int]
    steps: int
    folder: Path

    @property
    def name(self) -> str:
        """Name of its rows."""
        return name_of(self.change)

    def row_file(self, seed: int) -> Path:
        """Path of the row of a seed, written when it is finished."""
        return self.folder / f"{self.name}_{seed}.json"

    @property
    def left(self) -> list[int]:
        """Seeds that are not finished."""
        return [seed for seed in self.seeds if not self.row_file(seed).exists()]

    def settings(self) -> TrainConfig:
        """The configuration.

        Raises:
            InputError: an unknown key, or a value out of range.
        """
        trainer = {"trainer.max_steps": self.steps, "trainer.max_epochs": self.steps}
        settings = compose(self.base | self.change | trainer)
        decoder_attn, reason = resolve_decoder(settings.attn, settings.decoder_attn)
        return replace(settings, decoder_attn=decoder_attn, decoder_attn_reason=reason)


def name_of(change: Mapping[str, Any]) -> str:
    """Name of a configuration, for files and rows: what it changes."""
    assignments = (f"{key.rpartition('.')[2]}={value}" for key, value in change.items())
    return re.sub(r"[^\w.=-]+", "-", "_".join(assignments)).strip("-") or "base"


def run_job(job: Job) -> None:
    """Train every seed that is not finished, in a new process."""
    settings = job.settings()
    data = build_data(settings, CPU)
    # warms up libraries, with a temporary network on two windows
    two = replace(settings, trainer=replace(settings.trainer, batch_size=2))
    train_steps(two, new_network(settings, data), data, 1)
    before = resident("VmHWM")
    for seed in job.left:
        write_atomic(job.row_file(seed), json.dumps(asdict(measured(job, seed, data, before))) + "\n")


def measured(job: Job, seed: int, data: Data, before: int) -> Row:
    """The row of one seed; `before`: peak memory of the process until now."""
    settings = replace(job.settings(), seed=seed)
    seed_everything(seed)
    model = new_network(settings, data)
    seconds = train_steps(settings, model, data, job.steps)
    peak, batch_size = resident("VmHWM") - before, settings.trainer.eval_batch_size
    model.eval()
    scores = evaluate(Member.of_model(model), data.test, data, batch_size=batch_size).overall(model.family)
    return Row(
        configuration=job.name, seed=seed, mse=scores["mse"], mae=scores["mae"],
        ms_a_step=1000 * seconds / job.steps, peak_mib=peak / 2**20,
    )  # fmt: skip


def train_steps(settings: TrainConfig, model: ForecastModel, data: Data, steps: int) -> float:
    """Train on the CPU for exactly this many steps; returns the CPU seconds.

    Raises:
        InputError: the loss or a gradient is no longer finite.
        Interrupted: by Ctrl-C or SIGTERM.
    """
    settings = replace(settings, trainer=replace(settings.trainer, max_epochs=steps + 1, max_steps=steps))
    with Tracker([], n_steps=0, console=Console(quiet=True)) as tracker, StopRequest() as stop:
        session = Session(settings, State(settings, model), data, tracker=tracker, stop=stop)
        done, started = session.state.progress, time.process_time()
        while done.step < steps:
            train_epoch(session)
            if done.step < steps:  # the epoch is over, and another begins
                done.epoch, done.n_seen = done.epoch + 1, 0
        return time.process_time() - started


def run_all(jobs: Sequence[Job], console: Console) -> int:
    """Run what is not finished, one process after another; returns the number of failures."""
    n_failed = 0
    for place, job in enumerate(jobs, start=1):
        if job.left:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                failure = pool.submit(run_job, job).exception()
            n_failed += failure is not None
            outcome = "done" if failure is None else f"failed: {failure}"
            console.print(f"{place}/{len(jobs)} {job.name}: {outcome}", markup=False, highlight=False, soft_wrap=True)
        write_report(job.folder)
    return n_failed


def as_markdown(rows: Sequence[Row]) -> str:
    """A line per value of each axis that has been run: means over seeds, MSE with its deviation; the base in bold."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.configuration, []).append(row)
    texts, shown = [], ""
    for axis, values in AXES.items():
        for value, change in values.items():
            if not (seeds := groups.get(name_of(change), [])):
                continue
            mse = [row.mse for row in seeds]
            spread = f" ± {statistics.stdev(mse):.3f}" if len(mse) > 1 else ""
            mae, ms = (statistics.mean(getattr(row, key) for row in seeds) for key in ("mae", "ms_a_step"))
            bold = value if change else f"**{value}**"
            costs = [f"{mae:.3f}", f"{ms:.0f}", f"{seeds[0].peak_mib:.0f}"]
            name = "" if axis == shown else axis
            texts.append([name, bold, str(len(mse)), f"{statistics.mean(mse):.3f}{spread}", *costs])
            shown = axis
    return markdown_table(["", "value", "seeds", "test MSE", "MAE", "ms a step", "peak MiB"], texts)


def write_report(folder: Path) -> None:
    """Write ablations.csv and ablations.md from all rows."""
    rows = [Row(**json.loads(path.read_text())) for path in sorted(folder.glob("*_*.json"))]
    if rows:
        write_rows(Row, rows, folder / "ablations.csv")
        write_atomic(folder / "ablations.md", as_markdown(rows))


def jobs_of(axes: Sequence[str], base: Change, seeds: list[int], steps: int, folder: Path) -> list[Job]:
    """The configurations of these axes, each once.

    Raises:
        InputError: an unknown axis.
    """
    for axis in axes:
        if axis not in AXES:
            raise one_of("axis", axis, list(AXES))
    changes = {name_of(change): change for axis in axes for change in AXES[axis].values()}
    return [Job(base=base, change=change, seeds=seeds, steps=steps, folder=folder) for change in changes.values()]


def main() -> None:
    """Run the requested configurations that are not finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="key=value", help="of informer.train, for the base")
    parser.add_argument("--axes", nargs="+", default=list(AXES), help=", ".join(AXES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--output", type=Path, default=Path("runs/ablate"))
    options, console = parser.parse_intermixed_args(), Console()
    base = BASE | dict(setting.partition("=")[::2] for setting in options.settings)
    try:
        open_folder(options.output, {"base": base, "steps": options.steps})
        jobs = jobs_of(options.axes, base, options.seeds, options.steps, options.output)
        for job in jobs:
            job.settings()
        console.print(f"{counted(len(jobs), 'configuration')}, {sum(len(job.left) for job in jobs)} runs left")
        sys.exit(1 if run_all(jobs, console) else 0)
    except InputError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped; the same command continues with what is missing")


if __name__ == "__main__":
    main()
