"""Write tables of rolling forecasts in pieces."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from informer.config.commands import Format
from informer.data.read.source import Series, column_values
from informer.inference.result import decimals_for

ACTUAL = "actual"
Places = Mapping[str, Mapping[str, int]]
"""Decimal places of each target of each series; none: all digits."""
Append = Callable[[pd.DataFrame], None]


def rolled_of(name: str, form: Format) -> str:
    """Path of the forecasts of a file, relative to the folder."""
    return f"{name}.rolling.{form.value}"


def metrics_of(name: str) -> str:
    """Path of the scores of a file, relative to the folder."""
    return f"{name}.rolling.metrics.csv"


def open_table(path: Path, form: Format, places: Places) -> AbstractContextManager[Append]:
    """Open a new file; yields a function that appends a piece, of one series; `places`: decimal places in CSV."""
    return _parquet_table(path) if form is Format.parquet else _csv_table(path, places)


def decimal_places(panel: Sequence[Series], targets: Sequence[str], digits: int | None) -> Places:
    """Decimal places that leave this many digits of the spread of each target in each series."""
    if digits is None:
        return {}
    return {
        series.name: {
            target: decimals_for(column, digits)
            for target, column in zip(targets, column_values(series, targets).T, strict=True)
        }
        for series in panel
    }


@contextmanager
def _csv_table(path: Path, places: Places) -> Iterator[Append]:
    with path.open("w", encoding="utf-8", newline="") as file:

        def append(piece: pd.DataFrame) -> None:
            dated = piece.select_dtypes(["datetime", "datetimetz"])
            times = {str(column): _whole_times(piece[column]) for column in dated}
            written = _rounded(piece, places).assign(**times)
            written.to_csv(file, header=file.tell() == 0, index=False, lineterminator="\n")

        yield append


def _rounded(piece: pd.DataFrame, places: Places) -> pd.DataFrame:
    """With forecasts and their ends rounded; actual values keep the digits of the input."""
    if not places:
        return piece
    # of several series the first column has the name
    decimals = places[str(piece.iloc[0, 0])] if len(places) > 1 else next(iter(places.values()))
    with np.errstate(over="ignore"):
        factors = 10.0 ** piece["column"].map(decimals).to_numpy(float).clip(min=0)
    factors[np.isinf(factors)] = np.nan  # of values such as 1e-305, which keep all digits
    numbers = [str(name) for name in piece.columns if name != ACTUAL and piece[name].dtype.kind == "f"]
    return piece.assign(**{name: (np.rint(piece[name] * factors) / factors).fillna(piece[name]) for name in numbers})


@contextmanager
def _parquet_table(path: Path) -> Iterator[Append]:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    with ExitStack() as open_files:
        writers: list[ParquetWriter] = []

        def append(piece: pd.DataFrame) -> None:
            rows = pyarrow.Table.from_pandas(piece, preserve_index=False)
            if not writers:
                writers.append(open_files.enter_context(ParquetWriter(path, rows.schema)))
            writers[0].write_table(rows)

        yield append


def _whole_times(times: pd.Series) -> np.ndarray:
    """Times with date and time of day; pandas writes only dates if a piece has only midnights."""
    places, distinct = pd.factorize(times)
    return np.array(list(map(str, distinct)), dtype=object)[places]
