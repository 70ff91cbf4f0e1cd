"""Tables of rolling forecasts as files, written in pieces."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from informer.config.commands import Format

Append = Callable[[pd.DataFrame], None]


def rolled_of(name: str, form: Format) -> str:
    """Path of the forecasts of a file, relative to the folder."""
    return f"{name}.rolling.{form.value}"


def metrics_of(name: str) -> str:
    """Path of the scores of a series."""
    return f"{name}.rolling.metrics.csv"


def open_table(path: Path, form: Format) -> AbstractContextManager[Append]:
    """Appends pieces of a table to a new file."""
    return _parquet_table(path) if form is Format.parquet else _csv_table(path)


@contextmanager
def _csv_table(path: Path) -> Iterator[Append]:
    with path.open("w", encoding="utf-8", newline="") as file:

        def append(piece: pd.DataFrame) -> None:
            dated = piece.select_dtypes(["datetime", "datetimetz"])
            times = {str(column): _whole_times(piece[column]) for column in dated}
            piece.assign(**times).to_csv(file, header=file.tell() == 0, index=False, lineterminator="\n")

        yield append


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
    """Each time in full, since pandas writes only dates if a piece has only midnights."""
    places, found = pd.factorize(times)
    return np.array(list(map(str, found)), dtype=object)[places]
