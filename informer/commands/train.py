"""`python -m informer.train dataset=ETTh1 attn=prob`: fit a model, score it once on the test part, save everything.

The run directory contains config.yaml (resolved), run.json (command, versions, commit, seed, data checksum), train.log,
TensorBoard's event file, best.pt and last.pt, and the test report metrics.json and metrics.csv. `resume=` continues
a stopped run as if it had never stopped, and with trainer.max_epochs or trainer.max_steps also a finished one. Under
torchrun --max-restarts a run in `run_dir` continues from its last save.
"""

import re
import sys
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from informer.base import start
from informer.base.console import main_console, refuse
from informer.base.errors import InputError
from informer.checkpoint.paths import locate
from informer.config.compose import choice, job_number, overridden_keys, run_command, split_positional
from informer.config.data import OWN_PLACES, is_address
from informer.config.training import TrainConfig
from informer.read.files import SUFFIXES, check_dataset, without_signature
from informer.training.folder import LENGTH, RunFolder
from informer.training.multirun import announce, closing_table, leave_row

MOVABLE = ("device", "data_dir", *(f"dataset.{name}" for name in OWN_PLACES), "init_from")
"""Keys that may be set with `resume`, along with `LENGTH`; all others come from the run."""


def main() -> None:
    """The command `informer train`."""
    sys.argv[1:] = _with_path(sys.argv[1:])
    with closing_table():
        run_command("train", _act)


def _act(settings: TrainConfig) -> None:
    settings = replace(settings, dataset=without_signature(settings.dataset))
    _check_paths(settings)
    from informer.base.start import Interrupted
    from informer.search.stage import resume, train  # imports torch; wrong paths are refused earlier
    from informer.training.processes import is_elastic

    console = main_console()
    announce()
    try:
        named = settings.run_dir
        if settings.resume is None and named is not None and is_elastic() and RunFolder(Path(named)).contains_run:
            resume(RunFolder.of(Path(named)), console)
        elif settings.resume is None:
            place = (
                RunFolder.new(Path("runs") / _name(settings)) if named is None else nullcontext(RunFolder(Path(named)))
            )
            with place as folder:
                evaluation = train(settings, folder, console, began=start.take_beginning())
                if evaluation is not None:
                    leave_row(folder.path, evaluation)
        else:
            resume(RunFolder.of(Path(settings.resume)), console, settings, set_keys=overridden_keys())
    except Interrupted as interrupted:
        sys.exit(interrupted.exit_status)


def _check_paths(settings: TrainConfig) -> None:
    """Raise an InputError for missing files, and for keys that cannot change with `resume`."""
    if settings.resume is not None:
        fixed = [key for key in overridden_keys() if key not in ("resume", *MOVABLE, *LENGTH)]
        if fixed:
            raise InputError(
                f"resume: the configuration comes from the run; omit {', '.join(fixed)} "
                f"(only {', '.join(LENGTH)} may change)"
            )
        RunFolder.of(Path(settings.resume))
        return
    check_dataset(settings.dataset, Path(settings.data_dir))
    if settings.init_from is not None:
        locate(settings.init_from)


def _with_path(arguments: list[str]) -> list[str]:
    """Add `dataset=csv dataset.path=` to a file given without a key."""
    paths, _ = split_positional(arguments)
    files = [path for path in paths if Path(path).exists() or is_address(path) or path.lower().endswith(SUFFIXES)]
    if len(files) > 1:
        refuse(f"dataset.path: expected one file or folder, found {len(files)}: {', '.join(files)}")
    overrides = [word for word in arguments if word not in files]
    return [*overrides, *(word for file in files for word in ("dataset=csv", f"dataset.path={file}"))]


def _name(settings: TrainConfig) -> str:
    """Name of the run directory: time, data, model, attention and target."""
    data = settings.dataset.name if settings.dataset.path is None else Path(settings.dataset.path).name.split(".")[0]
    attention = choice("attn") if settings.model.family != "linear" else None
    words = [f"{datetime.now():%Y-%m-%d_%H-%M-%S}", data, choice("model"), attention, settings.target, job_number()]
    return re.sub(r"[^\w.-]+", "-", "_".join(str(word) for word in words if word is not None))
