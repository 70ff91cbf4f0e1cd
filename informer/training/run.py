"""One run, from its configuration to its report: read the data, build the network, train, score, save.

`train` makes a run and `resume` continues one, for the command and `Forecaster.fit`. `score_best` scores the best
checkpoint on the test part. A table trained on from memory is saved with the run, so that `eval` and `resume` find it.
"""

import hashlib
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timezone
from functools import cache, partial
from pathlib import Path

import pandas as pd
import torch
from rich.console import Console
from torch import Tensor

from informer import checkpoint
from informer.base.console import logging_to, say
from informer.base.errors import InputError, counted, listed, with_addresses
from informer.base.files import write_atomic
from informer.base.progress import report
from informer.base.runtime import pick_device, provenance, seed_everything, set_deterministic
from informer.base.start import Interrupted, StopRequest
from informer.build import (
    build_data,
    check_attention,
    dims_of,
    picked_by_length,
    read_dataset,
    resolve_decoder,
)
from informer.checkpoint.format import Checkpoint, DataFacts, Progress
from informer.checkpoint.paths import LAST, LOG, REFIT
from informer.checkpoint.restore import restore_model
from informer.config import conversion
from informer.config.data import OWN_PLACES, NonNegative, dataset_words
from informer.config.fields import check
from informer.config.model import WindowSizes
from informer.config.overrides import Word, changed_settings, shell_command
from informer.config.training import TrainConfig
from informer.data.dataset import Data, Provenance, Source, non_negative
from informer.data.panel import training_rows
from informer.data.recorded import find_again
from informer.inference.rescore import save_results
from informer.members.linear import every_window, fit_model
from informer.members.zero import network_seasons
from informer.networks.forecast_model import ForecastModel
from informer.networks.models.zero import ZeroConfig
from informer.scoring import intervals
from informer.scoring.baselines import FittedBaseline
from informer.scoring.bootstrap import Winner
from informer.scoring.evaluate import baselines_for, fit_baselines, score, scored_at_once, training_scale
from informer.scoring.scores import Scores
from informer.training.curves import Tracker, reference_losses, tag_of
from informer.training.folder import LENGTH, NAME, RunFolder
from informer.training.loop import Session, check_compiler, fit
from informer.training.optim import resolve_precision
from informer.training.processes import Processes
from informer.training.saving import Checkpointer, check_goes_on, note_of_length, resumable
from informer.training.sinks import Sink, check_installed, open_sinks
from informer.training.start import calibration_errors, initial_network
from informer.training.state import State
from informer.training.transform import with_transform

log = logging.getLogger(__name__)

Read = Callable[[WindowSizes], Source]
"""Reads the series of a dataset; the argument is the size of the windows."""


def saved_path(table: pd.DataFrame, run_dir: Path) -> Path:
    """Path of a CSV file, or of a parquet file if times have a time zone: text would store only their UTC offset."""
    zones = [dtype.tz for dtype in table.dtypes if isinstance(dtype, pd.DatetimeTZDtype)]
    in_zone = any(not isinstance(zone, timezone) and str(zone) != "UTC" for zone in zones)
    return run_dir / f"{NAME}.{'parquet' if in_zone else 'csv'}"


@contextmanager
def saved_table(table: pd.DataFrame, path: Path) -> Iterator[Provenance]:
    """Write the table to `path` in a new run directory; it is removed if the run fails before it starts.

    Raises:
        InputError: the folder cannot be written.
    """
    if path.exists():
        raise InputError(f"run_dir={path.parent}: expected a new folder, found {path.name} in it; choose another")
    content = table.to_csv(index=False).encode() if path.suffix == ".csv" else table.to_parquet(index=False)
    write_atomic(path, content)
    try:
        yield Provenance(path, hashlib.sha256(content).hexdigest())
    except InputError:
        if not RunFolder(path.parent).contains_run:
            path.unlink()
        raise


ROLES = ("features", "target", "targets", "past_covariates", "future_covariates")
"""Settings that say which columns are forecast and read."""

FEW_ROWS = 10
"""Minimum number of training rows per category, on average, to learn an embedding."""


