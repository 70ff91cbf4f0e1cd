"""Score a checkpoint again on the test part of its data, from configuration to report.

The training data are found and read again. What a report shows of a test part are forecasts of chosen series and
columns, and attention maps, the `weights` of every layer and head on a window. One-pass and step-by-step decoding of
one checkpoint are scored and timed on the same windows.
"""

import json
import logging
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64
from rich.console import Console
from torch import Tensor

from informer import checkpoint
from informer.base.console import logging_to, say
from informer.base.errors import InputError
from informer.base.files import make_folder, refuse_link, write_atomic
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
from informer.data.windows import Batch, Windows
from informer.inference.model import TrainedModel
from informer.members.network import ForecastModel, model_output
from informer.networks.attention.base import Attention
from informer.read.files import list_files
from informer.read.frequency import Frequency
from informer.read.series import column_values
from informer.scoring.backtest import backtest
from informer.scoring.evaluate import START, score, without_network
from informer.scoring.forecasts import joined
from informer.scoring.intervals import REPORTED_LEVELS, saved_calibration
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


MAX_WEIGHTS = 1 << 28
"""Limit on the weights of one layer on one window, 1 GiB in float32; larger maps are skipped."""
MAX_CELLS = 256
"""Cells per side to which a longer map is thinned, about the pixels available in a figure."""


@dataclass(kw_only=True, slots=True)
class AttentionMap:
    """One layer on some windows.

    Args:
        layer_name: name of the layer, such as `encoder 1.2`; see `ForecastModel.attention_layers`.
        lengths: number of queries and of keys.
        weights: on the CPU; see `thinned`.
    """

    layer_name: str
    lengths: tuple[int, int]
    weights: Float[Tensor, "w h rows columns"]


@torch.inference_mode()
def attention_maps(model: ForecastModel, batch: Batch) -> list[AttentionMap]:
    """Attention maps of every layer, in execution order; puts the model into eval mode.

    A layer that runs several times has the map of its last run, in which the decoder reads its own forecasts; a layer
    that runs with one query at a time has one row per run. Layers over `MAX_WEIGHTS` are skipped with a warning.
    """
    model.eval()
    inputs: dict[str, list[tuple[Tensor, ...]]] = {}
    layers = model.attention_layers()
    with ExitStack() as hooks:
        for place, layer in layers.items():
            hooks.callback(layer.attention.register_forward_pre_hook(partial(_note, inputs, place)).remove)
        model_output(model, batch)
    maps = (_map(place, layers[place].attention, layer_inputs) for place, layer_inputs in inputs.items())
    return [attention_map for attention_map in maps if attention_map is not None]


def _note(inputs: dict[str, list[tuple[Tensor, ...]]], place: str, _: Attention, operands: tuple[Tensor, ...]) -> None:
    before = inputs.setdefault(place, [])
    if operands[0].shape[2] > 1:
        before.clear()
    before.append(operands[:2])


def _map(place: str, attention: Attention, inputs: list[tuple[Tensor, ...]]) -> AttentionMap | None:
    """The map of one run, or of all runs with one query each; None if it is too large."""
    q, k = inputs[0]
    n_heads, lengths = q.shape[1], (len(inputs) * q.shape[2], k.shape[2])
    if n_heads * lengths[0] * lengths[1] > MAX_WEIGHTS:
        log.warning(f"{place}: {n_heads} maps of {lengths[0]} x {lengths[1]} do not fit into memory and are skipped")
        return None
    # window by window: the matrices of all windows may not fit into memory
    weights = [
        thinned(torch.cat([attention.weights(q[i : i + 1], k[i : i + 1]).float() for q, k in inputs], dim=2)).cpu()
        for i in range(len(q))
    ]
    return AttentionMap(layer_name=place, lengths=lengths, weights=torch.cat(weights))


