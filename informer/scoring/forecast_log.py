"""The log of forecasts: a CSV table to which commands add rows, scored when the actual values are known."""

import io
import os
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from informer.base.errors import InputError, counted
from informer.base.files import make_folder, reading, wait_for_lock, writing

KEYS = ["series", "column", "origin", "time", "name"]
COLUMNS = ["logged", "model", *KEYS, "value"]
HEADER = ",".join(COLUMNS).encode() + b"\n"


def append(log: Path, rows: pd.DataFrame, *, model: str) -> None:
    """Add rows of KEYS and `value`: a forecast (name: value), or an end of its interval or a quantile (lo80, q10).

    Raises:
        InputError: another file, or it cannot be written; it is then as it was.
    """
    make_folder(log.absolute().parent)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    text = rows.assign(logged=now, model=model)[COLUMNS].to_csv(index=False, header=False).encode()
    with writing(log), log.open("a+b") as file:
        wait_for_lock(file)
        file.seek(0)
        size = len(_rows_of(log, file.read()))
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
        with reading(log):
            _rows_of(log, log.read_bytes())


def logged(log: Path) -> tuple[pd.DataFrame, list[str]]:
    """The forecasts of a log with columns series, column, origin, time, value and ends of intervals, and notes about
    them. Of several from one origin, as when a morning's command is repeated, the first counts.

    Raises:
        InputError: not a log, or one without rows.
    """
    with reading(log):
        content = _rows_of(log, log.read_bytes())
    try:
        frame = pd.read_csv(io.BytesIO(content), dtype=dict.fromkeys(COLUMNS[:-1], str), keep_default_na=False)
        frame = frame.assign(value=pd.to_numeric(frame["value"].replace("", "nan")))
        late = pd.to_datetime(frame["logged"], utc=True) - pd.to_datetime(frame["time"], format="ISO8601", utc=True)
    except ValueError as error:
        raise InputError(f"log={log}: a row is not as it was written ({error}); remove it") from error
    if frame.empty:
        raise InputError(f"log={log}: expected at least one forecast, found none")
    again = frame.duplicated(KEYS)
    table = frame[~again].set_index(KEYS)["value"].unstack("name").reset_index().rename_axis(columns=None)
    notes = [f"{counted(table.groupby(KEYS[:3]).ngroups, 'logged forecast')} in {log}"]
    is_value = frame["name"] == "value"
    if n := int((again & is_value).sum()):
        notes.append(f"{n:,} rows forecast again from the same origin are left out")
    if n := int((~again & is_value & (late > pd.Timedelta(days=1))).sum()):
        notes.append(f"{n:,} of {len(table):,} rows were logged more than a day after their time")
    return table, notes


def _rows_of(log: Path, content: bytes) -> bytes:
    """The complete lines of a log; an InputError for another file."""
    whole = content[: content.rfind(b"\n") + 1]
    if content and not content.startswith(HEADER):
        raise InputError(f"log={log}: expected a log of forecasts, found another file; choose another")
    return whole
