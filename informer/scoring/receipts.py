"""A log of forecasts, a line of JSON each, that can be scored later and shows whether it was changed in between.

Each entry has its time, the hashes of data, model and forecasts, the forecasts, and the hash of the line before it: a
line that is changed, removed or inserted no longer fits the next.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from informer.base.errors import InputError, counted
from informer.base.files import only_writer, reading, writing
from informer.config.conversion import without_nan

Forecasts = Sequence[dict[str, Any]]
"""For each series: `series`, `origin` (time of its last row), `times`, and by column `value` and ends of intervals."""


def append(log: Path, forecasts: Forecasts, *, data: str, model: str) -> None:
    """Add an entry.

    Args:
        log: the file; created if it does not exist.
        forecasts: what was forecast.
        data, model: hashes of the input and of the model.

    Raises:
        InputError: the log is broken, or cannot be written.
    """
    with only_writer(log.absolute().parent, "log"), writing(log):
        before = _hash(lines[-1]) if (lines := _lines(log)) else ""
        rows = without_nan(list(forecasts))
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "data": data,
            "model": model,
            "forecast": _hash(_text(rows)),
            "before": before,
            "forecasts": rows,
        }
        with log.open("ab") as file:
            file.write(_text(entry) + b"\n")
            file.flush()
            os.fsync(file.fileno())


def check(log: Path) -> list[dict[str, Any]]:
    """The entries of a log; none if it does not exist.

    Raises:
        InputError: a line is not an entry, or does not fit the line before it.
    """
    entries, before = list[dict[str, Any]](), ""
    for number, line in enumerate(_lines(log), 1):
        try:
            entry = json.loads(line)
            is_whole = entry["before"] == before and entry["forecast"] == _hash(_text(entry["forecasts"]))
        except (ValueError, TypeError, KeyError):
            is_whole = False
        if not is_whole:
            raise InputError(
                f"log={log}, line {number}: this line or the one before it was changed or removed since: "
                "score a copy of the lines above, and log further forecasts in a new file"
            )
        entries.append(entry)
        before = _hash(line)
    return entries


def logged(log: Path) -> tuple[pd.DataFrame, list[str]]:
    """The forecasts of a log with columns series, column, origin, time, value and ends of intervals, and notes about
    them. Of several from one origin, as when a morning's command is repeated, the first counts.

    Raises:
        InputError: see `check`; there is no entry.
    """
    if not (entries := check(log)):
        raise InputError(f"log={log}: expected at least one forecast, found none")
    parts = [
        pd.DataFrame(columns[column]).assign(
            series=one["series"], column=column, origin=one["origin"], time=one["times"], logged=entry["time"]
        )
        for entry in entries
        for one in entry["forecasts"]
        for columns in [one["columns"]]
        for column in columns
    ]
    frame = pd.concat(parts, ignore_index=True)
    again = frame.duplicated(["series", "column", "origin", "time"])
    frame = frame[~again].reset_index(drop=True)
    written = pd.to_datetime(frame.pop("logged"), utc=True)
    times = pd.to_datetime(frame["time"], format="ISO8601", utc=True)
    notes = [f"{counted(len(entries), 'logged forecast')} in {log}, unchanged since"]
    if again.any():
        notes.append(f"{int(again.sum()):,} rows forecast again from the same origin are left out")
    if late := int((written > times + pd.Timedelta(days=1)).sum()):
        notes.append(f"{late:,} of {len(frame):,} rows were logged more than a day after their time")
    return frame, notes


def _lines(log: Path) -> list[bytes]:
    if not log.exists():
        return []
    with reading(log):
        content = log.read_bytes()
    if content and not content.endswith(b"\n"):
        raise InputError(f"log={log}: its last line is not complete; remove it")
    return content.splitlines()


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
