"""The rows of a trained run, joined with the later ones of a file."""

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from informer.base.errors import InputError, listed
from informer.build import read_dataset
from informer.checkpoint.format import Checkpoint
from informer.config import conversion
from informer.config.data import DatasetConfig, InputFormat, Short, SplitConfig
from informer.config.model import WindowSizes
from informer.config.training import TrainConfig
from informer.data.columns import renumbered
from informer.data.panel import training_series
from informer.data.recorded import Recorded, find_again
from informer.data.store import series_numbers
from informer.inference.rolling import moment_in
from informer.read.series import Series
from informer.read.times import check_zones

log = logging.getLogger(__name__)


def older_rows(saved: Checkpoint, history: str | None) -> list[Series]:
    """The rows of all parts of a run, from `history`, or from where they were if they have not changed since.

    Raises:
        InputError: the rows are not found, or do not reach the end of the run's rows.
    """
    trained, until = conversion.from_plain(saved.config), saved.data.until
    dataset, data_dir = find_again(
        replace(_as_trained(trained, saved), path=history),
        Recorded.of(saved.config, dict(saved.data)),
        named=None,
        default=trained.data_dir,
        can_differ=True,
        setting="history",
    )
    panel = _read(replace(trained, data_dir=data_dir), dataset, saved)
    training_series(panel, saved.series, str(dataset.path or dataset.file))
    ends = [int(series.timestamps.searchsorted(moment_in(until, series, "until"), side="right")) for series in panel]
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
    timezone = trained.dataset.timezone or saved.data.timezone
    as_trained = replace(_as_trained(trained, saved), path=path, exclude=[], timezone=timezone)
    panel = _read(trained, input_format.applied_to(as_trained), saved)
    check_zones(path, panel[0].timestamps.tz, pd.Timestamp(saved.data.until).tz, "training")
    return panel


def _as_trained(trained: TrainConfig, saved: Checkpoint) -> DatasetConfig:
    """Settings that read the columns and the step of a model, from a file of any length."""
    return replace(
        trained.dataset,
        short=Short.skip,
        columns=list(saved.inputs),
        frequency=saved.frequency,
        split=SplitConfig(),
    )


def _read(trained: TrainConfig, dataset: DatasetConfig, saved: Checkpoint) -> list[Series]:
    """The series of a file with the category codes of training: those of training in their order, then others."""
    shortest = WindowSizes(seq_len=1, label_len=0, pred_len=1)
    source = read_dataset(replace(trained, dataset=dataset), shortest)
    panel = renumbered(source.panel, source.labels, saved.categories)
    if not saved.series:
        return training_series(panel, [], str(source.provenance.path))
    numbers = series_numbers(panel, saved.series)
    return [panel[place] for place in np.argsort(np.where(numbers < 0, len(saved.series), numbers), kind="stable")]


def joined_series(older: Sequence[Series], newer: Sequence[Series], *, where: str) -> list[Series]:
    """Append the later rows of each series to its older ones; series without later rows (closed stores) keep theirs.

    Args:
        older, newer: series by name, or one each; those of `newer` that are not in `older` are new.
        where: the newer file, for errors.

    Raises:
        InputError: rows are missing between the older and the newer ones.
    """
    panel, gone = list[Series](), list[str]()
    by_name = {series.name: series for series in newer}
    if len(older) == len(newer) == 1:  # files of any name
        by_name = {older[0].name: newer[0]}
    for old in older:
        new = by_name.pop(old.name, old)
        after = int(new.timestamps.searchsorted(old.timestamps[-1], side="right"))
        if after == len(new):
            gone.append(f"{old.name} ({old.frequency.text(old.timestamps[-1])})")
            panel.append(old)
            continue
        last, found = old.timestamps[-1], new.timestamps[after]
        expected = old.frequency.future(last, 1, like=old.timestamps[-2:][0])[0]
        if found < expected:
            raise InputError(
                f"{where}: expected a row at {expected}, the next step after training, found one at {found}"
            )
        if found > expected:
            raise InputError(
                f"{where}: rows are missing between {last}, the last row the run was trained on, and {found}; add "
                f"them, or give a file that begins at {last} or earlier, with dataset.fill=ffill|linear|zero"
            )
        times = pd.DatetimeIndex(old.timestamps.append(new.timestamps[after:]))
        panel.append(replace(old, timestamps=times, values=np.concatenate([old.values, new.values[after:]])))
    if gone:
        log.warning(f"{where}: no later rows of {listed(gone)}")
    return [*panel, *by_name.values()]
