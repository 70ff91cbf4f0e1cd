"""Where the curves of a run go: TensorBoard, a CSV file, MLflow; any number of them at once."""

import csv
import io
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, final

from informer.checkpoint.paths import CURVES, EVENTS
from informer.config.training import TrackerKind
from informer.errors import InputError
from informer.files import writing
from informer.training.appended import AppendedFile
from informer.training.events import EventFile

Positions = Mapping[str, int]
"""How far each sink had come when a checkpoint was saved, by its kind."""


class Sink(Protocol):
    """Receives curves. Whatever cannot be written is an InputError."""

    def scalar(self, tag: str, value: float, step: int) -> None:
        """One point of a curve."""

    def image(self, tag: str, png: bytes, step: int) -> None:
        """A picture."""

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """The configuration by dotted key, and the scores of a finished run, those that matter most first."""

    def flush(self) -> None:
        """Make what was received visible to others."""

    def sync(self) -> int:
        """Keep what was received; returns the position to continue from."""

    def close(self) -> None:
        """The run is over, or stopped."""


def open_sinks(kinds: Sequence[TrackerKind], folder: Path, positions: Positions) -> dict[str, Sink]:
    """The sinks of a run, by kind.

    Args:
        folder: of the run.
        positions: of a resumed run: what was written after them is removed, or not written again; empty: a new run.

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
    """Raise the InputError of a tracker whose package is missing."""
    if TrackerKind.mlflow in kinds and find_spec("mlflow") is None:
        raise InputError("trainer.tracker=mlflow: mlflow not installed; pip install 'informer[mlflow]'")


def _open(kind: TrackerKind, folder: Path, position: int) -> Sink:
    if kind is TrackerKind.tensorboard:
        return EventFile(folder / EVENTS, length=position)
    if kind is TrackerKind.csv:
        return CurvesFile(folder / CURVES, length=position)
    from informer.training.mlflow_sink import MlflowRun  # an optional package

    return MlflowRun(folder, is_resumed=position > 0)


@final
class CurvesFile(AppendedFile):
    """Every point as a row `tag,step,value` of a CSV file; pictures and the configuration are left out.

    Args:
        path: of the file.
        length: bytes of an existing file to keep; the rest is removed.
    """

    HEADER = ("tag", "step", "value")

    def __init__(self, path: Path, *, length: int = 0) -> None:
        super().__init__(path, length=length)
        if self.is_new:
            self._write(self.HEADER)

    def scalar(self, tag: str, value: float, step: int) -> None:
        """One point of a curve."""
        self._write((tag, step, repr(float(value))))

    def image(self, tag: str, png: bytes, step: int) -> None:
        """Not in a table."""

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], step: int) -> None:
        """The scores."""
        for tag, value in metrics.items():
            self.scalar(tag, value, step)

    def _write(self, row: Sequence[object]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(row)
        with writing(self.path):
            self._file.write(text.getvalue().encode())
