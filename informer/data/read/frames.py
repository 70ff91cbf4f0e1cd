"""Convert data passed by Python users to pandas, and results back to the type that was passed."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from informer.data.read.limits import LIMITS
from informer.data.read.remote import is_remote, local_path
from informer.errors import InputError

if TYPE_CHECKING:
    import pyarrow

Frame = Any
"""A pandas, polars or pyarrow table, or another supported by narwhals or Arrow's stream interface, or a pandas series;
times are a column or the index. Or the path of a file."""

HOW = "pandas.DataFrame(values, index=pandas.date_range('2024-01-01', periods=len(values), freq='h'))"


def frame_of(data: Frame, name: str) -> pd.DataFrame:
    """Convert to a pandas table. Numeric columns without gaps share memory with polars and pyarrow tables.

    Raises:
        InputError: another type, or a series without times.
    """
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, pd.Series):
        if not isinstance(data.index, pd.DatetimeIndex):
            raise InputError(
                f"{name}: expected a series indexed by times, found an index of {data.index.dtype}; {_how()}"
            )
        return data.to_frame("value" if data.name is None else str(data.name))
    if isinstance(data, str | Path) or not (_narwhal(data) is not None or _streams(data)):
        raise InputError(
            f"{name}: expected a table (pandas, polars, pyarrow), a series indexed by times, or the path of a file, "
            f"found {type(data).__name__}, which has no times; {_how()}"
        )
    return _pandas(_arrow(data, name))


def like(data: Frame, frame: pd.DataFrame) -> Any:
    """Convert `frame` to the type of `data`: pandas for pandas and paths, polars for polars (also lazy frames), and
    pyarrow for all others."""
    if isinstance(data, pd.DataFrame | pd.Series | str | Path):
        return frame
    import narwhals
    import pyarrow

    table = _narwhal(data)
    result = pyarrow.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    if table is None or not table.implementation.is_polars():
        return result
    return narwhals.from_arrow(result, backend="polars").to_native()


def path_of(data: Frame) -> Path | None:
    """The path, if `data` is one; for an address, the path of its local copy. Errors as in `local_path`."""
    if isinstance(data, str) and is_remote(data):
        return Path(local_path("frame", data, LIMITS))
    return Path(data) if isinstance(data, str | Path) else None


def _how() -> str:
    return f"pass {HOW}"


def _narwhal(data: Frame) -> Any:
    """The narwhals frame of a table of any supported library; None for anything else.

    Raises:
        InputError: column names repeat.
    """
    import narwhals  # not needed for pandas tables

    try:
        frame = narwhals.from_native(data, pass_through=True)
    except narwhals.exceptions.DuplicateError as error:
        raise InputError(f"column names repeat ({' '.join(str(error).split())}); rename them") from error
    return frame if isinstance(frame, narwhals.DataFrame | narwhals.LazyFrame) else None


def _streams(data: Frame) -> bool:
    return hasattr(data, "__arrow_c_stream__") or _is_dataset(data)


def _is_dataset(data: Frame) -> bool:
    """Whether it is a pyarrow dataset; checked without importing pyarrow."""
    return type(data).__module__ == "pyarrow._dataset"


def _arrow(data: Frame, name: str) -> "pyarrow.Table":
    import pyarrow

    if _is_dataset(data):
        return data.to_table()
    import narwhals

    table = _narwhal(data)
    if table is None:
        try:
            return pyarrow.table(data)
        except (pyarrow.ArrowException, TypeError) as error:  # not a stream of tables, such as a single column
            raise InputError(f"{name}: expected a table, found {type(data).__name__} ({error}); {_how()}") from error
    return (table.collect(backend="pyarrow") if isinstance(table, narwhals.LazyFrame) else table).to_arrow()


def _pandas(table: "pyarrow.Table") -> pd.DataFrame:
    """Convert to pandas with one block per column, to avoid copies; decimals become floats, dates timestamps."""
    import pyarrow

    for position, column in enumerate(table.schema):
        if pyarrow.types.is_decimal(column.type):
            table = table.set_column(position, column.name, table.column(position).cast(pyarrow.float64()))
    frame: pd.DataFrame = table.to_pandas(split_blocks=True, date_as_object=False)
    return frame
