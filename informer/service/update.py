"""Update a trained run with later rows, from the checked configuration to a new run.

Join the rows saved with a run and those of a newer file: overlap is compared, gaps are an error or filled.

Continue training a network for some steps on later rows, with its optimiser's state.

Update linear maps with later rows, and compute errors on these rows for calibration.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from rich.console import Console

from informer import checkpoint
from informer.base.console import logging_to
from informer.base.errors import InputError, counted, listed
from informer.base.files import expanded, write_atomic
from informer.base.runtime import pick_device, provenance, seed_everything
from informer.base.start import StopRequest
from informer.build import build_data, read_dataset
from informer.checkpoint.format import COMBINED, REFITTED, SHORTFALLS, Checkpoint, saved_digest
from informer.checkpoint.paths import (
    BEST,
    KEPT,
    LAST,
    LOG,
    REFIT,
    ROWS,
    forecasting_checkpoint,
    read_facts,
    resolve_latest,
)
from informer.checkpoint.restore import attributes_in, restore_model
from informer.config import conversion
from informer.config.commands import UpdateConfig
from informer.config.data import DatasetConfig, InputFormat, Short, SplitConfig, SplitKind
from informer.config.model import WindowSizes
from informer.config.overrides import next_command
from informer.config.training import Schedule, TrainConfig
from informer.data.calendar import mark_fields
from informer.data.columns import Trained, renumbered
from informer.data.dataset import Data
from informer.data.panel import training_series
from informer.data.rows import RowsFormat, rows_dataset, rows_table, series_column
from informer.data.scaler import PanelScaler
from informer.data.windows import Windows
from informer.inference.rescore import trained_data
from informer.linear.features import cycles_of
from informer.linear.fit import LinearFit
from informer.linear.maps import MOST_WINDOWS, CombinationWeights, KeptFit, Reads, apply, maps_of, set_weights
from informer.linear.moments import WindowRun
from informer.linear.select import Sums, folds
from informer.networks.models.base import ForecastModel, model_forecast
from informer.networks.models.linear import LinearModel
from informer.read.files import files_sha256
from informer.read.frequency import Frequency
from informer.read.series import Series
from informer.scoring.intervals import Residuals, joined_errors, residuals_of, shortfalls
from informer.scoring.scores import Evaluation, evaluate, score, training_scale
from informer.training import update_state
from informer.training.combination import combiner, repeated_rows
from informer.training.curves import Tracker
from informer.training.folder import RunFolder
from informer.training.loop import Session, fit
from informer.training.optim import learning_rate
from informer.training.processes import Processes
from informer.training.run import data_facts, states
from informer.training.start import calibration_errors, freeze, is_closed_form
from informer.training.state import Checkpointer, State, check_training
from informer.training.update_state import UNTIL, UpdateState

log = logging.getLogger(__name__)


SAME = 1e-9
"""Relative difference up to which a value in both files counts as unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedRows:
    """Series of a model, older rows first.

    Args:
        panel: in the order of training, with category codes.
        n_old: number of rows of each series that the older run had.
        changed: number of common rows with different values.
        compared: number of common rows.
        not_compared: number of rows of the newer file before the saved ones.
    """

    panel: list[Series]
    n_old: list[int]
    changed: int = 0
    compared: int = 0
    not_compared: int = 0

    @property
    def new(self) -> list[int]:
        """Number of later rows of each series."""
        return [len(series) - n_known for series, n_known in zip(self.panel, self.n_old, strict=True)]


def read_rows(settings: TrainConfig, dataset: DatasetConfig, checkpoint: Checkpoint) -> list[Series]:
    """The series of a file in the order of training, with the category codes of training.

    Args:
        settings: configuration of the run.
        dataset: path and format of the file.
        checkpoint: checkpoint of the run, with the names of its series, their attributes, and categories.

    Raises:
        InputError: problems in the file.
    """
    shortest = WindowSizes(seq_len=1, label_len=0, pred_len=1)
    source = read_dataset(replace(settings, dataset=dataset), shortest, attributes_in(checkpoint))
    panel = renumbered(source.panel, source.labels, checkpoint.categories)
    where = str(source.provenance.path)
    ordered = training_series(panel, checkpoint.series, where)
    if len(ordered) < len(panel):
        new = [series.name for series in panel if series.name not in checkpoint.series]
        log.warning(f"{where}: left out series that were not in training: {listed(new)}; train again to include them")
    return ordered


