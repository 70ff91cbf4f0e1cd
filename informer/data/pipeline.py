"""From a dataset to windows on the device."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from informer.config.dataset import DatasetConfig, ScalerConfig
from informer.config.lengths import WindowSizes
from informer.data.attributes import Attributes
from informer.data.calendar import Marks, holiday_marks, mark_sizes
from informer.data.categories import Trained, renumbered, trained_labels
from informer.data.columns import Columns, Roles
from informer.data.gaps import masks_of
from informer.data.panel import divide
from informer.data.provenance import Provenance
from informer.data.read.categories import Labels
from informer.data.read.frequency import Frequency
from informer.data.read.source import Series
from informer.data.scaler import PanelScaler, Scaler
from informer.data.sources import Source, read_source
from informer.data.split import Split
from informer.data.store import build_store
from informer.data.window_cutter import WindowCutter
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
        trained_series: names of the training series, in the order of their numbers; empty for a single series.
        provenance: files and checksum.
        choices: cached choices of the linear forecast for these rows.
        masked: positions of the inputs that have a mask column; None: no values may be missing.
        attributes: of the series, if they came from a table of their own.
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
    trained_series: tuple[str, ...]
    provenance: Provenance
    choices: dict[str, Any] = field(default_factory=dict, init=False, compare=False)
    masked: tuple[int, ...] | None = None
    attributes: Attributes | None = None

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
        return self.columns.positions([name for name in self.columns.future_covariates if name not in self.categories])

    @property
    def known_codes(self) -> list[int]:
        """Positions of the categorical columns that are known over the horizon and vary within a series."""
        return self.columns.positions([name for name in self.columns.future_covariates if name in self.categories])

    @property
    def holidays(self) -> list[int]:
        """Positions of the calendar marks for holidays."""
        return holiday_marks(self.frequency, self.calendar)


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
    names, categories, *_ = trained or Trained(_names(panel), trained_labels(panel, splits, source.labels))
    panel = renumbered(panel, source.labels, categories)
    scaler, scalers = _scalers(scaler, panel, splits, source)
    store = build_store(panel, scalers=scalers, calendar=calendar, device=device, cache=source.cache, trained=names)
    windows = WindowCutter.of(panel, store, source.columns, sizes, dataset)
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
        trained_series=tuple(names),
        provenance=source.provenance,
        masked=masked,
        attributes=source.attributes and source.attributes.of([series.name for series in source.panel]),
    )


def _names(panel: Sequence[Series]) -> list[str]:
    """Names of the series if there are several."""
    return [series.name for series in panel] if len(panel) > 1 else []


def _scalers(
    scaler: ScalerConfig | PanelScaler, panel: Sequence[Series], splits: Sequence[Split], source: Source
) -> tuple[PanelScaler, list[Scaler]]:
    """The scaler, fitted on the training rows if necessary, and the scaler of each series."""
    training = {
        series.name: series.values[split.train.start : split.train.stop]
        for series, split in zip(panel, splits, strict=True)
    }
    if isinstance(scaler, PanelScaler):
        fitted = scaler
    else:
        codes = source.columns.positions(list(source.labels))
        static = [
            position for position in source.columns.positions(source.columns.static_covariates) if position not in codes
        ]
        targets = source.columns.positions(source.columns.targets)
        fitted = PanelScaler.fit(scaler, training, codes=codes, static=static, targets=targets)
        scalers = [scaler for scaler in (fitted.shared, *fitted.by_series.values()) if scaler is not None]
        if unknown := sorted({source.columns.inputs[position] for scaler in scalers for position in scaler.unknown}):
            raise InputError(
                f"dataset.fill=mask: no value is observed of {listed(unknown)} in the training rows; leave it out with "
                "dataset.exclude, or change dataset.split"
            )
    return fitted, [fitted.of(name, rows) for name, rows in training.items()]


def _divided(rows: range, share: float, sizes: WindowSizes) -> tuple[range, range]:
    """Split a validation part into rows for model selection and later rows for calibration, if both are long enough."""
    cut = rows.stop - int(len(rows) * share)
    earlier, later = range(rows.start, cut), range(cut, rows.stop)
    return (earlier, later) if sizes.starts(earlier) and sizes.starts(later) else (rows, range(rows.stop, rows.stop))
