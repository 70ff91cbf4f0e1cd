"""One run, from its configuration to its report: read the data, build the network, train, score, save.

Used by the command, `Forecaster.fit` and the search. `prepare` completes the configuration, `run_context` sets up
device, log and processes, and `train_and_score` is the run; `score_best` scores its best checkpoint on the test part,
within the remaining time budget. A table trained on from memory is saved with it, so that `eval` and `resume` find it.

`scaler.transform=auto` is chosen on validation data. For each transform ridge regressions forecast blocks of training
and validation windows, each fitted on the other blocks and scored in the units of the data. A transform is used if it
clearly lowers the mean of RMSE, MASE and sMAPE, each relative to no transform (as the M4 competition's OWA averages
relative errors), and RMSE rises by little. Least squares of transformed values forecast closer to a median than to a
mean, so that relative errors may fall while squared errors rise.
"""

import hashlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timezone
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from rich.console import Console
from torch import Tensor

from informer import checkpoint
from informer.base import progress
from informer.base.console import logging_to
from informer.base.errors import InputError, counted, listed, with_addresses
from informer.base.files import write_atomic
from informer.base.runtime import pick_device, provenance, seed_everything, set_deterministic
from informer.base.start import Interrupted, StopRequest
from informer.build import build_data, dims_of, picked_by_length, resolve_decoder
from informer.checkpoint.format import (
    ATTRIBUTES,
    CATEGORIES,
    COMBINED,
    MAPS,
    MASE_SCALES,
    NAMES,
    REFITTED,
    SHORTFALLS,
    STATIC,
    UNTIL,
    Checkpoint,
)
from informer.checkpoint.paths import LOG, REFIT
from informer.checkpoint.restore import attributes_in, dims_in, restore_model
from informer.config import conversion
from informer.config.data import DatasetConfig, NonNegative, Transform
from informer.config.model import LinearSkip
from informer.config.overrides import Word, changed_settings, shell_command
from informer.config.training import TrainConfig
from informer.data.columns import Columns
from informer.data.dataset import Data, Provenance, Source
from informer.data.panel import training_rows
from informer.data.scaler import POWERS, is_amount
from informer.data.store import with_columns
from informer.data.windows import Windows
from informer.inference.rescore import save_results
from informer.inference.zero import network_seasons
from informer.linear.maps import all_runs, chosen_maps, fit_model
from informer.linear.moments import joined, runs_of
from informer.linear.select import folds, starts_of
from informer.networks.forecast_model import ForecastModel
from informer.networks.models.linear import maps_config
from informer.networks.models.zero import ZeroConfig
from informer.networks.ops.zero_inputs import HORIZON
from informer.scoring import intervals
from informer.scoring.baselines import FittedBaseline, fit_ridge
from informer.scoring.bootstrap import Winner
from informer.scoring.metrics import WQL
from informer.scoring.scores import (
    FORESIGHT,
    Evaluation,
    baselines_for,
    evaluate,
    fit_baselines,
    score,
    scored_at_once,
    training_scale,
)
from informer.training.combination import combined, combiner
from informer.training.curves import Tracker, reference_losses, tag_of
from informer.training.folder import RunFolder
from informer.training.loop import Session, check_compiler, fit
from informer.training.optim import EarlyStopping, resolve_precision
from informer.training.processes import Processes
from informer.training.sinks import Sink, check_installed, open_sinks
from informer.training.start import FittedMaps, calibration_errors, initial_network, is_closed_form
from informer.training.state import EVENTS, Checkpointer, State, note_of_length

log = logging.getLogger(__name__)


NAME = "frame"
"""Name of the table in messages, of its series and, with an ending, of the file."""


def saved_path(table: pd.DataFrame, run_dir: Path) -> Path:
    """Path of a CSV file, or of a parquet file if times have a time zone: text would store only their UTC offset."""
    zones = [dtype.tz for dtype in table.dtypes if isinstance(dtype, pd.DatetimeTZDtype)]
    in_zone = any(not isinstance(zone, timezone) and str(zone) != "UTC" for zone in zones)
    return run_dir / f"{NAME}.{'parquet' if in_zone else 'csv'}"