def input_dataset(
    trained: DatasetConfig, path: str, input_format: InputFormat, checkpoint: Checkpoint
) -> DatasetConfig:
    """Settings for a newer file: those of the training data, overridden by `input_format`."""
    as_trained = replace(
        trained,
        path=path,
        short=Short.skip,
        exclude=[],
        memmap=False,
        columns=list(checkpoint.inputs),
        frequency=checkpoint.frequency,
        timezone=trained.timezone or checkpoint.data.get("timezone"),
    )
    return input_format.applied_to(as_trained)


def joined_series(older: Sequence[Series], newer: Sequence[Series], *, fix: str | None, where: str) -> JoinedRows:
    """Append the later rows of each series to its older ones.

    Args:
        older, newer: the same series in the same order.
        fix: what to do if rows are missing between them; None: they are filled when the joined rows are read.
        where: the newer file, for errors.

    Raises:
        InputError: a series has no later row, or rows are missing before the first.
    """
    panel, changed, compared, not_compared = [], 0, 0, 0
    for old, new in zip(older, newer, strict=True):
        after = int(new.timestamps.searchsorted(old.timestamps[-1], side="right"))
        if after == len(new):
            raise InputError(
                f"{where}: expected rows after {old.timestamps[-1]}, the last row the run was trained on"
                f"{_of(old, older)}; the file ends at {new.timestamps[-1]}"
            )
        _check_gap(old, new, after, fix=fix, where=where)
        both, places, mine = new.timestamps[:after].intersection(old.timestamps), new.timestamps, old.timestamps
        rows = new.values[places.get_indexer(both)], old.values[mine.get_indexer(both)]
        differs = ~np.isclose(*rows, rtol=SAME, atol=0.0, equal_nan=True).all(axis=1)
        changed, compared = changed + int(differs.sum()), compared + len(both)
        not_compared += int((new.timestamps[:after] < old.timestamps[0]).sum())
        if differs.any():
            log.warning(
                f"{where}: {counted(int(differs.sum()), 'row')} of training changed since{_of(old, older)}, the first "
                f"at {both[int(differs.argmax())]}: the model keeps what it learned from the older values"
            )
        times = pd.DatetimeIndex(old.timestamps.append(new.timestamps[after:]))
        panel.append(replace(old, timestamps=times, values=np.concatenate([old.values, new.values[after:]])))
    n_known = [len(series) for series in older]
    return JoinedRows(panel=panel, n_old=n_known, changed=changed, compared=compared, not_compared=not_compared)


def _check_gap(old: Series, new: Series, after: int, *, fix: str | None, where: str) -> None:
    expected = old.frequency.future(old.timestamps[-1], 1, like=old.timestamps[-2:][0])[0]
    actual = new.timestamps[after]
    if actual == expected:
        return
    if actual < expected:
        raise InputError(f"{where}: expected a row at {expected}, the next step after training, found one at {actual}")
    if fix is not None:
        raise InputError(
            f"{where}: rows are missing between {old.timestamps[-1]}, the last row the run was trained on, and "
            f"{actual}; expected {expected} next: {fix}"
        )
    log.warning(f"{where}: filling missing rows between {old.timestamps[-1]} and {actual}")


def _of(series: Series, panel: Sequence[Series]) -> str:
    return f" ({series.name})" if len(panel) > 1 else ""


def last_rate(settings: TrainConfig, training: Mapping[str, Any], n_windows: int) -> float:
    """The learning rate of the last step of a run.

    Args:
        settings: configuration of the run.
        training: final state of its training.
        n_windows: number of its training windows.
    """
    progress = training["progress"]
    total = max(settings.trainer.n_steps(n_windows), 1)
    share_done = max(min(progress["step"], total) - 1, 0) / total
    return learning_rate(settings.optim, epoch=max(progress["epoch"], 1), done=share_done)


