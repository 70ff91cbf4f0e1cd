"""Time for reading, writing and managing many small files, compared with pandas for reading and writing only.

    OMP_NUM_THREADS=1 python scripts/benchmark_predict.py --checkpoint runs/latest --files 10000

Writes the files to a temporary folder, then alternates between pandas and the job of `informer.predict` over slices of
them, so that both have the same conditions. Seconds are CPU time, with the network separately; memory is the peak of
the process at the middle and at the end of the files.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import torch
from result_files import resident
from torch import nn

from informer import checkpoint
from informer.config.commands import PredictConfig
from informer.inference.job import InputFile, Job, chunks, forecast_files, name_sources
from informer.inference.journal import Journal
from informer.inference.model import TrainedModel
from informer.inference.writing import Writer


class Stopwatch:
    """CPU seconds spent in a network."""

    def __init__(self, model: nn.Module) -> None:
        self.seconds = 0.0
        self._started = 0.0
        model.register_forward_pre_hook(lambda *_: self._start())
        model.register_forward_hook(lambda *_: self._stop())

    def _start(self) -> None:
        self._started = time.process_time()

    def _stop(self) -> None:
        self.seconds += time.process_time() - self._started


def write_inputs(folder: Path, columns: list[str], step: str, n_files: int, n_rows: int) -> list[InputFile]:
    """Write small files with the model's columns."""
    stamps = pd.date_range("2020-01-01", periods=n_rows, freq=step)
    values = torch.randn(n_rows, len(columns), generator=torch.Generator().manual_seed(0)).numpy().round(3)
    text = pd.DataFrame(values, stamps, columns).rename_axis("date").to_csv()
    paths = [folder / f"s{i:06d}.csv" for i in range(n_files)]
    for path in paths:
        path.write_text(text)
    return name_sources(paths)


def pandas_alone(sources: list[InputFile], folder: Path, horizon: int) -> float:
    """Seconds for reading each file with its dates, and writing as many rows as a forecast has."""
    started = time.process_time()
    for source in sources:
        frame = pd.read_csv(source.path, parse_dates=["date"])
        frame.iloc[:horizon].to_csv(folder / f"{source.name}.csv", index=False)
    return time.process_time() - started


def job_alone(sources: list[InputFile], model: TrainedModel, job: Job, journal: Journal) -> float:
    """Seconds of the job over the same files."""
    started = time.process_time()
    for rows, _ in (forecast_files(model, job, chunk) for chunk in chunks(sources, job, journal)):
        journal.add(rows)
    return time.process_time() - started


def main() -> None:
    """Print seconds and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, default=Path("runs/latest"))
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--slice", type=int, default=256, help="files between two turns")
    options = parser.parse_args()
    model = TrainedModel.load(options.checkpoint)
    watch = Stopwatch(model.model)
    with TemporaryDirectory() as scratch:
        inputs, plain, out = (Path(scratch) / name for name in ("in", "pandas", "out"))
        for folder in (inputs, plain, out):
            folder.mkdir()
        names = list(model.columns.inputs)
        sources = write_inputs(inputs, names, model.checkpoint.frequency, options.files, options.rows)
        job = Job(
            checkpoint=checkpoint.locate(options.checkpoint), settings=PredictConfig(batch_size=64),
            writer=Writer(folder=out, format="csv", plots=False), has_many_inputs=True,
        )  # fmt: skip
        journal = Journal(out, job.digest(sources), [], resume=False)
        pandas_seconds = job_seconds = 0.0
        half = 0
        for first in range(0, len(sources), options.slice):
            turn = sources[first : first + options.slice]
            pandas_seconds += pandas_alone(turn, plain, model.sizes.pred_len)
            job_seconds += job_alone(turn, model, job, journal)
            half = resident("VmHWM") if first < len(sources) // 2 else half
        started = time.process_time()
        failed = [row for row in journal.finish(source.path for source in sources) if row.status != "ok"]
        job_seconds += time.process_time() - started
    around = job_seconds - watch.seconds
    print(f"{options.files} files of {options.rows} rows, {len(failed)} failed")
    print(f"pandas {pandas_seconds:.1f} s; job {job_seconds:.1f} s, of which network {watch.seconds:.1f} s")
    print(f"all else {around:.1f} s, {around / pandas_seconds:.2f} times pandas")
    print(f"memory: {half >> 20} MiB by the middle of the files, {resident('VmHWM') >> 20} MiB by their end")


if __name__ == "__main__":
    main()