@contextmanager
def saved_table(table: pd.DataFrame, path: Path) -> Iterator[Provenance]:
    """Write the table to `path` in a new run directory; it is removed if the run fails before it starts.

    Raises:
        InputError: the folder cannot be written.
    """
    if path.exists():
        raise InputError(f"run_dir={path.parent}: expected a new folder, found {path.name} in it; choose another")
    content = table.to_csv(index=False).encode() if path.suffix == ".csv" else table.to_parquet(index=False)
    write_atomic(path, content)
    try:
        yield Provenance(path, hashlib.sha256(content).hexdigest())
    except InputError:
        if not RunFolder(path.parent).contains_run:
            path.unlink()
        raise


ROLES = ("features", "target", "targets", "past_covariates", "future_covariates")
"""Settings that say which columns are forecast and read."""

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
    precision = resolve_precision(settings.precision, device).value
    log.info(f"model: {n_parameters:,} parameters on {device}, {precision}; run directory {settings.run_dir}")
    if settings.non_negative is NonNegative.auto and (names := non_negative(settings, data)):
        log.info(
            f"forecasts of {listed(names)} are at least zero, like their training rows (non_negative=none turns it off)"
        )
    if settings.decoder_attn_reason:
        log.info(settings.decoder_attn_reason)
    if picked := picked_by_length(model):
        log.info(f"attention by length: {', '.join(picked)}")


def log_gain(settings: TrainConfig, stopping: EarlyStopping) -> None:
    """Log the network's improvement over what was fitted before training."""
    if settings.model.is_fitted_first and settings.trainer.max_steps == 0:
        return
    if stopping.start_loss:  # zero for a constant series: cannot be improved
        share = 1.0 - stopping.best_loss / stopping.start_loss
        what, fitted = ("the network", FITTED.get(settings.model.skip, "the closed form"))
        what = "training" if settings.model.CLOSED_FORM else what
        has_weights = settings.init_from is not None or isinstance(settings.model, ZeroConfig)
        start = "the initial weights" if has_weights else fitted
        log.info(
            f"{what} reduced the validation loss of {start} by {share:.2%} "
            f"({stopping.start_loss:.5f}, now {stopping.best_loss:.5f})"
        )


def better_command(settings: TrainConfig) -> str:
    """Message with a command to try after a baseline was better."""
    dataset = settings.dataset
    data: list[Word] = [f"dataset={dataset.name}"]
    if dataset.path is not None:
        data = ["dataset=csv", ("dataset.path", dataset.path), *dataset_words(dataset)]
    roles = {name: getattr(settings, name) for name in ROLES}
    columns = changed_settings("", roles, {name: getattr(TrainConfig(), name) for name in ROLES})
    words = [*data, *columns, f"pred_len={settings.pred_len}", "model=auto", "trainer.time_budget_minutes=10"]
    command = shell_command("train", *words)
    return f"try: {command} (starts from the best linear map), or model=linear, which takes seconds"


def dataset_words(dataset: DatasetConfig) -> list[str]:
    """Settings of a file's data that differ from the defaults, except its path, as words of a command."""
    usual = DatasetConfig()
    return changed_settings("dataset", asdict(replace(dataset, name=usual.name, path=None)), asdict(usual))


def data_facts(data: Data) -> dict[str, Any]:
    """Source, format and size of the data, in plain containers."""
    path = str(data.provenance.path)
    where = with_addresses(path)  # an address, if `path` is the copy of one
    parts, dialect = list(zip(data.panel, data.splits, strict=True)), data.panel[0].dialect
    return {
        "path": where,
        "absolute": str(data.provenance.path.absolute()) if where == path else where,
        "sha256": data.provenance.sha256,
        "series": len(data.panel),
        "rows": sum(map(len, data.panel)),
        "time_col": data.panel[0].time_col,
        "time_format": data.panel[0].time_format,
        "timezone": getattr(data.panel[0].timestamps.tz, "key", None),
        "trained_until": str(max(series.timestamps[split.val.stop - 1] for series, split in parts)),
        UNTIL: str(max(series.timestamps[split.test.stop - 1] for series, split in parts)),
        "marks": [dialect.decimal, dialect.thousands] if dialect.is_settled else None,
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
        for series in training_rows(data.panel, data.splits):
            values = np.asarray(series.values[:, place])
            values = values[~np.isnan(values)]
            least, n = min(least, values.min(initial=math.inf)), n + len(values)
            zeros += int((values == 0).sum())
            all_integer = all_integer and bool((values == np.round(values)).all())
        if is_amount(least, zeros, n, whole=all_integer):
            names.append(name)
    return names


def window_counts(data: Data) -> dict[str, int]:
    """Number of windows of each part."""
    by_part = {"train": data.train, "val": data.val, "calibration": data.calibration, "test": data.test}
    return {name: len(windows) for name, windows in by_part.items() if windows is not None}


def mase_scales(data: Data) -> dict[str, list[float]]:
    """`training_scale` by series."""
    return dict(zip((series.name for series in data.panel), training_scale(data).tolist(), strict=True))


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
        | {
            NAMES: list(data.trained_series),
            "non_negative": non_negative(settings, data),
            MASE_SCALES: mase_scales(data),
        }
        | ({STATIC: list(data.columns.static_covariates)} if data.columns.static_covariates else {})
        | ({CATEGORIES: {name: list(labels) for name, labels in data.categories.items()}} if data.categories else {})
        | ({ATTRIBUTES: data.attributes.to_plain()} if data.attributes else {}),
    }


