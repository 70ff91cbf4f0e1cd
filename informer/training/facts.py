"""What is recorded and logged about a run: facts about its data, its network and its scores."""

import logging

import torch

from informer.base.errors import counted, listed, with_addresses
from informer.checkpoint.format import Checkpoint, DataFacts, Progress
from informer.checkpoint.network import picked_by_length
from informer.config import conversion
from informer.config.data import dataset_words
from informer.config.overrides import Word, changed_settings, shell_command
from informer.config.training import TrainConfig
from informer.data.dataset import Data, non_negative
from informer.members.network import ForecastModel
from informer.networks.models.zero import ZeroConfig
from informer.scoring import intervals
from informer.scoring.evaluate import training_scale
from informer.scoring.scores import Scores
from informer.training.curves import tag_of
from informer.training.optim import resolve_precision

log = logging.getLogger(__name__)

ROLES = ("features", "target", "targets", "past_covariates", "future_covariates")
"""Settings that say which columns are forecast and read."""

FEW_ROWS = 10
"""Minimum number of training rows per category, on average, to learn an embedding."""

RUN_FACTS = {name for name, field in DataFacts.model_fields.items() if field.is_required()}
"""Facts about the data in run.json; the others are in the model files alone."""


def data_facts(settings: TrainConfig, data: Data) -> DataFacts:
    """Source, format and size of the data."""
    path = str(data.provenance.path)
    where = with_addresses(path)  # an address, if `path` is the copy of one
    first, parts = data.panel[0], list(zip(data.panel, data.splits, strict=True))
    names = [series.name for series in data.panel]
    return DataFacts(
        path=where,
        absolute=str(data.provenance.path.absolute()) if where == path else where,
        sha256=data.provenance.sha256,
        series=len(data.panel),
        rows=sum(map(len, data.panel)),
        time_col=first.time_col,
        time_format=first.time_format,
        timezone=getattr(first.timestamps.tz, "key", None),
        trained_until=str(max(series.timestamps[split.val.stop - 1] for series, split in parts)),
        until=str(max(series.timestamps[split.test.stop - 1] for series, split in parts)),
        marks=[first.dialect.decimal, first.dialect.thousands] if first.dialect.is_settled else None,
        windows=window_counts(data),
        names=list(data.trained_series),
        categories={name: list(labels) for name, labels in data.categories.items()},
        static_covariates=list(data.columns.static_covariates),
        non_negative=list(non_negative(settings.non_negative, data)),
        mase_scales=dict(zip(names, training_scale(data).tolist(), strict=True)),
    )


def window_counts(data: Data) -> dict[str, int]:
    """Number of windows of each part."""
    by_part = {"train": data.train, "val": data.val, "calibration": data.calibration, "test": data.test}
    return {name: len(windows) for name, windows in by_part.items() if windows is not None}


def untrained(settings: TrainConfig, data: Data) -> Checkpoint:
    """A checkpoint of a run without weights."""
    return Checkpoint(
        config=conversion.to_plain(settings),
        inputs=list(data.inputs),
        targets=list(data.targets),
        future_covariates=list(data.columns.future_covariates),
        masked=None if data.masked is None else list(data.masked),
        frequency=data.frequency.code,
        scaler=data.scaler,
        data=data_facts(settings, data),
    )


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
        needs = intervals.validation_rows(80, settings.pred_len, settings.trainer.calibration)
        log.warning(
            "validation part too short to be divided: no calibration, so this model has no intervals; an 80 % interval "
            f"needs {needs} validation rows in a series (dataset.split.val), found {max(map(len, validation))}"
        )
    n_train = sum(len(split.train) for split in data.splits)
    for name, categories in data.categories.items():  # such as names that never repeat
        if name not in data.columns.static_covariates and n_train < FEW_ROWS * len(categories):
            log.warning(
                f"column {name!r}: {len(categories):,} categories in {n_train:,} training rows, too few rows to learn "
                "an embedding of each; drop the column, or merge rare categories"
            )
    precision = resolve_precision(settings.precision, device)
    log.info(f"model: {n_parameters:,} parameters on {device}, {precision}; run directory {settings.run_dir}")
    if settings.non_negative == "auto" and (names := non_negative(settings.non_negative, data)):
        log.info(
            f"forecasts of {listed(names)} are at least zero, like their training rows (non_negative=none turns it off)"
        )
    if settings.decoder_attn_reason:
        log.info(settings.decoder_attn_reason)
    if picked := picked_by_length(model):
        log.info(f"attention by length: {', '.join(picked)}")


def log_gain(settings: TrainConfig, progress: Progress) -> None:
    """Log the network's improvement over what was fitted before training."""
    if settings.model.is_fitted_first and settings.trainer.max_steps == 0:
        return
    if progress.start_loss:  # zero for a constant series: cannot be improved
        share = 1.0 - progress.best_loss / progress.start_loss
        what, fitted = ("training", "the closed form") if settings.model.CLOSED_FORM else ("the network", "ridge")
        has_weights = settings.init_from is not None or isinstance(settings.model, ZeroConfig)
        start = "the initial weights" if has_weights else fitted
        log.info(
            f"{what} reduced the validation loss of {start} by {share:.2%} "
            f"({progress.start_loss:.5f}, now {progress.best_loss:.5f})"
        )


def better_command(settings: TrainConfig) -> str:
    """Message with a command to try after a baseline was better."""
    dataset = settings.dataset
    data: list[Word] = [f"dataset={dataset.name}"]
    if dataset.path is not None:
        data = ["dataset=csv", ("dataset.path", dataset.path), *dataset_words(dataset)]
    roles = {name: getattr(settings, name) for name in ROLES}
    columns = changed_settings("", roles, {name: getattr(TrainConfig(), name) for name in ROLES})
    words = [*data, *columns, f"pred_len={settings.pred_len}", "model=linear"]
    return f"try: {shell_command('train', *words)}, which takes seconds"


def final_metrics(evaluation: Scores, progress: Progress) -> dict[str, float]:
    """Scores of the run by tag, the most important first."""
    scaled = {name: evaluation.overall(name) for name in evaluation.names}
    model_scores = scaled.pop(evaluation.model)
    metrics = {"test/skill": evaluation.skill, "test/mse": model_scores["mse"], "test/mae": model_scores["mae"]}
    metrics |= {f"test/mse_{tag_of(name)}": other["mse"] for name, other in scaled.items()}
    coverage = {name: evaluation.overall(evaluation.model, name)["coverage"] for name in evaluation.intervals}
    metrics |= {f"test/coverage_{name}": share for name, share in coverage.items()}
    original = evaluation.overall(evaluation.model, "original")
    if "wql" in original:
        metrics["test/wql"] = original["wql"]
    if evaluation.quantiles:
        metrics["test/pinball"] = evaluation.mean_pinball
    return metrics | {"val/best_loss": progress.best_loss}
