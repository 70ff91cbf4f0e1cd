"""Saves a table trained on from memory in the run directory, so that `eval` and `resume` find it."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timezone
from pathlib import Path

import pandas as pd

from informer.data.provenance import Provenance
from informer.errors import InputError
from informer.files import write_atomic
from informer.training.run_dir import RunFolder

NAME = "frame"
"""Name of the table in messages, of its series and, with an ending, of the file."""


def saved_path(table: pd.DataFrame, run_dir: Path) -> Path:
    """Path of a CSV file, or of a parquet file if times have a time zone: text would store only their UTC offset."""
    zones = [dtype.tz for dtype in table.dtypes if isinstance(dtype, pd.DatetimeTZDtype)]
    in_zone = any(not isinstance(zone, timezone) and str(zone) != "UTC" for zone in zones)
    return run_dir / f"{NAME}.{'parquet' if in_zone else 'csv'}"


@contextmanager
def saved_table(table: pd.DataFrame, path: Path) -> Iterator[Provenance]:
    """Write the table to `path` in a new run directory; it is removed if the run fails before it starts.

    Raises:
        InputError: the folder cannot be written.
    """
    if path.exists():
        raise InputError(f"run_dir={path.parent}: expected a new folder, found {path.name} in it; choose another")
    content = _content(table, path)
    write_atomic(path, content)
    try:
        yield Provenance(path, hashlib.sha256(content).hexdigest())
    except InputError:
        if not RunFolder(path.parent).contains_run:
            path.unlink()
        raise


def _content(table: pd.DataFrame, path: Path) -> bytes:
    if path.suffix == ".csv":
        return table.to_csv(index=False).encode()
    return table.to_parquet(index=False)