def thinned(weights: Float[Tensor, "w h l s"]) -> Float[Tensor, "w h rows columns"]:
    """Max-pooled by magnitude to at most MAX_CELLS per side, so that single keys remain visible."""
    cells = min(weights.shape[2], MAX_CELLS), min(weights.shape[3], MAX_CELLS)
    highest, lowest = F.adaptive_max_pool2d(weights, cells), -F.adaptive_max_pool2d(-weights, cells)
    return torch.where(highest >= -lowest, highest, lowest)


MAX_TRACKS, MAX_ORIGINS = 48, 40
"""Maximum number of pairs of series and column that a report shows, and of forecasts of each."""
NUMBERS, ROWS = 350_000, 250_000
"""Maximum number of forecast and of actual values in the file of test forecasts."""
MAP_CELLS, MAX_MAPS = 48, 48
"""Maximum number of cells per side of a saved attention map, and of maps."""


def save_results(evaluation: Scores, saved: Checkpoint, data: Data, folder: Path) -> None:
    """Write the scores of a model on the test part of `data`, and what a report shows of it: forecasts, attention maps.

    The scores are written last: a run with scores is finished.
    """
    model = TrainedModel(saved, device=str(data.train.starts.device), warns=False)
    model.model.eval()
    write_atomic(folder / TEST_FORECASTS, test_forecasts(model, data, evaluation).to_parquet(index=False))
    (folder / ATTENTION).unlink(missing_ok=True)
    if not evaluation.further["is_idle"] and (maps := _last_maps(model.model, data)):
        write_atomic(folder / ATTENTION, json.dumps(maps))
    evaluation.save(folder)


