"""One run, from its configuration to its report: read the data, build the network, train, score, save.

`train` makes a run and `resume` continues one, for the command and `Forecaster.fit`.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial

import torch
from rich.console import Console
from torch import Tensor

from informer import checkpoint
from informer.base.console import logging_to, say
from informer.base.progress import report
from informer.base.runtime import pick_device, provenance, seed_everything, set_deterministic
from informer.base.start import Interrupted, StopRequest
from informer.checkpoint.format import Checkpoint, Progress
from informer.checkpoint.network import check_attention, resolve_decoder
from informer.checkpoint.paths import LOG, REFIT
from informer.checkpoint.restore import restore_model
from informer.config import conversion
from informer.config.overrides import shell_command
from informer.config.training import TrainConfig
from informer.data.dataset import Data, Source, build_data, read_dataset
from informer.data.panel import training_rows
from informer.members.baselines import FittedBaseline
from informer.members.linear import every_window, fit_model
from informer.members.zero import network_seasons
from informer.networks.models.zero import ZeroConfig
from informer.scoring import intervals
from informer.scoring.bootstrap import Winner
from informer.scoring.evaluate import baselines_for, fit_baselines, score, scored_at_once
from informer.scoring.residuals import MOST_RECENT, Sample, joined_errors, residuals_of
from informer.scoring.results import save_results
from informer.scoring.scores import Scores
from informer.training.curves import Tracker, reference_losses
from informer.training.facts import (
    RUN_FACTS,
    better_command,
    data_facts,
    final_metrics,
    log_gain,
    log_run,
    untrained,
)
from informer.training.folder import LENGTH, RunFolder
from informer.training.loop import Session, check_compiler, fit
from informer.training.processes import Processes
from informer.training.resuming import (
    check_same_data,
    note_of_length,
    note_of_threads,
    resumable,
    settings_to_resume,
)
from informer.training.sinks import Sink, check_installed, open_sinks
from informer.training.start import calibration_errors, initial_network
from informer.training.state import State
from informer.training.transform import with_transform

log = logging.getLogger(__name__)

Read = Callable[[], Source]
"""Reads the series of a dataset."""


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
        return _run(settings, folder, console, partial(read_dataset, settings), last)


def _run(
    settings: TrainConfig, folder: RunFolder, console: Console, read: Read, last: Checkpoint | None = None
) -> Scores | None:
    """The story of a run, which goes on from `last` if it has saved a state before."""
    device = pick_device(settings.device)
    set_deterministic(settings.trainer.deterministic)
    seed_everything(settings.seed)
    with ExitStack() as open_things:
        start_log_file = open_things.enter_context(logging_to(console))
        minutes = settings.trainer.collective_timeout_minutes
        processes = open_things.enter_context(Processes.started(device, minutes))
        open_things.enter_context(resumable(folder))

        source = read()
        report("preparing the data and fitting linear parts")
        settings, choice = with_transform(settings, source, device)
        data = build_data(settings, device, source=source)
        settings = _with_seasons(settings, data)
        if last is not None:
            check_same_data(data, last)
        model = initial_network(settings, data, last).to(device)

        sinks = list[Sink]()
        if processes.rank == 0:
            notes = _record_start(settings, data, folder, last)
            start_log_file(folder.path / LOG)
            for note in filter(None, (choice, *notes)):
                log.info(note)
            log_run(settings, data, model, device)
            open_things.enter_context(folder.as_latest())
            sinks = open_sinks(settings, folder.path, None if last is None else last.progress)
        # fitted on first use: training reports values for which no baseline can be fitted
        baselines = cache(lambda: fit_baselines(data))
        n_steps, done = settings.trainer.n_steps(len(data.train)), 0 if last is None else last.progress.step
        limited = settings.trainer.max_minutes is not None
        tracker = open_things.enter_context(
            Tracker(sinks, n_steps=n_steps, console=console, done=done, is_limited=limited)
        )
        tracker.references = cache(lambda: reference_losses(baselines(), data, settings))

        progress = _train(settings, State(settings, model, last), data, folder, tracker, processes)
        if processes.rank > 0:
            return None
        log_gain(settings, progress)
        report("scoring on held-out rows")
        scores = score_best(settings, data, folder, baselines())
        if settings.trainer.refit:
            scores.notes.append(save_refit(settings, data, folder))
        tracker.final(conversion.flat(conversion.to_plain(settings)), final_metrics(scores, progress), progress.epoch)
        folder.finish()
        conclude(scores, data, folder, console)  # last: a run with a report counts as finished, and is not resumed
        log.info(f"      tensorboard --logdir {folder.path}")
        if scores.winner is Winner.baseline and not settings.model.CLOSED_FORM:
            log.info(better_command(settings))
        return scores


def prepare(settings: TrainConfig, folder: RunFolder) -> TrainConfig:
    """The complete configuration of a new run in this folder; nothing is written yet.

    Raises:
        InputError: there is a run in the folder, `decoder_attn` cannot be causal, or a tracker is not installed.
    """
    folder.check_new()
    check_installed(settings.trainer.tracker)
    decoder_attn, reason = resolve_decoder(settings.attn, settings.decoder_attn)
    return replace(settings, decoder_attn=decoder_attn, decoder_attn_reason=reason, run_dir=str(folder.path))


def _with_seasons(settings: TrainConfig, data: Data) -> TrainConfig:
    """The configuration with the seasons of the training rows, for the pretrained network."""
    if not isinstance(settings.model, ZeroConfig) or settings.model.seasons:
        return settings
    found = network_seasons(training_rows(data.panel, data.splits), data.targets)
    return replace(settings, model=replace(settings.model, seasons=list(found)))


def _record_start(
    settings: TrainConfig, data: Data, folder: RunFolder, last: Checkpoint | None
) -> tuple[str | None, ...]:
    """Write the configuration and facts of a new or continued run; returns notes on what will differ."""
    facts = provenance()
    if last is None:
        of_data = data_facts(settings, data).model_dump(include=RUN_FACTS)
        folder.begin(settings, facts | {"seed": settings.seed, "data": of_data})
        return ()
    began = folder.facts()
    if data.train.starts.device.type == "cpu" and (note := note_of_threads(began, facts["threads"])):
        log.warning(note)
    folder.resume(settings, facts)
    return (note_of_length(settings, last, len(data.train)),)


def _train(
    settings: TrainConfig, state: State, data: Data, folder: RunFolder, tracker: Tracker, processes: Processes
) -> Progress:
    """Train; the first process writes LAST, and BEST whenever the state is the best so far."""
    if settings.compile:
        check_compiler(data.train.starts.device)
    base = untrained(settings, data)

    def save(is_best: bool) -> None:
        if processes.rank > 0:
            return
        tracker.flush()
        done = {"progress": state.progress.model_copy()}
        if is_best:
            folder.save(checkpoint.BEST, base.model_copy(update=done | {"weights": state.scored.state_dict()}))
        tensors = {"weights": state.model.state_dict(), "state": state.tensors()}
        folder.save(checkpoint.LAST, base.model_copy(update=done | tensors))

    try:
        with StopRequest(second_ends=processes.size == 1) as stop:
            return fit(Session(settings, state, data, tracker=tracker, stop=stop, save=save, processes=processes))
    except Interrupted as interrupted:
        log.info(f"{interrupted}; saved. Continue with: {shell_command('train', ('resume', folder.path))}")
        raise


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
    batch_size, sample = settings.trainer.eval_batch_size, Sample(data.test, len(data.targets), MOST_RECENT)
    evaluation = score(best, data, batch_size=batch_size, calibration=calibration, baselines=calibrated, sample=sample)
    facts = saved.data.model_copy(update={"too_narrow": evaluation.shortfalls})
    state: dict[str, Tensor] = {}
    if errors is not None and calibration is not None and settings.trainer.calibration:
        state |= calibration.state()
        # for forecasts after the end of the data: also the errors on the test part, the newest there are
        errors_of = residuals_of(data, scored_at_once(best, batch_size, data))
        tested = errors_of(best.eval(), data.test, most=MOST_RECENT, known=torch.cat(sample.kept))
        recent = (tested if errors.lag != tested.lag else joined_errors([errors, tested])).calibration()
        if bool(recent.is_learned.any()):
            state |= {f"{intervals.RECENT}{name}": tensor for name, tensor in recent.state().items()}
    config = conversion.to_plain(settings)  # a continued run has another length
    folder.save(checkpoint.BEST, saved.model_copy(update={"config": config, "calibration": state, "data": facts}))
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
