"""`python killed_runs.py SEED N_KILLS`: runs killed at random moments and resumed, in the present folder.

Makes `whole`, a run that is never stopped, and `killed-0`, `killed-1`, ..., each killed five times or more at a random
moment and then resumed to its end; N_KILLS kills in all. A moment is a call of one of the functions that a run consists
of, before it or after it; in a forked child the one that the seed chose becomes a SIGKILL. Prints one line a kill.
"""

import gc
import io
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from entry_points import SMALL
from matplotlib.figure import Figure
from rich.console import Console

from informer.base import files
from informer.config.hydra_compose import composed
from informer.training import curves, loop, optim, sinks, state
from informer.training import folder as run_folder
from informer.training import run as training_run

TRACKERS = "trainer.tracker=[tensorboard,csv]"
RUN = [
    "dataset=sample", *SMALL, TRACKERS, "trainer.max_epochs=3", "trainer.batch_size=48", "optim.ema=0.9",
    "trainer.save_every_minutes=1e-9",
]  # fmt: skip
MOMENTS: list[tuple[Any, str]] = [
    (loop, "train_step"),
    (loop, "gradient_norm"),  # in the middle of a step
    (optim.GuardedAdam, "step"),
    (loop, "model_output"),
    (state.State, "validated"),
    (sinks.EventFile, "log"),
    (sinks.EventFile, "flush"),
    (files, "_write_through"),
    (os, "replace"),
    (files, "_sync_folder"),
    (run_folder.RunFolder, "begin"),
    (training_run, "score"),
    (training_run, "conclude"),
]


class Moments:
    """Counts the moments of a run, and ends the process at the fatal one (0: at none)."""

    def __init__(self) -> None:
        self.fatal = self.count = 0
        for owner, name in MOMENTS:
            self._watch(owner, name)

    def _watch(self, owner: Any, name: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)

        def watched(*arguments: Any, **settings: Any) -> Any:
            self._pass(f"before {name}")
            result = function(*arguments, **settings)
            self._pass(f"after {name}")
            return result

        setattr(owner, name, watched)

    def _pass(self, moment: str) -> None:
        self.count += 1
        if self.count == self.fatal:
            os.write(1, f"killed {moment}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)


def go_on(folder: Path) -> None:
    """Begin the run, or resume it."""
    console = Console(file=io.StringIO())
    if (folder / "config.yaml").exists():
        training_run.resume(run_folder.RunFolder.of(folder), console)
    else:
        training_run.train(composed(RUN), run_folder.RunFolder(folder), console)


def is_killed(folder: Path, moments: Moments, fatal: int) -> bool:
    """Continue the run in a forked process; False if it came to its end."""
    child = os.fork()
    if child:
        status = os.waitpid(child, 0)[1]
        assert status == 0 or os.WIFSIGNALED(status), f"{folder}: it failed"
        return status != 0
    moments.count, moments.fatal = 0, fatal
    try:
        go_on(folder)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main(seed: int, n_kills: int) -> None:
    """All the runs."""
    torch.set_num_threads(1)
    gc.set_threshold(100_000, 20, 20)  # as in conftest.py
    draws = random.Random(seed)  # its own: a run sets the seed of the module's
    moments = Moments()
    curves.forecast_figure = lambda model, data: Figure(figsize=(0.1, 0.1))  # a second each otherwise
    go_on(Path("whole"))
    n_moments, kills, run = moments.count, 0, 0
    while kills < n_kills:
        in_a_row = 0
        while is_killed(
            Path(f"killed-{run}"), moments, draws.randint(1, n_moments) if kills < n_kills and in_a_row < 5 else 0
        ):
            kills, in_a_row = kills + 1, in_a_row + 1
        run += 1


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