def log_run(settings: TrainConfig, data: Data, model: ForecastModel, device: torch.device) -> None:
    """Log data, windows, network and run directory before the first step."""
    n_parameters = sum(p.numel() for p in model.parameters())
    series = f"{len(data.panel)} series, " if len(data.panel) > 1 else ""
    n_rows = sum(map(len, data.panel))
    windows = ", ".join(f"{n} {name}" for name, n in window_counts(data).items())
    log.info(
        f"{settings.dataset.name}: {series}{n_rows} rows at {data.frequency.code}, "
        f"{counted(len(data.inputs), 'column')} in, {len(data.targets)} out; windows {windows}"
    )
    validation = [split.val for split in data.splits]
    by_blocks = settings.model.CLOSED_FORM and settings.trainer.max_steps == 0
    if settings.trainer.calibration and data.calibration is None and not by_blocks:
        needs = intervals.validation_rows(80, settings.pred_len, settings.trainer.calibration)
        log.warning(
            "validation part too short to be divided: no calibration, so this model has no intervals; an 80 % interval "
            f"needs {needs} validation rows in a series (dataset.split.val), found {max(map(len, validation))}"
        )
    n_train = sum(len(split.train) for split in data.splits)
    for name, categories in data.categories.items():  # such as names that never repeat
        if name not in data.columns.static_covariates and n_train < FEW_ROWS * len(categories):
            log.warning(
                f"column {name!r}: {len(categories):,} categories in {n_train:,} training rows, too few rows to learn "
                "an embedding of each; drop the column, or merge rare categories"
            )
    precision = resolve_precision(settings.precision, device).value
    log.info(f"model: {n_parameters:,} parameters on {device}, {precision}; run directory {settings.run_dir}")
    if settings.non_negative is NonNegative.auto and (names := non_negative(settings.non_negative, data)):
        log.info(
            f"forecasts of {listed(names)} are at least zero, like their training rows (non_negative=none turns it off)"
        )
    if settings.decoder_attn_reason:
        log.info(settings.decoder_attn_reason)
    if picked := picked_by_length(model):
        log.info(f"attention by length: {', '.join(picked)}")


def log_gain(settings: TrainConfig, progress: Progress) -> None:
    """Log the network's improvement over what was fitted before training."""
    if settings.model.is_fitted_first and settings.trainer.max_steps == 0:
        return
    if progress.start_loss:  # zero for a constant series: cannot be improved
        share = 1.0 - progress.best_loss / progress.start_loss
        what, fitted = ("training", "the closed form") if settings.model.CLOSED_FORM else ("the network", "ridge")
        has_weights = settings.init_from is not None or isinstance(settings.model, ZeroConfig)
        start = "the initial weights" if has_weights else fitted
        log.info(
            f"{what} reduced the validation loss of {start} by {share:.2%} "
            f"({progress.start_loss:.5f}, now {progress.best_loss:.5f})"
        )


def better_command(settings: TrainConfig) -> str:
    """Message with a command to try after a baseline was better."""
    dataset = settings.dataset
    data: list[Word] = [f"dataset={dataset.name}"]
    if dataset.path is not None:
        data = ["dataset=csv", ("dataset.path", dataset.path), *dataset_words(dataset)]
    roles = {name: getattr(settings, name) for name in ROLES}
    columns = changed_settings("", roles, {name: getattr(TrainConfig(), name) for name in ROLES})
    words = [*data, *columns, f"pred_len={settings.pred_len}", "model=linear"]
    return f"try: {shell_command('train', *words)}, which takes seconds"