def tuned(
    model: ForecastModel,
    settings: TrainConfig,
    data: Data,
    training: Mapping[str, Any] | None,
    *,
    steps: int,
    lr: float,
    console: Console,
) -> dict[str, Any]:
    """Train the network for some steps, and load the weights with the lowest validation loss, initial ones included.

    Args:
        model: modified in place; on the device of the data.
        settings, data: configuration of the new run, and later windows to train and validate on.
        training: final training state of the older run, with the state of its optimiser.
        steps, lr: number of steps, and their constant learning rate.
        console: for the progress bar.

    Returns:
        The training state after the last step.

    Raises:
        InputError: the older run has no training state, or a step is not finite.
    """
    if training is None:
        raise InputError("steps: expected a run with its training state (last.pt), found none; omit steps")
    check_training(training)
    trainer = replace(settings.trainer, max_epochs=steps, max_steps=steps, max_minutes=None, patience=steps)
    tuning = replace(settings, trainer=trainer, optim=replace(settings.optim, lr=lr, schedule=Schedule.constant))
    freeze(model.train(), settings.trainer.freeze)
    best: dict[str, Any] = {}

    def save(state: State, is_best: bool) -> None:
        best["training"] = state.training() | {"events": 0}
        if is_best:
            best["weights"] = {name: tensor.clone() for name, tensor in state.scored.state_dict().items()}

    device = data.train.starts.device
    with StopRequest() as stop, Tracker({}, n_steps=steps, console=console) as tracker:
        checkpointer = Checkpointer(save, every_minutes=None, stop=stop, processes=Processes(), device=device)
        session = Session.begin(tuning, model, data, tracker=tracker, checkpointer=checkpointer, processes=Processes())
        session.state.continue_optimizer(training)
        fit(session)
    floor = model.non_negative
    model.load_state_dict(best["weights"])
    model.non_negative = floor
    model.eval()
    log.info(f"network: {steps} steps at learning rate {lr:.2g}; kept the weights of lowest validation loss")
    return best["training"]


FEWEST_BLOCKS = 2
"""Minimum number of blocks of later rows; each is forecast with maps that were not fitted on it."""


@dataclass(frozen=True, eq=False, slots=True)
class Later:
    """Windows that contain a later row.

    Args:
        data: older and later rows.
        n_old: number of older rows of each series.
    """

    data: Data
    n_old: Sequence[int]

    @property
    def firsts(self) -> list[int]:
        """Row of the store at which each series begins."""
        return self.data.train.store.first_rows.cpu().tolist()

    @property
    def runs(self) -> list[WindowRun]:
        """All windows."""
        return self.until([len(series) for series in self.data.panel])

    @property
    def runs_before_test(self) -> list[WindowRun]:
        """Windows that end before the test part."""
        return self.until([split.val.stop for split in self.data.splits])

    def until(self, stops: Sequence[int]) -> list[WindowRun]:
        """Windows that end before these rows of each series."""
        rows, runs = self.data.sizes.rows, []
        for number, (first, n_known, stop) in enumerate(zip(self.firsts, self.n_old, stops, strict=True)):
            begin, end = first + max(n_known - rows + 1, 0), first + stop - rows + 1
            if begin < end:
                runs.append(WindowRun(number, begin, end))
        return runs

    def untouched(self, windows: Windows) -> Windows:
        """Those of `windows` whose whole horizon is in later rows."""
        starts = windows.starts
        series = windows.series(torch.arange(len(windows)))
        least = torch.tensor([first + n_known for first, n_known in zip(self.firsts, self.n_old, strict=True)])
        return windows.at(starts[starts + self.data.sizes.first >= least.to(starts.device)[series]])


@dataclass(frozen=True, eq=False, slots=True)
class LinearPart:
    """The linear maps of a model, fitted from the saved moments of a run and later windows.

    Args:
        kept_fit: fit of the older run.
        fit: fit on the later rows.
        shares, repeated: weights of the forecast combination, and the rows its seasonal naive repeats.
    """

    kept_fit: KeptFit
    fit: LinearFit
    shares: CombinationWeights
    repeated: Sequence[int] | None

    @classmethod
    def of(cls, state: UpdateState, shares: CombinationWeights, data: Data) -> "LinearPart | None":
        """The part for a run's data; None if the run saved no moments."""
        if state.fit is None:
            return None
        fit = state.fit.fit(data.train.store, data.sizes, data.columns.positions(data.targets))
        return cls(state.fit, fit, shares, state.repeated)

    def sums(self, runs: Sequence[WindowRun]) -> Sums:
        """Moments of the older windows plus those of `runs`."""
        return self.kept_fit.sums + self.fit.sums(self.kept_fit.strengths, runs)

    def without(self, sums: Sums, runs: Sequence[WindowRun]) -> Sums:
        """`sums` minus the moments of `runs`."""
        return sums - self.fit.sums(self.kept_fit.strengths, runs)

    def give(self, model: ForecastModel, sums: Sums) -> None:
        """Set the model's maps to those fitted from these moments."""
        maps = maps_of(model)
        assert maps is not None, "only runs with linear maps save moments"
        set_weights(self.fit.fit_from(self.kept_fit.strengths, sums), maps)
        repeated = None if self.repeated is None else torch.tensor(self.repeated)
        apply(maps, self.shares, repeated)  # the weight of the network is in the checkpoint already


