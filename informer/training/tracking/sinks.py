"""Outputs for the curves of a run: TensorBoard, a CSV file, MLflow, or several of them."""

import csv
import io
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Protocol, final

from informer.checkpoint.paths import CURVES, EVENTS
from informer.config.training import TrackerKind
from informer.errors import InputError
from informer.files import AppendedFile, writing

Positions = Mapping[str, int]
"""Position of each sink when a checkpoint was saved, by its kind."""


class Sink(Protocol):
    """Receives curves. Methods raise an InputError if something cannot be written."""

    TAKES_PICTURES: ClassVar[bool] = False
    """False if `image` ignores them, so that none need be drawn."""

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Add a point of a curve."""

    def image(self, tag: str, png: bytes, step: int) -> None:
        """Add a picture; ignored unless a sink defines it."""
        return

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """Add the configuration by dotted key and the scores of a finished run, the most important first."""

    def flush(self) -> None:
        """Make everything received visible to other programs."""
        return

    def sync(self) -> int:
        """Store everything received durably; returns the position to continue from."""

    def close(self) -> None:
        """Called when the run is finished or stopped."""
        return


def open_sinks(kinds: Sequence[TrackerKind], folder: Path, positions: Positions) -> dict[str, Sink]:
    """The sinks of a run, by kind.

    Args:
        kinds: kinds of sinks.
        folder: run directory.
        positions: positions of a resumed run: later points are removed, or not sent again; empty: a new run.

    Raises:
        InputError: a file that cannot be written, or a package or server that is missing.
    """
    sinks: dict[str, Sink] = {}
    try:
        for kind in kinds:
            sinks[kind.name] = _open(kind, folder, positions.get(kind.name, 0))
    except InputError:
        for sink in sinks.values():
            sink.close()
        raise
    return sinks


def check_installed(kinds: Sequence[TrackerKind]) -> None:
    """Raise an InputError if a tracker's package is missing."""
    if TrackerKind.mlflow in kinds and find_spec("mlflow") is None:
        raise InputError("trainer.tracker=mlflow: mlflow not installed; pip install mlflow-skinny sqlalchemy alembic")


def _open(kind: TrackerKind, folder: Path, position: int) -> Sink:
    if kind is TrackerKind.tensorboard:
        from informer.training.tracking.tensorboard_sink import (
            EventFile,  # tensorboard, which takes half a second to import
        )

        return EventFile(folder / EVENTS, length=position)
    if kind is TrackerKind.csv:
        return CurvesFile(folder / CURVES, length=position)
    from informer.training.tracking.mlflow_sink import MlflowRun  # an optional package

    return MlflowRun(folder, is_resumed=position > 0)


@final
class CurvesFile(AppendedFile, Sink):
    """A CSV file with a row `tag,step,value` for every point; pictures and configuration are ignored.

    See `AppendedFile` for arguments and errors.
    """

    HEADER = ("tag", "step", "value")

    def __init__(self, path: Path, *, length: int = 0) -> None:
        super().__init__(path, length=length)
        if self.is_new:
            self._write(self.HEADER)

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Add a point of a curve."""
        self._write((tag, step, repr(float(value))))

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """Add the scores."""
        for tag, value in metrics.items():
            self.scalar(tag, value, step)

    def _write(self, row: Sequence[object]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(row)
        with writing(self.path):
            self._file.write(text.getvalue().encode())
