"""Content of a report on a trained model: from its run directory, and from its data if available."""

import json
import logging
import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from informer import checkpoint as checkpoints
from informer.checkpoint.paths import LOSSES
from informer.config.commands import EvalDataset
from informer.config.conversion import flat, from_plain
from informer.config.plain import read_saved_yaml
from informer.data.pipeline import Data
from informer.data.read.table import name_of
from informer.data.windows import Batch
from informer.errors import InputError, counted
from informer.inference.attention_maps import attention_maps
from informer.inference.baselines import bounded
from informer.inference.evaluate import Forecast, fit_baselines, score
from informer.inference.predictor import TrainedModel
from informer.inference.start import start_forecast
from informer.inference.trained_data import trained_data
from informer.models.base import model_forecast
from informer.models.informer import Informer
from informer.reporting.content import (
    START,
    AttentionPicture,
    Content,
    LossCurves,
    Residuals,
    written,
)
from informer.reporting.data_checks import data_problems, listed_lines
from informer.reporting.saved_scores import add_scores
from informer.reporting.test_pass import EDGES, TestPass, chosen_windows
from informer.reporting.tracks import gather_tracks
from informer.reporting.window_profiles import calendar_profiles, contribution
from informer.training.losses import LossTable, note_of, units_of

log = logging.getLogger(__name__)

METRICS_FILE, FACTS_FILE, CONFIG_FILE = "metrics.json", "run.json", "config.yaml"
MAP_CELLS = 48
"""Cells per side of an attention map."""
MAX_MAPS = 48


def run_content(
    path: Path,
    *,
    device: str = "auto",
    batch_size: int = 256,
    dataset: EvalDataset | None = None,
    data_dir: str | None = None,
) -> Content:
    """A run directory, a checkpoint file, or the folder written by `informer.eval`.

    Args:
        path: of it.
        device: see `pick_device`.
        batch_size: windows per batch.
        dataset, data_dir: where the data is now, if it was moved since training.

    Raises:
        InputError: no readable checkpoint there.
    """
    folder = path if path.is_dir() else path.parent
    source = path if not path.is_dir() or not _is_evaluation(path) else path.parent
    model = TrainedModel.load(source, device=device)
    content = _described(folder, source, model)
    with ExitStack() as reading:
        found = trained_data(model.checkpoint, model.device, scratch=folder, dataset=dataset, data_dir=data_dir)
        data: Data | None = None
        try:
            with _read_notes() as notes:
                data = reading.enter_context(found)
        except InputError as error:
            content.remarks.append(
                f"The training data could not be read, so this page shows only what the run saved: {error}"
            )
        saved = _json(folder / METRICS_FILE)
        if saved is None and data is not None:
            saved = score(model.model, data, batch_size=batch_size, calibration=model.calibration).to_dict()
        if saved is not None:
            add_scores(content, saved)
        if data is not None:
            content.problems = [*listed_lines(notes), *data_problems(data)]
            _add_windows(content, model, data, batch_size)
            _add_attention(content, model, data)
    return content


def _is_evaluation(folder: Path) -> bool:
    """A folder with scores but without a model, next to a model."""
    return not (folder / checkpoints.BEST).exists() and (folder.parent / checkpoints.BEST).exists()


