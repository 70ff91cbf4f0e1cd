"""Score a checkpoint again on the test part of its data, from configuration to report."""

from collections.abc import Mapping
from pathlib import Path

import torch
from rich.console import Console
from torch.utils.tensorboard import SummaryWriter

from informer import checkpoint
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.paths import BEST, BY_SERIES, REPORT, check_no_run_overwritten
from informer.checkpoint.restore import restore_model
from informer.config.commands import EvalConfig, EvalDecoding, Plots
from informer.config.overrides import shell_command
from informer.console import logging_to, say
from informer.data.pipeline import Data
from informer.data.read.download import list_files
from informer.data.windows import Windows
from informer.errors import InputError
from informer.files import check_no_input_overwritten, file_stems, make_folder, refuse_link, write_atomic
from informer.inference.attention_maps import attention_maps
from informer.inference.decodings import Decoded, compare_decodings, decodings_csv, decodings_table, with_decoding
from informer.inference.evaluate import score
from informer.inference.evaluation import Evaluation
from informer.inference.intervals import saved_calibration
from informer.inference.predictor import TrainedModel
from informer.inference.tested_forecasts import check_series, figure_on_test_part
from informer.inference.trained_data import trained_data
from informer.models.base import ForecastModel
from informer.plots import plot_attention, plot_error_by_step, save_figure
from informer.runtime import pick_device

ATTENTION_WINDOWS = 3
BY_STEP, DECODINGS = "error_by_step.png", "decodings.csv"


def evaluate(settings: EvalConfig, console: Console) -> Evaluation:
    """Score a checkpoint on the test part of its training data, and write the report.

    Raises:
        InputError: no readable checkpoint, it was fitted on the test part, or its data is missing or has other columns.
    """
    path = checkpoint.locate(Path(settings.checkpoint))
    saved, decodings = with_decoding(checkpoint.load(Path(settings.checkpoint)), settings.model), list[Decoded]()
    if saved.refit:
        raise InputError(
            f"checkpoint={settings.checkpoint}: fitted on the test part too, so it cannot be scored there; "
            f"score {BEST} in the same folder"
        )
    device = pick_device(settings.device)
    output = Path(settings.output) if settings.output else path.parent / "eval"
    if not settings.output:
        refuse_link(output)
    pictures = {series: f"forecast_{stem}.png" for series, stem in file_stems(settings.plot_series).items()}
    written = [output / name for name in (*REPORT, BY_SERIES, BY_STEP, DECODINGS, *pictures.values())]
    check_no_run_overwritten(written, "output")
    opened_data = trained_data(saved, device, scratch=output, dataset=settings.dataset, data_dir=settings.data_dir)
    with logging_to(console), opened_data as data:
        check_series(data, settings.plot_series)
        source = data.provenance.path
        check_no_input_overwritten([path, *(list_files("dataset", str(source)) or [source])], written, "output")
        model = restore_model(saved).to(device)
        calibration = saved_calibration(saved)
        evaluation = score(model, data, batch_size=settings.batch_size, calibration=calibration)
        make_folder(output)
        evaluation.save(output)
        if settings.pictures is not Plots.none:
            by_step = {name: errors.scaled.by_step()["mse"] for name, errors in evaluation.errors.items()}
            save_figure(plot_error_by_step(by_step), output / BY_STEP)
        _draw_series(saved, data, pictures, settings, output)
        if settings.pictures is Plots.attention:
            _draw_attention(model, data.test, output)
        if settings.model.decoding is EvalDecoding.both:
            decodings = compare_decodings(saved, data, device=device, batch_size=settings.batch_size)
            write_atomic(output / DECODINGS, decodings_csv(decodings))
    console.print(evaluation.table())
    if decodings:
        console.print(decodings_table(decodings))
    for line in [*evaluation.remarks, evaluation.verdict, f"report: {output}"]:
        say(console, line)
    if evaluation.series and not pictures:
        words = ("checkpoint", settings.checkpoint), ("plot_series", evaluation.worst_series)
        say(console, f"pictures of the worst: {shell_command('eval', *words)}")
    if evaluation.warning:
        say(console, f"warning: {evaluation.warning}")
    return evaluation


def _draw_series(saved: Checkpoint, data: Data, pictures: Mapping[str, str], settings: EvalConfig, out: Path) -> None:
    """Plot forecasts of the test part, by series; `pictures` are the file names."""
    if pictures:
        model = TrainedModel(saved, device=settings.device)
        for series, picture in pictures.items():
            save_figure(figure_on_test_part(model, data, series), out / picture)


def _draw_attention(model: ForecastModel, windows: Windows, output: Path) -> None:
    """Plot the maps of the first test windows with non-overlapping horizons, since neighbours look alike."""
    chosen = range(0, len(windows), windows.sizes.pred_len)[:ATTENTION_WINDOWS]
    names = [f"test window {number}" for number in chosen]
    with SummaryWriter(str(output)) as writer:
        for each in attention_maps(model, windows.batch(torch.tensor(chosen))):
            figure = plot_attention(each.weights.numpy(), lengths=each.lengths, rows=names, layer_name=each.layer_name)
            save_figure(figure, output / f"attention_{each.layer_name.replace(' ', '_')}.png")
            writer.add_figure(f"attention/{each.layer_name}", figure, close=False)