def data_facts(settings: TrainConfig, data: Data) -> DataFacts:
    """Source, format and size of the data."""
    path = str(data.provenance.path)
    where = with_addresses(path)  # an address, if `path` is the copy of one
    first, parts = data.panel[0], list(zip(data.panel, data.splits, strict=True))
    names = [series.name for series in data.panel]
    return DataFacts(
        path=where,
        absolute=str(data.provenance.path.absolute()) if where == path else where,
        sha256=data.provenance.sha256,
        series=len(data.panel),
        rows=sum(map(len, data.panel)),
        time_col=first.time_col,
        time_format=first.time_format,
        timezone=getattr(first.timestamps.tz, "key", None),
        trained_until=str(max(series.timestamps[split.val.stop - 1] for series, split in parts)),
        until=str(max(series.timestamps[split.test.stop - 1] for series, split in parts)),
        marks=[first.dialect.decimal, first.dialect.thousands] if first.dialect.is_settled else None,
        windows=window_counts(data),
        names=list(data.trained_series),
        categories={name: list(labels) for name, labels in data.categories.items()},
        static_covariates=list(data.columns.static_covariates),
        non_negative=list(non_negative(settings.non_negative, data)),
        mase_scales=dict(zip(names, training_scale(data).tolist(), strict=True)),
    )


RUN_FACTS = {"path", "absolute", "sha256", "series", "rows", "time_col", "time_format", "timezone", "trained_until"}
RUN_FACTS |= {"until", "marks", "windows"}
"""Facts about the data in run.json."""


def window_counts(data: Data) -> dict[str, int]:
    """Number of windows of each part."""
    by_part = {"train": data.train, "val": data.val, "calibration": data.calibration, "test": data.test}
    return {name: len(windows) for name, windows in by_part.items() if windows is not None}


def untrained(settings: TrainConfig, data: Data) -> Checkpoint:
    """A checkpoint of a run without weights."""
    return Checkpoint(
        config=conversion.to_plain(settings),
        dims=dims_of(data),
        inputs=list(data.inputs),
        targets=list(data.targets),
        future_covariates=list(data.columns.future_covariates),
        frequency=data.frequency.code,
        scaler=data.scaler,
        data=data_facts(settings, data),
    )


def score_best(
    settings: TrainConfig,
    data: Data,
    folder: RunFolder,
    baselines: Sequence[FittedBaseline],
) -> Scores:
    """Calibrate the intervals, save the best checkpoint and score it on the test part.

    Raises:
        InputError: the checkpoint belongs to another run.
    """
    saved, device = folder.checkpoint(), data.train.starts.device
    folder.check_own(settings, saved, checkpoint.BEST)
    best = restore_model(saved).to(device)
    errors = calibration_errors(best, settings, data)
    calibration = None if errors is None else errors.calibration()
    calibrated = baselines_for(data, best, baselines)
    batch_size = settings.trainer.eval_batch_size
    evaluation = score(best, data, batch_size=batch_size, calibration=calibration, baselines=calibrated)
    facts = saved.data.model_copy(update={"too_narrow": evaluation.shortfalls})
    state: dict[str, Tensor] = {}
    if errors is not None and calibration is not None and settings.trainer.calibration:
        state |= calibration.state()
        # for forecasts after the end of the data: also the errors on the test part, the newest there are
        errors_of = intervals.residuals_of(data, scored_at_once(best, batch_size, data))
        tested = errors_of(best.eval(), data.test, most=intervals.MOST_RECENT, known=evaluation.residuals)
        recent = (tested if errors.lag != tested.lag else intervals.joined_errors([errors, tested])).calibration()
        if bool(recent.is_learned.any()):
            state |= {f"{intervals.RECENT}{name}": tensor for name, tensor in recent.state().items()}
    config = conversion.to_plain(settings)  # a continued run has another length
    folder.save(checkpoint.BEST, saved.model_copy(update={"config": config, "calibration": state, "data": facts}))
    return evaluation


def final_metrics(evaluation: Scores, progress: Progress) -> dict[str, float]:
    """Scores of the run by tag, the most important first."""
    scaled = {name: evaluation.overall(name) for name in evaluation.names}
    model_scores = scaled.pop(evaluation.model)
    metrics = {"test/skill": evaluation.skill, "test/mse": model_scores["mse"], "test/mae": model_scores["mae"]}
    metrics |= {f"test/mse_{tag_of(name)}": other["mse"] for name, other in scaled.items()}
    coverage = {name: evaluation.overall(evaluation.model, name)["coverage"] for name in evaluation.intervals}
    metrics |= {f"test/coverage_{name}": share for name, share in coverage.items()}
    original = evaluation.overall(evaluation.model, "original")
    if "wql" in original:
        metrics["test/wql"] = original["wql"]
    if evaluation.quantiles:
        metrics["test/pinball"] = evaluation.mean_pinball
    return metrics | {"val/best_loss": progress.best_loss}


