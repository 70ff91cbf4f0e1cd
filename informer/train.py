"""`python -m informer.train dataset=ETTh1 attn=prob`: fit a model, score it once on the test part, keep it all.

The run directory holds config.yaml (resolved), run.json (command, versions, commit, seed, data checksum), train.log,
TensorBoard's event file, best.pt and last.pt, and the test report metrics.json and metrics.csv. `resume=` goes on with
a run that was stopped, as if it had not been.
"""

import sys

if __name__ == "__main__":  # the imports below take seconds, and Ctrl-C meanwhile is no reason for a traceback
    import signal

    signal.signal(signal.SIGINT, lambda number, frame: sys.exit(128 + number))

import logging
import os
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from informer import checkpoint, cli, conversion
from informer.build import SLOTS, build_data, build_model, check_attention, dims_of, picked_by_length, resolve_decoder
from informer.checkpoint import Checkpoint
from informer.config import TrainConfig
from informer.data.pipeline import Data
from informer.errors import InputError, counted
from informer.inference.conformal import calibrate
from informer.inference.evaluate import score
from informer.inference.report import Evaluation
from informer.layers.framing import Highway
from informer.model import Informer
from informer.restore import restore_model
from informer.run_folder import LOG, RunFolder
from informer.runtime import pick_device, process_rank, provenance, seed_everything, set_deterministic
from informer.search.stage import search_first
from informer.training.compiling import compile_model
from informer.training.config import n_steps
from informer.training.distributed import Processes
from informer.training.early_stopping import EarlyStopping
from informer.training.events import NAME as EVENTS
from informer.training.freezing import freeze
from informer.training.highway import fit_highway
from informer.training.loop import fit
from informer.training.loss import build_loss
from informer.training.signals import Interrupted, StopRequest
from informer.training.state import State
from informer.training.tracker import Tracker
from informer.warm_start import warm_start

log = logging.getLogger("informer.train")

MOVABLE = ("device", "data_dir")
"""Keys that may be given with `resume`; all others are the run's own."""


def main() -> None:
    """Console script `informer-train`."""
    cli.run("train", _act)


def _act(settings: TrainConfig) -> None:
    console = cli.main_console()
    try:
        if settings.resume is not None:
            others = [key for key in cli.given_keys() if key not in ("resume", *MOVABLE)]
            if others:
                raise InputError(f"resume: the run keeps its own configuration; leave out {', '.join(others)}")
            moved = {key: getattr(settings, key) for key in cli.given_keys() if key in MOVABLE}
            resume(RunFolder.of(Path(settings.resume)), console, **moved)
        else:
            train(settings, Path(settings.run_dir or Path("runs") / _name(settings)), console)
    except Interrupted as interrupted:
        sys.exit(interrupted.exit_status)


def _name(settings: TrainConfig) -> str:
    parts = [f"{datetime.now():%Y-%m-%d_%H-%M-%S}", settings.dataset.name, cli.choice("attn"), cli.job_number()]
    return "_".join(str(part) for part in parts if part is not None)


def train(settings: TrainConfig, run_dir: Path, console: Console) -> Evaluation | None:
    """One run, from the configuration to the test report; None in processes that are not the first of several.

    Args:
        settings: a checked configuration.
        run_dir: where the run is kept; it must not hold a run yet.
        console: for the progress bar, the epoch table and the report.

    Raises:
        InputError: anything a user can mend; until training starts nothing has been written.
        Interrupted: Ctrl-C or SIGTERM; the run has saved itself.
    """
    folder = RunFolder(run_dir)
    if folder.holds_a_run and process_rank() == 0:
        raise InputError(
            f"run_dir={run_dir}: expected a new folder, found a run in it; choose another, or resume={run_dir}"
        )
    decoder_attn, reason = resolve_decoder(settings.attn, settings.decoder_attn)
    settings = replace(settings, decoder_attn=decoder_attn, decoder_attn_reason=reason, run_dir=str(run_dir))
    if not settings.search:
        check_attention(settings)
    return _run(settings, folder, console, None)


def resume(folder: RunFolder, console: Console, **moved: Any) -> Evaluation | None:
    """Go on with a run as if it had never stopped; None if it is finished.

    Args:
        folder: of a run; one that was killed before it saved anything starts again.
        console: as in `train`.
        moved: device, data_dir, where they are others now; all else is the run's own.

    Raises:
        InputError: also when the data are no longer those of the run.
        Interrupted: as in `train`.
    """
    if folder.is_finished:
        cli.say(console, f"{folder.path} is finished: nothing to resume; see its metrics.json, or start another run")
        return None
    settings = replace(folder.settings(), **moved)
    return _run(settings, folder, console, folder.last())


