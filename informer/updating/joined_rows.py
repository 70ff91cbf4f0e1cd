"""Join the rows saved with a run and those of a newer file: overlap is compared, gaps are an error or filled."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from informer.build import read_dataset
from informer.checkpoint.format import Checkpoint
from informer.checkpoint.restore import attributes_in
from informer.config.dataset import DatasetConfig, Short
from informer.config.input_format import InputFormat
from informer.config.lengths import WindowSizes
from informer.config.schema import TrainConfig
from informer.data.categories import renumbered
from informer.data.panel import training_series
from informer.data.read.source import Series
from informer.errors import InputError, counted, listed

log = logging.getLogger("informer.update")

SAME = 1e-9
"""Relative difference up to which a value in both files counts as unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
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


def joined(older: Sequence[Series], newer: Sequence[Series], *, fix: str | None, where: str) -> Rows:
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
    return Rows(panel=panel, n_old=n_known, changed=changed, compared=compared, not_compared=not_compared)


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
