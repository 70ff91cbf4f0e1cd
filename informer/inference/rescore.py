"""Score a checkpoint again on the test part of its data, from configuration to report.

Reload the training data of a model.

Compare one-pass and step-by-step decoding of one checkpoint: scores and time on the same windows.

Results of a test part for a report: forecasts of chosen series and columns, attention maps.
"""

import io
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int
from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from informer import checkpoint
from informer.base.console import logging_to, say
from informer.base.errors import InputError, listed
from informer.base.files import file_stems, make_folder, refuse_link, write_atomic
from informer.base.plots import Band, plot_attention, plot_error_by_step, plot_forecast, save_figure
from informer.base.runtime import pick_device
from informer.build import build_data, dims_of
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.paths import ATTENTION, BEST, BY_SERIES, EVALUATION, REPORT, TEST_FORECASTS, check_output
from informer.checkpoint.restore import attributes_in, dims_in, restore_model
from informer.config.commands import EvalConfig, EvalDataset, EvalDecoding, EvalModel, Plots
from informer.config.conversion import from_plain
from informer.config.families import config_class, family_of
from informer.config.model import Decoding
from informer.config.overrides import shell_command
from informer.data.columns import Trained
from informer.data.dataset import Data
from informer.data.recorded import Recorded, find_again, own_cache
from informer.data.scaler import PanelScaler
from informer.data.windows import Batch, Windows
from informer.inference.explain import attention_maps
from informer.inference.model import TIME, TrainedModel
from informer.inference.rolling import tidy_table
from informer.networks.forecast_model import ForecastModel, forecast_without_network, model_forecast, model_output
from informer.read.files import list_files
from informer.read.frequency import Frequency
from informer.read.series import column_values
from informer.scoring.intervals import saved_calibration
from informer.scoring.scores import (
    START,
    Evaluation,
    ForecastFunction,
    evaluate,
    score,
    training_scale,
)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Scores of one decoding on the test part, in scaled units."""

    decoding: str
    windows: int
    mse: float
    mae: float
    ms_per_window: float
    """Wall time of the network, measured per batch."""


def with_decoding(checkpoint: Checkpoint, settings: EvalModel) -> Checkpoint:
    """The checkpoint with another decoding or offset; if either differs, without its calibration, which is no longer
    valid.

    Raises:
        InputError: the family has no choice of decoding.
    """
    model = checkpoint.config["model"]
    if settings.decoding is not None and "decoding" not in config_class(family_of(model)).__dataclass_fields__:
        raise InputError(f"model.decoding: expected model.family=informer, found {family_of(model)}")
    current = {"decoding": Decoding.one_pass.name, "offset": 0} | model
    other = dict(current)
    if settings.decoding not in (None, EvalDecoding.both):
        other["decoding"] = settings.decoding.name
    if settings.offset is not None:
        other["offset"] = settings.offset
    if other == current:
        return checkpoint
    return replace(checkpoint, config=checkpoint.config | {"model": other}, calibration=None)


def compare_decodings(checkpoint: Checkpoint, data: Data, *, device: torch.device, batch_size: int) -> list[Decoded]:
    """Score and time each decoding on the test part."""
    return [_decoded(checkpoint, decoding, data, device, batch_size) for decoding in Decoding]


def _decoded(saved: Checkpoint, decoding: Decoding, data: Data, device: torch.device, batch_size: int) -> Decoded:
    config = saved.config | {"model": saved.config["model"] | {"decoding": decoding.name}}
    model = restore_model(replace(saved, config=config)).to(device)
    seconds = 0.0

    def forecast(batch: Batch) -> torch.Tensor:
        nonlocal seconds
        begun = _now(device)
        output = model_forecast(model, batch)
        seconds += _now(device) - begun
        return output

    with torch.inference_mode():  # the first call of a process is slow
        model_forecast(model, data.test.batch(torch.arange(min(batch_size, len(data.test)))))
    errors = evaluate(forecast, data.test, mase_scale=training_scale(data), batch_size=batch_size).scaled
    overall = errors.overall()
    return Decoded(
        decoding=decoding.name,
        windows=errors.windows,
        mse=overall["mse"],
        mae=overall["mae"],
        ms_per_window=1000 * seconds / errors.windows,
    )


def _now(device: torch.device) -> float:
    """Time in seconds, after synchronizing the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def decodings_table(decodings: Sequence[Decoded]) -> Table:
    """Table for the terminal."""
    table = Table(title="same weights, scaled errors", title_justify="left", box=SIMPLE_HEAD, padding=0)
    for place, heading in enumerate(("decoding", "MSE", "MAE", "ms/window")):
        table.add_column(heading, justify="right" if place else "left")
    for decoded in decodings:
        table.add_row(
            decoded.decoding, *(f"{value:.4g}" for value in (decoded.mse, decoded.mae, decoded.ms_per_window))
        )
    return table


