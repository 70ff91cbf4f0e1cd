"""From a dataset to windows on the device."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from informer.config.dataset import DatasetConfig, ScalerConfig
from informer.config.lengths import WindowSizes
from informer.data.cache import Cache, dataset_cache
from informer.data.calendar import Marks, holiday_marks, mark_sizes
from informer.data.categories import Trained, check_static, renumbered, trained_labels
from informer.data.columns import Columns, Roles
from informer.data.gaps import masks_of
from informer.data.large import mapped_panel
from informer.data.panel import divide, read_panel, table_panel
from informer.data.parts import Cutter
from informer.data.provenance import Provenance, panel_sha256, provenance_of
from informer.data.read.categories import CategoryReader, Labels
from informer.data.read.download import find_files
from informer.data.read.frequency import Frequency
from informer.data.read.source import Series
from informer.data.read.table import Table
from informer.data.scaler import PanelScaler, Scaler
from informer.data.split import Split
from informer.data.store import build_store, narrowed
from informer.data.windows import Windows
from informer.errors import InputError, listed


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
        mark_sizes: one entry per mark column (see `calendar.mark_sizes`).
        categories: categories of each categorical input, in the order of their codes.
        splits: target rows of each series' parts.
        train, val, test: windows of the parts.
        calibration: windows of the later validation rows, which `val` then does not contain; None if there are none.
        known: names of the training series, in the order of their numbers; empty for a single series.
        provenance: files and checksum.
        choices: cached choices of the linear forecast for these rows.
        masked: positions of the inputs that have a mask column; None: no values may be missing.
    """

    panel: list[Series]
    columns: Columns
    frequency: Frequency
    scaler: PanelScaler
    sizes: WindowSizes
    calendar: Marks
    mark_sizes: tuple[int, ...]
    categories: Labels
    splits: list[Split]
    train: Windows
    val: Windows
    test: Windows
    calibration: Windows | None
    known: tuple[str, ...]
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
    def regressors(self) -> list[int]:
        """Positions of the numeric columns that are known over the horizon and vary within a series."""
        return self.columns.positions([one for one in self.columns.future_covariates if one not in self.categories])

    @property
    def holidays(self) -> list[int]:
        """Positions of the calendar marks for holidays."""
        return holiday_marks(self.frequency, self.calendar)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Series of a dataset after reading.

    Args:
        panel: series of the input columns, in data units.
        columns: names of the columns by role.
        labels: by categorical column, the categories in the file, in the order of their codes in `panel`.
        cache: cache files for arrays too large for memory; None: keep them in memory.
        provenance: files and checksum.
    """

    panel: list[Series]
    columns: Columns
    labels: Labels
    cache: Cache | None
    provenance: Provenance


def load_data(
    dataset: DatasetConfig,
    *,
    sizes: WindowSizes,
    roles: Roles,
    scaler: ScalerConfig | PanelScaler,
    calendar: Marks,
    data_dir: Path,
    device: torch.device | str,
    calibration: float = 0.0,
) -> Data:
    """Read, split, scale and prepare a dataset.

    Args:
        dataset: the dataset.
        sizes: sizes of a window.
        roles: roles of the columns; the default target is that of the dataset.
        data_dir: folder of the datasets' files.
        scaler, calendar, device, calibration: see `lay_out`.

    Raises:
        InputError: problems in the files, the split or the sizes.
    """
    source = read_source(dataset, sizes=sizes, roles=roles, data_dir=data_dir)
    return lay_out(
        source, dataset, sizes=sizes, scaler=scaler, calendar=calendar, device=device, calibration=calibration
    )


def read_source(dataset: DatasetConfig, *, sizes: WindowSizes, roles: Roles, data_dir: Path) -> Source:
    """Read a dataset; `sizes` are those of the shortest windows that will be used.

    Raises:
        InputError: problems in the files.
    """
    paths = find_files(dataset, data_dir)
    provenance = provenance_of(paths, dataset)
    cache = dataset_cache(dataset, data_dir, provenance.sha256) if dataset.memmap else None
    categories = CategoryReader(roles.covariates)
    panel = mapped_panel(paths, dataset, cache) if cache else read_panel(paths, dataset, sizes, categories)
    if cache and (lost := [name for name in roles.covariates if name not in panel[0].columns]):
        raise InputError(
            f"dataset.memmap: expected covariates of numbers, found no such column {listed(lost)}; leave it out"
        )
    return _source(panel, dataset, roles, categories.labels, provenance, cache)


def table_source(
    table: Table, dataset: DatasetConfig, *, sizes: WindowSizes, roles: Roles, provenance: Provenance | None
) -> Source:
    """Like `read_source`, for a table in memory.

    Args:
        provenance: a file with the same content; None if there is none.

    Raises:
        InputError: problems in the table.
    """
    if dataset.memmap:
        raise InputError("dataset.memmap: expected a file, found a table in memory; leave it out")
    categories = CategoryReader(roles.covariates)
    panel = table_panel(table, dataset, sizes, categories)
    provenance = provenance or Provenance(Path(table.name), panel_sha256(panel, categories.labels))
    return _source(panel, dataset, roles, categories.labels, provenance, None)


def _source(
    panel: list[Series],
    dataset: DatasetConfig,
    roles: Roles,
    labels: Labels,
    provenance: Provenance,
    cache: Cache | None,
) -> Source:
    roles = replace(roles, target=roles.target or dataset.target)
    found = panel[0].columns
    columns = roles.with_categories([name for name in labels if name in found]).choose(found, name=panel[0].name)
    check_static(panel, columns.static_covariates, labels)
    return Source(
        panel=narrowed(panel, columns.inputs, cache),
        columns=columns,
        labels={name: labels[name] for name in columns.inputs if name in labels},
        cache=cache,
        provenance=provenance,
    )


def lay_out(
    source: Source,
    dataset: DatasetConfig,
    *,
    sizes: WindowSizes,
    scaler: ScalerConfig | PanelScaler,
    calendar: Marks,
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
    masked = masks_of(panel, splits, keeps_gaps=dataset.keeps_gaps, trained=trained)
    known, categories, _ = trained or Trained(_names(panel), trained_labels(panel, splits, source.labels))
    panel = renumbered(panel, source.labels, categories)
    scaler, scalers = _scalers(scaler, panel, splits, source)
    store = build_store(panel, scalers=scalers, calendar=calendar, device=device, cache=source.cache, known=known)

    windows = Cutter.of(panel, store, source.columns, sizes, dataset)
    val, later = zip(*(_divided(split.val, calibration, sizes) for split in splits), strict=True)
    return Data(
        panel=panel,
        columns=source.columns,
        frequency=panel[0].frequency,
        scaler=scaler,
        sizes=sizes,
        calendar=calendar,
        mark_sizes=mark_sizes(panel[0].frequency, calendar),
        categories=categories,
        splits=splits,
        train=windows("train", [split.train for split in splits]),
        val=windows("val", val),
        test=windows("test", [split.test for split in splits]),
        calibration=windows.or_none(later),
        known=tuple(known),
        provenance=source.provenance,
        masked=masked,
    )


def _names(panel: Sequence[Series]) -> list[str]:
    """Names of the series if there are several."""
    return [series.name for series in panel] if len(panel) > 1 else []


def _scalers(
    scaler: ScalerConfig | PanelScaler, panel: Sequence[Series], splits: Sequence[Split], source: Source
) -> tuple[PanelScaler, list[Scaler]]:
    """The scaler, fitted on the training rows if necessary, and the scaler of each series."""
    parts = ((series, split.train) for series, split in zip(panel, splits, strict=True))
    training = {series.name: series.values[part.start : part.stop] for series, part in parts}
    if isinstance(scaler, PanelScaler):
        fitted = scaler
    else:
        codes = source.columns.positions(list(source.labels))
        static = [one for one in source.columns.positions(source.columns.static_covariates) if one not in codes]
        fitted = PanelScaler.fit(scaler, training, codes=codes, static=static)
        scalers = [one for one in (fitted.shared, *fitted.own.values()) if one is not None]
        if unknown := sorted({source.columns.inputs[place] for one in scalers for place in one.unknown}):
            raise InputError(
                f"dataset.fill=mask: no value is observed of {listed(unknown)} in the training rows; leave it out with "
                "dataset.exclude, or change dataset.split"
            )
    return fitted, [fitted.of(name, rows) for name, rows in training.items()]


def _divided(part: range, share: float, sizes: WindowSizes) -> tuple[range, range]:
    """Split a validation part into rows for model selection and later rows for calibration, if both are long enough."""
    cut = part.stop - int(len(part) * share)
    earlier, later = range(part.start, cut), range(cut, part.stop)
    return (earlier, later) if sizes.starts(earlier) and sizes.starts(later) else (part, range(part.stop, part.stop))
