"""The rows that a run kept, followed by those of a newer file: overlap compared, gaps refused or filled."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from informer.build import read_dataset
from informer.checkpoint.format import Checkpoint
from informer.config.dataset import DatasetConfig, Short
from informer.config.input_format import InputFormat
from informer.config.lengths import WindowSizes
from informer.config.schema import TrainConfig
from informer.data.categories import renumbered
from informer.data.pipeline import Source
from informer.data.read.categories import Labels
from informer.data.read.source import Series
from informer.errors import InputError, counted, listed

log = logging.getLogger("informer.update")

SAME = 1e-9
"""Relative difference up to which a value that is read again counts as the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Series of a model, the older rows first.

    Args:
        panel: in the order of training, with numbers for categories.
        known: how many rows of each the older run had.
        changed: rows that both have, with other values.
        compared: rows that both have.
        not_compared: rows of the newer file from before those that were kept.
    """

    panel: list[Series]
    known: list[int]
    changed: int = 0
    compared: int = 0
    not_compared: int = 0

    @property
    def new(self) -> list[int]:
        """Later rows of each series."""
        return [len(series) - known for series, known in zip(self.panel, self.known, strict=True)]


def read_rows(settings: TrainConfig, dataset: DatasetConfig, names: Sequence[str], labels: Labels) -> list[Series]:
    """The series of a file in the order of training, with the numbers of its categories.

    Args:
        settings: of the run.
        dataset: the file, and how it is written.
        names: of the series of training; none of a single one.
        labels: categories of training, by column.

    Raises:
        InputError: problems in the file.
    """
    shortest = WindowSizes(seq_len=1, label_len=0, pred_len=1)
    source = read_dataset(replace(settings, dataset=dataset), shortest)
    panel = renumbered(source.panel, source.labels, labels)
    return _ordered(panel, names, source)


def input_dataset(trained: DatasetConfig, path: str, written: InputFormat, saved: Checkpoint) -> DatasetConfig:
    """How a newer file is read: as the training data, unless specified otherwise."""
    as_trained = replace(
        trained,
        path=path,
        short=Short.skip,
        exclude=[],
        memmap=False,
        columns=list(saved.inputs),
        frequency=saved.frequency,
        timezone=trained.timezone or saved.data.get("timezone"),
    )
    return written.over(as_trained)


def joined(older: Sequence[Series], newer: Sequence[Series], *, is_filled: bool, where: str) -> Rows:
    """The older rows and those that come after them.

    Args:
        older, newer: the same series in the same order.
        is_filled: missing rows are filled when the rows are read again.
        where: the newer file, for errors.

    Raises:
        InputError: a series has no later row, or there is a gap before it.
    """
    panel, changed, compared, not_compared = [], 0, 0, 0
    for old, new in zip(older, newer, strict=True):
        after = int(new.timestamps.searchsorted(old.timestamps[-1], side="right"))
        if after == len(new):
            raise InputError(
                f"{where}: expected rows after {old.timestamps[-1]}, the last that the run was trained on"
                f"{_of(old, older)}; the last one is {new.timestamps[-1]}"
            )
        _check_gap(old, new, after, is_filled=is_filled, where=where)
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
    known = [len(one) for one in older]
    return Rows(panel=panel, known=known, changed=changed, compared=compared, not_compared=not_compared)


def _check_gap(old: Series, new: Series, after: int, *, is_filled: bool, where: str) -> None:
    expected, found = old.frequency.future(old.timestamps[-1], 1, like=old.timestamps[-2:][0])[0], new.timestamps[after]
    if found == expected:
        return
    if found < expected:
        raise InputError(f"{where}: expected a row at {expected}, the next step after training, found one at {found}")
    if not is_filled:
        raise InputError(
            f"{where}: rows are missing between {old.timestamps[-1]}, the last that the run was trained on, and "
            f"{found}; expected {expected} next: add them, or set dataset.fill=ffill|linear|zero"
        )
    log.warning(f"{where}: rows between {old.timestamps[-1]} and {found} are missing and are filled")


def _of(series: Series, panel: Sequence[Series]) -> str:
    return f" ({series.name})" if len(panel) > 1 else ""


def _ordered(panel: list[Series], names: Sequence[str], source: Source) -> list[Series]:
    """The series of training, in its order; others are reported."""
    where = source.provenance.path
    if not names:
        if len(panel) != 1:
            raise InputError(f"{where}: expected one series as in training, found {len(panel)}")
        return panel
    found = {series.name: series for series in panel}
    missing, more = [name for name in names if name not in found], [name for name in found if name not in names]
    if missing:
        raise InputError(
            f"{where}: expected all series of training, found no {listed(missing)}; update with all of them"
        )
    if more:
        log.warning(f"{where}: left out, not in training: {listed(more)}; to learn them, train again")
    return [found[name] for name in names]
