"""What a Python user passes as data, as a table: a frame, a series or the path of a file."""

from pathlib import Path
from typing import Any

import pandas as pd

from informer.errors import InputError

Given = pd.DataFrame | pd.Series | str | Path
"""A frame or series whose times are a column or the index, or the path of a file."""

HOW = "pandas.DataFrame(values, index=pandas.date_range('2024-01-01', periods=len(values), freq='h'))"


def frame_of(data: Any, name: str) -> pd.DataFrame:
    """A frame, or the frame of a series.

    Raises:
        InputError: another type, or a series without times; says what to pass.
    """
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, pd.Series):
        if not isinstance(data.index, pd.DatetimeIndex):
            raise InputError(
                f"{name}: expected a series indexed by times, found an index of {data.index.dtype}; {_how()}"
            )
        return data.to_frame("value" if data.name is None else str(data.name))
    raise InputError(
        f"{name}: expected a pandas table, a series indexed by times, or the path of a file, found "
        f"{type(data).__name__}, which has no times; {_how()}"
    )


def path_of(data: Any) -> Path | None:
    """The path, if it is one."""
    return Path(data) if isinstance(data, str | Path) else None


def _how() -> str:
    return f"pass {HOW}"
