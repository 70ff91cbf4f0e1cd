"""Score a checkpoint again on the test part of its data, which are found and read again, also with another decoding."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from informer import checkpoint
from informer.base.console import logging_to, say
from informer.base.errors import InputError
from informer.base.files import make_folder, refuse_link
from informer.base.runtime import pick_device
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.paths import (
    ATTENTION,
    BEST,
    BY_SERIES,
    EVALUATION,
    REPORT,
    TEST_FORECASTS,
    check_output,
    only_output,
)
from informer.checkpoint.restore import restore_model
from informer.config.commands import EvalConfig, EvalDataset, EvalModel
from informer.config.conversion import to_plain
from informer.config.fields import fields_of
from informer.config.model import checked
from informer.data.columns import Trained
from informer.data.dataset import Data, build_data
from informer.data.recorded import Recorded, find_again
from informer.members.attention_maps import attention_figures
from informer.read.files import list_files
from informer.read.frequency import Frequency
from informer.scoring.evaluate import score
from informer.scoring.intervals import saved_calibration
from informer.scoring.results import save_results
from informer.scoring.scores import Scores

log = logging.getLogger(__name__)


def trained_data(
    checkpoint: Checkpoint,
    device: torch.device,
    *,
    dataset: EvalDataset | None = None,
    data_dir: str | None = None,
    setting: str = "dataset.path",
) -> Data:
    """The training data, scaled as in training; the file is located by `data.recorded.find_again`.

    Args:
        checkpoint: the model's checkpoint.
        device: device of the rows.
        dataset: path and format of the file, if different from training.
        data_dir: folder of the datasets' files; None: as in training.
        setting: key with which the user names the data.

    Raises:
        InputError: the data is missing, or no longer has the model's columns or step.
    """
    trained = checkpoint.settings
    where = replace(
        (dataset or EvalDataset()).applied_to(trained.dataset),
        columns=checkpoint.inputs,
        categorical=list(checkpoint.data.categories),
    )
    recorded = Recorded.of(checkpoint.config, dict(checkpoint.data))
    where, folder = find_again(
        where, recorded, named=data_dir, default=trained.data_dir, can_differ=True, setting=setting
    )
    settings = replace(trained, data_dir=folder, dataset=where, weight_col=None)  # scores count every row
    trained_on = Trained(checkpoint.data.names, checkpoint.data.categories, checkpoint.dims.masked)
    data = build_data(settings, device, checkpoint.scaler, trained=trained_on)
    path = data.provenance.path
    if checkpoint.dims != data.dims or data.frequency != Frequency.parse(checkpoint.frequency):
        raise InputError(
            f"{path}: expected steps of {checkpoint.frequency} as in training, found {data.frequency.code}"
        )
    if data.provenance.sha256 != checkpoint.data.sha256:
        log.warning(f"{path} has changed since training")
    return data


def with_decoding(checkpoint: Checkpoint, settings: EvalModel) -> Checkpoint:
    """The checkpoint with another decoding or offset; if either differs, without its calibration, which is no longer
    valid.

    Raises:
        InputError: the family has no choice of decoding.
    """
    model = checkpoint.settings.model
    given: dict[str, Any] = {"decoding": settings.decoding, "offset": settings.offset}
    changed = {name: value for name, value in given.items() if value is not None}
    if "decoding" in changed and "decoding" not in fields_of(type(model)):
        raise InputError(f"model.decoding: expected model.family=informer, found {model.family}")
    if all(getattr(model, name) == value for name, value in changed.items()):
        return checkpoint
    config = checkpoint.config | {"model": to_plain(checked(replace(model, **changed)))}
    return checkpoint.model_copy(update={"config": config, "calibration": {}})


ATTENTION_WINDOWS = 3
BY_STEP = "error_by_step.png"


def rescore(settings: EvalConfig, console: Console) -> Scores:
    """Score a checkpoint on the test part of its training data, and write the report.

    Raises:
        InputError: no readable checkpoint, it was fitted on the test part, or its data is missing or has other columns.
    """
    if settings.plots != "none":  # refused before the data is read if matplotlib is missing
        from informer.base.plots import plot_error_by_step, save_figure
    path = checkpoint.locate(Path(settings.checkpoint))
    saved = with_decoding(checkpoint.load(Path(settings.checkpoint)), settings.model)
    if saved.data.refit:
        raise InputError(
            f"checkpoint={settings.checkpoint}: fitted on the test part too, so it cannot be scored there; "
            f"score {BEST} in the same folder"
        )
    device = pick_device(settings.device)
    output = Path(settings.output) if settings.output else path.parent / EVALUATION
    if not settings.output:
        refuse_link(output)
    written = [output / name for name in (*REPORT, BY_SERIES, TEST_FORECASTS, ATTENTION, BY_STEP)]
    overwrite = settings.overwrite or not settings.output
    with logging_to(console), only_output(output, written, inputs=[path], overwrite=overwrite):
        data = trained_data(saved, device, dataset=settings.dataset, data_dir=settings.data_dir)
        source = data.provenance.path
        sources = list_files("dataset", str(source)) or [source]
        check_output(output, written, inputs=sources, overwrite=overwrite)
        model = restore_model(saved).to(device)
        calibration = saved_calibration(saved)
        evaluation = score(model, data, batch_size=settings.batch_size, calibration=calibration)
        make_folder(output)
        save_results(evaluation, saved, data, output)
        if settings.plots != "none":
            by_step = {name: evaluation.values(name, "scaled", "step")["mse"].tolist() for name in evaluation.names}
            save_figure(plot_error_by_step(by_step), output / BY_STEP)
        if settings.plots == "attention":
            # horizons do not overlap, since neighbours look alike
            chosen = range(0, len(data.test), data.sizes.pred_len)[:ATTENTION_WINDOWS]
            names = [f"test window {number}" for number in chosen]
            for name, figure in attention_figures(model, data.test.batch(torch.tensor(chosen)), names):
                save_figure(figure, output / f"attention_{name.replace(' ', '_')}.png")
    console.print(evaluation.table())
    for line in [*evaluation.remarks, f"{evaluation.model}: {evaluation.verdict}", f"report: {output}"]:
        say(console, line)
    if evaluation.warning:
        say(console, f"warning: {evaluation.warning}")
    return evaluation
