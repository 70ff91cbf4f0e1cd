"""Descriptions of a run for its log, for run.json and for its checkpoints."""

import logging
import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch

from informer.build import dims_of, picked_by_length
from informer.checkpoint.format import ATTRIBUTES, CATEGORIES, NAMES, STATIC
from informer.config import conversion
from informer.config.dataset import DatasetConfig, NonNegative
from informer.config.model import LinearSkip
from informer.config.overrides import Word, changed_settings, shell_command
from informer.config.schema import TrainConfig
from informer.data.pipeline import Data
from informer.data.read.dialect import known_marks
from informer.errors import counted, listed, with_addresses
from informer.inference.intervals import validation_rows
from informer.models.base import ForecastModel
from informer.training.precision import resolve_precision
from informer.training.stopping import EarlyStopping

log = logging.getLogger("informer.train")

ROLES = ("features", "target", "targets", "past_covariates", "future_covariates")
"""Settings that say which columns are forecast and read."""

FEWEST_ZEROS = 0.01
"""Minimum share of zeros for a target without negative values to count as non-negative, unless it is integer."""

FEW_ROWS = 10
"""Minimum number of training rows per category, on average, to learn an embedding."""

FITTED = {LinearSkip.ridge: "ridge", LinearSkip.maps: "the linear maps"}


def log_run(settings: TrainConfig, data: Data, model: ForecastModel, device: torch.device) -> None:
    """Log data, windows, network and run directory before the first step."""
    n_parameters = sum(p.numel() for p in model.parameters())
    series = f"{len(data.panel)} series, " if len(data.panel) > 1 else ""
    n_rows = sum(map(len, data.panel))
    windows = ", ".join(f"{n} {name}" for name, n in window_counts(data).items())
    log.info(
        f"{settings.dataset.name}: {series}{n_rows} rows at {data.frequency.code}, "
        f"{counted(len(data.inputs), 'column')} in, {len(data.targets)} out; windows {windows}"
    )
    validation = [split.val for split in data.splits]
    by_blocks = settings.model.CLOSED_FORM and settings.trainer.max_steps == 0
    if settings.trainer.calibration and data.calibration is None and not by_blocks:
        needs = validation_rows(80, settings.pred_len, settings.trainer.calibration)
        log.warning(
            "validation part too short to be divided: no calibration, so this model has no intervals; an 80 % interval "
            f"needs {needs} validation rows in a series (dataset.split.val), found {max(map(len, validation))}"
        )
    _warn_of_rare_categories(data)
    precision = resolve_precision(settings.precision, device).value
    log.info(f"model: {n_parameters:,} parameters on {device}, {precision}; run directory {settings.run_dir}")
    if settings.non_negative is NonNegative.auto and (names := non_negative(settings, data)):
        log.info(
            f"forecasts of {listed(names)} are at least zero, like their training rows (non_negative=none turns it off)"
        )
    if settings.decoder_attn_reason:
        log.info(settings.decoder_attn_reason)
    picked = picked_by_length(model)
    if picked:
        log.info(f"attention by length: {', '.join(picked)}")


def _warn_of_rare_categories(data: Data) -> None:
    """Warn about columns with too few rows per category to learn embeddings, such as names that never repeat."""
    n_rows = sum(len(split.train) for split in data.splits)
    for name, categories in data.categories.items():
        if name not in data.columns.static_covariates and n_rows < FEW_ROWS * len(categories):
            log.warning(
                f"column {name!r}: {len(categories):,} categories in {n_rows:,} training rows, too few rows to learn "
                "an embedding of each; drop the column, or merge rare categories"
            )


def log_gain(settings: TrainConfig, stopping: EarlyStopping) -> None:
    """Log the network's improvement over what was fitted before training."""
    if settings.model.CLOSED_FORM and settings.trainer.max_steps == 0:
        return
    if stopping.start_loss:  # zero for a constant series: cannot be improved
        share = 1.0 - stopping.best_loss / stopping.start_loss
        what, fitted = ("the network", FITTED.get(settings.model.skip, "the closed form"))
        what = "training" if settings.model.CLOSED_FORM else what
        start = fitted if settings.init_from is None else "the initial weights"
        log.info(
            f"{what} reduced the validation loss of {start} by {share:.2%} "
            f"({stopping.start_loss:.5f}, now {stopping.best_loss:.5f})"
        )