def _json(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InputError(f"{path}: expected JSON as the training command writes it, found: {error}") from error


@contextmanager
def _read_notes() -> Iterator[list[str]]:
    """Log messages while reading the data: repairs, ignored columns, rows that changed since training."""
    notes: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            notes.append(record.getMessage())

    handler = Keep(level=logging.INFO)
    loggers = [logging.getLogger(name) for name in ("informer.data", "informer.inference.trained_data")]
    for each in loggers:
        each.addHandler(handler)
    try:
        yield notes
    finally:
        for each in loggers:
            each.removeHandler(handler)


def _described(folder: Path, source: Path, model: TrainedModel) -> Content:
    """What is known without the data: names, configuration, how the run was made."""
    run = source if source.is_dir() else source.parent
    config, sizes = model.checkpoint.config, model.sizes
    facts = _json(run / FACTS_FILE) or {}
    name = str(config["dataset"]["name"])
    if name == "csv":  # the type of dataset, not its name
        name = name_of(Path(str(model.checkpoint.data.get("path", name))))
    n_parameters = sum(parameter.numel() for parameter in model.model.parameters())
    content = Content(
        title=f"{name}: {sizes.pred_len} steps ahead",
        subtitle=(
            f"{counted(len(model.columns.targets), 'column')} forecast {sizes.pred_len} rows ahead from "
            f"{sizes.seq_len} rows of {counted(len(model.columns.inputs), 'column')}; step {model.checkpoint.frequency}"
        ),
        verdict="No scores were saved, and the training data is not available.",
        columns=model.columns.targets,
        main=model.columns.main or "",
        command=_command(facts.get("command", [])),
        settings={key: written(value) for key, value in flat(_settings(run, config)).items()},
    )
    versions = facts.get("versions", {})
    content.facts = {
        "run": str(folder),
        "started": str(facts.get("started", "")),
        "parameters": f"{n_parameters:,}",
        "steps trained": f"{model.checkpoint.step:,} ({counted(model.checkpoint.epoch, 'epoch')})",
        "data": str(model.checkpoint.data.get("path", "")),
        "sha256 of the data": str(model.checkpoint.data.get("sha256", "")),
        "commit": str(facts.get("commit") or ""),
        "versions": ", ".join(f"{key} {value}" for key, value in versions.items() if value),
    }
    content.losses = _losses(run, config)
    return content


def _losses(run: Path, config: Mapping[str, Any]) -> LossCurves | None:
    """Of a run that trained at least one epoch."""
    if not (run / LOSSES).exists():
        return None
    table, loss = LossTable.read(run / LOSSES), from_plain(config).loss
    training, validation = ((list(curve), list(curve.values())) for curve in (table.training, table.validation))
    if not training[0]:
        return None
    return LossCurves(
        training=training, validation=validation, baselines=table.baselines, units=units_of(loss), note=note_of(loss)
    )


def _settings(run: Path, config: Mapping[str, Any]) -> Mapping[str, Any]:
    path = run / CONFIG_FILE
    if not path.exists():
        return config
    return {key: value for key, value in read_saved_yaml(path).items() if key != "defaults"}


def _command(words: list[str]) -> str:
    """The command as typed: `python -m informer.train ...`, or `informer forecast ...`."""
    if not words:
        return ""
    script, _, command = words[0].rpartition(" ")
    if script:
        return shlex.join([script, command, *words[1:]])
    name = Path(words[0]).stem
    start = ["python", "-m", f"informer.{name}"] if not name.startswith("informer") else [name]
    return shlex.join([*start, *words[1:]])


def _add_windows(content: Content, model: TrainedModel, data: Data, batch_size: int) -> None:
    """Add what needs another pass of the model over the test windows."""
    model.model.eval()
    baselines: dict[str, Forecast] = {each.name: each for each in bounded(fit_baselines(data), model.model)}
    network = model.model
    has_start = isinstance(network, Informer) and _adds_to_a_start(network, data.test.batch(torch.tensor([0])))
    if isinstance(network, Informer) and has_start:
        baselines[START] = partial(start_forecast, network)
    indices = chosen_windows(len(data.test), values=data.sizes.pred_len * len(data.targets))
    done = TestPass(data, [content.model, *baselines])
    done.run({content.model: lambda batch: model_forecast(model.model, batch)} | baselines, indices, batch_size)
    rivals = [name for name in baselines if name != START]
    mse = {name: done.series_mse(name) for name in (content.model, *rivals)}
    tracks = gather_tracks(
        model, data, baselines=baselines, mse=mse, name=content.model, series_windows=done.series_windows
    )
    content.times, content.tracks, content.series, content.shown = (
        tracks.times, tracks.tracks, tracks.table, tracks.why
    )  # fmt: skip
    of = "all" if len(indices) == len(data.test) else f"{len(indices):,} evenly spaced of"
    note = f"Measured on {of} {len(data.test):,} test windows."
    content.profiles += calendar_profiles(done, data, note)
    content.residuals = Residuals(
        edges=EDGES.tolist(),
        counts=done.counts.tolist(),
        bias_by_step=(done.residual_sum.sum(axis=1) / done.cell_counts.sum(axis=1)).tolist(),
        bias_by_column=(done.residual_sum.sum(axis=0) / done.cell_counts.sum(axis=0)).tolist(),
    )
    if has_start:
        content.profiles.append(contribution(content.model, done, note))


@torch.inference_mode()
def _adds_to_a_start(network: Informer, probe: Batch) -> bool:
    """Whether there is a forecast before the network, which the network changes; untrained heads are zero."""
    start = start_forecast(network, probe)
    return bool((start != 0).any() and (start != model_forecast(network, probe)).any())


def _add_attention(content: Content, model: TrainedModel, data: Data) -> None:
    """Maps of the last test window."""
    last = len(data.test) - 1
    row = int(data.test.starts[last])
    s = int(data.test.series(torch.tensor([last]))[0])
    series = data.panel[s]
    origin = series.timestamps[row - int(data.test.store.first_rows[s]) + data.sizes.seq_len - 1]
    where = f"{series.name}, " if len(data.panel) > 1 else ""
    content.attention_window = f"{where}history up to {origin} (the last test window)"
    n_maps = 0
    for each in attention_maps(model.model, data.test.batch(torch.tensor([last]))):
        heads = each.weights[0]
        n_maps += len(heads)
        if n_maps > MAX_MAPS:
            log.warning(f"report: attention maps from {each.place} on are omitted; {MAX_MAPS} are shown")
            return
        cells = min(heads.shape[1], MAP_CELLS), min(heads.shape[2], MAP_CELLS)
        small = torch.nn.functional.adaptive_max_pool2d(heads[None].float(), cells)[0]
        content.attention.append(AttentionPicture(place=each.place, lengths=each.lengths, heads=small.tolist()))
