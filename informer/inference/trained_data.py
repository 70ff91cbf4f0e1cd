"""Reload the training data of a model."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import torch

from informer.build import build_data, dims_of
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.restore import attributes_in, dims_in
from informer.config.commands import EvalDataset
from informer.config.conversion import from_plain
from informer.data.categories import Trained
from informer.data.pipeline import Data
from informer.data.read.frequency import Frequency
from informer.data.recorded import Recorded, find_again, own_cache
from informer.data.scaler import PanelScaler
from informer.errors import InputError

log = logging.getLogger(__name__)


@contextmanager
def trained_data(
    checkpoint: Checkpoint,
    device: torch.device,
    *,
    scratch: Path,
    dataset: EvalDataset | None = None,
    data_dir: str | None = None,
) -> Iterator[Data]:
    """The training data, scaled as in training; the file is located by `data.recorded.find_again`.

    Args:
        checkpoint: the model's checkpoint.
        device: device of the rows.
        scratch: folder for temporary arrays if training used memmap, unless the user sets a cache.
        dataset: path and format of the file, if different from training.
        data_dir: folder of the datasets' files; None: as in training.

    Raises:
        InputError: the data is missing, or no longer has the model's columns or step.
    """
    trained = from_plain(checkpoint.config)
    where = replace(
        (dataset or EvalDataset()).applied_to(trained.dataset),
        columns=checkpoint.inputs,
        categorical=list(checkpoint.categories),
    )
    recorded = Recorded.of(checkpoint.config, checkpoint.data)
    where, folder = find_again(where, recorded, named=data_dir, default=trained.data_dir, can_differ=True)
    with nullcontext(where) if data_dir is not None else own_cache(where, scratch) as dataset_found:
        settings = replace(trained, data_dir=folder, dataset=dataset_found)
        scaler = PanelScaler.from_state(checkpoint.scaler)
        trained_on = Trained(
            checkpoint.series, checkpoint.categories, dims_in(checkpoint).masked, attributes_in(checkpoint)
        )
        data = build_data(settings, device, scaler, trained=trained_on)
        path = data.provenance.path
        if dims_in(checkpoint) != dims_of(data) or data.frequency != Frequency.parse(checkpoint.frequency):
            raise InputError(
                f"{path}: expected steps of {checkpoint.frequency} as in training, found {data.frequency.code}"
            )
        if data.provenance.sha256 != checkpoint.data["sha256"]:
            log.warning(f"{path} has changed since training")
        yield data
