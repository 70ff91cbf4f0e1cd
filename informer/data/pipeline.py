"""From a dataset to windows on the device, and from new series to the batch a trained model forecasts from.

Both ways go through `_store`, so a stretch of rows gives the same scaled window in training and in prediction.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from informer.data.download import file_sha256, find_file
from informer.data.frequency import Frequency
from informer.data.scaler import Scaler, ScalerConfig
from informer.data.source import DatasetConfig, Series, read_series
from informer.data.split import Split, split_rows
from informer.data.table import listed
from informer.data.time_features import CalendarKind, calendar_marks, mark_sizes
from informer.data.windows import Batch, Store, Windows, WindowSizes
from informer.errors import InputError

log = logging.getLogger(__name__)


class Features(Enum):
    """M: all columns in, all out; S: the target in and out; MS: all in, the target out."""

    M = "M"
    S = "S"
    MS = "MS"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The file that the data came from."""

    path: Path
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """All that training and evaluation need of the data.

    Args:
        panel: series with equal columns, in data units.
        inputs: names of the columns that the model reads, in its order.
        targets: names of those it forecasts.
        frequency: step of every series.
        scaler: over `inputs`, fitted on training rows.
        target_scaler: the same over `targets`.
        sizes: of a window.
        calendar: kind of the marks.
        mark_sizes: one entry a mark column (see `time_features.mark_sizes`).
        splits: target rows of each series' parts.
        train, val, test: windows.
        provenance: file and checksum.
    """

    panel: list[Series]
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    frequency: Frequency
    scaler: Scaler
    target_scaler: Scaler
    sizes: WindowSizes
    calendar: CalendarKind
    mark_sizes: tuple[int, ...]
    splits: tuple[Split, ...]
    train: Windows
    val: Windows
    test: Windows
    provenance: Provenance

    @property
    def split(self) -> Split:
        """The split of the first series, the only one of a single file."""
        return self.splits[0]


def load_data(
    dataset: DatasetConfig,
    *,
    sizes: WindowSizes,
    features: Features,
    target: str | None,
    scaler: ScalerConfig | Scaler,
    calendar: CalendarKind,
    data_dir: Path,
    device: torch.device | str,
) -> Data:
    """Read, split, scale and lay out a dataset.

    Args:
        target: column to forecast (S, MS); None takes the dataset's, else its last column.
        scaler: the kind to fit on training rows, or one over the input columns that was fitted before.
        data_dir: folder of the datasets' files.
        device: where the rows lie, once.

    Raises:
        InputError: whatever a user can mend in the file, the split or the sizes.
    """
    path = find_file(dataset, data_dir)
    series = read_series(path, dataset)
    provenance = _provenance(path, dataset)
    inputs, targets = choose_columns(series, features, target or dataset.target)
    split = split_rows(series.timestamps, series.frequency, dataset.split, sizes=sizes, name=series.name)
    if isinstance(scaler, ScalerConfig):
        scaler = Scaler.fit(scaler.kind, _columns(series, inputs)[split.train.start : split.train.stop])
    store = _store([series], inputs, scaler, calendar, device)
    chosen = [inputs.index(name) for name in targets]

    def windows(part: range) -> Windows:
        starts = sizes.starts(part)
        first_rows = torch.arange(starts.start, starts.stop)
        return Windows(store, starts=first_rows, sizes=sizes, inputs=range(len(inputs)), targets=chosen)

    return Data(
        panel=[series],
        inputs=inputs,
        targets=targets,
        frequency=series.frequency,
        scaler=scaler,
        target_scaler=scaler.select(chosen),
        sizes=sizes,
        calendar=calendar,
        mark_sizes=mark_sizes(series.frequency, calendar),
        splits=(split,),
        train=windows(split.train),
        val=windows(split.val),
        test=windows(split.test),
        provenance=provenance,
    )


def choose_columns(series: Series, features: Features, target: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the input and of the target columns.

    Raises:
        InputError: the target is not among the series' columns.
    """
    target = series.columns[-1] if target is None else target
    if target not in series.columns:
        raise InputError(f"target={target}: {series.name} has no such column, its columns are {listed(series.columns)}")
    inputs = (target,) if features is Features.S else series.columns
    return inputs, inputs if features is Features.M else (target,)


def history_batch(
    series: Sequence[Series],
    *,
    input_columns: Sequence[str],
    target_columns: Sequence[str],
    scaler: Scaler,
    sizes: WindowSizes,
    calendar: CalendarKind,
    device: torch.device | str,
) -> Batch:
    """The last seq_len rows of each series as one batch, scaled by the scaler of training; `target` has no rows.

    Args:
        series: each with the input columns, in any order and among others.
        input_columns, target_columns, scaler, sizes, calendar: as in training.

    Raises:
        InputError: a series that lacks columns, or rows of history.
    """
    padded = [_with_horizon(one, input_columns, sizes) for one in series]
    windows = Windows(
        _store(padded, input_columns, scaler, calendar, device),
        starts=torch.arange(len(padded)) * sizes.rows,
        sizes=sizes,
        inputs=range(len(input_columns)),
        targets=[list(input_columns).index(name) for name in target_columns],
    )
    batch = windows.batch(torch.arange(len(padded)))
    return batch._replace(target=batch.target[:, :0])


def future_index(series: Series, n: int) -> pd.DatetimeIndex:
    """The n timestamps after the series' last."""
    return series.frequency.future(series.timestamps[-1], n)


def _with_horizon(series: Series, columns: Sequence[str], sizes: WindowSizes) -> Series:
    """The last seq_len rows, then pred_len future timestamps whose values no window shows."""
    if len(series) < sizes.seq_len:
        raise InputError(
            f"{series.name}: expected at least seq_len={sizes.seq_len} rows of history, found {len(series)}"
        )
    history = _columns(series, columns)[-sizes.seq_len :]
    timestamps = series.timestamps[-sizes.seq_len :].append(future_index(series, sizes.pred_len))
    return Series(
        name=series.name,
        timestamps=pd.DatetimeIndex(timestamps),
        values=np.concatenate([history, np.zeros((sizes.pred_len, len(columns)))]),
        columns=tuple(columns),
        frequency=series.frequency,
        time_col=series.time_col,
    )


def _store(
    panel: Sequence[Series], columns: Sequence[str], scaler: Scaler, calendar: CalendarKind, device: torch.device | str
) -> Store:
    """Scaled in float64, kept in float32."""
    values = [scaler.transform(_columns(series, columns)) for series in panel]
    marks = [calendar_marks(series.timestamps, series.frequency, calendar) for series in panel]
    return Store(
        values=torch.from_numpy(np.concatenate(values).astype(np.float32)).to(device),
        marks=torch.from_numpy(np.concatenate(marks)).to(device),
    )


def _columns(series: Series, names: Sequence[str]) -> np.ndarray:
    missing = [name for name in names if name not in series.columns]
    if missing:
        raise InputError(
            f"{series.name}: columns missing: {listed(missing)}; its value columns are {listed(series.columns)}"
        )
    return series.values[:, [series.columns.index(name) for name in names]]


def _provenance(path: Path, dataset: DatasetConfig) -> Provenance:
    sha256 = file_sha256(path)
    if dataset.path is None and dataset.sha256 not in (None, sha256):
        log.warning("%s: sha256 %s differs from the published file's %s", path, sha256, dataset.sha256)
    return Provenance(path, sha256)
