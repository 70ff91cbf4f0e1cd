"""`python -m informer.eval checkpoint=runs/latest`: score a trained model and two baselines on its test part.

Writes metrics.json, metrics.csv and error_by_step.png; with plots=attention also attention_<place>.png, what each head
of each layer attends to on a few test windows, which TensorBoard shows from the same folder.
"""

import logging
from dataclasses import asdict, replace
from pathlib import Path

import torch
from rich.console import Console
from torch.utils.tensorboard import SummaryWriter

from informer import checkpoint, cli
from informer.build import build_data, dims_of
from informer.config import EvalConfig, Plots, TrainConfig
from informer.conversion import from_plain
from informer.data.pipeline import Data
from informer.data.scaler import PanelScaler
from informer.data.windows import Windows
from informer.errors import InputError
from informer.inference.attention_maps import attention_maps
from informer.inference.conformal import saved_calibration
from informer.inference.evaluate import score
from informer.inference.report import Evaluation
from informer.model import Informer
from informer.plots import plot_attention, plot_error_by_step, save_figure
from informer.restore import restore_model
from informer.runtime import pick_device

log = logging.getLogger("informer.eval")

ATTENTION_WINDOWS = 3


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
        model = restore_model(saved).to(device)
        calibration = saved_calibration(saved)
        evaluation = score(model, data, batch_size=settings.batch_size, calibration=calibration)
        output = Path(settings.output) if settings.output else path.parent / "eval"
        cli.make_folder(output)
        evaluation.save(output)
        if settings.pictures is not Plots.none:
            by_step = {name: errors.scaled.by_step()["mse"] for name, errors in evaluation.errors.items()}
            save_figure(plot_error_by_step(by_step), output / "error_by_step.png")
        if settings.pictures is Plots.attention:
            _draw_attention(model, data.test, output)
    console.print(evaluation.table())
    for line in [*evaluation.remarks, evaluation.verdict, f"report: {output}"]:
        cli.say(console, line)
    return evaluation


def _draw_attention(model: Informer, windows: Windows, output: Path) -> None:
    """Maps of the first test windows whose horizons do not overlap: neighbours would look alike."""
    chosen = range(0, len(windows), windows.sizes.pred_len)[:ATTENTION_WINDOWS]
    names = [f"test window {number}" for number in chosen]
    with SummaryWriter(str(output)) as writer:
        for each in attention_maps(model, windows.batch(torch.tensor(chosen))):
            figure = plot_attention(each.weights.numpy(), lengths=each.lengths, rows=names, place=each.place)
            save_figure(figure, output / f"attention_{each.place.replace(' ', '_')}.png")
            writer.add_figure(f"attention/{each.place}", figure, close=False)


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
