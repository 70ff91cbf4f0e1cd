"""Rolling forecasts as files: one tidy table, and its scores by step and column in the form of `metrics.csv`.

The table is written in pieces, so that memory does not grow with the number of origins.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from informer.data.source import Series
from informer.errors import counted
from informer.files import replacing, write_atomic
from informer.inference.forecast import TrainedModel
from informer.inference.rolling import Tally, origins, roll_panel
from informer.inference.writing import Format, Writer, need_pyarrow

log = logging.getLogger(__name__)

Append = Callable[[pd.DataFrame], None]


def write_rolled(
    model: TrainedModel,
    panel: Sequence[Series],
    name: str,
    *,
    stride: int | None,
    levels: Sequence[int],
    writer: Writer,
) -> str:
    """Forecast from every `stride`-th origin of each series of a file; returns the path of the table from the folder.

    Args:
        name: of the files, without their endings.
        stride, levels: see `roll_panel`.
        writer: says where, and whether as CSV (UTF-8, times as ISO 8601) or as parquet.

    Raises:
        InputError: see `roll_panel`, or the place cannot be written.
    """
    if writer.format is Format.parquet:
        need_pyarrow()
    output = rolled_of(name, writer.format)
    tally = Tally(model, levels)
    for series in panel:
        origins(model, series, stride)
    with replacing(writer.folder / output) as temporary, _table(temporary, writer.format) as append:
        for piece in roll_panel(model, panel, stride=stride, levels=levels, tally=tally):
            append(piece)
        scores = tally.evaluation()
        # before the table has its name, by which a job knows what is done
        write_atomic(writer.folder / metrics_of(name), scores.to_csv(), durable=False)
    found = scores.errors[scores.model].scaled.overall()
    origins_scored = counted(scores.windows, "origin")
    log.info(f"{name}: {origins_scored}, MSE {found['mse']:.4g} and MAE {found['mae']:.4g} in scaled units")
    return output


def rolled_of(name: str, form: Format) -> str:
    """Path of the forecasts of a file, from the folder."""
    return f"{name}.rolling.{form.value}"


def metrics_of(name: str) -> str:
    """Path of the scores of a series."""
    return f"{name}.rolling.metrics.csv"


def _table(path: Path, form: Format) -> AbstractContextManager[Append]:
    return _parquet_table(path) if form is Format.parquet else _csv_table(path)


@contextmanager
def _csv_table(path: Path) -> Iterator[Append]:
    with path.open("w", encoding="utf-8", newline="") as file:

        def append(piece: pd.DataFrame) -> None:
            times = {column: _written(piece[column]) for column in ("origin", "timestamp")}
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


def _written(times: pd.Series) -> np.ndarray:
    """Each time whole, where pandas writes dates alone if a piece has nothing but midnights."""
    places, found = pd.factorize(times)
    return np.array(list(map(str, found)), dtype=object)[places]
