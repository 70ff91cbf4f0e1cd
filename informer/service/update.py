"""Update a trained run with later rows: join the rows, fit the linear maps, train the network on, calibrate, score."""

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from rich.console import Console

from informer import checkpoint
from informer.base.console import logging_to
from informer.base.errors import InputError, ReportError, counted, listed
from informer.base.files import expanded, write_atomic
from informer.base.runtime import pick_device, provenance, seed_everything
from informer.base.start import StopRequest
from informer.build import build_data, read_dataset
from informer.checkpoint.format import MAPS, MASE_SCALES, UNTIL, Checkpoint
from informer.checkpoint.paths import BEST, LAST, LOG, ROWS, forecasting_checkpoint, read_facts, resolve_latest
from informer.checkpoint.restore import attributes_in, dims_in, restore_model
from informer.config import conversion
from informer.config.commands import UpdateConfig
from informer.config.data import DatasetConfig, InputFormat, Short, SplitConfig, SplitKind
from informer.config.model import WindowSizes
from informer.config.training import Schedule, TrainConfig
from informer.data.columns import Trained, renumbered
from informer.data.dataset import Data
from informer.data.panel import rows_dataset, rows_table, series_name_column, training_series
from informer.data.recorded import Recorded, find_again
from informer.data.scaler import PanelScaler
from informer.data.store import series_numbers
from informer.data.windows import Windows
from informer.inference.rolling import moment_in
from informer.linear.maps import all_runs, fit_model
from informer.linear.select import starts_of
from informer.networks.forecast_model import ForecastModel, model_forecast
from informer.networks.models.linear import maps_config
from informer.read.checks import outlier_text, outliers
from informer.read.files import files_sha256
from informer.read.series import Series, column_values
from informer.read.split import cut_rows
from informer.read.table import without
from informer.read.times import check_zones
from informer.scoring.scores import Evaluation, evaluate, fit_baselines, training_scale
from informer.training.combination import combiner
from informer.training.curves import Tracker
from informer.training.folder import RunFolder
from informer.training.loop import Session, fit
from informer.training.optim import learning_rate
from informer.training.run import conclude, data_facts, mase_scales, save_refit, score_best
from informer.training.start import freeze, is_closed_form
from informer.training.state import Checkpointer, State, check_training

log = logging.getLogger(__name__)


SAME = 1e-9
"""Relative difference up to which a value in both files counts as unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedRows:
    """Series of a model, older rows first.

    Args:
        panel: in the order of training, with category codes; then series that training did not have.
        n_old: number of rows of each series that the older run had; 0 for a new series.
        changed: number of common rows with different values.
        compared: number of common rows.
        not_compared: number of rows of the newer file before the older ones.
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

    @property
    def last_old(self) -> pd.Timestamp:
        """Last time of the older rows."""
        known = zip(self.panel, self.n_old, strict=True)
        return max(series.timestamps[n_known - 1] for series, n_known in known if n_known)


def older_rows(saved: Checkpoint, history: str | None) -> list[Series]:
    """The rows of all parts of a run, from `history`, or from where they were if they have not changed since.

    Raises:
        InputError: the rows are not found, or do not reach the end of the run's rows.
    """
    trained, until = conversion.from_plain(saved.config), saved.data.get(UNTIL)
    if not isinstance(until, str):
        raise InputError("checkpoint: does not record the end of its rows; train again")
    dataset, data_dir = find_again(
        replace(_as_trained(trained, saved), path=history),
        Recorded.of(saved.config, saved.data),
        named=None,
        default=trained.data_dir,
        can_differ=True,
        setting="history",
    )
    panel = _read(replace(trained, data_dir=data_dir), dataset, saved)
    training_series(panel, saved.series, str(dataset.path or dataset.file))
    ends = [int(series.timestamps.searchsorted(moment_in(until, series, UNTIL), side="right")) for series in panel]
    if not any(end and str(series.timestamps[end - 1]) == until for series, end in zip(panel, ends, strict=True)):
        last = max(series.timestamps[-1] for series in panel)
        raise InputError(
            f"history={history}: expected rows up to {until}, the last of the run; the file ends at {last}"
        )
    return [series.part(slice(end)) for series, end in zip(panel, ends, strict=True) if end]


