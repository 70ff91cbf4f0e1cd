"""Runs whose configuration may have open keys (`model=auto`): a search chooses these on validation data first.

The command and `Forecaster.fit` call `train` and `resume`, with or without `model=auto`.
"""

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from rich.console import Console

from informer.base.console import say
from informer.base.errors import InputError, counted, with_addresses
from informer.base.runtime import provenance, seed_everything
from informer.base.start import Interrupted, StopRequest
from informer.build import check_attention, read_dataset, with_static
from informer.checkpoint.format import ATTRIBUTES, Checkpoint
from informer.checkpoint.paths import LAST, LOG, SEARCH
from informer.checkpoint.restore import attributes_in
from informer.config.commands import EngineName
from informer.config.data import OWN_PLACES
from informer.config.model import WindowSizes
from informer.config.overrides import shell_command, to_display
from informer.config.training import TrainConfig, check
from informer.data.dataset import Source
from informer.data.recorded import find_again, own_cache
from informer.scoring.scores import Evaluation
from informer.search.search import PATIENCE, Budget, Search, WorkClock
from informer.search.space import Values, cheapest, comparable, fixed_values, least_sizes, lengths, with_values
from informer.search.trials import Record, TrialRunner, trial_engine
from informer.training.folder import LENGTH, RunFolder
from informer.training.run import RunContext, SearchResult, prepare, run_context, train_and_score, with_transform
from informer.training.state import check_goes_on, check_training, resumable

Read = Callable[[WindowSizes], Source]
"""Reads the series of a dataset; the argument is the size of the shortest windows that will be used."""

log = logging.getLogger(__name__)

ATTRIBUTES_SHA256 = "attributes_sha256"
"""Entry of `data` in run.json: checksum of the attributes of the series, if they came from a table of their own."""


def train(
    settings: TrainConfig, folder: RunFolder, console: Console, *, read: Read | None = None, began: float | None = None
) -> Evaluation | None:
    """Make one run, from the configuration to the test report.

    Args:
        folder: run directory; it must not contain a run yet.
        console: shows the progress bar, the epoch table and the report.
        read: returns the series. Default: those of the configured dataset.
        began: start of the time budget, in seconds of `time.monotonic()`. Default: now.

    Returns:
        The test scores; None in every process but the first if several train together.

    Raises:
        InputError: a mistake of the user; nothing is written before training starts.
        Interrupted: Ctrl-C or SIGTERM; the run can be resumed.
    """
    budget = _budget(settings, 0.0 if began is None else time.monotonic() - began)
    settings = prepare(settings, folder)
    if not settings.search:
        check_attention(settings)
    with folder.claimed():
        folder.check_new()  # another process may have started a run here in the meantime
        return _run(settings, folder, console, read or partial(read_dataset, settings), budget=budget)


def resume(
    folder: RunFolder, console: Console, requested: TrainConfig | None = None, *, set_keys: Collection[str] = ()
) -> Evaluation | None:
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
        cache = nullcontext(settings.dataset) if "data_dir" in set_keys else own_cache(settings.dataset, folder.path)
        with cache as dataset:
            settings = replace(settings, dataset=dataset)
            recorded = None if last is None else attributes_in(last)
            read = partial(read_dataset, settings, attributes=recorded)
            return _run(settings, folder, console, read, last=last)


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
        check_training(last.training or {})
    if length := [key.partition(".")[2] for key in LENGTH if key in set_keys]:
        if settings.search:
            raise InputError("resume: the search of model=auto is not finished; continue it first, without other keys")
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
    if last is None and folder.facts().get("data", {}).get(ATTRIBUTES) and "attributes" not in locations:
        raise InputError(
            f"resume={folder.path}: the run has saved nothing yet, so also no attributes of its series; name their "
            "file again: dataset.attributes=FILE"
        )
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
    budget: Budget | None = None,
) -> Evaluation | None:
    with run_context(settings, folder, console) as context, resumable(folder):
        if settings.search:
            settings, source, searched = search_first(settings, context, read, budget)
            return train_and_score(settings, context, source, last, searched)
        source = read(settings.sizes)
        return train_and_score(with_static(settings, source), context, source, last)


