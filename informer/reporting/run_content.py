"""Content of a report on a trained model, from its run directory and, if available, its data."""

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from informer import checkpoint as checkpoints
from informer.checkpoint.paths import METRICS
from informer.config.commands import EvalDataset
from informer.data.pipeline import Data
from informer.data.windows import Batch
from informer.errors import InputError, listed
from informer.inference.attention_maps import attention_maps
from informer.inference.baselines import bounded
from informer.inference.evaluate import ForecastFunction, fit_baselines, score
from informer.inference.predictor import TrainedModel
from informer.inference.trained_data import trained_data
from informer.inference.without_network import forecast_without_network
from informer.models.base import ForecastModel, model_forecast
from informer.models.informer import Informer
from informer.reporting.content import (
    START,
    AttentionPicture,
    Content,
    Residuals,
)
from informer.reporting.data_checks import data_problems, listed_lines
from informer.reporting.description import described
from informer.reporting.saved_scores import add_scores
from informer.reporting.test_pass import EDGES, TestPass, chosen_windows
from informer.reporting.tracks import gather_tracks
from informer.reporting.window_profiles import calendar_profiles, contribution

log = logging.getLogger(__name__)

MOST_NAMED = 5
"""Series named in a sentence."""

IDLE = (
    "the network adds nothing to the forecast that it starts from, because no training epoch reduced the validation "
    "loss; its attention maps are left out"
)
"""A remark on a run whose best state is that before the first step."""

MAP_CELLS = 48
"""Maximum number of cells per side of an attention map."""
MAX_MAPS = 48
"""Maximum number of attention maps."""


def run_content(
    path: Path,
    *,
    device: str = "auto",
    batch_size: int = 256,
    dataset: EvalDataset | None = None,
    data_dir: str | None = None,
) -> Content:
    """Content of a page on a run.

    Args:
        path: a run directory, a checkpoint file, or the folder written by `informer.eval`.
        device: see `pick_device`.
        batch_size: windows per batch.
        dataset, data_dir: location of the data, if it was moved since training.

    Raises:
        InputError: no readable checkpoint.
    """
    folder = path if path.is_dir() else path.parent
    source = path if not path.is_dir() or not _is_evaluation(path) else path.parent
    model = TrainedModel.load(source, device=device)
    content = described(folder, source, model)
    with ExitStack() as reading:
        data_context = trained_data(model.checkpoint, model.device, scratch=folder, dataset=dataset, data_dir=data_dir)
        data: Data | None = None
        try:
            with _read_notes() as notes:
                data = reading.enter_context(data_context)
        except InputError as error:
            content.remarks.append(
                f"The training data could not be read, so this page shows only what the run saved: {error}"
            )
        saved = _json(folder / METRICS)
        if saved is None and data is not None:
            saved = score(model.model, data, batch_size=batch_size, calibration=model.scored.calibration).to_dict()
        if saved is not None:
            add_scores(content, saved)
        if data is not None:
            content.problems = [*listed_lines(notes), *data_problems(data)]
            _add_windows(content, model, data, batch_size)
            probe = data.test.batch(torch.tensor([0]))
            if _has_start(model.model, probe) and not _adds_to_a_start(model.model, probe):
                content.remarks.append(IDLE)
            else:
                _add_attention(content, model, data)
    return content


def _is_evaluation(folder: Path) -> bool:
    """Whether a folder has no model but its parent has."""
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
    """Collect log messages while reading the data: repairs, ignored columns, rows changed since training."""
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


def _add_windows(content: Content, model: TrainedModel, data: Data, batch_size: int) -> None:
    """Add content that needs forecasts of the test windows: tracks, profiles and residuals."""
    model.model.eval()
    baselines: dict[str, ForecastFunction] = {each.name: each for each in bounded(fit_baselines(data), model.model)}
    network = model.model
    adds = _adds_to_a_start(network, data.test.batch(torch.tensor([0])))
    if isinstance(network, Informer) and adds:
        baselines[START] = partial(forecast_without_network, network)
    indices = chosen_windows(len(data.test), values=data.sizes.pred_len * len(data.targets))
    test_pass = TestPass(data, [content.model, *baselines])
    test_pass.run({content.model: lambda batch: model_forecast(model.model, batch)} | baselines, indices, batch_size)
    rivals = [name for name in baselines if name != START]
    mse = {name: test_pass.series_mse(name) for name in (content.model, *rivals)}
    tracks = gather_tracks(
        model, data, baselines=baselines, mse=mse, name=content.model, series_windows=test_pass.series_windows
    )
    content.times, content.tracks, content.series, content.shown = (
        tracks.times, tracks.tracks, tracks.table, tracks.reason
    )  # fmt: skip
    of = "all" if len(indices) == len(data.test) else f"{len(indices):,} evenly spaced of"
    note = f"Measured on {of} {len(data.test):,} test windows."
    content.shown = " ".join(filter(None, [content.shown, *_what_is_missing(data, len(indices))]))
    content.profiles += calendar_profiles(test_pass, data, note)
    content.residuals = Residuals(
        edges=EDGES.tolist(),
        counts=test_pass.counts.tolist(),
        bias_by_step=(test_pass.residual_sum.sum(axis=1) / test_pass.cell_counts.sum(axis=1)).tolist(),
    )
    if adds:
        content.profiles.append(contribution(content.model, test_pass, note))


def _what_is_missing(data: Data, n_measured: int) -> Iterator[str]:
    """Series without test windows, and windows that the scores by series leave out."""
    owners = set(data.test.series(torch.arange(len(data.test))).tolist())
    absent = [series.name for s, series in enumerate(data.panel) if s not in owners]
    if absent:
        yield f"Too short for a test window: {listed(absent, MOST_NAMED)}."
    if n_measured < len(data.test) and len(data.panel) > 1:
        yield f"Scores by series on this page are of {n_measured:,} windows; metrics_by_series.csv has those of all."


@torch.inference_mode()
def _has_start(network: ForecastModel, probe: Batch) -> bool:
    """Whether the forecast without the network is not zero."""
    return isinstance(network, Informer) and bool((forecast_without_network(network, probe) != 0).any())


@torch.inference_mode()
def _adds_to_a_start(network: ForecastModel, probe: Batch) -> bool:
    """Whether the network changes a linear start (an untrained head is zero)."""
    if not (isinstance(network, Informer) and _has_start(network, probe)):
        return False
    return bool((forecast_without_network(network, probe) != model_forecast(network, probe)).any())


def _add_attention(content: Content, model: TrainedModel, data: Data) -> None:
    """Add the attention maps of the last test window."""
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
            log.warning(f"report: attention maps from {each.layer_name} on are omitted; {MAX_MAPS} are shown")
            return
        cells = min(heads.shape[1], MAP_CELLS), min(heads.shape[2], MAP_CELLS)
        small = torch.nn.functional.adaptive_max_pool2d(heads[None].float(), cells)[0]
        content.attention.append(
            AttentionPicture(layer_name=each.layer_name, lengths=each.lengths, heads=small.tolist())
        )
