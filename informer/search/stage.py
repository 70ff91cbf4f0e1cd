"""The part of a run that comes before training where its configuration leaves keys open."""

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from informer.build import check_attention, read_dataset
from informer.config import TrainConfig
from informer.data.pipeline import Source
from informer.errors import InputError
from informer.run_folder import LOG, RunFolder
from informer.runtime import provenance, seed_everything
from informer.search.record import NAME, Record, Trial
from informer.search.search import Budget, Search, comparable, given_values
from informer.search.space import Values, cheapest, least_sizes, lengths, with_values
from informer.search.trials import Laboratory
from informer.training.signals import Interrupted, StopRequest

log = logging.getLogger(__name__)


def search_first(
    settings: TrainConfig,
    folder: RunFolder,
    *,
    device: torch.device,
    console: Console,
    keep_in: Callable[[Path], None],
    n_processes: int,
) -> tuple[TrainConfig, Source]:
    """Choose what the configuration leaves open; the run directory then has it as that of the run.

    Args:
        folder: of the run; a search that was stopped in it goes on.
        device: where trials are made.
        console: for the table.
        keep_in: begins the log.
        n_processes: of the run.

    Returns:
        The configuration with nothing left open, and the series that were read.

    Raises:
        InputError: anything a user can mend.
        Interrupted: by a signal.
    """
    if n_processes > 1:
        raise InputError(
            f"model=auto: expected one process, torchrun started {n_processes}; search in one, then train what it "
            "chose with: torchrun ... -m informer.train --config-dir=RUN_DIR --config-name=config"
        )
    budget = Budget(settings.trainer.time_budget_minutes)
    source = read_dataset(settings, least_sizes(settings))
    _check_same(source, folder.facts())
    seq_lens = lengths(settings, source)
    check_attention(with_values(settings, cheapest(settings, seq_lens[-1])))
    common = comparable(settings, source, seq_lens)
    data = {"path": str(source.provenance.path), "sha256": source.provenance.sha256}
    folder.begin(settings, provenance() | {"seed": settings.seed, "data": data})
    keep_in(folder.path / LOG)
    _announce(settings, seq_lens)
    with StopRequest() as stop, folder.as_latest():
        lab = Laboratory(settings=settings, source=common, device=device, stop=stop)
        search = Search(lab, Record(folder.path / NAME), budget)
        trial = _choose(search, seq_lens, folder, console)
        chosen = search.resolved(trial)
    folder.chosen(chosen, _found(search, trial, chosen, budget))
    _conclude(search, trial, chosen, console)
    seed_everything(settings.seed)  # the run begins as its trial did
    return chosen, source


def _check_same(source: Source, facts: Mapping[str, Any]) -> None:
    before = facts.get("data", {}).get("sha256", source.provenance.sha256)
    if before != source.provenance.sha256:
        raise InputError(
            f"resume: expected the data that the search began with, {source.provenance.path} has changed since; "
            "start a new run"
        )


def _announce(settings: TrainConfig, seq_lens: list[int]) -> None:
    minutes = settings.trainer.time_budget_minutes
    within = "without a bound" if minutes is None else f"within {minutes:g} minutes, the run that follows included"
    log.info(f"search on the validation part, {within} (trainer.time_budget_minutes): seq_len of {seq_lens}")
    if given := given_values(settings):
        log.info(f"kept as given: {_phrase(given)}")


def _choose(search: Search, seq_lens: list[int], folder: RunFolder, console: Console) -> Trial:
    try:
        with console.status("searching") if console.is_terminal else nullcontext():
            return search.choose(seq_lens)
    except Interrupted as interrupted:
        log.info(f"{interrupted}; the search goes on with: python -m informer.train resume={folder.path}")
        raise


def _found(search: Search, trial: Trial, chosen: TrainConfig, budget: Budget) -> dict[str, Any]:
    """What run.json says of a search; its trials are in search.csv."""
    ridge = min((one for one in search.record.trials if not one.steps), key=lambda one: one.val_loss)
    return {
        "budget_minutes": search.settings.trainer.time_budget_minutes,
        "seconds": round(budget.spent, 1),
        "trials": len(search.record.trials),
        "given": given_values(search.settings),
        "chosen": _searched(search.settings, chosen),
        "ridge_alone": not trial.steps,
        "val_loss": trial.val_loss,
        "ridge_val_loss": ridge.val_loss,
        "ridge_penalty": ridge.penalty,
        "not_tried": search.not_tried,
    }


def _searched(settings: TrainConfig, chosen: TrainConfig) -> Values:
    values = given_values(chosen)  # nothing is open there: they are all
    return {key: value for key, value in values.items() if key in settings.search}


def _conclude(search: Search, trial: Trial, chosen: TrainConfig, console: Console) -> None:
    console.print(search.record.table(trial))
    if search.not_tried:
        log.info(f"not tried, for want of time: {'; '.join(search.not_tried)}")
    what = "" if trial.steps else "ridge alone, which no network improved enough: "
    log.info(f"chosen: {what}{_phrase(_searched(search.settings, chosen))}; validation loss {trial.val_loss:.5f}")


def _phrase(values: Values) -> str:
    """As the command line would have them."""
    return " ".join(f"{key}={json.dumps(value)}" for key, value in values.items())