def _run(settings: TrainConfig, folder: RunFolder, console: Console, last: Checkpoint | None) -> Evaluation | None:
    device = pick_device(settings.device.value)
    set_deterministic(settings.trainer.deterministic)
    seed_everything(settings.seed)
    with cli.logging_to(console) as keep_in, Processes.started(device) as processes:
        source = None
        if settings.search:
            settings, source = search_first(
                settings, folder, device=device, console=console, keep_in=keep_in, n_processes=processes.size
            )
        data = build_data(settings, device, source=source)
        if last is not None:
            _check_same_data(data, last)
        model = _begin_with_weights(settings, data, last).to(device)
        if not processes.is_main:
            _fit(settings, model, data, last, _tracker(settings, Path(os.devnull), data, last, console), processes)
            return None
        if last is None:
            folder.begin(settings, provenance() | {"seed": settings.seed, "data": _data_facts(data)})
        else:
            folder.resume(provenance())
        keep_in(folder.path / LOG)
        _describe(settings, data, model, device)
        with folder.as_latest(), _tracker(settings, folder.path / EVENTS, data, last, console) as tracker:
            stopping = _fit(settings, model, data, last, tracker, processes)
            _describe_gain(settings, stopping)
            evaluation = _score(settings, folder, data, device, tracker, stopping)
            _conclude(evaluation, folder.path, console)
    return evaluation


def _begin_with_weights(settings: TrainConfig, data: Data, last: Checkpoint | None) -> Informer:
    """The network with fresh weights (or a fitted highway), those of `init_from`, or those it was stopped with."""
    slots = {slot: getattr(settings, slot) for slot in SLOTS}
    model = build_model(settings.model, dims_of(data), **slots, quantiles=settings.loss.quantiles)
    if last is not None:
        model.load_state_dict(last.weights)
    elif settings.init_from is not None:
        older = checkpoint.load(Path(settings.init_from))
        transfer = warm_start(
            model, older, inputs=data.inputs, targets=data.targets, mark_sizes=dims_of(data).mark_sizes
        )
        log.info(f"init_from={settings.init_from}: {transfer}")
    elif settings.model.highway is Highway.ridge:
        assert model.highway is not None
        log.info(fit_highway(model.highway.weight, data).note)
    freeze(model, settings.trainer.freeze)
    return model


def _describe_gain(settings: TrainConfig, stopping: EarlyStopping) -> None:
    """What the network added to the part that was fitted before it."""
    if stopping.start_loss:  # zero, of a series that never changes, leaves nothing to take off
        share = 1.0 - stopping.best_loss / stopping.start_loss
        start = "ridge alone" if settings.init_from is None else "what it began with"
        log.info(
            f"the network took {share:.2%} off the validation loss of {start} "
            f"({stopping.start_loss:.5f}, now {stopping.best_loss:.5f})"
        )


def _check_same_data(data: Data, last: Checkpoint) -> None:
    if data.provenance.sha256 != last.data["sha256"]:
        raise InputError(
            f"resume: expected the data that the run began with, {data.provenance.path} has changed since "
            f"(sha256 {last.data['sha256'][:12]}..., now {data.provenance.sha256[:12]}...); start a new run"
        )


def _data_facts(data: Data) -> dict[str, Any]:
    return {
        "path": str(data.provenance.path),
        "sha256": data.provenance.sha256,
        "series": len(data.panel),
        "rows": sum(map(len, data.panel)),
        "time_col": data.panel[0].time_col,
        "windows": _window_counts(data),
    }


def _window_counts(data: Data) -> dict[str, int]:
    parts = {"train": data.train, "val": data.val, "calibration": data.calibration, "test": data.test}
    return {name: len(windows) for name, windows in parts.items() if windows is not None}


def _describe(settings: TrainConfig, data: Data, model: Informer, device: torch.device) -> None:
    n_parameters = sum(p.numel() for p in model.parameters())
    series = f"{len(data.panel)} series, " if len(data.panel) > 1 else ""
    n_rows = sum(map(len, data.panel))
    windows = ", ".join(f"{n} {part}" for part, n in _window_counts(data).items())
    log.info(
        f"{settings.dataset.name}: {series}{n_rows} rows at {data.frequency.code}, "
        f"{counted(len(data.inputs), 'column')} in, {len(data.targets)} out; windows {windows}"
    )
    if settings.trainer.calibration and data.calibration is None:
        log.warning("validation part too short to be divided: no calibration, so this model gives no intervals")
    precision = settings.precision.on(device).value
    log.info(f"model: {n_parameters:,} parameters on {device}, {precision}; run directory {settings.run_dir}")
    if settings.decoder_attn_reason:
        log.info(settings.decoder_attn_reason)
    picked = picked_by_length(model)
    if picked:
        log.info(f"attention by length: {', '.join(picked)}")