MOST_SERIES, MOST_TARGETS, MOST_VALUES = 200, 32, 20_000_000
"""Series of a panel and targets that are used, evenly spaced; if they have more values than MOST_VALUES, nothing is
transformed."""

MOST_ROWS, MOST_WINDOWS, MOST_FORECASTS = 50_000, 1024, 65_536
"""Most histories in a fit, most held-out windows, and most windows times targets, over all blocks."""

BLOCKS = 4

LEAST_GAIN, SURE, MOST_LOSS = 0.01, 2.0, 0.01
"""Share, and standard errors over blocks, by which a transform must lower the mean of the three errors; share by which
it may raise RMSE."""


Item = TypeVar("Item")

BlockErrors = Float64[np.ndarray, "3 blocks"]
"""RMSE, MASE and sMAPE of each block with one transform; RMSE and MASE in scaled units without a transform, sMAPE in
percent."""


def with_transform(settings: TrainConfig, source: Source, device: torch.device) -> tuple[TrainConfig, str]:
    """The configuration with `scaler.transform=auto` replaced by a choice, and a note; "" without a choice.

    Raises:
        InputError: the data have no training or no validation window.
    """
    if settings.scaler.transform is not Transform.auto:
        return settings, ""
    plain = _with(settings, Transform.none)
    positions = source.columns.positions(source.columns.targets)
    lows = [np.nanmin(series.values[:, positions], axis=0, initial=np.inf) for series in source.panel]
    if not (np.min(lows, axis=0) >= 0).any():  # every target has a negative value
        return plain, ""
    panel = _evenly(source.panel, MOST_SERIES)
    targets = tuple(_evenly(source.columns.targets, MOST_TARGETS))
    if len(targets) * sum(map(len, panel)) > MOST_VALUES:
        return plain, f"scaler.transform=none: not chosen with more than {MOST_VALUES:,} values; try sqrt for counts"
    columns = Columns(inputs=targets, targets=targets)
    sample = replace(source, panel=with_columns(panel, targets), columns=columns, labels={}, cache=None)
    scores = {transform: _scores(_with(settings, transform), sample, device) for transform in POWERS}
    chosen, note = choose(scores)
    return _with(settings, chosen), note


def choose(scores: Mapping[Transform, BlockErrors]) -> tuple[Transform, str]:
    """The transform to use, and why."""
    chosen = Transform.none
    for stronger in (Transform.sqrt, Transform.fourth_root):
        if _is_better(scores[stronger], scores[chosen]):
            chosen = stronger
    if chosen is Transform.none:
        return chosen, "scaler.transform=none: no root of the targets clearly forecasts better on held-out blocks"
    rmse, mase, smape = scores[chosen].mean(axis=1)
    base_rmse, base_mase, base_smape = scores[Transform.none].mean(axis=1)
    return chosen, (
        f"scaler.transform={chosen.value}, for ridge on held-out blocks: MASE {mase:.3g} instead of "
        f"{base_mase:.3g}, sMAPE {smape:.3g} instead of {base_smape:.3g} %, RMSE {rmse:.3g} instead of {base_rmse:.3g}"
    )


def _is_better(candidate: BlockErrors, other: BlockErrors) -> bool:
    """Whether the gain is large enough and consistent across blocks, and RMSE not much higher."""
    n_blocks = other.shape[1]
    if n_blocks < 2 or not (other > 0).all():  # MASE may be undefined
        return False
    relative = (candidate / other).mean(axis=0)
    error = relative.std(ddof=1) / n_blocks**0.5
    is_gain = relative.mean() <= 1 - max(LEAST_GAIN, SURE * error)
    return bool(is_gain and (candidate[0] / other[0]).mean() <= 1 + MOST_LOSS)


