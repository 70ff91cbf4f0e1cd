"""From a dataset to windows on the device."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64

from informer.data.cache import Cache
from informer.data.columns import Columns, Roles
from informer.data.download import file_sha256, find_files
from informer.data.frequency import Frequency
from informer.data.large import mapped_panel
from informer.data.panel import divide, read_panel
from informer.data.scaler import PanelScaler, ScalerConfig
from informer.data.source import DatasetConfig, Series
from informer.data.split import Split
from informer.data.store import build_store, narrowed
from informer.data.time_features import CalendarKind, mark_sizes
from informer.data.windows import Windows, WindowSizes
from informer.errors import InputError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the data came from: a file, or the folder or pattern of many; the checksum is over all of them."""

    path: Path
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """All that training and evaluation need of the data.

    Args:
        panel: series of the input columns, in data units.
        columns: names by role.
        frequency: step of every series.
        scaler: over the inputs, fitted on training rows.
        sizes: of a window.
        calendar: kind of the marks.
        mark_sizes: one entry a mark column (see `time_features.mark_sizes`).
        splits: target rows of each series' parts.
        train, val, test: windows.
        calibration: windows of the later rows of the validation part, which are then no part of `val`; None without.
        provenance: files and checksum.
    """

    panel: list[Series]
    columns: Columns
    frequency: Frequency
    scaler: PanelScaler
    sizes: WindowSizes
    calendar: CalendarKind
    mark_sizes: tuple[int, ...]
    splits: list[Split]
    train: Windows
    val: Windows
    test: Windows
    calibration: Windows | None
    provenance: Provenance

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns that the model reads, in its order."""
        return self.columns.inputs

    @property
    def targets(self) -> tuple[str, ...]:
        """Columns that it forecasts."""
        return self.columns.targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The series of a dataset as they were read.

    Args:
        panel: series of the input columns, in data units.
        columns: names by role.
        cache: where arrays too large for memory lie; None: in memory.
        provenance: files and checksum.
    """

    panel: list[Series]
    columns: Columns
    cache: Cache | None
    provenance: Provenance


def load_data(
    dataset: DatasetConfig,
    *,
    sizes: WindowSizes,
    roles: Roles,
    scaler: ScalerConfig | PanelScaler,
    calendar: CalendarKind,
    data_dir: Path,
    device: torch.device | str,
    calibration: float = 0.0,
) -> Data:
    """Read, split, scale and lay out a dataset.

    Args:
        roles: of the columns; without a target, the dataset's is taken.
        data_dir: folder of the datasets' files.
        scaler, calendar, device, calibration: see `lay_out`.

    Raises:
        InputError: whatever a user can mend in the files, the split or the sizes.
    """
    source = read_source(dataset, sizes=sizes, roles=roles, data_dir=data_dir)
    return lay_out(
        source, dataset, sizes=sizes, scaler=scaler, calendar=calendar, device=device, calibration=calibration
    )


def read_source(dataset: DatasetConfig, *, sizes: WindowSizes, roles: Roles, data_dir: Path) -> Source:
    """Read a dataset; `sizes` are the shortest windows that it will be cut into.

    Raises:
        InputError: whatever a user can mend in the files.
    """
    paths = find_files(dataset, data_dir)
    provenance = _provenance(paths, dataset)
    cache = _cache(dataset, data_dir, provenance) if dataset.memmap else None
    panel = mapped_panel(paths, dataset, cache) if cache else read_panel(paths, dataset, sizes)
    roles = replace(roles, target=roles.target or dataset.target)
    columns = roles.choose(panel[0].columns, name=panel[0].name)
    return Source(panel=narrowed(panel, columns.inputs, cache), columns=columns, cache=cache, provenance=provenance)