MAX_TRACKS, MAX_ORIGINS = 48, 40
"""Maximum number of pairs of series and column that a report shows, and of forecasts of each."""
NUMBERS, ROWS = 350_000, 250_000
"""Maximum number of forecast and of actual values in the file of test forecasts."""
LEVELS = (95, 80)
"""Levels of intervals, in percent."""
MAP_CELLS, MAX_MAPS = 48, 48
"""Maximum number of cells per side of a saved attention map, and of maps."""


def save_results(evaluation: Evaluation, saved: Checkpoint, data: Data, folder: Path) -> None:
    """Write the scores of a model on the test part of `data`, and what a report shows of it: forecasts, attention maps.

    The scores are written last: a run with scores is finished.
    """
    model = TrainedModel(saved, device=str(data.train.starts.device), warns=False)
    model.model.eval()
    buffer = io.BytesIO()
    test_forecasts(model, data, evaluation).to_parquet(buffer, index=False)
    write_atomic(folder / TEST_FORECASTS, buffer.getvalue())
    (folder / ATTENTION).unlink(missing_ok=True)
    if not evaluation.breakdown["is_idle"] and (maps := _last_maps(model.model, data)):
        write_atomic(folder / ATTENTION, json.dumps(maps))
    evaluation.save(folder)


def test_forecasts(model: TrainedModel, data: Data, evaluation: Evaluation) -> pd.DataFrame:
    """Forecasts of chosen series and columns from evenly spaced origins of the test part, as a tidy table.

    Columns: series (empty for a single one), column, origin, step, time, actual, forecast, forecasts of the baselines
    by name, ends of intervals (lo80, hi80) and quantiles (q10). Rows of step 0 have only actual values, from the first
    history to the last row that is forecast; the last origin may be the end of the data, where actual values are not
    known.
    """
    scored = model.scored
    baselines: dict[str, ForecastFunction] = {each.name: each for each in evaluation.baselines}
    if START in evaluation.breakdown:
        baselines[START] = partial(forecast_without_network, model.model)
    n_values = (1 + len(baselines) + 2 * len(_levels(model)) + 2 * len(model.quantiles)) * data.sizes.pred_len
    main = data.targets.index(data.columns.main or data.targets[-1])
    most = max(6, min(MAX_TRACKS, NUMBERS // (5 * n_values)))
    pairs = chosen_pairs(evaluation.errors[evaluation.model].scaled.by_group("mse", columns=True), most, main)
    n_origins, n_rows = max(1, min(MAX_ORIGINS, NUMBERS // (len(pairs) * n_values))), ROWS // len(pairs)
    tables = []
    for s in dict.fromkeys(s for s, _ in pairs):
        series, windows = data.panel[s], _origins(data, s, n_origins)
        columns = [data.targets[c] for place, c in pairs if place == s]
        truth = column_values(series, data.targets)
        starts = data.test.starts[windows].cpu().numpy() - int(data.test.store.first_rows[s])
        end = int(starts[-1]) + data.sizes.rows
        begin = max(int(starts[0]), end - max(n_rows, data.sizes.rows))
        rows = starts[starts + data.sizes.first >= begin, None] + data.sizes.first + np.arange(data.sizes.pred_len)
        batch = data.test.batch(windows[-len(rows) :])
        with torch.inference_mode():
            output = model_output(model.model, batch)
            lines = {"actual": truth[rows], "forecast": model.rows(batch, output)}
            lines |= {name: batch.in_units(forecast(batch)).cpu().numpy() for name, forecast in baselines.items()}
        bands = scored.bands(batch, output, scored.halves(batch, _levels(scored)))
        parts = [tidy_table(model, series, rows, lines | bands)]
        for column, values in zip(data.targets, truth[begin:end].T, strict=True):
            times = series.timestamps[begin:end]
            parts.append(pd.DataFrame({"step": 0, TIME: times, "column": column, "actual": values}))
        if end == len(series) and not data.columns.future_covariates:
            (ahead,) = model.forecast([series], levels=_levels(model))
            keys = {"origin": series.timestamps[-1], "step": 1 + np.arange(len(ahead.values)), TIME: ahead.timestamps}
            for i, column in enumerate(data.targets):
                ends = {name: values[:, i] for name, values in ahead.bands.items()}
                parts.append(pd.DataFrame({**keys, "column": column, "forecast": ahead.values[:, i], **ends}))
        table = pd.concat([part[part["column"].isin(columns)] for part in parts], ignore_index=True)
        table.insert(0, "series", series.name if len(data.panel) > 1 else "")
        if (zone := data.panel[0].timestamps.tz) is not None:  # one for all series, as a column has one
            table = table.assign(**{name: table[name].dt.tz_convert(zone) for name in ("origin", TIME)})
        tables.append(table)
    return pd.concat(tables, ignore_index=True).rename(columns={TIME: "time"})


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


def _levels(model: TrainedModel) -> list[int]:
    return [level for level in LEVELS if model.calibration is not None and model.calibration.supports(level)]


def _origins(data: Data, s: int, most: int) -> Int[Tensor, "o"]:
    """Indices of evenly spaced test windows of one series, without overlap, at most `most`; the newest is the last."""
    first = int(data.test.store.first_rows[s])
    stop = first + len(data.panel[s])
    in_series = ((data.test.starts >= first) & (data.test.starts < stop)).nonzero()[:, 0]
    stride = max(data.sizes.pred_len, -(-len(in_series) // most))
    return in_series.flip(0)[::stride].flip(0)


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
        small = torch.nn.functional.adaptive_max_pool2d(heads[None].float(), cells)[0].double()
        shown = small.numpy().round(6).tolist()
        maps.append({"layer_name": each.layer_name, "lengths": list(each.lengths), "heads": shown})
    origin = data.panel[s].timestamps[row]
    return {"window": f"{where}history up to {origin} (the last test window)", "maps": maps} if maps else None


MOST_FORECASTS = 4
"""Maximum number of consecutive forecasts, which end with the test part."""


def check_series(data: Data, names: Sequence[str]) -> None:
    """Raise an InputError if a name is not one of the series."""
    available = [series.name for series in data.panel]
    unknown = [name for name in names if name not in available]
    if unknown:
        raise InputError(f"plot_series={unknown[0]}: no such series in the data, expected some of {listed(available)}")


@torch.inference_mode()
def figure_on_test_part(model: TrainedModel, data: Data, name: str) -> Figure:
    """Plot the last forecasts of the test part of one series, in data units, with intervals and actual values.

    Raises:
        InputError: no such series, or it has no test window.
    """
    check_series(data, [name])
    model = model.scored
    place = [series.name for series in data.panel].index(name)
    series, windows = data.panel[place], _last_windows(data, place)
    if not len(windows):
        raise InputError(f"plot_series={name}: the test part has no window of this series")
    batch = data.test.batch(windows)
    output = model_output(model.model, batch)
    levels = [level for level in LEVELS if model.calibration is not None and model.calibration.supports(level)]
    ends = model.bands(batch, output, model.halves(batch, levels))
    row = int(data.test.starts[windows[0]]) - int(data.test.store.first_rows[place]) + data.sizes.first
    values = np.concatenate(list(model.rows(batch, output)))
    times, columns = series.timestamps[row : row + len(values)], list(data.targets)

    def frame(rows: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame(rows, times, columns)

    bands: dict[str, Band] = {
        f"{level} % interval": (
            frame(np.concatenate(list(ends[f"lo{level}"]))), frame(np.concatenate(list(ends[f"hi{level}"])))
        )
        for level in levels
    }  # fmt: skip
    observed = pd.DataFrame(series.values, series.timestamps, list(series.columns))
    before = observed[:row].iloc[-2 * len(values) :]
    forecasts = f"{len(windows)} forecasts of" if len(windows) > 1 else "a forecast of"
    return plot_forecast(
        before, frame(values), observed.loc[times, columns], bands=bands, target=data.columns.main,
        title=f"{name}: {forecasts} {data.sizes.pred_len} rows, test part",
    )  # fmt: skip


def _last_windows(data: Data, place: int) -> Int[Tensor, "w"]:
    """Indices of the last consecutive, non-overlapping test windows of one series, oldest first."""
    first = int(data.test.store.first_rows[place])
    starts = data.test.starts
    in_series = ((starts >= first) & (starts < first + len(data.panel[place]))).nonzero()[:, 0]
    chosen = in_series.flip(0)[:: data.sizes.pred_len][:MOST_FORECASTS].flip(0)
    gaps = torch.diff(starts[chosen]) != data.sizes.pred_len
    return chosen[int(gaps.nonzero()[-1]) + 1 :] if gaps.any() else chosen


ATTENTION_WINDOWS = 3
BY_STEP, DECODINGS = "error_by_step.png", "decodings.csv"


def rescore(settings: EvalConfig, console: Console) -> Evaluation:
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
    output = Path(settings.output) if settings.output else path.parent / EVALUATION
    if not settings.output:
        refuse_link(output)
    pictures = {series: f"forecast_{stem}.png" for series, stem in file_stems(settings.plot_series).items()}
    names = (*REPORT, BY_SERIES, TEST_FORECASTS, ATTENTION, BY_STEP, DECODINGS, *pictures.values())
    written = [output / name for name in names]
    overwrite = settings.overwrite or not settings.output
    check_output(output, written, inputs=[path], overwrite=overwrite)
    opened_data = trained_data(saved, device, scratch=output, dataset=settings.dataset, data_dir=settings.data_dir)
    with logging_to(console), opened_data as data:
        check_series(data, settings.plot_series)
        source = data.provenance.path
        sources = list_files("dataset", str(source)) or [source]
        check_output(output, written, inputs=sources, overwrite=overwrite)
        model = restore_model(saved).to(device)
        calibration = saved_calibration(saved)
        evaluation = score(model, data, batch_size=settings.batch_size, calibration=calibration)
        make_folder(output)
        save_results(evaluation, saved, data, output)
        if settings.pictures is not Plots.none:
            by_step = {name: errors.scaled.by_step()["mse"] for name, errors in evaluation.errors.items()}
            save_figure(plot_error_by_step(by_step), output / BY_STEP)
        _draw_series(saved, data, pictures, settings, output)
        if settings.pictures is Plots.attention:
            _draw_attention(model, data.test, output)
        if settings.model.decoding is EvalDecoding.both:
            decodings = compare_decodings(saved, data, device=device, batch_size=settings.batch_size)
            write_atomic(output / DECODINGS, pd.DataFrame(decodings).to_csv(index=False))
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
