"""Origin of data: files and a checksum of their content."""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from informer.config.dataset import DatasetConfig
from informer.data.read.categories import Labels
from informer.data.read.download import dataset_path, files_sha256
from informer.data.read.source import Series

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
