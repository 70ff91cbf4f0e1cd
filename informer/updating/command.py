"""Update a trained run with later rows, from the checked configuration to a new run."""

import logging
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from informer import checkpoint
from informer.build import build_data
from informer.checkpoint.facts import read_facts
from informer.checkpoint.format import COMBINED, REFITTED, SHORTFALLS, Checkpoint, saved_digest
from informer.checkpoint.paths import BEST, KEPT, LAST, LOG, REFIT, ROWS, forecasting_checkpoint, resolve_latest
from informer.checkpoint.restore import restore_model
from informer.config import conversion
from informer.config.dataset import SplitConfig, SplitKind
from informer.config.overrides import next_command
from informer.config.schema import TrainConfig
from informer.config.updating import UpdateConfig
from informer.console import logging_to
from informer.data.calendar import mark_fields
from informer.data.categories import Trained
from informer.data.pipeline import Data
from informer.data.read.download import files_sha256
from informer.data.read.frequency import Frequency
from informer.data.read.source import Series
from informer.data.rows import RowsFormat, rows_dataset, rows_table, series_column
from informer.data.scaler import PanelScaler
from informer.errors import InputError, counted
from informer.files import expanded, write_atomic
from informer.inference.coverage import shortfalls
from informer.inference.evaluate import evaluate, score, training_scale
from informer.inference.evaluation import Evaluation
from informer.inference.trained_data import trained_data
from informer.linear.features import cycles_of
from informer.linear.saved_fit import KeptFit, Reads
from informer.linear.shares import Shares, maps_of
from informer.models.base import ForecastModel, model_forecast
from informer.models.linear import Linear
from informer.runtime import pick_device, provenance, seed_everything
from informer.training import update_state
from informer.training.combination import combiner, repeated_rows
from informer.training.describe import data_facts
from informer.training.linear_skip import calibration_errors, is_closed_form
from informer.training.run_dir import RunFolder
from informer.training.scoring import states
from informer.training.update_state import UNTIL, UpdateState
from informer.updating.fitting import Later, LinearPart, later_errors, newest_errors, windows_of
from informer.updating.joined_rows import Rows, input_dataset, joined, read_rows
from informer.updating.tuning import last_rate, tuned

log = logging.getLogger("informer.update")

TEST_SHARE = 5
"""The last two parts of later rows, 1 / TEST_SHARE each and at least pred_len, are for validation and test."""

MANY = 1 << 40
"""Number of rows that contains every calendar cycle."""


@dataclass(frozen=True, eq=False, slots=True)
class Older:
    """The run to update.

    Args:
        path: its folder.
        checkpoint: its scored checkpoint.
        settings: its configuration.
        rows: its last rows.
        state: its saved moments and calibration errors, to which later ones are added.
    """

    path: Path
    checkpoint: Checkpoint
    settings: TrainConfig
    rows: list[Series]
    state: UpdateState


def update(settings: UpdateConfig, folder: RunFolder, console: Console) -> Evaluation:
    """Update a run with later rows: linear maps as if fitted on all rows; intervals and scores from the latest rows.

    Args:
        folder: folder of the new run.
        console: for the log and the table of scores.

    Raises:
        InputError: an error the user can fix.
    """
    began, device = time.monotonic(), pick_device(settings.device)
    with folder.claimed("output"), logging_to(console) as keep_log_in:
        folder.check_new()
        older = read_older(settings)
        dataset = input_dataset(older.settings.dataset, settings.input or "", settings.dataset, older.checkpoint)
        saved, where = older.checkpoint, settings.input or ""
        newer = read_rows(older.settings, dataset, saved)
        fix = None if settings.dataset.fill else "add them, or set dataset.fill=ffill|linear|zero"
        rows = joined(older.rows, newer, fix=fix, where=where)
        new_settings = _settings_of(older, rows, settings, folder)
        seed_everything(new_settings.seed)
        data = _rows_again(new_settings, older, rows, folder, device)
        keep_log_in(folder.path / LOG)
        _log_rows(rows, older, where)
        facts = {"seed": new_settings.seed, "data": data_facts(data), "parent": _parent(older, rows, where)}
        folder.begin(new_settings, provenance() | facts)
        with folder.as_latest():
            evaluation = _fit_and_score(settings, older, new_settings, Later(data, rows.n_old), folder, console)
        folder.finish()
        log.info(f"updated in {time.monotonic() - began:.1f} s: {folder.path}")
        log.info(f"next: {next_command(folder.path)}")
    return evaluation


