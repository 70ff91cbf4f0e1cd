"""What each command does with its checked settings.

Paths are looked up first: what the functions import takes seconds, and a wrong path is refused at once.
"""

import re
import sys
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

from informer.base import start
from informer.base.console import EXIT_USER_ERROR, main_console, say
from informer.base.errors import InputError
from informer.checkpoint.paths import locate, resolve_latest, unfinished_note
from informer.config import commands
from informer.config.data import OWN_PLACES
from informer.config.training import TrainConfig
from informer.read.files import (
    check_dataset,
    check_file,
    check_input,
    copied_here,
    is_remote,
    without_query,
    without_signature,
)

EXIT_SOME_FAILED = 1
SERVICE = ("fastapi", "uvicorn")
"""Packages that the service needs."""


def forecast(settings: commands.ForecastConfig) -> None:
    """Forecast a file or the files of a folder: read, repair on request, choose a model, forecast, report."""
    settings = replace(settings, dataset=without_signature(settings.dataset))
    settings = copied_here(settings, ("input",), settings.dataset.limits)
    check_input(settings.input or "")
    from informer.commands.workflow import forecast as forecast_all

    try:
        _, failures = forecast_all(settings, main_console())
    except start.Interrupted as interrupted:
        sys.exit(interrupted.exit_status)
    if failures:
        sys.exit(EXIT_SOME_FAILED)


def inspect(settings: commands.InspectConfig) -> None:
    """Show what files contain; exits with 2 if they cannot be used for training without changes."""
    settings = copied_here(settings, ("input",), settings.dataset.limits)
    check_input(settings.input or "")
    from informer.data import diagnosis

    if not diagnosis.inspect(settings, main_console()):
        sys.exit(EXIT_USER_ERROR)


MOVABLE = ("device", "data_dir", *(f"dataset.{name}" for name in OWN_PLACES), "init_from")
"""Keys that may be set with `resume`, along with `LENGTH`; all others come from the run."""


def train(settings: TrainConfig) -> None:
    """Fit a model, score it once on the test part, and save everything in a run directory; or resume a run.

    Under torchrun --max-restarts a run in `run_dir` continues from its last save.
    """
    from informer.config.hydra_compose import overridden_keys
    from informer.training.folder import LENGTH, RUNS, RunFolder

    settings = replace(settings, dataset=without_signature(settings.dataset))
    if settings.resume is not None:
        fixed = [key for key in overridden_keys() if key not in ("resume", *MOVABLE, *LENGTH)]
        if fixed:
            raise InputError(
                f"resume: the configuration comes from the run; omit {', '.join(fixed)} "
                f"(only {', '.join(LENGTH)} may change)"
            )
        RunFolder.of(Path(settings.resume))
    else:
        check_dataset(settings.dataset, Path(settings.data_dir))
        if settings.init_from is not None:
            locate(settings.init_from)
    from informer.search import stage
    from informer.training.multirun import announce, leave_row
    from informer.training.processes import is_elastic

    console, named = main_console(), settings.run_dir
    announce()
    try:
        if settings.resume is not None:
            stage.resume(RunFolder.of(Path(settings.resume)), console, settings, set_keys=overridden_keys())
        elif named is not None and is_elastic() and RunFolder(Path(named)).contains_run:
            stage.resume(RunFolder.of(Path(named)), console)
        else:
            new = RunFolder.new(Path(RUNS) / _run_name(settings))
            with new if named is None else nullcontext(RunFolder(Path(named))) as folder:
                evaluation = stage.train(settings, folder, console, began=start.take_beginning())
                if evaluation is not None:
                    leave_row(folder.path, evaluation)
    except start.Interrupted as interrupted:
        sys.exit(interrupted.exit_status)


def _run_name(settings: TrainConfig) -> str:
    """Name of the run directory: time, data, model, attention and target."""
    from informer.config.hydra_compose import choice, job_number

    data = settings.dataset.name if settings.dataset.path is None else Path(settings.dataset.path).name.split(".")[0]
    attention = choice("attn") if settings.model.family != "linear" else None
    words = [f"{datetime.now():%Y-%m-%d_%H-%M-%S}", data, choice("model"), attention, settings.target, job_number()]
    return re.sub(r"[^\w.-]+", "-", "_".join(str(word) for word in words if word is not None))


def predict(settings: commands.PredictConfig) -> None:
    """Forecast one file or many with a trained model; exits with 1 if some failed."""
    from informer.inference.transfer import local_copies

    with local_copies(settings) as local:
        check_input(local.input or "")
        _say_if_unfinished(local.checkpoint)
        from informer.inference import job

        failed = job.predict(local, main_console())
    if failed:
        sys.exit(EXIT_SOME_FAILED)


def evaluate(settings: commands.EvalConfig) -> None:
    """Score a trained model and two baselines on the test part of its data."""
    _say_if_unfinished(settings.checkpoint)
    from informer.inference.rescore import rescore

    rescore(settings, main_console())


def _say_if_unfinished(checkpoint: str) -> None:
    if note := unfinished_note(checkpoint):
        say(main_console(), note)


def watch(settings: commands.WatchConfig) -> None:
    """Monitor a trained model; the exit status is the action: 0 none, 10 recalibrate, 11 update, 12 retrain."""
    locate(settings.checkpoint)
    check_file(Path(settings.input or ""))
    from informer.service import watch as service

    if verdict := service.watch(settings, main_console()).value:
        sys.exit(verdict)


def update(settings: commands.UpdateConfig) -> None:
    """Update a trained run with later rows."""
    locate(settings.checkpoint)
    check_file(Path(settings.input or ""))
    from informer.service import update as service
    from informer.training.folder import RUNS, RunFolder

    name = f"{datetime.now():%Y-%m-%d_%H-%M-%S}_update_{resolve_latest(settings.checkpoint).resolve().name}"
    with RunFolder.for_output(settings.output, Path(RUNS) / name, overwrite=settings.overwrite) as folder:
        service.update(settings, folder, main_console())


def report(settings: commands.ReportConfig) -> None:
    """Write one HTML page about a run, an evaluation or forecasts."""
    if is_remote(settings.input) and settings.output is None:
        raise InputError(f"output: expected the path of a page for input={without_query(settings.input)}, found none")
    settings = copied_here(settings, ("input", "history", "actuals"))
    path = resolve_latest(settings.input)
    if not path.exists():
        raise InputError(f"input={path}: no such file or folder; expected a run, an evaluation or forecasts")
    from informer.report import command

    command.report(settings, main_console())


def compare(settings: commands.CompareConfig) -> None:
    """Print finished runs sorted by skill, with the differences in their configuration."""
    from informer.report import command

    command.compare(settings, main_console())


def score(settings: commands.ScoreConfig) -> None:
    """Score a forecast file from any source next to two baselines."""
    for name in (settings.forecasts, settings.actuals, settings.history):
        check_file(Path(name or ""))
    from informer.scoring import scoreboard

    scoreboard.score(settings, main_console())


def serve(settings: commands.ServeConfig) -> None:
    """Serve forecasts over HTTP."""
    locate(settings.checkpoint)
    missing = [name for name in SERVICE if find_spec(name) is None]
    if missing:
        raise InputError(f"serve: {' and '.join(missing)} not installed; pip install {' '.join(missing)}")
    from informer.service import serve as service

    service.serve(settings, main_console())


def export(settings: commands.ExportConfig) -> None:
    """Export a trained model, with a description of its inputs, columns, lengths and scaler."""
    locate(settings.checkpoint)
    from informer.inference import export as exporting

    exporting.export(settings, main_console())
