"""Score a checkpoint again on the test part of its data, from configuration to report.

Reload the training data of a model.

Compare one-pass and step-by-step decoding of one checkpoint: scores and time on the same windows.

Plots of test-part forecasts with the actual values, for chosen series.
"""

import csv
import io
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
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
from informer.checkpoint.paths import BEST, BY_SERIES, EVALUATION, REPORT, check_output
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
from informer.inference.model import TrainedModel
from informer.networks.forecast_model import ForecastModel, model_forecast, model_output
from informer.read.files import list_files
from informer.read.frequency import Frequency
from informer.scoring.intervals import saved_calibration
from informer.scoring.scores import Evaluation, evaluate, score, training_scale

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


def decodings_csv(decodings: Sequence[Decoded]) -> str:
    """CSV text: a header and one row per decoding."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(Decoded)])
    writer.writerows(map(astuple, decodings))
    return text.getvalue()


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


LEVELS = (95, 80)
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
    written = [output / name for name in (*REPORT, BY_SERIES, BY_STEP, DECODINGS, *pictures.values())]
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
