"""One run, from its configuration to its report: read the data, build the network, train, score, save.

Used by the command, `Forecaster.fit` and the search. `prepare` completes the configuration, `run_context` sets up
device, log and processes, and `train_and_score` is the run.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from informer import checkpoint, progress
from informer.build import build_data, dims_of, resolve_decoder
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.paths import LOG, LOSSES
from informer.checkpoint.restore import attributes_in, dims_in
from informer.config import conversion
from informer.config.overrides import next_command, shell_command
from informer.config.schema import TrainConfig
from informer.console import logging_to
from informer.data.pipeline import Data
from informer.data.sources import Source
from informer.errors import InputError
from informer.inference.baselines import FittedBaseline
from informer.inference.bootstrap import Winner
from informer.inference.evaluate import fit_baselines
from informer.inference.evaluation import Evaluation
from informer.models.base import ForecastModel
from informer.progress import Status
from informer.runtime import pick_device, provenance, seed_everything, set_deterministic
from informer.training.checkpointer import Checkpointer
from informer.training.compiling import check_compiler
from informer.training.continuing import note_of_length
from informer.training.describe import better_command, checkpoint_facts, data_facts, log_gain, log_run
from informer.training.distributed import Processes
from informer.training.initial import initial_network
from informer.training.loop import fit
from informer.training.loss import build_loss
from informer.training.run_dir import RunFolder
from informer.training.scoring import SearchResult, final_metrics, score_best
from informer.training.session import Session
from informer.training.signals import Interrupted, StopRequest
from informer.training.state import EVENTS, State
from informer.training.stopping import EarlyStopping
from informer.training.target_transform import with_transform
from informer.training.tracking.curves import reference_losses
from informer.training.tracking.loss_table import LossFile
from informer.training.tracking.sinks import Sink, check_installed, open_sinks
from informer.training.tracking.tracker import Tracker
from informer.training.update_state import save_refit_and_state

log = logging.getLogger("informer.train")


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
    searched: SearchResult | None = None,
) -> Evaluation | None:
    """Train, and score the best epoch once on the test part; None in all processes but the first.

    Args:
        settings, source: complete configuration, and the series.
        context: device, folder and processes of the run.
        last, searched: the run's last saved state (None: a new run), and results of a search before it.

    Raises:
        InputError: an error the user can fix; nothing is written before training starts.
        Interrupted: Ctrl-C or SIGTERM; the state was saved.
    """
    progress.report(Status(doing="preparing the data and fitting linear parts"))
    settings, chosen = with_transform(settings, source, context.device)
    data = build_data(settings, context.device, source=source)
    if last is not None:
        _check_same_data(data, last)
    model = initial_network(settings, data, last, searched.maps if searched else None).to(context.device)
    if not context.processes.is_main:
        with _tracker(settings, {}, data, last, context.console) as tracker:
            _train(settings, model, data, context, tracker, last)
        return None
    _record_start(settings, data, context, last, chosen)
    log_run(settings, data, model, context.device)
    # fitted on first use: training reports values for which no baseline can be fitted
    baselines = cache(lambda: fit_baselines(data))
    with (
        context.folder.as_latest(),
        _tracker(settings, _sinks(settings, context, last), data, last, context.console) as tracker,
    ):
        tracker.references = cache(lambda: _references(settings, data, baselines()))
        stopping = _train(settings, model, data, context, tracker, last)
        log_gain(settings, stopping)
        return _score_and_save(settings, data, context, tracker, baselines(), stopping, searched)


def _score_and_save(
    settings: TrainConfig,
    data: Data,
    context: RunContext,
    tracker: Tracker,
    baselines: Sequence[FittedBaseline],
    stopping: EarlyStopping,
    searched: SearchResult | None,
) -> Evaluation:
    """Score the best epoch, and save what the finished run contains: refit, state for updates, scores."""
    progress.report(Status(doing="scoring on held-out rows"))
    evaluation, errors = score_best(
        settings, data, context.folder, context.console, context.device, baselines, searched
    )
    if note := save_refit_and_state(settings, data, context.folder.path, errors):
        evaluation = replace(evaluation, notes=(*evaluation.notes, note))
    plain = conversion.flat(conversion.to_plain(settings))
    tracker.final(plain, final_metrics(evaluation, stopping), stopping.epochs)
    context.folder.finish()
    _conclude(evaluation, context)  # last: a run with a report counts as finished, and is not resumed
    if evaluation.winner is Winner.baseline and "search" not in context.folder.facts():
        log.info(better_command(settings))
    if evaluation.warning:
        log.warning(f"warning: {evaluation.warning}")
    return evaluation


def _check_same_data(data: Data, last: Checkpoint) -> None:
    if dims_in(last) != dims_of(data):
        raise InputError(f"resume: expected data that fit the network of {checkpoint.LAST}, found others")
    if data.provenance.sha256 != last.data["sha256"]:
        raise InputError(
            f"resume: expected the data that the run began with, {data.provenance.path} has changed since "
            f"(sha256 {last.data['sha256'][:12]}..., now {data.provenance.sha256[:12]}...); start a new run"
        )
    recorded = attributes_in(last)
    if recorded and data.attributes and recorded.sha256 != data.attributes.sha256:
        raise InputError(
            f"resume: expected the attributes of series that the run began with, {data.attributes.where} has others; "
            "leave dataset.attributes out, or start a new run"
        )


def _record_start(settings: TrainConfig, data: Data, context: RunContext, last: Checkpoint | None, chosen: str) -> None:
    if last is None:
        context.folder.begin(settings, provenance() | {"seed": settings.seed, "data": data_facts(data)})
    else:
        facts = provenance()
        if context.device.type == "cpu":
            _warn_of_threads(context.folder.facts(), facts)
        context.folder.resume(settings, facts)
    context.start_log_file(context.folder.path / LOG)
    if chosen:
        log.info(chosen)
    if last is not None and (note := note_of_length(settings, last, len(data.train))):
        log.info(note)


def _warn_of_threads(began: dict[str, Any], now: dict[str, Any]) -> None:
    """Warn about another number of threads, which changes the rounding of sums."""
    before = [facts.get("threads") for facts in (began, *began.get("resumed", []))]
    other = next((threads for threads in before if threads not in (None, now["threads"])), None)
    if other is not None:
        log.warning(
            f"resume: the run began with {other} threads, and continues with {now['threads']}: results will differ in "
            f"their last bits from those of an uninterrupted run; set OMP_NUM_THREADS={other} to keep them equal"
        )


def _sinks(settings: TrainConfig, context: RunContext, last: Checkpoint | None) -> dict[str, Sink]:
    positions = {} if last is None or last.training is None else last.training[EVENTS]
    kinds, folder = settings.trainer.tracker, context.folder.path
    sinks: dict[str, Sink] = {LOSSES: LossFile(folder, settings.loss, n_rows=positions.get(LOSSES, 0))} if kinds else {}
    return sinks | open_sinks(kinds, folder, positions)


def _references(settings: TrainConfig, data: Data, baselines: Sequence[FittedBaseline]) -> dict[str, float]:
    quantiles, batch_size = len(settings.loss.quantiles), settings.trainer.eval_batch_size
    loss = build_loss(settings.loss, has_gaps=data.val.store.has_gaps)
    return reference_losses(baselines, data, loss, n_quantiles=quantiles, batch_size=batch_size)


def _tracker(
    settings: TrainConfig, sinks: Mapping[str, Sink], data: Data, last: Checkpoint | None, console: Console
) -> Tracker:
    return Tracker(
        sinks,
        n_steps=settings.trainer.n_steps(len(data.train)),
        console=console,
        done=0 if last is None else last.step,
    )


def _train(
    settings: TrainConfig,
    model: ForecastModel,
    data: Data,
    context: RunContext,
    tracker: Tracker,
    last: Checkpoint | None,
) -> EarlyStopping:
    if settings.compile:
        check_compiler(context.device)
    save = _saving(settings, data, context, tracker)
    try:
        with StopRequest(second_ends=context.processes.size == 1) as stop:
            minutes = settings.trainer.save_every_minutes
            session = Session.begin(
                settings,
                model,
                data,
                tracker=tracker,
                checkpointer=Checkpointer(
                    save, every_minutes=minutes, stop=stop, processes=context.processes, device=context.device
                ),
                processes=context.processes,
                resumed=None if last is None else last.training,
            )
            return fit(session)
    except Interrupted as interrupted:
        log.info(f"{interrupted}; saved. Continue with: {shell_command('train', ('resume', context.folder.path))}")
        raise


def _saving(settings: TrainConfig, data: Data, context: RunContext, tracker: Tracker) -> Callable[[State, bool], None]:
    """A function that writes last.pt, and best.pt if the state is the best so far; only in the first process."""
    facts, folder = checkpoint_facts(settings, data), context.folder.path

    def save(state: State, is_best: bool) -> None:
        content = Checkpoint(
            **facts,
            weights=state.model.state_dict(),
            epoch=state.progress.epoch,
            step=state.progress.step,
            val_loss=state.stopping.best_loss,
            training=state.training() | {EVENTS: tracker.sync()},
        )
        if is_best:
            best = replace(content, training=None, weights=state.scored.state_dict())
            checkpoint.save(folder / checkpoint.BEST, best)
        checkpoint.save(folder / checkpoint.LAST, content)

    return save if context.processes.is_main else lambda state, is_best: None


def _conclude(evaluation: Evaluation, context: RunContext) -> None:
    evaluation.save(context.folder.path)
    context.console.print(evaluation.table())
    for line in [*evaluation.remarks, evaluation.verdict]:
        log.info(line)
    log.info(f"next: {next_command(context.folder.path)}")
    log.info(f"      tensorboard --logdir {context.folder.path}")
