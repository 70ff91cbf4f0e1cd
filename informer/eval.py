"""`python -m informer.eval checkpoint=runs/latest`: score a trained model and two baselines on its test part.

Writes metrics.json, metrics.csv and, with plots=true, error_by_step.png.
"""

import logging
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from informer import checkpoint, cli
from informer.build import build_data, dims_of
from informer.config import EvalConfig, TrainConfig, from_plain
from informer.data.pipeline import Data
from informer.data.scaler import PanelScaler
from informer.errors import InputError
from informer.inference.evaluate import score
from informer.inference.report import Evaluation
from informer.plots import plot_error_by_step, save_figure
from informer.restore import restore_model
from informer.runtime import pick_device

log = logging.getLogger("informer.eval")


def main() -> None:
    """Console script `informer-eval`."""
    cli.run("eval", lambda settings: evaluate(settings, Console()))


def evaluate(settings: EvalConfig, console: Console) -> Evaluation:
    """The report of a checkpoint on the test part of the data it was trained on.

    Raises:
        InputError: no readable checkpoint, or its data is not there or no longer has its columns.
    """
    path = checkpoint.locate(Path(settings.checkpoint))
    saved = checkpoint.load(path)
    device = pick_device(settings.device.value)
    with cli.logging_to(console):
        data = build_data(_as_trained(saved, settings), device, PanelScaler.from_state(saved.scaler))
        _check(data, saved)
        evaluation = score(restore_model(saved).to(device), data, batch_size=settings.batch_size)
    output = Path(settings.output) if settings.output else path.parent / "eval"
    cli.make_folder(output)
    evaluation.save(output)
    if settings.plots:
        by_step = {name: errors.scaled.by_step()["mse"] for name, errors in evaluation.errors.items()}
        save_figure(plot_error_by_step(by_step), output / "error_by_step.png")
    console.print(evaluation.table())
    for line in [*evaluation.remarks, evaluation.verdict, f"report: {output}"]:
        cli.say(console, line)
    return evaluation


def _as_trained(saved: checkpoint.Checkpoint, settings: EvalConfig) -> TrainConfig:
    """The configuration of the training run, reading the model's columns where `settings` says they are now."""
    trained = from_plain(saved.config)
    dataset = replace(settings.dataset.over(trained.dataset), columns=saved.inputs)
    return replace(trained, data_dir=settings.data_dir or trained.data_dir, dataset=dataset)


def _check(data: Data, saved: checkpoint.Checkpoint) -> None:
    """The data are those of training; other rows are worth a note, another step is an error."""
    path = data.provenance.path
    if asdict(dims_of(data)) != saved.dims:
        raise InputError(f"{path}: expected steps of {saved.frequency} as in training, found {data.frequency.code}")
    if data.provenance.sha256 != saved.data["sha256"]:
        log.warning(f"{path} has changed since training")


if __name__ == "__main__":
    main()