def _rows_again(settings: TrainConfig, older: Older, rows: Rows, folder: RunFolder, device: torch.device) -> Data:
    """Write the rows to the folder of the new run, and read them as every later command does."""
    saved, path = older.checkpoint, folder.path / ROWS
    table = rows_table(rows.panel, saved.categories, settings.dataset.series_col)
    write_atomic(path, table.to_csv(index=False))
    try:
        scaler, trained = PanelScaler.from_state(saved.scaler), Trained(saved.series, saved.categories)
        return build_data(settings, device, scaler, trained=trained)
    except InputError:
        path.unlink()
        raise


def read_older(settings: UpdateConfig) -> Older:
    """The run with its saved moments and rows; without saved ones, computed from its training data.

    Raises:
        InputError: no run, or nothing saved and the training data is not found.
    """
    path = resolve_latest(settings.checkpoint)
    if not path.is_dir():
        raise InputError(f"checkpoint={settings.checkpoint}: expected a run directory")
    saved = checkpoint.load(path)
    model, trained = restore_model(saved), conversion.from_plain(saved.config)
    maps = maps_of(model)
    if why := _not_from_moments(maps, trained):
        raise InputError(f"checkpoint={settings.checkpoint}: {why}; train again on all rows")
    reads = Reads.of(trained.sizes, n_series=len(saved.series), inputs=saved.inputs, targets=saved.targets)
    state = update_state.load(path, reads)
    needs_moments = maps is not None and is_closed_form(model, trained)
    if state is None or (state.fit is None and needs_moments):
        return _from_data(settings, path, saved, trained)
    _check_inputs(state, model, saved)
    dataset = rows_dataset(trained.dataset, path / ROWS, rows_format(saved, trained))
    rows = read_rows(trained, dataset, saved)
    rows = update_state.last_rows(rows, list(map(len, rows)), trained.sizes) or rows
    return Older(path, saved, trained, rows, state)


def _not_from_moments(maps: Linear | None, trained: TrainConfig) -> str | None:
    """Why linear maps cannot be refitted from moments; None if they can."""
    if maps is not None and maps.effects is not None:
        return "its linear maps have effects of columns, categories or holidays known ahead, which cannot be refitted"
    if trained.dataset.keeps_gaps:
        return "its data have missing values (dataset.fill=mask), for which no moments are saved"
    return None


def _check_inputs(state: update_state.UpdateState, model: ForecastModel, checkpoint: Checkpoint) -> None:
    """Raise an InputError if the saved moments are for other inputs than those of the model."""
    maps, frequency = maps_of(model), Frequency.parse(checkpoint.frequency)
    if state.fit is None or maps is None:
        return
    features, fields = state.fit.features, mark_fields(frequency, checkpoint.calendar)
    cycles = cycles_of(fields, MANY, frequency.per_day)
    if features.fields != fields or features.recent not in (0, maps.recent) or not set(features.cycles) <= set(cycles):
        raise InputError(f"{KEPT}: its linear maps read other inputs than the model; put the run's own file back")


def rows_format(checkpoint: Checkpoint, trained: TrainConfig) -> RowsFormat:
    """Format of the rows that a run saves."""
    time_col = checkpoint.data["time_col"]
    return RowsFormat(
        series_col=series_column(checkpoint.series, trained.dataset.series_col, [time_col, *checkpoint.inputs]),
        time_col=time_col,
        timezone=trained.dataset.timezone or checkpoint.data.get("timezone"),
        frequency=checkpoint.frequency,
        columns=checkpoint.inputs,
        categorical=list(checkpoint.categories),
    )