def train(settings: TrainConfig, folder: RunFolder, console: Console, *, read: Read | None = None) -> Scores | None:
    """Make one run, from the configuration to the test report.

    Args:
        folder: run directory; it must not contain a run yet.
        console: shows the progress bar, the epoch table and the report.
        read: returns the series. Default: those of the configured dataset.

    Returns:
        The test scores; None in every process but the first if several train together.

    Raises:
        InputError: a mistake of the user; nothing is written before training starts.
        Interrupted: Ctrl-C or SIGTERM; the run can be resumed.
    """
    settings = prepare(settings, folder)
    check_attention(settings)
    with folder.claimed():
        folder.check_new()  # another process may have started a run here in the meantime
        return _run(settings, folder, console, read or partial(read_dataset, settings))


def resume(
    folder: RunFolder, console: Console, requested: TrainConfig | None = None, *, set_keys: Collection[str] = ()
) -> Scores | None:
    """Continue a run as if it had never stopped.

    Args:
        folder: run directory. A run that was killed before it saved anything starts from the beginning.
        console: as in `train`.
        requested: the user's configuration. Only the keys in `set_keys` and the default data folder are used;
            everything else comes from the run.
        set_keys: keys that the user has set. A data location known only from the run directory is checked, see
            `find_again`.

    Returns:
        The test scores; None if the run is finished and `set_keys` does not change its length.

    Raises:
        InputError: a mistake of the user, for example data that have changed since the run started.
        Interrupted: as in `train`.
    """
    if folder.is_finished and not set(LENGTH) & set(set_keys):
        say(
            console,
            f"{folder.path} is finished: nothing to resume; see its metrics.json, or train longer: "
            f"{shell_command('train', ('resume', folder.path), 'trainer.max_epochs=N')}",
        )
        return None
    with folder.claimed("resume"):
        folder.check_files()
        last, requested = folder.last(), requested or TrainConfig()
        settings = settings_to_resume(folder, last, requested, set_keys)
        return _run(settings, folder, console, partial(read_dataset, settings), last=last)


def settings_to_resume(
    folder: RunFolder, last: Checkpoint | None, requested: TrainConfig, set_keys: Collection[str]
) -> TrainConfig:
    """The configuration of a stopped run, with the user's changes and the location of its data.

    Args:
        folder: run directory.
        last: the last saved state, or None.
        requested, set_keys: see `resume`.

    Raises:
        InputError: files of the run are damaged or belong to another run, its data are missing, or a value is out of
            range.
    """
    settings = folder.settings()
    if last is not None:
        folder.check_own(settings, last, LAST)
    if length := [key.partition(".")[2] for key in LENGTH if key in set_keys]:
        trainer = replace(settings.trainer, **{name: getattr(requested.trainer, name) for name in length})
        settings = check(replace(settings, trainer=trainer))
        check_goes_on(settings, last)
    if "device" in set_keys:
        settings = replace(settings, device=requested.device)
    if "init_from" in set_keys:
        settings = replace(settings, init_from=requested.init_from)
    elif settings.init_from is not None and last is None:
        raise InputError(
            f"resume={folder.path}: the run has saved nothing yet and begins with the weights of another; "
            "name them again: init_from=RUN"
        )
    locations = {key: getattr(requested.dataset, key) for key in OWN_PLACES if f"dataset.{key}" in set_keys}
    dataset, data_dir = find_again(
        replace(settings.dataset, **locations),
        folder.recorded(last),
        named=requested.data_dir if "data_dir" in set_keys else None,
        default=requested.data_dir,
        can_differ=False,
    )
    return replace(settings, dataset=dataset, data_dir=data_dir)