def newer_rows(saved: Checkpoint, path: str, input_format: InputFormat) -> list[Series]:
    """The series of a file with later rows: those of training that it has, in the order of training, then others.

    Raises:
        InputError: problems in the file.
    """
    trained = conversion.from_plain(saved.config)
    timezone = trained.dataset.timezone or saved.data.get("timezone")
    as_trained = replace(_as_trained(trained, saved), path=path, exclude=[], timezone=timezone)
    panel = _read(trained, input_format.applied_to(as_trained), saved)
    if isinstance(until := saved.data.get(UNTIL), str):
        check_zones(path, panel[0].timestamps.tz, pd.Timestamp(until).tz, "training")
    return panel


def _as_trained(trained: TrainConfig, saved: Checkpoint) -> DatasetConfig:
    """Settings that read the columns and the step of a model, from a file of any length."""
    return replace(
        trained.dataset,
        memmap=False,
        short=Short.skip,
        columns=list(saved.inputs),
        frequency=saved.frequency,
        split=SplitConfig(),
    )


def _read(trained: TrainConfig, dataset: DatasetConfig, saved: Checkpoint) -> list[Series]:
    """The series of a file with the category codes of training: those of training in their order, then others."""
    shortest = WindowSizes(seq_len=1, label_len=0, pred_len=1)
    source = read_dataset(replace(trained, dataset=dataset), shortest, attributes_in(saved))
    panel = renumbered(source.panel, source.labels, saved.categories)
    if not saved.series:
        return training_series(panel, [], str(source.provenance.path))
    numbers = series_numbers(panel, saved.series)
    return [panel[place] for place in np.argsort(np.where(numbers < 0, len(saved.series), numbers), kind="stable")]


def joined_series(older: Sequence[Series], newer: Sequence[Series], *, fix: str | None, where: str) -> JoinedRows:
    """Append the later rows of each series to its older ones; series without later rows (closed stores) keep theirs.

    Args:
        older, newer: series by name, or one each; those of `newer` that are not in `older` are new.
        fix: what to do if rows are missing between them; None: they are filled when the joined rows are read.
        where: the newer file, for errors.

    Raises:
        InputError: no series has a later row, rows are missing before the first, or the older ones have issues.
    """
    if any(series.issues is not None for series in older):
        raise InputError(
            "dataset.issued_at: later rows are not joined to those of a run with issues; train anew on a file with all "
            "rows, or score the model on later ones with informer predict mode=rolling"
        )
    panel, changed, compared, not_compared, gone = [], 0, 0, 0, list[str]()
    last, by_name = max(series.timestamps[-1] for series in older), {series.name: series for series in newer}
    if len(older) == len(newer) == 1:  # files of any name
        by_name = {older[0].name: newer[0]}
    if all(series.timestamps[-1] <= last for series in by_name.values()):
        raise InputError(
            f"{where}: expected rows after {last}, the last row the run was trained on; the file ends at "
            f"{max(series.timestamps[-1] for series in newer)}"
        )
    for old in older:
        new = by_name.pop(old.name, old)
        after = int(new.timestamps.searchsorted(old.timestamps[-1], side="right"))
        if after == len(new):
            gone.append(f"{old.name} ({old.frequency.text(old.timestamps[-1])})")
            panel.append(old)
            continue
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
    if gone:
        log.warning(f"{where}: no later rows of {listed(gone)}: trained on as before")
    n_known = [*(len(series) for series in older), *(0 for _ in by_name)]
    panel += by_name.values()
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


