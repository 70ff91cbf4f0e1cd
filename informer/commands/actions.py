"""What each command does with its checked settings.

Paths are looked up first: what the functions import takes seconds, and a wrong path is refused at once.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from informer.base import start
from informer.base.console import EXIT_USER_ERROR, main_console, say
from informer.base.errors import FileError, InputError
from informer.base.progress import shown
from informer.checkpoint.paths import locate, resolve_latest, unfinished_note
from informer.config import commands
from informer.config.overrides import unquoted
from informer.config.training import TrainConfig
from informer.read import files
from informer.read.limits import LIMITS
from informer.read.remote import is_remote, without_query

if TYPE_CHECKING:
    from informer.scoring.scores import Scores

EXIT_SOME_FAILED = 1
SERVICE = ("fastapi", "uvicorn", "prometheus_client")
"""Packages that the service needs."""


class Answer(NamedTuple):
    """What a command answers to a program: plain values for JSON, and the exit status of a finished command."""

    facts: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    status: int = 0


def forecast(settings: commands.ForecastConfig) -> Answer:
    """Forecast a file or the files of a folder: read, repair on request, choose a model, forecast, report."""
    settings = replace(settings, dataset=files.without_signature(settings.dataset))
    settings = files.copied_here(settings, ("input",), settings.dataset)
    files.check_input(settings.input or "")
    _check_log(settings)
    with start.loading():
        if settings.plots:  # refused at once if matplotlib is missing
            import informer.base.plots  # noqa: F401
        from informer.commands.workflow import forecast as forecast_all

    try:
        answers, failures = forecast_all(settings, main_console())
    except start.Interrupted as interrupted:
        sys.exit(interrupted.exit_status)
    failed = [{"input": path, "errors": [*lines]} for path, lines, _ in failures]
    return Answer({"forecasts": answers, "failed": failed}, EXIT_SOME_FAILED if failures else 0)


def inspect(settings: commands.InspectConfig) -> Answer:
    """Show what files contain; exits with 2 if they cannot be used for training without changes."""
    settings = files.copied_here(settings, ("input",), settings.dataset)
    files.check_input(settings.input or "")
    from informer.data import diagnosis

    found = diagnosis.inspect(settings, main_console())
    status = 0 if all(finding.is_sound for finding in found) else EXIT_USER_ERROR
    return Answer({"found": [finding.to_dict() for finding in found]}, status)


MOVABLE = ("device", "data_dir", "dataset.path", "init_from")
"""Keys that may be set with `resume`, along with `LENGTH`; all others come from the run."""


def train(settings: TrainConfig) -> Answer:
    """Fit a model, score it once on the test part, and save everything in a run directory; or resume a run.

    Under torchrun --max-restarts a run in `run_dir` continues from its last save.
    """
    from informer.config.hydra_compose import job_number, job_overrides, overridden_keys
    from informer.training.folder import LENGTH, RUNS, RunFolder

    settings = replace(settings, dataset=files.without_signature(settings.dataset))
    if settings.resume is not None:
        fixed = [key for key in overridden_keys() if key not in ("resume", *MOVABLE, *LENGTH)]
        if fixed:
            raise InputError(
                f"resume: the configuration comes from the run; omit {', '.join(fixed)} "
                f"(only {', '.join(LENGTH)} may change)"
            )
        RunFolder.of(Path(settings.resume))
    else:
        files.check_dataset(settings.dataset, Path(settings.data_dir))
        if settings.init_from is not None:
            locate(settings.init_from)
    with start.loading():
        from informer.training import run

    console, named = main_console(), settings.run_dir
    # whether torchrun has restarted the processes is not known: machines may have different counts of restarts
    restarts = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0"))
    if (number := job_number()) is not None:  # of a `--multirun`: with the swept settings
        common = {unquoted(word) for word in sys.argv}
        say(console, f"job {number}: {' '.join(word for word in job_overrides() if word not in common)}")
    try:
        if settings.resume is not None:
            folder = RunFolder.of(Path(settings.resume))
            evaluation = run.resume(folder, console, settings, set_keys=overridden_keys())
        elif named is not None and restarts and RunFolder(Path(named)).contains_run:
            folder = RunFolder.of(Path(named))
            evaluation = run.resume(folder, console)
        else:
            new = RunFolder.new(Path(RUNS) / _run_name(settings))
            with new if named is None else nullcontext(RunFolder(Path(named))) as folder:
                evaluation = run.train(settings, folder, console)
                jobs = os.environ.get(JOBS)
                if evaluation is not None and number is not None and jobs is not None and Path(jobs).is_dir():
                    Path(jobs, f"{number:06d}").write_text(str(folder.path), encoding="utf-8")
    except start.Interrupted as interrupted:
        sys.exit(interrupted.exit_status)
    return Answer({"run": folder.path} | _scores(evaluation))


def _scores(evaluation: "Scores | None") -> dict[str, Any]:
    return {} if evaluation is None else {"scores": evaluation.facts()}


def _run_name(settings: TrainConfig) -> str:
    """Name of the run directory: time, data, model, attention and target."""
    from informer.config.hydra_compose import choice, job_number

    data = settings.dataset.name if settings.dataset.path is None else Path(settings.dataset.path).name.split(".")[0]
    attention = choice("attn") if settings.model.family != "linear" else None
    words = [f"{datetime.now():%Y-%m-%d_%H-%M-%S}", data, choice("model"), attention, settings.target, job_number()]
    return re.sub(r"[^\w.-]+", "-", "_".join(str(word) for word in words if word is not None))


def predict(settings: commands.PredictConfig) -> Answer:
    """Forecast one file or many with a trained model; exits with 1 if some failed."""
    limits = replace(LIMITS, max_file_mb=settings.dataset.max_file_mb)
    settings = files.copied_here(settings, ("input", "future"), limits)
    files.check_input(settings.input or "")
    _check_log(settings)
    _say_if_unfinished(settings.checkpoint)
    with start.loading():
        from informer.inference import job

    rows = job.predict(settings, main_console())
    facts = {"forecasts": [row.to_dict(Path(settings.output)) for row in rows]}
    return Answer(facts, 0 if all(row.is_complete for row in rows) else EXIT_SOME_FAILED)


def explain(settings: commands.ExplainConfig) -> Answer:
    """Write forecasts by source, or the difference between two by source."""
    if settings.checkpoint != "zero":
        locate(settings.checkpoint)
    if settings.input is not None:
        files.check_input(settings.input)
    from informer.inference import explain as explaining

    if settings.importance:
        return Answer(explaining.importance(settings, main_console()))
    from informer.report.forecasts import write_explanation

    found = explaining.explain(settings, main_console())
    page = write_explanation(found, settings, main_console())
    means = {name: each.T.to_dict() for name, each in found.means.items()}
    return Answer({"explanation": found.output / explaining.EXPLANATION, "report": page, "sources": means})


def _check_log(settings: commands.WithHorizon) -> None:
    """Refuse a file that is no log before anything is forecast."""
    if settings.log is not None:
        from informer.scoring import forecast_log

        forecast_log.check(Path(settings.log))


def evaluate(settings: commands.EvalConfig) -> Answer:
    """Score a trained model and two baselines on the test part of its data."""
    _say_if_unfinished(settings.checkpoint)
    from informer.inference.rescore import rescore

    return Answer(_scores(rescore(settings, main_console())))


def _say_if_unfinished(checkpoint: str) -> None:
    if note := unfinished_note(checkpoint):
        say(main_console(), note)


def watch(settings: commands.WatchConfig) -> Answer:
    """Monitor logged forecasts; the exit status is the action: 0 none, 10 recalibrate, 12 retrain."""
    for name in filter(None, (settings.log, settings.actuals, settings.history)):
        files.check_file(Path(name))
    from informer.service import watch as service

    verdict, reason = service.watch(settings, main_console())
    return Answer({"verdict": verdict.name, "reason": reason}, verdict.value)


def report(settings: commands.ReportConfig) -> Answer:
    """Write one HTML page about a run, an evaluation or forecasts."""
    if is_remote(settings.input) and settings.output is None:
        raise InputError(f"output: expected the path of a page for input={without_query(settings.input)}, found none")
    settings = files.copied_here(settings, ("input", "history", "actuals"))
    path = resolve_latest(settings.input)
    if not path.exists():
        raise FileError(f"input={path}: no such file or folder; expected a run, an evaluation or forecasts")
    from informer.report import run

    return Answer({"report": run.report(settings, main_console())})


def compare(settings: commands.CompareConfig) -> Answer:
    """Print finished runs sorted by skill, with the differences in their configuration."""
    from informer.report import runs

    compared = runs.compare(settings, main_console()).rename(columns={"folder": "run"})
    return Answer({"runs": compared[["run", "skill", *runs.SHOWN]].to_dict("records")})


def leaderboard(settings: commands.LeaderboardConfig) -> Answer:
    """Print the scores of several forecasters on the earlier rows of a file."""
    settings = replace(settings, dataset=files.without_signature(settings.dataset))
    settings = files.copied_here(settings, ("input",), settings.dataset)
    path = Path(settings.input or "")
    files.check_file(path)
    with start.loading():
        from informer.checkpoint.format import Rule
        from informer.commands.plan import UNTRAINED_SHARE, usual_horizon
        from informer.inference.leaderboard import leaderboard
        from informer.inference.untrained import untrained

    console = main_console()
    with shown(console):
        rule, device = Rule(target=settings.target, future_covariates=settings.future_covariates), settings.device
        subject = untrained(path, settings.dataset, rule, device=device)
        longest = max(subject.panel, key=len)
        usual = usual_horizon(len(longest), longest.frequency.season, UNTRAINED_SHARE)
        found = leaderboard(subject, settings.models, subject.steps(settings.horizon or usual), device=device)
    console.print(found.printed())
    compared = [f"{name}: {words}" for name, words in found.table[["model", "verdict"]].to_numpy() if words]
    for line in [*compared, *found.notes, found.headline]:
        say(console, line)
    return Answer({"headline": found.headline, "notes": found.notes, "models": found.table.to_dict("records")})


def score(settings: commands.ScoreConfig) -> Answer:
    """Score a forecast file from any source next to two baselines."""
    for name in filter(None, (settings.forecasts, settings.log, settings.actuals, settings.history)):
        files.check_file(Path(name))
    from informer.scoring.score import score as score_files

    return Answer({"scores": score_files(settings, main_console())})


def serve(settings: commands.ServeConfig) -> Answer:
    """Serve forecasts over HTTP."""
    if settings.checkpoint is not None:
        locate(settings.checkpoint)
    missing = [name for name in SERVICE if find_spec(name) is None]
    if missing:
        raise InputError(f"serve: {' and '.join(missing)} not installed; pip install {' '.join(missing)}")
    from informer.service import serve as service

    service.serve(settings, main_console())
    return Answer()


def mcp(settings: commands.McpConfig) -> Answer:
    """Serve tools of an assistant over standard input and output."""
    if find_spec("mcp") is None:
        raise InputError("mcp: not installed; pip install mcp")
    if not Path(settings.folder).is_dir():
        raise FileError(f"folder={settings.folder}: no such folder")
    from informer.service.mcp import server

    server(Path(settings.folder)).run("stdio")
    return Answer()


def export(settings: commands.ExportConfig) -> Answer:
    """Export a trained model, with a description of its inputs, columns, lengths and scaler."""
    locate(settings.checkpoint)
    from informer.inference import export as exporting

    return Answer({"model": exporting.export(settings, main_console())})


JOBS = "INFORMER_MULTIRUN_JOBS"
"""Environment variable with a folder of files that name the runs of a `--multirun`. A launcher may run jobs in other
processes, so each job writes its own; jobs on machines without this folder write none."""


@contextmanager
def compared_at_the_end() -> Iterator[None]:
    """Compare the finished jobs at the end of a `--multirun`, also if a job fails."""
    if not any(re.fullmatch(r"-m|--multirun", word) for word in sys.argv[1:]):
        yield
        return
    with TemporaryDirectory() as folder:
        os.environ[JOBS] = folder
        try:
            yield
        finally:
            del os.environ[JOBS]
            if finished := [path.read_text(encoding="utf-8") for path in sorted(Path(folder).iterdir())]:
                compare(commands.CompareConfig(runs=finished))