def better_command(settings: TrainConfig) -> str:
    """Message with a command to try after a baseline was better."""
    dataset = settings.dataset
    data: list[Word] = [f"dataset={dataset.name}"]
    if dataset.path is not None:
        dataset_settings = asdict(replace(dataset, name=DatasetConfig().name, path=None))
        data = ["dataset=csv", ("dataset.path", dataset.path)]
        data += changed_settings("dataset", dataset_settings, asdict(DatasetConfig()))
    roles = {name: getattr(settings, name) for name in ROLES}
    columns = changed_settings("", roles, {name: getattr(TrainConfig(), name) for name in ROLES})
    words = [*data, *columns, f"pred_len={settings.pred_len}", "model=auto", "trainer.time_budget_minutes=10"]
    command = shell_command("train", *words)
    return f"try: {command} (starts from the best linear map), or model=linear, which takes seconds"


def data_facts(data: Data) -> dict[str, Any]:
    """Source, format and size of the data, in plain containers."""
    path = str(data.provenance.path)
    where = with_addresses(path)  # an address, if `path` is the copy of one
    return {
        "path": where,
        "absolute": str(data.provenance.path.absolute()) if where == path else where,
        "sha256": data.provenance.sha256,
        "series": len(data.panel),
        "rows": sum(map(len, data.panel)),
        "time_col": data.panel[0].time_col,
        "time_format": data.panel[0].time_format,
        "timezone": getattr(data.panel[0].timestamps.tz, "key", None),
        "trained_until": str(
            max(series.timestamps[split.val.stop - 1] for series, split in zip(data.panel, data.splits, strict=True))
        ),
        "marks": known_marks(data.panel[0].dialect),
        "windows": window_counts(data),
        **({ATTRIBUTES: data.attributes.columns} if data.attributes else {}),
    }


def non_negative(settings: TrainConfig, data: Data) -> list[str]:
    """Targets whose forecasts are clipped at zero: set by the user, or detected in the training rows."""
    if settings.non_negative is not NonNegative.auto:
        return list(data.targets) if settings.non_negative is NonNegative.all else []
    names: list[str] = []
    for name, place in zip(data.targets, data.columns.positions(data.targets), strict=True):
        least, zeros, n, all_integer = math.inf, 0, 0, True
        for series, split in zip(data.panel, data.splits, strict=True):
            values = np.asarray(series.values[split.train.start : split.train.stop, place])
            values = values[~np.isnan(values)]
            least, n = min(least, values.min(initial=math.inf)), n + len(values)
            zeros += int((values == 0).sum())
            all_integer = all_integer and bool((values == np.round(values)).all())
        if least >= 0 and n and (all_integer or zeros >= FEWEST_ZEROS * n):
            names.append(name)
    return names


def window_counts(data: Data) -> dict[str, int]:
    """Number of windows of each part."""
    by_part = {"train": data.train, "val": data.val, "calibration": data.calibration, "test": data.test}
    return {name: len(windows) for name, windows in by_part.items() if windows is not None}


def checkpoint_facts(settings: TrainConfig, data: Data) -> dict[str, Any]:
    """The entries common to all checkpoints of a run."""
    return {
        "config": conversion.to_plain(settings),
        "dims": dims_of(data).to_plain(),
        "inputs": list(data.inputs),
        "targets": list(data.targets),
        "future_covariates": list(data.columns.future_covariates),
        "frequency": data.frequency.code,
        "scaler": data.scaler.state(),
        "data": data_facts(data)
        | {NAMES: list(data.trained_series), "non_negative": non_negative(settings, data)}
        | ({STATIC: list(data.columns.static_covariates)} if data.columns.static_covariates else {})
        | ({CATEGORIES: {name: list(labels) for name, labels in data.categories.items()}} if data.categories else {})
        | ({ATTRIBUTES: data.attributes.to_plain()} if data.attributes else {}),
    }