def _check_outliers(rows: JoinedRows, settings: UpdateConfig, older: "Older", where: str) -> None:
    """Raise an error if later readings are far from all others, unless the user has said what to do about them."""
    trained = older.settings.dataset
    if (settings.dataset.outliers or trained.outliers) is not None:
        return
    cure = "dataset.outliers=missing" + ("" if trained.keeps_gaps else " dataset.fill=ffill")
    lines = []
    for (series, n_old), column in product(zip(rows.panel, rows.n_old, strict=True), older.checkpoint.inputs):
        values = column_values(series, [column])[:, 0]
        far = outliers(values)
        if column not in (*older.checkpoint.categories, *trained.static_covariates) and (far >= n_old).any():
            far = np.r_[far[far >= n_old], far[far < n_old]]
            lines.append(
                f"{where}{_of(series, rows.panel)}, {series.timestamps[far[0]]}, column {column!r}: "
                f"{outlier_text(values, far)}; if it is wrong, set {cure}, if it is right, dataset.outliers=keep"
            )
    if lines:
        raise ReportError(lines)


def _of(series: Series, panel: Sequence[Series]) -> str:
    return f" ({series.name})" if len(panel) > 1 else ""


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
        settings, data: configuration of the new run, and its data.
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

    with StopRequest() as stop, Tracker({}, n_steps=steps, console=console) as tracker:
        checkpointer = Checkpointer(save, every_minutes=None, stop=stop)
        session = Session.begin(tuning, model, data, tracker=tracker, checkpointer=checkpointer)
        session.state.continue_optimizer(training)
        fit(session)
    floor = model.non_negative
    model.load_state_dict(best["weights"])
    model.non_negative = floor
    model.eval()
    log.info(f"network: {steps} steps at learning rate {lr:.2g}; kept the weights of lowest validation loss")
    return best["training"]


TEST_SHARE = 5
"""The last two parts of later rows, 1 / TEST_SHARE each and at least pred_len, are for validation and test."""


@dataclass(frozen=True, eq=False, slots=True)
class Older:
    """The run to update.

    Args:
        path: its folder.
        checkpoint: its scored checkpoint.
        settings: its configuration, with the settings that were chosen for its linear maps.
        training: state of training at its end; None without one.
    """

    path: Path
    checkpoint: Checkpoint
    settings: TrainConfig
    training: dict[str, Any] | None

    @classmethod
    def read(cls, name: str) -> "Older":
        """The run of `checkpoint=`.

        Raises:
            InputError: no run.
        """
        path = resolve_latest(name)
        if not path.is_dir():
            raise InputError(f"checkpoint={name}: expected a run directory")
        saved = checkpoint.load(path)
        chosen = {MAPS: saved.data[MAPS]} if MAPS in saved.data else {}
        settings = conversion.from_plain(saved.config | {"model": saved.config["model"] | chosen})
        return cls(path, saved, settings, checkpoint.load(path / LAST).training if (path / LAST).exists() else None)


def update(settings: UpdateConfig, folder: RunFolder, console: Console) -> Evaluation:
    """Update a run with later rows; the test part of the new run is the newest of them.

    Args:
        folder: folder of the new run.
        console: for the log and the table of scores.

    Raises:
        InputError: an error the user can fix.
    """
    began, device, where = time.monotonic(), pick_device(settings.device), settings.input or ""
    with folder.claimed("output"), logging_to(console) as keep_log_in:
        if not settings.overwrite:
            folder.check_new()
        older = Older.read(settings.checkpoint)
        old_rows = older_rows(older.checkpoint, settings.history)
        newer = newer_rows(older.checkpoint, where, settings.dataset)
        fix = None if settings.dataset.fill else "add them, or set dataset.fill=ffill|linear|zero"
        rows = joined_series(old_rows, newer, fix=fix, where=where)
        _check_outliers(rows, settings, older, where)
        new_settings = _settings_of(older, rows, settings, folder)
        rows = _long_enough(rows, new_settings, where)
        seed_everything(new_settings.seed)
        if settings.overwrite:
            folder.clear([Path(where), older.path, *([Path(settings.history)] if settings.history else [])])
        saved, path = older.checkpoint, folder.path / ROWS  # from which every later command reads them
        table = rows_table(rows.panel, saved.categories, new_settings.dataset.series_col)
        write_atomic(path, table.to_csv(index=False))
        try:
            trained = Trained(saved.series, saved.categories, dims_in(saved).masked)
            data = build_data(new_settings, device, PanelScaler.from_state(saved.scaler), trained=trained)
        except InputError:
            path.unlink()
            raise
        keep_log_in(folder.path / LOG)
        what = "row" if len(rows.panel) == 1 else f"rows of {len(rows.panel)} series, each a row"
        same = f"; {rows.compared} rows of training compared, {rows.changed} changed" if rows.compared else ""
        past = f", {rows.not_compared} earlier rows not compared" if rows.not_compared else ""
        log.info(f"{where}: {counted(sum(rows.new), what)} after {rows.last_old}{same}{past}")
        facts = {"seed": new_settings.seed, "data": data_facts(data), "parent": _parent(older, rows, where)}
        folder.begin(new_settings, provenance() | facts)
        with folder.as_latest():
            evaluation = _fit_and_score(settings, older, new_settings, data, folder, console)
        folder.finish()
        log.info(f"updated in {time.monotonic() - began:.1f} s: {folder.path}")
        conclude(evaluation, data, folder, console)
    return evaluation


