"""The log of forecasts: a CSV table to which commands add rows, scored when the actual values are known."""

import io
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO

import pandas as pd

from informer.base.errors import FileError, counted
from informer.base.files import make_folder, reading, wait_for_lock, writing
from informer.scoring.forecasts import Forecasts

KEYS = ["series", "column", "origin", "time", "name"]
COLUMNS = ["logged", "model", *KEYS, "value"]
HEADER = ",".join(COLUMNS).encode() + b"\n"


def append(log: Path, forecasts: Sequence[Forecasts], *, model: str, is_unnamed: bool) -> None:
    """Add forecasts: rows of KEYS and `value`, which is a forecast (name: value), an end of its interval or a quantile
    (lo80, q10). With `is_unnamed`, that of a file that is a single series, the series has no name.

    Raises:
        InputError: another file, or it cannot be written; it is then as it was.
    """
    tables = [each.table().drop(columns=["step", "actual"]) for each in forecasts]
    if not tables:
        return
    rows = pd.concat(
        [each.assign(**{name: list(map(str, each[name])) for name in ("origin", "time")}) for each in tables]
    )
    rows = rows.melt(KEYS[:-1], var_name="name").replace({"name": {"forecast": "value"}})
    rows = rows.assign(series="") if is_unnamed else rows
    make_folder(log.absolute().parent)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    text = rows.assign(logged=now, model=model)[COLUMNS].to_csv(index=False, header=False).encode()
    with writing(log), log.open("a+b") as file:
        wait_for_lock(file)
        size = _complete(log, file)
        file.truncate(size)  # without what a killed command has begun
        try:
            file.write(text if size else HEADER + text)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), size)
            raise


def check(log: Path) -> None:
    """Raise an InputError if a file is not a log; it may not exist."""
    if log.exists():
        with reading(log), log.open("rb") as file:
            _complete(log, file)


def logged(log: Path) -> tuple[pd.DataFrame, list[str]]:
    """The forecasts of a log with columns series, column, origin, time, value and ends of intervals, and notes about
    them. Of several from one origin, as when a morning's command is repeated, the first counts.

    Raises:
        InputError: not a log, or one without rows.
    """
    with reading(log), log.open("rb") as file:
        content = file.read(_complete(log, file))
    try:
        frame = pd.read_csv(io.BytesIO(content), dtype=dict.fromkeys(COLUMNS[:-1], str), keep_default_na=False)
        frame = frame.assign(value=pd.to_numeric(frame["value"].replace("", "nan")))
        late = pd.to_datetime(frame["logged"], utc=True) - pd.to_datetime(frame["time"], format="ISO8601", utc=True)
    except ValueError as error:
        raise FileError(f"log={log}: a row is not as it was written ({error}); remove it") from error
    if frame.empty:
        raise FileError(f"log={log}: expected at least one forecast, found none")
    again = frame.duplicated(KEYS)
    table = frame[~again].set_index(KEYS)["value"].unstack("name").reset_index().rename_axis(columns=None)
    notes = [f"{counted(table.groupby(KEYS[:3]).ngroups, 'logged forecast')} in {log}"]
    is_value = frame["name"] == "value"
    if n := int((again & is_value).sum()):
        notes.append(f"{n:,} rows forecast again from the same origin are left out")
    if n := int((~again & is_value & (late > pd.Timedelta(days=1))).sum()):
        notes.append(f"{n:,} of {len(table):,} rows were logged more than a day after their time")
    return table, notes


def _complete(log: Path, file: IO[bytes]) -> int:
    """Bytes of the complete lines of a log, of which only the first and the last are read; an InputError for another
    file."""
    if not os.fstat(file.fileno()).st_size:
        return 0
    with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        if content[: len(HEADER)] != HEADER:
            raise FileError(f"log={log}: expected a log of forecasts, found another file; choose another")
        return content.rfind(b"\n") + 1
