"""A dataset, from its files or a table in memory to the windows of its parts on the device."""

import hashlib
import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from informer.base.errors import ColumnError, InputError, listed
from informer.config.data import Calendar, DatasetConfig, NonNegative, ScalerConfig
from informer.config.model import WindowSizes
from informer.config.training import TrainConfig
from informer.data.calendar import HOLIDAY, mark_fields, mark_sizes
from informer.data.columns import Columns, Roles, Trained, check_static, renumbered, trained_labels
from informer.data.panel import divide, read_panel, training_rows
from informer.data.scaler import PanelScaler, Scaler, is_amount
from informer.data.store import build_store, with_columns
from informer.data.windows import Windows, cut_windows, masks_of, observed_rows
from informer.networks.models.base import ModelDims
from informer.read.columns import CategoryReader, Labels
from informer.read.files import dataset_path, files_sha256, find_files
from informer.read.frequency import Frequency
from informer.read.parse import release_free
from informer.read.series import Series, column_values
from informer.read.shapes import prepared
from informer.read.split import Split
from informer.read.table import Table

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Provenance:
    """Origin of data: a file, or a folder or pattern of files; the checksum covers all of them."""

    path: Path
    sha256: str


def panel_sha256(panel: Sequence[Series], labels: Labels) -> str:
    """Checksum of series in memory and the labels of their categories."""
    digest = hashlib.sha256(json.dumps(labels).encode() if labels else b"")
    for series in panel:
        digest.update(" ".join([series.name, *series.columns]).encode())
        digest.update(series.timestamps.asi8.tobytes())
        digest.update(np.ascontiguousarray(series.values).tobytes())
    return digest.hexdigest()