def _tracker(settings: TrainConfig, events: Path, data: Data, last: Checkpoint | None, console: Console) -> Tracker:
    return Tracker(
        events,
        n_steps=n_steps(settings.trainer, len(data.train)),
        console=console,
        done=0 if last is None else last.step,
        length=0 if last is None or last.training is None else last.training["events"],
    )


def _fit(
    settings: TrainConfig,
    model: Informer,
    data: Data,
    last: Checkpoint | None,
    tracker: Tracker,
    processes: Processes,
) -> EarlyStopping:
    assert settings.run_dir is not None
    run_dir, same = Path(settings.run_dir), _unchanging(settings, data)

    def save(state: State, is_best: bool) -> None:
        if not processes.is_main:
            return
        content = Checkpoint(
            **same,
            weights=state.model.state_dict(),
            epoch=state.progress.epoch,
            step=state.progress.step,
            val_loss=state.stopping.best_loss,
            training=state.training() | {"events": tracker.events.sync()},
        )
        if is_best:
            checkpoint.save(run_dir / checkpoint.BEST, replace(content, training=None))
        checkpoint.save(run_dir / checkpoint.LAST, content)

    if settings.compile:
        compile_model(model, data.train.starts.device)
    try:
        with StopRequest(second_ends=processes.size == 1) as stop:
            return fit(
                model,
                data,
                trainer=settings.trainer,
                optim=settings.optim,
                loss=build_loss(settings.loss),
                seed=settings.seed,
                tracker=tracker,
                save=save,
                stop=stop,
                starts_fitted=settings.model.highway is Highway.ridge,
                precision=settings.precision,
                processes=processes,
                resumed=None if last is None else last.training,
            )
    except Interrupted as interrupted:
        log.info(f"{interrupted}; saved. Go on with: python -m informer.train resume={run_dir}")
        raise


def _score(
    settings: TrainConfig,
    folder: RunFolder,
    data: Data,
    device: torch.device,
    tracker: Tracker,
    stopping: EarlyStopping,
) -> Evaluation:
    evaluation = _score_best(folder.path, data, device, settings.trainer.eval_batch_size)
    errors = evaluation.errors[evaluation.model].scaled.overall()
    tracker.final(
        conversion.flat(conversion.to_plain(settings)),
        {
            "test/mse": errors["mse"],
            "test/mae": errors["mae"],
            "test/skill": evaluation.skill,
            "val/best_loss": stopping.best_loss,
            **({"test/pinball": evaluation.mean_pinball} if evaluation.quantiles else {}),
        },
    )
    return evaluation


def _score_best(run_dir: Path, data: Data, device: torch.device, batch_size: int) -> Evaluation:
    """The best checkpoint on the test part, after it has been given its intervals."""
    saved = checkpoint.load(run_dir)
    best = restore_model(saved).to(device)
    calibration = calibrate(best, data.calibration, batch_size=batch_size) if data.calibration else None
    if calibration is not None:
        checkpoint.save(run_dir / checkpoint.BEST, replace(saved, calibration=calibration.state()))
    return score(best, data, batch_size=batch_size, calibration=calibration)


def _unchanging(settings: TrainConfig, data: Data) -> dict[str, Any]:
    """What all checkpoints of a run have in common."""
    return {
        "config": conversion.to_plain(settings),
        "dims": asdict(dims_of(data)),
        "inputs": list(data.inputs),
        "targets": list(data.targets),
        "future_covariates": list(data.columns.future_covariates),
        "frequency": data.frequency.code,
        "scaler": data.scaler.state(),
        "data": _data_facts(data),
    }


def _conclude(evaluation: Evaluation, run_dir: Path, console: Console) -> None:
    evaluation.save(run_dir)
    console.print(evaluation.table())
    for line in [*evaluation.remarks, evaluation.verdict]:
        log.info(line)
    log.info(f"next: python -m informer.predict checkpoint={run_dir} input=FILE.csv output=forecasts")
    log.info(f"      tensorboard --logdir {run_dir}")


if __name__ == "__main__":
    main()
