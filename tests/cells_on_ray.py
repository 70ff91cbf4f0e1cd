"""`python cells_on_ray.py FOLDER...`: a short cell of reproduce.py in each folder, on a Ray cluster of this machine.

A program of its own, because Ray ends the process that connects to it when its own processes die. The worker of a
folder named "dying" kills itself. Prints the number of failures last.
"""

import os
import signal
import sys
from pathlib import Path

from entry_points import SMALL, script
from rich.console import Console

reproduce = script("reproduce")


def short_job(folder: Path):
    """The same two steps of training for every folder."""
    sizes = tuple(key for key in SMALL if not key.startswith(("pred_len", "model=")))
    cell = script("reproduce_cells").Cell(
        dataset="sample", features="M", pred_len=6, mse=1.0, sizes=("model=tiny", *sizes)
    )
    return reproduce.Job(cell=cell, model="informer", seed=3, extra=("trainer.max_steps=2",), folder=folder)


def _run(job) -> str:
    if job.folder.name == "dying":
        os.kill(os.getpid(), signal.SIGKILL)
    return job.run()


if __name__ == "__main__":
    jobs = [short_job(Path(folder)) for folder in sys.argv[1:]]
    with script("on_ray").on_ray(_run, 2) as called:
        print(reproduce.run_all(jobs, 2, Console(stderr=True), called))