def lay_out(
    source: Source,
    dataset: DatasetConfig,
    *,
    sizes: WindowSizes,
    scaler: ScalerConfig | PanelScaler,
    calendar: CalendarKind,
    device: torch.device | str,
    calibration: float = 0.0,
) -> Data:
    """Split, scale and cut into windows what was read.

    Args:
        scaler: the kind to fit on training rows, or one over the input columns that was fitted before.
        calendar: kind of the marks.
        device: where the rows lie, once.
        calibration: share of the validation rows, the later ones, that intervals are made from.

    Raises:
        InputError: whatever a user can mend in the split or the sizes.
    """
    columns, cache = source.columns, source.cache
    panel, splits = divide(source.panel, dataset, sizes)
    training = {
        series.name: series.values[split.train.start : split.train.stop]
        for series, split in zip(panel, splits, strict=True)
    }
    if isinstance(scaler, ScalerConfig):
        scaler = PanelScaler.fit(scaler, training)
    store = build_store(
        panel,
        scalers=[scaler.of(name, rows) for name, rows in training.items()],
        calendar=calendar,
        device=device,
        cache=cache,
    )

    def windows(name: str, parts: list[range]) -> Windows:
        starts = _starts(parts, store.first_rows.cpu().numpy(), sizes)
        if not len(starts):
            raise InputError(f"{dataset.name}: no series has a window in its {name} part; use longer series")
        return Windows.of_columns(store, columns, starts=torch.from_numpy(starts), sizes=sizes)

    val, later = zip(*(_divided(split.val, calibration, sizes) for split in splits), strict=True)
    return Data(
        panel=panel,
        columns=columns,
        frequency=panel[0].frequency,
        scaler=scaler,
        sizes=sizes,
        calendar=calendar,
        mark_sizes=mark_sizes(panel[0].frequency, calendar),
        splits=splits,
        train=windows("train", [split.train for split in splits]),
        val=windows("val", list(val)),
        test=windows("test", [split.test for split in splits]),
        calibration=windows("calibration", list(later)) if any(later) else None,
        provenance=source.provenance,
    )


def _divided(part: range, share: float, sizes: WindowSizes) -> tuple[range, range]:
    """Rows of a validation part that choose the model, and those after them that calibrate it: none if too few."""
    cut = part.stop - int(len(part) * share)
    earlier, later = range(part.start, cut), range(cut, part.stop)
    return (earlier, later) if sizes.starts(earlier) and sizes.starts(later) else (part, range(part.stop, part.stop))


def _starts(parts: Sequence[range], first_rows: Int64[np.ndarray, "s"], sizes: WindowSizes) -> Int64[np.ndarray, "n"]:
    """Rows of the store at which the windows of all series begin whose targets lie in these parts."""
    ranges = [sizes.starts(part) for part in parts]
    counts = np.array([len(starts) for starts in ranges])
    firsts = first_rows + np.array([starts.start for starts in ranges])
    # one count over all windows, less the number of those in the series before
    return np.arange(counts.sum()) + np.repeat(firsts - (counts.cumsum() - counts), counts)


def _cache(dataset: DatasetConfig, data_dir: Path, provenance: Provenance) -> Cache:
    """The arrays of these files, read in this way."""
    keys = ("time_col", "time_format", "frequency", "columns", "series_col", "separator", "decimal", "encoding")
    reading = {key: getattr(dataset, key) for key in keys}
    folder = Path(dataset.cache_dir).expanduser() if dataset.cache_dir else data_dir / "cache"
    return Cache.below(folder, {"sha256": provenance.sha256, **reading})


def _provenance(paths: Sequence[Path], dataset: DatasetConfig) -> Provenance:
    if len(paths) > 1:
        digests = "".join(f"{path.name} {file_sha256(path)}\n" for path in paths)
        return Provenance(Path(str(dataset.path)), hashlib.sha256(digests.encode()).hexdigest())
    path, sha256 = paths[0], file_sha256(paths[0])
    if dataset.path is None and dataset.sha256 not in (None, sha256):
        log.warning("%s: sha256 %s differs from the published file's %s", path, sha256, dataset.sha256)
    return Provenance(path, sha256)