def _run(
    settings: TrainConfig,
    folder: RunFolder,
    console: Console,
    read: Read,
    *,
    last: Checkpoint | None = None,
) -> Scores | None:
    with run_context(settings, folder, console) as context, resumable(folder):
        source = read(settings.sizes)
        return train_and_score(settings, context, source, last)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Where and how a run is executed.

    Args:
        folder: run directory.
        console: for the progress bar, the epoch table and the report.
        device: device of the network and the data.
        processes: processes of the run.
        start_log_file: also logs to this file from now on.
    """

    folder: RunFolder
    console: Console
    device: torch.device
    processes: Processes
    start_log_file: Callable[[Path], None]


def prepare(settings: TrainConfig, folder: RunFolder) -> TrainConfig:
    """The complete configuration of a new run in this folder; nothing is written yet.

    Raises:
        InputError: there is a run in the folder, `decoder_attn` cannot be causal, or a tracker is not installed.
    """
    folder.check_new()
    check_installed(settings.trainer.tracker)
    decoder_attn, reason = resolve_decoder(settings.attn, settings.decoder_attn)
    return replace(settings, decoder_attn=decoder_attn, decoder_attn_reason=reason, run_dir=str(folder.path))


@contextmanager
def run_context(settings: TrainConfig, folder: RunFolder, console: Console) -> Iterator[RunContext]:
    """Set up device, seeds, log and processes of a run."""
    device = pick_device(settings.device)
    set_deterministic(settings.trainer.deterministic)
    seed_everything(settings.seed)
    minutes = settings.trainer.collective_timeout_minutes
    with logging_to(console) as start_log_file, Processes.started(device, minutes) as processes:
        yield RunContext(
            folder=folder, console=console, device=device, processes=processes, start_log_file=start_log_file
        )


def train_and_score(
    settings: TrainConfig,
    context: RunContext,
    source: Source,
    last: Checkpoint | None,
) -> Scores | None:
    """Train, and score the best epoch once on the test part; None in all processes but the first.

    Args:
        settings, source: complete configuration, and the series.
        context: device, folder and processes of the run.
        last: the run's last saved state; None: a new run.

    Raises:
        InputError: an error the user can fix; nothing is written before training starts.
        Interrupted: Ctrl-C or SIGTERM; the state was saved.
    """
    report("preparing the data and fitting linear parts")
    settings, chosen = with_transform(settings, source, context.device)
    data = build_data(settings, context.device, source=source)
    if isinstance(settings.model, ZeroConfig) and not settings.model.seasons:
        found = network_seasons(training_rows(data.panel, data.splits), data.targets)
        settings = replace(settings, model=replace(settings.model, seasons=list(found)))
    if last is not None:
        _check_same_data(data, last)
    model = initial_network(settings, data, last).to(context.device)
    # fitted on first use: training reports values for which no baseline can be fitted
    baselines = cache(lambda: fit_baselines(data))
    with ExitStack() as open_files:
        sinks = list[Sink]()
        if context.processes.is_main:
            _record_start(settings, data, context, last, chosen)
            log_run(settings, data, model, context.device)
            open_files.enter_context(context.folder.as_latest())
            sinks = open_sinks(settings, context.folder.path, None if last is None else last.progress)
        n_steps, done = settings.trainer.n_steps(len(data.train)), 0 if last is None else last.progress.step
        tracker = open_files.enter_context(Tracker(sinks, n_steps=n_steps, console=context.console, done=done))
        tracker.references = cache(lambda: reference_losses(baselines(), data, settings))
        progress = _train(settings, model, data, context, tracker, last)
        if not context.processes.is_main:
            return None
        log_gain(settings, progress)
        report("scoring on held-out rows")
        folder = context.folder
        evaluation = score_best(settings, data, folder, baselines())
        if settings.trainer.refit:
            evaluation.notes.append(save_refit(settings, data, folder))
        plain = conversion.flat(conversion.to_plain(settings))
        tracker.final(plain, final_metrics(evaluation, progress), progress.epoch)
        folder.finish()
        # last: a run with a report counts as finished, and is not resumed
        conclude(evaluation, data, folder, context.console)
        log.info(f"      tensorboard --logdir {folder.path}")
        if evaluation.winner is Winner.baseline:
            log.info(better_command(settings))
        return evaluation


def save_refit(settings: TrainConfig, data: Data, folder: RunFolder) -> str:
    """Save the scored model with its linear maps, but not its network, fitted on the windows of all parts, for
    forecasts; returns a note for the report."""
    saved, every = folder.checkpoint(), every_window(data)
    model = restore_model(saved)
    assert model.maps is not None, "see TrainConfig.problems"
    fit_model(model.maps, data, every)
    facts = saved.data.model_copy(update={"refit": len(every)})
    folder.save(REFIT, saved.model_copy(update={"weights": model.state_dict(), "data": facts}))
    return (
        f"{REFIT}, which predict uses: refitted with the same settings on {len(every)} windows of all parts; the "
        "scores are those of the model before the refit"
    )


def _check_same_data(data: Data, last: Checkpoint) -> None:
    if last.dims != dims_of(data):
        raise InputError(f"resume: expected data that fit the network of {checkpoint.LAST}, found others")
    if data.provenance.sha256 != last.data.sha256:
        raise InputError(
            f"resume: expected the data that the run began with, {data.provenance.path} has changed since "
            f"(sha256 {last.data.sha256[:12]}..., now {data.provenance.sha256[:12]}...); start a new run"
        )


def _record_start(settings: TrainConfig, data: Data, context: RunContext, last: Checkpoint | None, chosen: str) -> None:
    if last is None:
        facts = data_facts(settings, data).model_dump(include=RUN_FACTS)
        context.folder.begin(settings, provenance() | {"seed": settings.seed, "data": facts})
    else:
        facts, began = provenance(), context.folder.facts()
        before = [each.get("threads") for each in (began, *began.get("resumed", []))]
        other = next((threads for threads in before if threads not in (None, facts["threads"])), None)
        if context.device.type == "cpu" and other is not None:  # which changes the rounding of sums
            log.warning(
                f"resume: the run began with {other} threads, and continues with {facts['threads']}: results will "
                "differ in their last bits from those of an uninterrupted run; set OMP_NUM_THREADS="
                f"{other} to keep them equal"
            )
        context.folder.resume(settings, facts)
    context.start_log_file(context.folder.path / LOG)
    if chosen:
        log.info(chosen)
    if last is not None and (note := note_of_length(settings, last, len(data.train))):
        log.info(note)


def _train(
    settings: TrainConfig,
    model: ForecastModel,
    data: Data,
    context: RunContext,
    tracker: Tracker,
    last: Checkpoint | None,
) -> Progress:
    """Train; the first process writes LAST, and BEST whenever the state is the best so far."""
    if settings.compile:
        check_compiler(context.device)
    base, folder, processes = untrained(settings, data), context.folder, context.processes

    def save(state: State, is_best: bool) -> None:
        if not processes.is_main:
            return
        tracker.flush()
        done = {"progress": state.progress.model_copy()}
        if is_best:
            folder.save(checkpoint.BEST, base.model_copy(update=done | {"weights": state.scored.state_dict()}))
        tensors = {"weights": state.model.state_dict(), "state": state.tensors()}
        folder.save(checkpoint.LAST, base.model_copy(update=done | tensors))

    try:
        with StopRequest(second_ends=processes.size == 1) as stop:
            minutes = settings.trainer.save_every_minutes
            checkpointer = Checkpointer(save, every_minutes=minutes, stop=stop, processes=processes)
            return fit(Session.begin(settings, model, data, tracker=tracker, checkpointer=checkpointer, last=last))
    except Interrupted as interrupted:
        log.info(f"{interrupted}; saved. Continue with: {shell_command('train', ('resume', context.folder.path))}")
        raise


def conclude(evaluation: Scores, data: Data, folder: RunFolder, console: Console) -> None:
    """Save the results of a run, and print its scores with what to do next."""
    save_results(evaluation, folder.checkpoint(), data, folder.path)
    console.print(evaluation.table())
    for line in [*evaluation.remarks, f"{evaluation.model}: {evaluation.verdict}"]:
        log.info(line)
    if evaluation.warning:
        log.warning(f"warning: {evaluation.warning}")
    command = shell_command("predict", ("checkpoint", folder.path), "input=FILE.csv", "output=forecasts")
    log.info(f"next: {command}")