def later_errors(
    model: ForecastModel, settings: TrainConfig, later: Later, linear_part: LinearPart | None, *, is_tuned: bool
) -> Residuals | None:
    """Errors on later windows before the test part, with maps that were not fitted on them; None without such a window.

    Args:
        model: the updated model; not modified.
        settings: configuration of the new run.
        later: windows with later rows.
        linear_part: linear maps of the model, if it has some.
        is_tuned: the network was tuned on the later training rows, so only windows that forecast later validation rows
            are used.
    """
    data, errors = later.data, list[Residuals]()
    errors_of = residuals_of(data, settings.trainer.eval_batch_size)
    for block_model, windows in _held_out(model, settings, later, linear_part):
        untouched = later.untouched(windows)
        if is_tuned:
            stop = torch.tensor(
                [first + split.train.stop for first, split in zip(later.firsts, data.splits, strict=True)]
            )
            series = untouched.series(torch.arange(len(untouched)))
            untouched = untouched.at(untouched.starts[untouched.starts + data.sizes.first >= stop[series]])
        if len(untouched):
            errors.append(errors_of(block_model, untouched))
    return joined_errors(errors) if errors else None


def _held_out(
    model: ForecastModel, settings: TrainConfig, later: Later, linear_part: LinearPart | None
) -> Iterator[tuple[ForecastModel, Windows]]:
    """Blocks of later windows before the test part, each with a model whose maps were not fitted on it."""
    runs, windows = later.runs_before_test, later.data.train
    if linear_part is None:
        yield model, windows.at(_starts(runs)).thinned(MOST_WINDOWS)
        return
    n_blocks, scratch = max(settings.trainer.calibration_blocks, FEWEST_BLOCKS), deepcopy(model).eval()
    sums = linear_part.sums(runs)
    for block in folds(runs, n_blocks, later.data.sizes.pred_len):
        if block.held:
            linear_part.give(scratch, linear_part.without(sums, [*block.held, *block.between]))
            yield scratch, windows.at(_starts(block.held)).thinned(MOST_WINDOWS // n_blocks)


def _starts(runs: Sequence[WindowRun]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([np.arange(run.first, run.stop) for run in runs]))


def newest_errors(older: Residuals | None, later: Residuals | None) -> Residuals | None:
    """The later errors, preceded by the most recent older ones up to MOST_WINDOWS in total."""
    present = [errors for errors in (older, later) if errors is not None]
    if len(present) < 2 or older is None or later is None or older.lag != later.lag:
        return later or older
    room = max(MOST_WINDOWS - len(later.errors), 0)
    if not room:
        return later
    return joined_errors([older.last(room), later])


def windows_of(runs: Sequence[WindowRun]) -> int:
    """Number of windows."""
    return sum(map(len, runs))


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
        rows = joined_series(older.rows, newer, fix=fix, where=where)
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


def _rows_again(settings: TrainConfig, older: Older, rows: JoinedRows, folder: RunFolder, device: torch.device) -> Data:
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


def _not_from_moments(maps: LinearModel | None, trained: TrainConfig) -> str | None:
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


def _settings_of(older: Older, rows: JoinedRows, settings: UpdateConfig, folder: RunFolder) -> TrainConfig:
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


def _log_rows(rows: JoinedRows, older: Older, where: str) -> None:
    new = sum(rows.new)
    what = "row" if len(rows.panel) == 1 else f"rows of {len(rows.panel)} series, each a row"
    same = f"; {rows.compared} rows of training compared, {rows.changed} changed" if rows.compared else ""
    past = f", {rows.not_compared} earlier rows not compared" if rows.not_compared else ""
    log.info(f"{where}: {counted(new, what)} after {older.rows[0].timestamps[-1]}{same}{past}")


def _parent(older: Older, rows: JoinedRows, where: str) -> dict[str, Any]:
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
    shares = CombinationWeights.from_plain(saved.data[COMBINED]) if COMBINED in saved.data else CombinationWeights()
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