def provenance_of(paths: Sequence[Path], dataset: DatasetConfig) -> Provenance:
    """Provenance of a dataset's files; logs a warning if a file differs from the published one."""
    sha256 = files_sha256(paths)
    if len(paths) > 1:
        return Provenance(Path(dataset_path(dataset)), sha256)
    if dataset.path is None and dataset.sha256 not in (None, sha256):
        log.warning("%s: sha256 %s differs from the published file's %s", paths[0], sha256, dataset.sha256)
    return Provenance(paths[0], sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Series of a dataset after reading.

    Args:
        panel: series of the input columns, in data units.
        columns: names of the columns by role.
        labels: by categorical column, the categories in the file, in the order of their codes in `panel`.
        provenance: files and checksum.
        weights: weight of each row by the name of its series; empty: all are equal.
    """

    panel: list[Series]
    columns: Columns
    labels: Labels
    provenance: Provenance
    weights: Mapping[str, Float64[np.ndarray, " t"]] = field(default_factory=dict)


def read_source(
    dataset: DatasetConfig,
    *,
    roles: Roles,
    data_dir: Path = Path(),
    table: Table | None = None,
    provenance: Provenance | None = None,
) -> Source:
    """Read a dataset.

    Args:
        data_dir: folder of the datasets' files.
        table: rows in memory, which are read instead of files.
        provenance: a file with the content of the table; None if there is none.

    Raises:
        InputError: problems in the files or the table.
    """
    roles = replace(roles, target=roles.target or dataset.target)
    dataset = replace(dataset, target=roles.only_target)
    categories = CategoryReader(roles.covariates)
    if table is not None:
        panel = read_panel(prepared(table, dataset), dataset, categories)
        provenance = provenance or Provenance(Path(table.name), panel_sha256(panel, categories.labels))
    else:
        paths = find_files(dataset, data_dir)
        provenance = provenance_of(paths, dataset)
        panel = read_panel(paths, dataset, categories)
    available, labels = panel[0].columns, categories.labels
    release_free(sum(series.values.nbytes for series in panel))
    roles = roles.with_categories([name for name in labels if name in available])
    columns = roles.choose(available, name=panel[0].name)
    check_static(panel, columns.static_covariates, labels)
    return Source(
        panel=with_columns(panel, columns.inputs),
        columns=columns,
        labels={name: labels[name] for name in columns.inputs if name in labels},
        provenance=provenance,
        weights={} if roles.weight is None else {each.name: _weights_of(each, roles.weight) for each in panel},
    )


def _weights_of(series: Series, column: str) -> Float64[np.ndarray, " t"]:
    weights = column_values(series, [column])[:, 0]
    if (wrong := ~(weights >= 0)).any():
        row = int(wrong.argmax())
        raise ColumnError(
            f"weight_col={column}: expected numbers of at least 0, found {weights[row]:g} in {series.name} at "
            f"{series.timestamps[row]}; correct it, or leave weight_col out"
        )
    return weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Data for training and evaluation.

    Args:
        panel: series of the input columns, in data units.
        columns: names of the columns by role.
        frequency: step of every series.
        scaler: scaler of the inputs, fitted on training rows.
        sizes: sizes of a window.
        calendar: calendar marks of each row.
        categories: categories of each categorical input, in the order of their codes.
        splits: target rows of each series' parts.
        train, val, test: windows of the parts.
        calibration: windows of the later validation rows, which `val` then does not contain; None if there are none.
        trained_series: names of the training series, in the order of their numbers; empty for a single series.
        provenance: files and checksum.
        choices: cached choices of the linear forecast for these rows.
        masked: positions of the inputs that have a mask column; None: no values may be missing.
    """

    panel: list[Series]
    columns: Columns
    frequency: Frequency
    scaler: PanelScaler
    sizes: WindowSizes
    calendar: Calendar
    categories: Labels
    splits: list[Split]
    train: Windows
    val: Windows
    test: Windows
    calibration: Windows | None
    trained_series: tuple[str, ...]
    provenance: Provenance
    choices: dict[str, Any] = field(default_factory=dict, init=False, compare=False)
    masked: tuple[int, ...] | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns that the model reads, in order."""
        return self.columns.inputs

    @property
    def targets(self) -> tuple[str, ...]:
        """Columns that the model forecasts."""
        return self.columns.targets

    @property
    def dims(self) -> ModelDims:
        """Sizes of a network for these data."""
        return dims_of(
            self.columns, self.categories, self.masked, self.frequency, self.calendar, self.sizes,
            n_series=len(self.trained_series),
        )  # fmt: skip


def dims_of(
    columns: Columns,
    categories: Labels,
    masked: Sequence[int] | None,
    frequency: Frequency,
    calendar: Calendar,
    sizes: WindowSizes,
    *,
    n_series: int,
) -> ModelDims:
    """Sizes of a network; the arguments are those of `Data`."""
    n, known = len(columns.inputs), columns.positions(columns.known)
    masks, of_inputs = masked or (), tuple(len(categories.get(name, ())) for name in columns.inputs)
    ahead = columns.positions(columns.future_covariates)
    fields = enumerate(mark_fields(frequency, calendar))
    return ModelDims(
        enc_in=n + len(masks),
        c_out=len(columns.targets),
        mark_sizes=mark_sizes(frequency, calendar),
        seq_len=sizes.seq_len,
        label_len=sizes.label_len,
        pred_len=sizes.pred_len,
        targets=tuple(columns.positions(columns.targets)),
        known=(*known, *(n + i for i, place in enumerate(masks) if place in known)),
        n_series=max(n_series, 1),
        categories=(*of_inputs, *(0 for _ in masks)) if categories else (),
        masked=None if masked is None else tuple(masked),
        regressors=tuple(place for place in ahead if columns.inputs[place] not in categories),
        holidays=tuple(place for place, name in fields if name.startswith(HOLIDAY)),
        known_codes=tuple(place for place in ahead if columns.inputs[place] in categories),
    )


def lay_out(
    source: Source,
    dataset: DatasetConfig,
    *,
    sizes: WindowSizes,
    scaler: ScalerConfig | PanelScaler,
    calendar: Calendar,
    device: torch.device | str,
    calibration: float = 0.0,
    trained: Trained | None = None,
) -> Data:
    """Split, scale and cut the data into windows.

    Args:
        scaler: kind of scaler to fit on the training rows, or a scaler that was fitted earlier on the input columns.
        calendar: calendar marks of each row.
        device: device of the rows.
        calibration: share of the validation rows, from the end, used to calibrate intervals.
        trained: what the model was trained on; None: these data.

    Raises:
        InputError: problems in the split or the sizes.
    """
    panel, splits = divide(source.panel, dataset, sizes)
    training = training_rows(panel, splits)
    masked = masks_of(training, keeps_gaps=dataset.keeps_gaps, trained=trained)
    several = [series.name for series in panel] if len(panel) > 1 else []
    names, categories, *_ = trained or Trained(several, trained_labels(training, source.labels))
    panel = renumbered(panel, source.labels, categories)
    scaler, scalers = _scalers(scaler, training_rows(panel, splits), source)
    store = build_store(panel, scalers=scalers, calendar=calendar, device=device, trained=names)
    val, later = zip(*(_divided(split.val, calibration, sizes) for split in splits), strict=True)
    if source.weights:  # of rows that were added before the first the weight is 0
        weights = [np.pad(own := source.weights[each.name], (len(each) - len(own), 0)) for each in panel]
        for part, rows in (("training", [split.train for split in splits]), ("validation", val)):
            if not any(own[each.start : each.stop].any() for own, each in zip(weights, rows, strict=True)):
                raise ColumnError(f"weight_col: expected a weight above 0 in the {part} part, found none")
        store = replace(store, weights=torch.from_numpy(np.concatenate(weights)).float().to(device))
    targets = source.columns.positions(source.columns.targets)
    observed = observed_rows(panel, targets) if dataset.keeps_gaps else None
    windows = partial(cut_windows, store, source.columns, sizes, dataset, observed)
    return Data(
        panel=panel,
        columns=source.columns,
        frequency=panel[0].frequency,
        scaler=scaler,
        sizes=sizes,
        calendar=calendar,
        categories=categories,
        splits=splits,
        train=windows([split.train for split in splits], "train"),
        val=windows(val, "val"),
        test=windows([split.test for split in splits], "test"),
        calibration=windows(later) or None,
        trained_series=tuple(names),
        provenance=source.provenance,
        masked=masked,
    )


def _scalers(
    scaler: ScalerConfig | PanelScaler, training: Sequence[Series], source: Source
) -> tuple[PanelScaler, list[Scaler]]:
    """The scaler, fitted on the training rows if necessary, and the scaler of each series."""
    rows = {series.name: series.values for series in training}
    if isinstance(scaler, PanelScaler):
        fitted = scaler
    else:
        columns = source.columns
        codes, targets = columns.positions(list(source.labels)), columns.positions(columns.targets)
        static = [place for place in columns.positions(columns.static_covariates) if place not in codes]
        fitted = PanelScaler.fit(scaler, rows, codes=codes, static=static, targets=targets)
        positions = {position for scaler in fitted.all for position in scaler.unknown}
        if unknown := sorted(columns.inputs[position] for position in positions):
            raise ColumnError(
                f"dataset.fill=mask: no value is observed of {listed(unknown)} in the training rows; leave it out with "
                "dataset.exclude, or change dataset.split"
            )
    return fitted, [fitted.of(name, values) for name, values in rows.items()]


def _divided(rows: range, share: float, sizes: WindowSizes) -> tuple[range, range]:
    """Split a validation part into rows for model selection and later rows for calibration, if both are long enough."""
    cut = rows.stop - int(len(rows) * share)
    earlier, later = range(rows.start, cut), range(cut, rows.stop)
    return (earlier, later) if sizes.starts(earlier) and sizes.starts(later) else (rows, range(rows.stop, rows.stop))


def read_dataset(config: TrainConfig, *, table: Table | None = None, provenance: Provenance | None = None) -> Source:
    """Read the dataset of a run; the arguments are those of `read_source`."""
    roles = Roles(
        features=config.used_features,
        target=config.target,
        targets=config.targets,
        past_covariates=config.past_covariates,
        future_covariates=config.future_covariates,
        static_covariates=config.dataset.static_covariates,
        weight=config.weight_col,
    )
    folder = Path(config.data_dir)
    return read_source(config.dataset, roles=roles, data_dir=folder, table=table, provenance=provenance)


def build_data(
    config: TrainConfig,
    device: torch.device,
    scaler: PanelScaler | None = None,
    source: Source | None = None,
    trained: Trained | None = None,
) -> Data:
    """The data of a run, split and scaled; None: read, or fitted on the training rows. See `lay_out`."""
    source = source or read_dataset(config)
    if config.weight_col is not None and not source.weights:
        raise InputError("weight_col: a leaderboard compares forecasts of equal rows; leave it out")
    return lay_out(
        source,
        config.dataset,
        sizes=config.sizes,
        scaler=scaler or config.scaler,
        calendar=config.dataset.marked(config.model.embed),
        device=device,
        calibration=config.trainer.calibration,
        trained=trained,
    )


def non_negative(mode: NonNegative, data: Data) -> list[str]:
    """Targets whose forecasts are clipped at zero: set by the user, or detected in the training rows."""
    if mode != "auto":
        return list(data.targets) if mode == "all" else []
    names: list[str] = []
    for name, place in zip(data.targets, data.columns.positions(data.targets), strict=True):
        of_series = [series.values[:, place] for series in training_rows(data.panel, data.splits)]
        values = np.concatenate([values[~np.isnan(values)] for values in of_series])
        whole = bool((values == np.round(values)).all())
        if is_amount(values.min(initial=math.inf), int((values == 0).sum()), len(values), whole=whole):
            names.append(name)
    return names