def test_forecasts(model: TrainedModel, data: Data, evaluation: Scores) -> pd.DataFrame:
    """Forecasts of chosen series and columns from evenly spaced origins of the test part, as a tidy table.

    Columns: series (empty for a single one), column, origin, step, time, actual, forecast, forecasts of the baselines
    by name, ends of intervals (lo80, hi80) and quantiles (q10). Rows of step 0 have only actual values, from the first
    history to the last row that is forecast; the last origin may be the end of the data, where actual values are not
    known.
    """
    member, sizes = model.scored.member, data.sizes
    others = [*evaluation.baselines, *([without_network(model.model)] if START in evaluation.further else [])]
    levels = member.supported(tuple(reversed(REPORTED_LEVELS)))
    n_values = (1 + len(others) + 2 * len(levels) + 2 * len(model.quantiles)) * sizes.pred_len
    main = data.targets.index(data.columns.main or data.targets[-1])
    most = max(6, min(MAX_TRACKS, NUMBERS // (5 * n_values)))
    pairs = chosen_pairs(evaluation.values(evaluation.model, "scaled", "pair")["mse"], most, main)
    n_origins, n_rows = max(1, min(MAX_ORIGINS, NUMBERS // (len(pairs) * n_values))), ROWS // len(pairs)
    parts, zone = list[pd.DataFrame](), data.panel[0].timestamps.tz
    for s in dict.fromkeys(s for s, _ in pairs):
        series, first = data.panel[s], int(data.test.store.first_rows[s])
        own = ((data.test.starts >= first) & (data.test.starts < first + len(series))).nonzero()[:, 0]
        # evenly spaced windows without overlap, of which the newest is the last
        starts = data.test.starts[own.flip(0)[:: max(sizes.pred_len, -(-len(own) // n_origins))].flip(0)]
        end = int(starts[-1]) - first + sizes.rows
        begin = max(int(starts[0]) - first, end - max(n_rows, sizes.rows))
        windows = data.test.at(starts[starts - first + sizes.first >= begin])
        columns = [data.targets[c] for place, c in pairs if place == s]
        roll = partial(backtest, windows=windows, panel=data.panel, columns=data.targets)
        found = [joined(roll(member, levels=levels)).table()]
        found[0] = found[0].assign(**{each.name: joined(roll(each)).table()["forecast"] for each in others})
        times, truth = series.timestamps[begin:end], column_values(series, columns)[begin:end]
        for column, values in zip(columns, truth.T, strict=True):
            found.append(pd.DataFrame({"step": 0, "time": times, "column": column, "actual": values}))
        if end == len(series) and not data.columns.future_covariates:
            found.append(model.forecast([series], levels=levels).table().drop(columns="actual"))
        table = pd.concat([part[part["column"].isin(columns)] for part in found], ignore_index=True)
        table["series"] = series.name if len(data.panel) > 1 else ""
        if zone is not None:  # one for all series, as a column has one
            table = table.assign(**{name: table[name].dt.tz_convert(zone) for name in ("origin", "time")})
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def chosen_pairs(mse: Float64[np.ndarray, "s n"], most: int, main: int = -1) -> list[tuple[int, int]]:
    """At most `most` pairs of series and column: the worst, the best, and others evenly between, by scaled MSE.

    At least one pair is of the column `main`: if none would be, its worst series replaces another. Worst first.
    """
    scored = [(int(s), int(c)) for s, c in zip(*np.nonzero(~np.isnan(mse)), strict=True)]
    ordered = sorted(scored, key=lambda pair: -mse[pair])
    if len(ordered) <= most:
        return ordered
    third = most // 3
    middle = ordered[third:-third]
    between = [middle[int(i)] for i in np.linspace(0, len(middle) - 1, most - 2 * third)]
    chosen = {*ordered[:third], *between, *ordered[-third:]}
    first = next(pair for pair in ordered if pair[1] == main % mse.shape[1])
    if not any(pair[1] == first[1] for pair in chosen):
        chosen = {*chosen} - {between[-1]} | {first}
    return [pair for pair in ordered if pair in chosen]


def _last_maps(model: ForecastModel, data: Data) -> dict[str, Any] | None:
    """Attention maps of the last test window, and which window it is; None without any."""
    last = torch.tensor([len(data.test) - 1])
    s = int(data.test.series(last)[0])
    row = int(data.test.starts[last]) - int(data.test.store.first_rows[s]) + data.sizes.seq_len - 1
    where = f"{data.panel[s].name}, " if len(data.panel) > 1 else ""
    maps: list[dict[str, Any]] = []
    n_maps = 0
    for each in attention_maps(model, data.test.batch(last)):
        heads = each.weights[0]
        n_maps += len(heads)
        if n_maps > MAX_MAPS:
            log.warning(f"attention maps from {each.layer_name} on are not saved for the report; {MAX_MAPS} are")
            break
        cells = min(heads.shape[1], MAP_CELLS), min(heads.shape[2], MAP_CELLS)
        small = F.adaptive_max_pool2d(heads[None].float(), cells)[0].double()
        shown = small.numpy().round(6).tolist()
        maps.append({"layer_name": each.layer_name, "lengths": list(each.lengths), "heads": shown})
    origin = data.panel[s].timestamps[row]
    return {"window": f"{where}history up to {origin} (the last test window)", "maps": maps} if maps else None


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
    names = (*REPORT, BY_SERIES, TEST_FORECASTS, ATTENTION, BY_STEP)
    written = [output / name for name in names]
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
            _draw_attention(model, data.test, output)
    console.print(evaluation.table())
    for line in [*evaluation.remarks, f"{evaluation.model}: {evaluation.verdict}", f"report: {output}"]:
        say(console, line)
    if evaluation.warning:
        say(console, f"warning: {evaluation.warning}")
    return evaluation


def _draw_attention(model: ForecastModel, windows: Windows, output: Path) -> None:
    """Plot the maps of the first test windows with non-overlapping horizons, since neighbours look alike."""
    from torch.utils.tensorboard import SummaryWriter

    from informer.base.plots import plot_attention, save_figure

    chosen = range(0, len(windows), windows.sizes.pred_len)[:ATTENTION_WINDOWS]
    names = [f"test window {number}" for number in chosen]
    with SummaryWriter(str(output)) as writer:
        for each in attention_maps(model, windows.batch(torch.tensor(chosen))):
            figure = plot_attention(each.weights.numpy(), lengths=each.lengths, rows=names, layer_name=each.layer_name)
            save_figure(figure, output / f"attention_{each.layer_name.replace(' ', '_')}.png")
            writer.add_figure(f"attention/{each.layer_name}", figure, close=False)