def _settings_of(older: Older, rows: JoinedRows, settings: UpdateConfig, folder: RunFolder) -> TrainConfig:
    """The configuration of the new run: that of the older run, with the new run's rows as data."""
    # without training steps the older network and the settings of its maps are from rows before its test part
    least, last = 2 * older.settings.pred_len + 1 if settings.steps else 1, rows.last_old
    new = max(int((series.timestamps > last).sum()) for series in rows.panel)  # of the series with the most
    if new < least:
        raise InputError(
            f"{settings.input}: expected at least 2 pred_len + 1 = {least} rows after {rows.last_old}, "
            f"for training, validation and test with steps={settings.steps}, found {new}; wait for more rows, and "
            "update from the same run, or leave steps out"
        )
    # the end that most series share that have new rows: of one that goes on, the others have no test window
    ends = Counter(series.timestamps[-1] for series in rows.panel if series.timestamps[-1] > rows.last_old)
    times = max((s.timestamps for s in rows.panel if s.timestamps[-1] == max(ends, key=ends.__getitem__)), key=len)
    share = max(older.settings.pred_len, new // TEST_SHARE)
    split = SplitConfig(kind=SplitKind.dates, train=str(times[-2 * share]), val=str(times[-share]), test=None)
    trained = older.settings.dataset
    checkpoint, time_col = older.checkpoint, older.checkpoint.data["time_col"]
    dataset = rows_dataset(
        trained,
        folder.path / ROWS,
        series_col=series_name_column(checkpoint.series, trained.series_col, [time_col, *checkpoint.inputs]),
        time_col=time_col,
        timezone=trained.timezone or checkpoint.data.get("timezone"),
        frequency=checkpoint.frequency,
        columns=list(checkpoint.inputs),
        categorical=list(checkpoint.categories),
        split=split,
    )
    fill = trained.fill if trained.keeps_gaps else settings.dataset.fill
    outliers_as = settings.dataset.outliers or trained.outliers
    dataset = replace(dataset, fill=fill, max_gap=settings.dataset.max_gap, outliers=outliers_as)
    return replace(older.settings, dataset=dataset, run_dir=str(folder.path), device=settings.device, init_from=None)


def _long_enough(rows: JoinedRows, settings: TrainConfig, where: str) -> JoinedRows:
    """The rows without new series that are too short for a training window; they forecast with the shared map."""
    least = settings.sizes.rows
    names, keep = list[str](), list[int]()
    for place, (series, n_old) in enumerate(zip(rows.panel, rows.n_old, strict=True)):
        n_train = len(cut_rows(series.timestamps, series.frequency, settings.dataset.split).train)
        names += [] if n_old else [series.name]
        keep += [place] if n_old or n_train >= least else []
    panel = [rows.panel[place] for place in keep]
    joined = [name for name in names if name in {series.name for series in panel}]
    if joined:
        log.info(
            f"{where}: new series, trained on from now on: {listed(joined)}; new models of their own need training"
        )
    if short := without(names, joined):
        log.warning(f"{where}: left out new series with fewer than {least} rows for training: {listed(short)}")
    return replace(rows, panel=panel, n_old=[rows.n_old[place] for place in keep])


def _parent(older: Older, rows: JoinedRows, where: str) -> dict[str, Any]:
    """Entry of run.json about the run that was updated."""
    before = read_facts(older.path).get("parent", {})
    return {
        "run": str(older.path),
        "digest": older.checkpoint.digest,
        "data_sha256": older.checkpoint.data["sha256"],
        "updates": 1 + before.get("updates", 0),
        "input": where,
        "input_sha256": files_sha256([expanded(where)]),
        "rows": sum(rows.new),
        "changed": rows.changed,
    }


def _fit_and_score(
    settings: UpdateConfig, older: Older, new_settings: TrainConfig, data: Data, folder: RunFolder, console: Console
) -> Evaluation:
    """Fit, calibrate, score and save."""
    saved, training = older.checkpoint, older.training
    model = restore_model(saved).to(data.train.starts.device)
    if is_fitted := model.maps is not None and is_closed_form(model, new_settings):
        runs = all_runs(data, with_test=False)
        fit_model(model.maps, maps_config(new_settings.model), data, runs)
        combiner(saved, data)(model.maps)
        log.info(f"linear maps: fitted on {sum(map(len, runs))} windows before the test part")
    if settings.steps:
        n_windows = (saved.data.get("windows") or {}).get("train", len(data.train))
        lr = settings.lr or 0.0
        if settings.lr is None and training is not None:  # that of the last step of the older run
            progress, total = training["progress"], max(older.settings.trainer.n_steps(n_windows), 1)
            done = max(min(progress["step"], total) - 1, 0) / total
            lr = learning_rate(older.settings.optim, epoch=max(progress["epoch"], 1), done=done)
        training = tuned(model, new_settings, data, training, steps=settings.steps, lr=lr, console=console)
    facts, until = saved.data | data_facts(data) | {MASE_SCALES: mase_scales(data)}, saved.data["trained_until"]
    is_same = not is_fitted and not settings.steps  # a network that is not trained further
    best = replace(
        saved, config=conversion.to_plain(new_settings), weights=model.state_dict(),
        data=facts | ({"trained_until": until} if is_same else {}), step=saved.step + settings.steps,
    )  # fmt: skip
    folder.save(BEST, best)
    folder.save(LAST, replace(best, training=training, calibration=None))
    unseen = _unseen(data, until) if is_same else None
    evaluation = score_best(new_settings, data, folder, console, fit_baselines(data), calibration_windows=unseen)
    notes = [save_refit(new_settings, data, folder)] if is_fitted else []
    # the older model has seen the other rows of a test part that is longer than the new rows
    parts = [(series, split.test) for series, split in zip(data.panel, data.splits, strict=True) if split.test]
    first_test = min(series.timestamps[test.start] for series, test in parts)
    if first_test > moment_in(saved.data[UNTIL], data.panel[0], UNTIL):
        notes.append(_before(older, new_settings, data))
    return replace(evaluation, notes=(*evaluation.notes, *notes))


def _unseen(data: Data, until: str) -> Windows:
    """Windows before the test part that forecast rows after the training of a network, which is not trained further."""
    panel, windows = data.panel, data.train.at(torch.from_numpy(starts_of(all_runs(data, with_test=False))))
    rows = [int(series.timestamps.searchsorted(moment_in(until, series, "trained_until"), "right")) for series in panel]
    first_rows = windows.store.first_rows
    least = first_rows + torch.tensor(rows, device=first_rows.device) - data.sizes.first
    return windows.at(windows.starts[windows.starts >= least[windows.series(torch.arange(len(windows)))]])


def _before(older: Older, settings: TrainConfig, data: Data) -> str:
    """The scores, on the same windows, of the model that made forecasts before the update."""
    model = restore_model(checkpoint.load(forecasting_checkpoint(older.path)))
    forecast = partial(model_forecast, model.to(data.train.starts.device))
    errors = evaluate(
        forecast, data.test, mase_scale=training_scale(data), batch_size=settings.trainer.eval_batch_size
    ).scaled.overall()
    return f"before the update: scaled MSE {errors['mse']:.4g}, MAE {errors['mae']:.4g} on the same windows"