def _evenly(items: Sequence[Item], most: int) -> Sequence[Item]:
    """At most `most` of the items, evenly spaced."""
    return items[:: -(-len(items) // most)]


def _with(settings: TrainConfig, transform: Transform) -> TrainConfig:
    return replace(settings, scaler=replace(settings.scaler, transform=transform))


def _scores(settings: TrainConfig, source: Source, device: torch.device) -> BlockErrors:
    data = build_data(settings, device, source=source)
    positions = data.columns.positions(data.targets)
    places = tuple(data.targets.index(name) for name in non_negative(settings, data))
    most = max(min(MOST_WINDOWS, MOST_FORECASTS // len(positions)) // BLOCKS, 1)
    scale, rows = training_scale(data), []
    for block in folds(joined(runs_of(data.train), runs_of(data.val)), BLOCKS, data.sizes.pred_len):
        if not (block.held and block.fitted):
            continue
        held_out, fitted = (data.train.at(torch.from_numpy(starts_of(runs))) for runs in (block.held, block.fitted))
        held_out = held_out.thinned(most)
        ridge = fit_ridge(fitted, held_out, positions, max_rows=MOST_ROWS)
        errors = evaluate(intervals.Baseline(ridge, places), held_out, mase_scale=scale)
        scaled = errors.scaled.overall()
        rows.append((scaled["rmse"], scaled["mase"], errors.original.overall()["smape"]))
    return np.array(rows).reshape(-1, 3).T


PROBE, MORE = 16, 4
"""Scoring is timed on PROBE and on MORE * PROBE test windows."""

LEAST, LEAST_VALUES = 128, 1 << 22
"""Minimum number of windows, or of their values, that are scored regardless of time."""

MEMBER_FORECASTS = 50_000
"""Maximum number of forecasts of the test part by members of an average that are not part of the model."""

SAFE = 1.3
"""Safety factor on measured times."""


class SearchResult(NamedTuple):
    """Results of a search for its final run.

    Args:
        maps: fitted linear maps to start from; None: not fitted yet.
        fit_seconds: time for fitting them.
        seconds_left: returns the remaining seconds of the budget.
    """

    maps: FittedMaps | None
    fit_seconds: float
    seconds_left: Callable[[], float]


def score_best(
    settings: TrainConfig,
    data: Data,
    folder: RunFolder,
    console: Console,
    baselines: Sequence[FittedBaseline],
    searched: SearchResult | None = None,
    calibration_windows: Windows | None = None,
) -> Evaluation:
    """Choose the combination, calibrate the intervals, save the best checkpoint and score it on the test part.

    Args:
        calibration_windows: windows that the network has not seen; None: the part for calibration.

    Raises:
        InputError: the checkpoint belongs to another run.
    """
    saved, device = folder.checkpoint(), data.train.starts.device
    folder.check_own(settings, saved, checkpoint.BEST)
    if settings.trainer.combine and COMBINED not in saved.data:
        saved, table = combined(saved, settings, data, device)
        console.print(table)
    saved = replace(saved, config=conversion.to_plain(settings))  # a continued run has another length
    best = restore_model(saved).to(device)
    unseen = data if calibration_windows is None else replace(data, calibration=calibration_windows)
    errors = calibration_errors(best, settings, unseen, finish=combiner(saved, data))
    calibration = None if errors is None else errors.calibration()
    calibrated = baselines_for(data, best, baselines)
    evaluation = _scored(best, settings, data, calibration, calibrated, searched)
    facts: dict[str, Any] = {SHORTFALLS: intervals.shortfalls(evaluation.intervals, data.targets)}
    if (maps := best.maps) is not None and is_closed_form(best, settings):
        facts[MAPS] = chosen_maps(maps, maps_config(settings.model), data)
    state: dict[str, Tensor] = {}
    if errors is not None and calibration is not None and settings.trainer.calibration:
        state |= calibration.state()
        # for forecasts after the end of the data: also the errors on the test part, the newest there are
        errors_of = intervals.residuals_of(data, scored_at_once(best, settings.trainer.eval_batch_size, data))
        known = evaluation.residuals
        if evaluation.windows < len(data.test):  # those of as many windows, however many were scored in time
            every = intervals.every_of(data.test, intervals.affordable(best, intervals.MOST_RECENT, len(data.targets)))
            chosen = data.test.at(data.test.starts[::every])
            known = errors_of(best.eval(), chosen, n_rolled=0)
        tested = errors_of(best.eval(), data.test, most=intervals.MOST_RECENT, known=known)
        recent = (tested if errors.lag != tested.lag else intervals.joined_errors([errors, tested])).calibration()
        if bool(recent.is_learned.any()):
            state |= {f"{intervals.RECENT}{name}": tensor for name, tensor in recent.state().items()}
    folder.save(checkpoint.BEST, replace(saved, calibration=state or None, data=saved.data | facts))
    return evaluation


def _scored(
    model: ForecastModel,
    settings: TrainConfig,
    data: Data,
    calibration: intervals.Calibration | None,
    baselines: Sequence[intervals.Baseline],
    searched: SearchResult | None,
) -> Evaluation:
    """Score on all test windows, or on evenly spaced ones if members would make more than MEMBER_FORECASTS, or if the
    time budget requires it."""
    n_windows, values = len(data.test), data.sizes.pred_len * len(data.targets)
    blocks = len(data.targets) * -(-data.sizes.reach // HORIZON)
    most = max(MEMBER_FORECASTS // blocks, LEAST) if model.members else n_windows
    why = "further members of the average take a millisecond per forecast"

    def scores(of: Data) -> Evaluation:
        batch_size = settings.trainer.eval_batch_size
        return score(model, of, batch_size=batch_size, calibration=calibration, baselines=baselines)

    # with further members a forecast takes as long however short it is
    least = LEAST if model.members else max(LEAST, LEAST_VALUES // values)
    if searched is not None and math.isfinite(searched.seconds_left()) and min(most, n_windows) > least:
        probes = [data.test.thinned(PROBE), data.test.thinned(MORE * PROBE)]
        marks = [searched.seconds_left()]
        for probe in probes:
            scores(replace(data, test=probe))
            marks.append(searched.seconds_left())
        seconds = [earlier - later for earlier, later in pairwise(marks)]
        # the difference cancels the fixed cost of scoring
        pace = (seconds[1] - seconds[0]) / (len(probes[1]) - len(probes[0]))
        room = searched.seconds_left() - seconds[0] - SAFE * searched.fit_seconds * settings.trainer.refit
        in_time = max(int(room / (SAFE * pace)), least) if pace > 0 else n_windows
        if in_time < most:
            most, why = in_time, "as many as the time budget allowed"
    if most >= n_windows:
        return scores(data)
    fewer = data.test.thinned(most)
    evaluation = scores(replace(data, test=fewer))
    note = f"scored on {len(fewer):,} evenly spaced of {n_windows:,} test windows: {why}"
    stride = -(-n_windows // most)
    return replace(evaluation, notes=(*evaluation.notes, note), block=max(-(-evaluation.block // stride), 1))


def final_metrics(evaluation: Evaluation, stopping: EarlyStopping) -> dict[str, float]:
    """Scores of the run by tag, the most important first."""
    scaled = {name: errors.scaled.overall() for name, errors in evaluation.errors.items()}
    model_scores = scaled.pop(evaluation.model)
    metrics = {"test/skill": evaluation.skill, "test/mse": model_scores["mse"], "test/mae": model_scores["mae"]}
    metrics |= {f"test/mse_{tag_of(name)}": other["mse"] for name, other in scaled.items()}
    metrics |= {f"test/coverage_{name}": means.overall()["coverage"] for name, means in evaluation.intervals.items()}
    original = evaluation.errors[evaluation.model].original.overall()
    if FORESIGHT in evaluation.breakdown:
        metrics["test/mse_with_foresight"] = evaluation.breakdown[FORESIGHT]["scaled"]["mse"]
    if WQL in original:
        metrics["test/wql"] = original[WQL]
    if evaluation.quantiles:
        metrics["test/pinball"] = evaluation.mean_pinball
    return metrics | {"val/best_loss": stopping.best_loss}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Where and how a run is executed.

    Args:
        folder: run directory.
        console: for the progress bar, the epoch table and the report.
        device: device of the network and the data.
        processes: processes of the run.
        start_log_file: also logs to this file from now on.
    """

    folder: RunFolder
    console: Console
    device: torch.device
    processes: Processes
    start_log_file: Callable[[Path], None]


def prepare(settings: TrainConfig, folder: RunFolder) -> TrainConfig:
    """The complete configuration of a new run in this folder; nothing is written yet.

    Raises:
        InputError: there is a run in the folder, `decoder_attn` cannot be causal, or a tracker is not installed.
    """
    folder.check_new()
    check_installed(settings.trainer.tracker)
    decoder_attn, reason = resolve_decoder(settings.attn, settings.decoder_attn)
    return replace(settings, decoder_attn=decoder_attn, decoder_attn_reason=reason, run_dir=str(folder.path))


@contextmanager
def run_context(settings: TrainConfig, folder: RunFolder, console: Console) -> Iterator[RunContext]:
    """Set up device, seeds, log and processes of a run."""
    device = pick_device(settings.device)
    set_deterministic(settings.trainer.deterministic)
    seed_everything(settings.seed)
    minutes = settings.trainer.collective_timeout_minutes
    with logging_to(console) as start_log_file, Processes.started(device, minutes) as processes:
        yield RunContext(
            folder=folder, console=console, device=device, processes=processes, start_log_file=start_log_file
        )


def train_and_score(
    settings: TrainConfig,
    context: RunContext,
    source: Source,
    last: Checkpoint | None,
    searched: SearchResult | None = None,
) -> Evaluation | None:
    """Train, and score the best epoch once on the test part; None in all processes but the first.

    Args:
        settings, source: complete configuration, and the series.
        context: device, folder and processes of the run.
        last, searched: the run's last saved state (None: a new run), and results of a search before it.

    Raises:
        InputError: an error the user can fix; nothing is written before training starts.
        Interrupted: Ctrl-C or SIGTERM; the state was saved.
    """
    progress.report("preparing the data and fitting linear parts")
    settings, chosen = with_transform(settings, source, context.device)
    data = build_data(settings, context.device, source=source)
    if isinstance(settings.model, ZeroConfig) and not settings.model.seasons:
        found = network_seasons(training_rows(data.panel, data.splits), data.targets)
        settings = replace(settings, model=replace(settings.model, seasons=list(found)))
    if last is not None:
        _check_same_data(data, last)
    model = initial_network(settings, data, last, searched.maps if searched else None).to(context.device)
    # fitted on first use: training reports values for which no baseline can be fitted
    baselines = cache(lambda: fit_baselines(data))
    with ExitStack() as open_files:
        sinks: dict[str, Sink] = {}
        if context.processes.is_main:
            _record_start(settings, data, context, last, chosen)
            log_run(settings, data, model, context.device)
            open_files.enter_context(context.folder.as_latest())
            positions = {} if last is None or last.training is None else last.training[EVENTS]
            sinks = open_sinks(settings, context.folder.path, positions)
        n_steps, done = settings.trainer.n_steps(len(data.train)), 0 if last is None else last.step
        tracker = open_files.enter_context(Tracker(sinks, n_steps=n_steps, console=context.console, done=done))
        tracker.references = cache(lambda: reference_losses(baselines(), data, settings))
        stopping = _train(settings, model, data, context, tracker, last)
        if not context.processes.is_main:
            return None
        log_gain(settings, stopping)
        progress.report("scoring on held-out rows")
        folder, console = context.folder, context.console
        evaluation = score_best(settings, data, folder, console, baselines(), searched)
        if settings.trainer.refit:
            evaluation = replace(evaluation, notes=(*evaluation.notes, save_refit(settings, data, folder)))
        plain = conversion.flat(conversion.to_plain(settings))
        tracker.final(plain, final_metrics(evaluation, stopping), stopping.epochs)
        folder.finish()
        # last: a run with a report counts as finished, and is not resumed
        conclude(evaluation, data, folder, console)
        log.info(f"      tensorboard --logdir {folder.path}")
        if evaluation.winner is Winner.baseline and "search" not in folder.facts():
            log.info(better_command(settings))
        return evaluation


def save_refit(settings: TrainConfig, data: Data, folder: RunFolder) -> str:
    """Save the scored model with its linear maps, but not its network, fitted on the windows of all parts, for
    forecasts; returns a note for the report."""
    saved, runs = folder.checkpoint(), all_runs(data)
    model = restore_model(saved)
    assert model.maps is not None, "see TrainConfig.problems"
    fit_model(model.maps, maps_config(settings.model), data, runs)
    combiner(saved, data)(model.maps)  # the weight of the network in a combination is in its head already
    windows = sum(map(len, runs))
    facts = saved.data | {REFITTED: windows}
    folder.save(REFIT, replace(saved, weights=model.state_dict(), data=facts))
    return (
        f"{REFIT}, which predict uses: refitted with the same settings on {windows} windows of all parts; the "
        "scores are those of the model before the refit"
    )


def _check_same_data(data: Data, last: Checkpoint) -> None:
    if dims_in(last) != dims_of(data):
        raise InputError(f"resume: expected data that fit the network of {checkpoint.LAST}, found others")
    if data.provenance.sha256 != last.data["sha256"]:
        raise InputError(
            f"resume: expected the data that the run began with, {data.provenance.path} has changed since "
            f"(sha256 {last.data['sha256'][:12]}..., now {data.provenance.sha256[:12]}...); start a new run"
        )
    recorded = attributes_in(last)
    if recorded and data.attributes and recorded.sha256 != data.attributes.sha256:
        raise InputError(
            f"resume: expected the attributes of series that the run began with, {data.attributes.where} has others; "
            "leave dataset.attributes out, or start a new run"
        )


def _record_start(settings: TrainConfig, data: Data, context: RunContext, last: Checkpoint | None, chosen: str) -> None:
    if last is None:
        context.folder.begin(settings, provenance() | {"seed": settings.seed, "data": data_facts(data)})
    else:
        facts, began = provenance(), context.folder.facts()
        before = [each.get("threads") for each in (began, *began.get("resumed", []))]
        other = next((threads for threads in before if threads not in (None, facts["threads"])), None)
        if context.device.type == "cpu" and other is not None:  # which changes the rounding of sums
            log.warning(
                f"resume: the run began with {other} threads, and continues with {facts['threads']}: results will "
                "differ in their last bits from those of an uninterrupted run; set OMP_NUM_THREADS="
                f"{other} to keep them equal"
            )
        context.folder.resume(settings, facts)
    context.start_log_file(context.folder.path / LOG)
    if chosen:
        log.info(chosen)
    if last is not None and (note := note_of_length(settings, last, len(data.train))):
        log.info(note)


def _train(
    settings: TrainConfig,
    model: ForecastModel,
    data: Data,
    context: RunContext,
    tracker: Tracker,
    last: Checkpoint | None,
) -> EarlyStopping:
    """Train, with last.pt, and best.pt whenever the state is the best so far, written by the first process."""
    if settings.compile:
        check_compiler(context.device)
    facts, folder, processes = checkpoint_facts(settings, data), context.folder, context.processes

    def save(state: State, is_best: bool) -> None:
        if not processes.is_main:
            return
        content = Checkpoint(
            **facts,
            weights=state.model.state_dict(),
            epoch=state.epoch,
            step=state.step,
            val_loss=state.stopping.best_loss,
            training=state.training() | {EVENTS: tracker.sync()},
        )
        if is_best:
            best = replace(content, training=None, weights=state.scored.state_dict())
            folder.save(checkpoint.BEST, best)
        folder.save(checkpoint.LAST, content)

    try:
        with StopRequest(second_ends=processes.size == 1) as stop:
            minutes = settings.trainer.save_every_minutes
            checkpointer = Checkpointer(save, every_minutes=minutes, stop=stop, processes=processes)
            resumed = None if last is None else last.training
            return fit(
                Session.begin(settings, model, data, tracker=tracker, checkpointer=checkpointer, resumed=resumed)
            )
    except Interrupted as interrupted:
        log.info(f"{interrupted}; saved. Continue with: {shell_command('train', ('resume', context.folder.path))}")
        raise


def conclude(evaluation: Evaluation, data: Data, folder: RunFolder, console: Console) -> None:
    """Save the results of a run, and print its scores with what to do next."""
    save_results(evaluation, folder.checkpoint(), data, folder.path)
    console.print(evaluation.table())
    for line in [*evaluation.remarks, f"{evaluation.model}: {evaluation.verdict}"]:
        log.info(line)
    if evaluation.warning:
        log.warning(f"warning: {evaluation.warning}")
    command = shell_command("predict", ("checkpoint", folder.path), "input=FILE.csv", "output=forecasts")
    log.info(f"next: {command}")