def _from_data(settings: UpdateConfig, path: Path, saved: Checkpoint, trained: TrainConfig) -> Older:
    """What the run would have saved, computed from its training data."""
    log.info(f"{path} has no saved moments or rows: computing them from its training data")
    model = restore_model(saved)
    opened_data = trained_data(
        saved, torch.device("cpu"), scratch=path, dataset=settings.trained, data_dir=settings.data_dir
    )
    try:
        with opened_data as data:
            errors = calibration_errors(model, trained, data, finish=combiner(saved, data))
            repeated = repeated_rows(data)
            state = UpdateState(
                update_state.kept_fit(model, trained, data), repeated.tolist() if repeated is not None else None, errors
            )
            rows = update_state.last_rows(data.panel, [split.test.stop for split in data.splits], data.sizes)
    except InputError as error:
        raise InputError(f"checkpoint={settings.checkpoint}: this run saved no rows (trainer.keep): {error}") from error
    if rows is None:
        raise InputError(
            f"checkpoint={settings.checkpoint}: cannot update {len(data.panel)} series, too many; train again"
        )
    return Older(path, saved, trained, rows, state)


def _settings_of(older: Older, rows: Rows, settings: UpdateConfig, folder: RunFolder) -> TrainConfig:
    """The configuration of the new run: that of the older run, with the new run's rows as data."""
    least, new, ends = 2 * older.settings.pred_len + 1, min(rows.new), {series.timestamps[-1] for series in rows.panel}
    if new < least:
        raise InputError(
            f"{settings.input}: expected at least 2 pred_len + 1 = {least} rows after {older.rows[0].timestamps[-1]}, "
            f"for training, validation and test, found {new}; wait for more rows, and update from the same run"
        )
    if len(ends) > 1:
        raise InputError(
            f"{settings.input}: expected series that end at the same time, found {min(ends)} to {max(ends)}; cut the "
            "longer ones"
        )
    share, times = max(older.settings.pred_len, new // TEST_SHARE), rows.panel[0].timestamps
    split = SplitConfig(kind=SplitKind.dates, train=str(times[-2 * share]), val=str(times[-share]), test=None)
    saved_format = rows_format(older.checkpoint, older.settings)
    dataset = rows_dataset(older.settings.dataset, folder.path / ROWS, saved_format, split)
    dataset = replace(dataset, fill=settings.dataset.fill, max_gap=settings.dataset.max_gap)
    return replace(older.settings, dataset=dataset, run_dir=str(folder.path), device=settings.device, init_from=None)


def _log_rows(rows: Rows, older: Older, where: str) -> None:
    new = sum(rows.new)
    what = "row" if len(rows.panel) == 1 else f"rows of {len(rows.panel)} series, each a row"
    same = f"; {rows.compared} rows of training compared, {rows.changed} changed" if rows.compared else ""
    past = f", {rows.not_compared} earlier rows not compared" if rows.not_compared else ""
    log.info(f"{where}: {counted(new, what)} after {older.rows[0].timestamps[-1]}{same}{past}")


def _parent(older: Older, rows: Rows, where: str) -> dict[str, Any]:
    """Entry of run.json about the run that was updated."""
    before = read_facts(older.path).get("parent", {})
    return {
        "run": str(older.path),
        "digest": saved_digest(older.path / BEST),
        "kept": update_state.saved_digest(older.path),
        "data_sha256": older.checkpoint.data["sha256"],
        "updates": 1 + before.get("updates", 0),
        "input": where,
        "input_sha256": files_sha256([expanded(where)]),
        "rows": sum(rows.new),
        "changed": rows.changed,
    }


def _fit_and_score(
    settings: UpdateConfig, older: Older, new_settings: TrainConfig, later: Later, folder: RunFolder, console: Console
) -> Evaluation:
    """Fit, calibrate, score and save."""
    saved, data = older.checkpoint, later.data
    model = restore_model(saved).to(data.train.starts.device)
    shares = Shares.from_plain(saved.data[COMBINED]) if COMBINED in saved.data else Shares()
    linear_part, training = LinearPart.of(older.state, shares, data), _training(older)
    if linear_part is not None:
        linear_part.give(model, linear_part.sums(later.runs_before_test))
    if settings.steps:
        n_windows = (saved.data.get("windows") or {}).get("train", len(data.train))
        lr = settings.lr or last_rate(older.settings, training or {}, n_windows)
        training = tuned(model, new_settings, data, training, steps=settings.steps, lr=lr, console=console)
    errors = (
        newest_errors(
            older.state.errors, later_errors(model, new_settings, later, linear_part, is_tuned=bool(settings.steps))
        )
        if new_settings.trainer.calibration
        else None
    )
    calibration = None if errors is None else errors.calibration()
    evaluation = score(model, data, batch_size=new_settings.trainer.eval_batch_size, calibration=calibration)
    short = {SHORTFALLS: shortfalls(evaluation.intervals, data.targets)}
    best = replace(
        saved, config=conversion.to_plain(new_settings), weights=model.state_dict(),
        data=saved.data | data_facts(data) | short, step=saved.step + settings.steps,
        calibration=None if errors is None else states(model, data, errors, calibration, new_settings),
    )  # fmt: skip
    checkpoint.save(folder.path / BEST, best)
    checkpoint.save(folder.path / LAST, replace(best, training=training, calibration=None))
    evaluation = replace(
        evaluation, notes=(*evaluation.notes, _baseline_note(data), _before(older, new_settings, data))
    )
    kept_fit = older.state.fit if linear_part is None else _refit(best, model, linear_part, later, folder)
    update_state.save(folder.path, UpdateState(kept_fit, older.state.repeated, errors))
    evaluation.save(folder.path)
    console.print(evaluation.table())
    for line in [*evaluation.remarks, evaluation.verdict]:
        log.info(line)
    if evaluation.warning:
        log.warning(f"warning: {evaluation.warning}")
    return evaluation


def _refit(best: Checkpoint, model: ForecastModel, linear_part: LinearPart, later: Later, folder: RunFolder) -> KeptFit:
    """Save the model with linear maps fitted on all rows, for forecasts; returns the fit with its moments."""
    sums = linear_part.sums(later.runs)
    linear_part.give(model, sums)
    facts = best.data | {REFITTED: int(sums.pooled.windows), UNTIL: update_state.last_time(later.data)}
    checkpoint.save(folder.path / REFIT, replace(best, weights=model.state_dict(), data=facts))
    log.info(f"linear maps: {windows_of(later.runs)} windows added to those of the older run, none fitted twice")
    return replace(linear_part.kept_fit, sums=sums)


def _training(older: Older) -> dict[str, Any] | None:
    """The state of training at the end of the older run."""
    last = older.path / LAST
    return checkpoint.load(last).training if last.exists() else None


def _baseline_note(data: Data) -> str:
    rows = sum(split.train.stop for split in data.splits)
    return f"the baselines are fitted on the last {rows} rows before validation, saved in {ROWS}"


def _before(older: Older, settings: TrainConfig, data: Data) -> str:
    """The scores, on the same windows, of the model that made forecasts before the update."""
    model = restore_model(checkpoint.load(forecasting_checkpoint(older.path)))
    forecast = partial(model_forecast, model.to(data.train.starts.device))
    errors = evaluate(
        forecast, data.test, mase_scale=training_scale(data), batch_size=settings.trainer.eval_batch_size
    ).scaled.overall()
    return f"before the update: scaled MSE {errors['mse']:.4g}, MAE {errors['mae']:.4g} on the same windows"
