"""`python killed_runs.py SEED N_KILLS`: runs killed at random moments and resumed, in the present folder.

Makes `whole`, a run that is never stopped, and `killed-0`, `killed-1`, ..., each killed five times or more at a random
moment and then resumed to its end; N_KILLS kills in all. A moment is the begin or the end of a function of training or
of writing files, or of a call of the system by them; in a forked child the one that the seed chose becomes a SIGKILL.
Prints one line a kill.
"""

import gc
import os
import random
import signal
import sys
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from entry_points import ROOT, SMALL, done

RUN = [
    "dataset=sample", *SMALL, "trainer.tracker=[tensorboard,csv]", "trainer.max_epochs=2", "trainer.batch_size=48",
    "optim.ema=0.9", "trainer.save_every_minutes=1e-9",
]  # fmt: skip
PLACES = str(ROOT / "informer" / "training"), str(ROOT / "informer" / "base" / "files.py")
SYSTEM = {"fsync", "replace", "flush", "write"}
"""Calls of the system; other functions that are not Python's are no moments."""

Moment = tuple[str, str]
"""Before or after, and the name of a function."""


class Moments:
    """Counts the moments of a run, and ends the process at the fatal one: a moment and how often it was before."""

    def __init__(self, fatal: tuple[Moment, int] | None = None) -> None:
        self.counts, self.fatal = Counter[Moment](), fatal

    def passed(self, frame: FrameType, event: str, called: Any) -> None:
        """What the interpreter calls at the begin and the end of every function."""
        code = frame.f_code
        name = called.__name__ if event.startswith("c_") else code.co_qualname
        if not code.co_filename.startswith(PLACES) or (event.startswith("c_") and name not in SYSTEM):
            return
        moment = "before" if event.endswith("call") else "after", name
        self.counts[moment] += 1
        if self.fatal == (moment, self.counts[moment]):
            os.write(1, f"killed {' '.join(moment)}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    def run(self, folder: Path) -> None:
        """Begin the run, or resume it."""
        begins = [*RUN, f"run_dir={folder}"]
        sys.setprofile(self.passed)
        try:
            done("train", *([f"resume={folder}"] if (folder / "config.yaml").exists() else begins))
        finally:
            sys.setprofile(None)


def is_killed(folder: Path, fatal: tuple[Moment, int] | None) -> bool:
    """Continue the run in a forked process; False if it came to its end."""
    child = os.fork()
    if child:
        status = os.waitpid(child, 0)[1]
        assert status == 0 or os.WIFSIGNALED(status), f"{folder}: it failed"
        return status != 0
    try:
        Moments(fatal).run(folder)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main(seed: int, n_kills: int) -> None:
    """All the runs."""
    torch.set_num_threads(1)
    gc.set_threshold(100_000, 20, 20)  # as in conftest.py
    sys.modules["matplotlib"] = None  # type: ignore[assignment]  # as if it were not installed: pictures take seconds
    draws = random.Random(seed)  # its own: a run sets the seed of the module's
    whole = Moments()
    whole.run(Path("whole"))
    moments, kills, run = sorted(whole.counts), 0, 0
    while kills < n_kills:
        in_a_row = 0
        while True:
            moment = draws.choice(moments)
            fatal = moment, draws.randint(1, whole.counts[moment])
            if not is_killed(Path(f"killed-{run}"), fatal if kills < n_kills and in_a_row < 5 else None):
                break
            kills, in_a_row = kills + 1, in_a_row + 1
        run += 1


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
