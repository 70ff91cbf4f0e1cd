"""`python -m informer.train dataset=ETTh1 attn=prob`: fit a model, score it once on the test part, keep it all.

The run directory holds config.yaml (resolved), run.json (command, versions, commit, seed, data checksum), train.log,
TensorBoard's event file, best.pt and last.pt, and the test report metrics.json and metrics.csv.
"""

import json
import logging
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from informer import checkpoint, cli, config
from informer.build import build_data, build_model, check_attention, dims_of, picked_by_length, resolve_decoder
from informer.config import TrainConfig
from informer.data.pipeline import Data
from informer.errors import InputError
from informer.files import write_atomic
from informer.inference.evaluate import score
from informer.inference.report import Evaluation
from informer.model import Informer
from informer.restore import restore_model
from informer.runtime import pick_device, provenance, seed_everything
from informer.training.loop import State, fit, n_steps
from informer.training.loss import LOSSES
from informer.training.tracker import Tracker

log = logging.getLogger("informer.train")


def main() -> None:
    """Console script `informer-train`."""
    cli.run("train", _act)


def _act(settings: TrainConfig) -> None:
    job = cli.job_number()
    parts = [f"{datetime.now():%Y-%m-%d_%H-%M-%S}", settings.dataset.name, cli.choice("attn"), job]
    name = "_".join(str(part) for part in parts if part is not None)
    train(settings, Path(settings.run_dir or Path("runs") / name), Console())


def train(settings: TrainConfig, run_dir: Path, console: Console) -> Evaluation:
    """One run, from the configuration to the test report.

    Args:
        settings: a checked configuration.
        run_dir: where the run is kept; it must not hold a run yet.
        console: for the progress bar, the epoch table and the report.

    Raises:
        InputError: anything a user can mend; until training starts nothing has been written.
    """
    if (run_dir / "config.yaml").exists():
        raise InputError(f"run_dir={run_dir}: expected a new folder, found a run in it; choose another")
    decoder_attn, reason = resolve_decoder(settings.attn, settings.decoder_attn)
    settings = replace(settings, decoder_attn=decoder_attn, decoder_attn_reason=reason, run_dir=str(run_dir))
    check_attention(settings)
    device = pick_device(settings.device.value)
    seed_everything(settings.seed)
    with cli.logging_to(console) as keep_in:
        data = build_data(settings, device)
        slots = {"attn": settings.attn, "decoder_attn": decoder_attn, "cross_attn": settings.cross_attn}
        model = build_model(settings.model, dims_of(data), **slots).to(device)
        _open_run(settings, run_dir, data)
        keep_in(run_dir / "train.log")
        _describe(settings, data, model, device)
        evaluation = _fit_and_score(settings, run_dir, console, model, data)
        _conclude(evaluation, run_dir, console)
    return evaluation


def _open_run(settings: TrainConfig, run_dir: Path, data: Data) -> None:
    """Make the run directory with what is known before the first step."""
    cli.make_folder(run_dir)
    write_atomic(run_dir / "config.yaml", config.to_yaml(settings))
    facts = provenance() | {"seed": settings.seed, "data": _data_facts(data)}
    write_atomic(run_dir / "run.json", json.dumps(facts, indent=2) + "\n")


def _data_facts(data: Data) -> dict[str, Any]:
    return {
        "path": str(data.provenance.path),
        "sha256": data.provenance.sha256,
        "series": len(data.panel),
        "rows": sum(map(len, data.panel)),
        "time_col": data.panel[0].time_col,
        "windows": {"train": len(data.train), "val": len(data.val), "test": len(data.test)},
    }


def _describe(settings: TrainConfig, data: Data, model: Informer, device: torch.device) -> None:
    n_parameters = sum(p.numel() for p in model.parameters())
    series = f"{len(data.panel)} series, " if len(data.panel) > 1 else ""
    n_rows = sum(map(len, data.panel))
    log.info(
        f"{settings.dataset.name}: {series}{n_rows} rows at {data.frequency.code}, {len(data.inputs)} columns in, "
        f"{len(data.targets)} out; windows {len(data.train)} train, {len(data.val)} val, {len(data.test)} test"
    )
    log.info(f"model: {n_parameters:,} parameters on {device}; run directory {settings.run_dir}")
    if settings.decoder_attn_reason:
        log.info(settings.decoder_attn_reason)
    picked = picked_by_length(model)
    if picked:
        log.info(f"attention by length: {', '.join(picked)}")


def _fit_and_score(settings: TrainConfig, run_dir: Path, console: Console, model: Informer, data: Data) -> Evaluation:
    def save(state: State) -> None:
        content = _checkpoint(settings, data, state)
        if state.is_best:
            checkpoint.save(run_dir / checkpoint.BEST, replace(content, training=None))
        checkpoint.save(run_dir / checkpoint.LAST, content)
        if state.epoch == 1:  # from here on there is something to evaluate
            cli.point_latest(run_dir)

    with Tracker(run_dir, n_steps=n_steps(settings.trainer, len(data.train)), console=console) as tracker:
        stopping = fit(
            model,
            data,
            trainer=settings.trainer,
            optim=settings.optim,
            loss=LOSSES[settings.loss.kind],
            seed=settings.seed,
            tracker=tracker,
            save=save,
        )
        best = restore_model(checkpoint.load(run_dir)).to(next(model.parameters()).device)
        evaluation = score(best, data, batch_size=settings.trainer.eval_batch_size)
        errors = evaluation.errors[evaluation.model].scaled.overall()
        tracker.final(
            _flat(config.to_plain(settings)),
            {
                "test/mse": errors["mse"],
                "test/mae": errors["mae"],
                "test/skill": evaluation.skill,
                "val/best_loss": stopping.best_loss,
            },
        )
    return evaluation


def _checkpoint(settings: TrainConfig, data: Data, state: State) -> checkpoint.Checkpoint:
    return checkpoint.Checkpoint(
        config=config.to_plain(settings),
        dims=asdict(dims_of(data)),
        inputs=list(data.inputs),
        targets=list(data.targets),
        future_covariates=list(data.columns.future_covariates),
        frequency=data.frequency.code,
        scaler=data.scaler.state(),
        weights=state.model.state_dict(),
        data=_data_facts(data),
        epoch=state.epoch,
        step=state.step,
        val_loss=state.stopping.best_loss,
        training={
            "optimizer": state.optimizer.state_dict(),
            "stopping": vars(state.stopping),
            "rng": torch.get_rng_state(),
        },
    )


def _flat(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"model": {"d_model": 8}} -> {"model.d_model": 8}."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _conclude(evaluation: Evaluation, run_dir: Path, console: Console) -> None:
    evaluation.save(run_dir)
    console.print(evaluation.table())
    for line in [*evaluation.remarks, evaluation.verdict]:
        log.info(line)
    log.info(f"next: python -m informer.predict checkpoint={run_dir} input=FILE.csv output=forecasts")
    log.info(f"      tensorboard --logdir {run_dir}")


if __name__ == "__main__":
    main()