def search_first(
    settings: TrainConfig, context: RunContext, read: Read, budget: Budget | None = None
) -> tuple[TrainConfig, Source, SearchResult]:
    """Choose the values of all open keys and write the resulting configuration to the run directory.

    Args:
        settings: a checked configuration with open keys.
        context: run directory, device and console. A search that was stopped in this directory continues.
        read: returns the series.
        budget: time for the search and the run. Default: the configured budget, starting now.

    Returns:
        The configuration without open keys, the series, and what the run need not compute again.

    Raises:
        InputError: a mistake of the user.
        Interrupted: on a signal.
    """
    if context.processes.size > 1:
        raise InputError(
            f"model=auto: expected one process, torchrun started {context.processes.size}; search in one, then train "
            "what it chose with: torchrun ... -m informer.train --config-dir=RUN_DIR --config-name=config"
        )
    budget, folder = budget or _budget(settings), context.folder
    source, facts = read(least_sizes(settings)), folder.facts().get("data", {})
    now: dict[str, tuple[str, object]] = {"sha256": (source.provenance.sha256, source.provenance.path)}
    if source.attributes:
        now[ATTRIBUTES_SHA256] = source.attributes.sha256, source.attributes.where
    for name, (checksum, where) in now.items():
        if facts.get(name, checksum) != checksum:
            raise InputError(
                f"resume: expected the data that the search began with, {where} has changed since; start a new run"
            )
    settings = with_static(settings, source)
    seq_lens = lengths(settings, source)
    check_attention(with_values(settings, cheapest(settings, seq_lens[-1])))
    common = comparable(settings, source, seq_lens)
    data: dict[str, Any] = {"path": with_addresses(str(source.provenance.path))}
    data |= {name: checksum for name, (checksum, _) in now.items()}
    data |= {ATTRIBUTES: source.attributes.columns} if source.attributes else {}
    folder.begin(settings, provenance() | {"seed": settings.seed, "data": data})
    context.start_log_file(folder.path / LOG)
    minutes, given = settings.trainer.time_budget_minutes, fixed_values(settings)
    within = "without a bound" if minutes is None else f"within {minutes:.3g} minutes, the run that follows included"
    log.info(f"search on the validation part, {within} (trainer.time_budget_minutes): seq_len of {seq_lens}")
    if given:
        log.info(f"kept as given: {_phrase(given)}")
    # the transform is chosen for a lookback window of medium length
    medium = with_values(settings, cheapest(settings, seq_lens[len(seq_lens) // 2]))
    resolved, note = with_transform(medium, common, context.device)
    if note:
        log.info(note)
    settings = replace(settings, scaler=resolved.scaler)
    console = context.console
    with trial_engine(settings, context.device) as engine, StopRequest() as stop, folder.as_latest():
        trials = TrialRunner(settings, common, context.device, stop, budget.clock)
        search = Search(trials, Record(folder.path / SEARCH), budget, engine)
        try:
            with console.status("searching") if console.is_terminal else nullcontext():
                trial = search.choose(seq_lens)
        except Interrupted as interrupted:
            log.info(f"{interrupted}; continue the search with: {shell_command('train', ('resume', folder.path))}")
            raise
        chosen = search.resolved(trial)
    # `chosen` has no open keys, so its fixed values are those of all searched keys
    found = {key: value for key, value in fixed_values(chosen).items() if key in search.settings.search}
    linear = next(recorded for recorded in search.record.trials if not recorded.steps)
    record = {
        "budget_minutes": minutes,
        "seconds": round(budget.spent, 1),
        "trials": len(search.record.trials),
        "given": given,
        "chosen": found,
        "linear_alone": not trial.steps,
        "val_loss": trial.val_loss,
        "linear_val_loss": linear.val_loss,
        "linear": linear.start.note,
        "not_tried": search.not_tried,
        "enough_minutes": search.enough / 60,
    }
    folder.chosen(chosen, record)
    console.print(search.record.table(trial))
    if search.not_tried:
        log.info(f"skipped, time budget used up: {skipped(record)}")
    what = "" if trial.steps else "the linear forecast, which no network improved enough: "
    log.info(f"chosen: {what}{_phrase(found)}; validation loss {trial.val_loss:.5f}")
    seed_everything(settings.seed)  # so that the run starts from the same weights as its trial
    fitted = trials.maps(chosen) if len(common.panel) == len(source.panel) else None
    return chosen, source, SearchResult(fitted, search.fit_seconds, lambda: budget.left)


def skipped(record: Mapping[str, Any]) -> str:
    """What a search has not tried for lack of time, and the budget that it wants."""
    minutes = counted(math.ceil(record["enough_minutes"]), "minute")
    return f"{'; '.join(record['not_tried'])}: a budget of about {minutes} has time for that"


def _budget(settings: TrainConfig, spent: float = 0.0) -> Budget:
    """The time budget, of which some seconds are spent. Workers of Ray do not compute in this thread."""
    patience = 1.0 if settings.engine is EngineName.ray else PATIENCE
    return Budget(settings.trainer.time_budget_minutes, clock=WorkClock(patience), spent=spent)


def _phrase(values: Values) -> str:
    return " ".join(f"{key}={to_display(value)}" for key, value in values.items())
